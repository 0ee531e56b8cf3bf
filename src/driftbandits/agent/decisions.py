"""What an agent hands out, and what it complains with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.rewards import Reward

Floats = NDArray[np.float64]
ArmId = str | int
_BEST_ARMS = 5
"""Whose features are shown."""


@dataclass(slots=True, eq=False)
class Decision:
    """One choice. scores = means + widths; propensity is the probability it had."""

    id: int
    index: int
    round: int
    propensity: float
    _rows: Floats = field(repr=False)  # of `table`; and scratch, or scores as the model has them
    arms: tuple[ArmId, ...] | None = None  # what the actions are called, where they have ids

    @property
    def arm(self) -> ArmId | None:
        """The id of the arm that was chosen, where arms have ids."""
        return None if self.arms is None else self.arms[self.index]

    @property
    def table(self) -> Floats:
        """Means, widths and scores of every action, (3, K)."""
        return self._rows[:3]

    @property
    def means(self) -> Floats:
        return self._row(0)

    @property
    def widths(self) -> Floats:
        return self._row(1)

    @property
    def scores(self) -> Floats:
        return self._row(2)

    def _row(self, i: int) -> Floats:
        row: Floats = self._rows[i]
        return row


class Explanation(NamedTuple):
    """Why a decision was made: what every action was worth at the time, and by which estimate."""

    decision: Decision
    theta_hat: Any  # (d,), or by the id of the arm where arms are separate
    theta: Any
    radius: float  # bonus_scale included; 0 for policies without a bonus
    contributions: dict[ArmId, dict[str, float]] | None = None
    """What each named feature adds to the a . theta of each arm, where there are features."""

    @property
    def means(self) -> Floats:
        """What each action was expected to earn, (K,)."""
        return self.decision.means

    @property
    def widths(self) -> Floats:
        """What was added to each mean because too little was known, (K,)."""
        return self.decision.widths

    @property
    def scores(self) -> Floats:
        """Their sums, the largest of which was chosen, (K,)."""
        return self.decision.scores

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """The actions from best to worst, as text."""
        d = self.decision
        what = "action" if d.arms is None else "arm"
        names = [str(name) for name in (d.arms or range(len(d.scores)))]
        size = max(map(len, ["action", *names]))
        chosen = f"{what} {names[d.index]}, chosen with probability {d.propensity:.3g}"
        lines = [f"round {d.round}: {chosen}", f"{what:<{size}}      mean     width     score"]
        for i in np.argsort(-d.scores, kind="stable"):
            mark = " <" if i == d.index else ""
            numbers = f"{d.means[i]:10.4f}{d.widths[i]:10.4f}{d.scores[i]:10.4f}"
            lines.append(f"{names[i]:>{size}}{numbers}{mark}")
        if self.contributions is not None:
            lines += self._contributions(_BEST_ARMS)
        return "\n".join(lines)

    def _contributions(self, most: int) -> list[str]:
        """What makes the difference between the best arms, as lines; features of all arms last."""
        d, known = self.decision, self.contributions or {}
        assert d.arms is not None  # features have names for them
        best = [d.arms[i] for i in np.argsort(-d.scores, kind="stable")[:most]]
        features = dict.fromkeys(name for arm in best for name in known[arm])
        columns = {name: [known[arm].get(name, 0.0) for arm in best] for name in features}
        spread = {name: max(values) - min(values) for name, values in columns.items()}
        size = max(map(len, features), default=0)
        heads = "".join(f"{str(arm)[:11]:>12}" for arm in best)
        lines = ["what each feature adds, before the link:", f"{'':<{size}}{heads}"]
        for name in sorted(features, key=lambda name: -spread[name]):
            lines.append(f"{name:<{size}}" + "".join(f"{x:12.4f}" for x in columns[name]))
        return lines


Made = tuple[Decision, bytes, float]
"""A decision, and what it was made by: theta_hat and theta (of each arm), and the radius."""


class UnknownDecision(ValueError):
    """A reward for a decision that is not waiting for one."""


class BadSaveFile(ValueError):
    """A file that is not a whole, unaltered save of an agent."""


def frozen(array: Floats) -> Floats:
    """What is handed out and also kept must not be written to."""
    array.setflags(write=False)
    return array


def show_as_rewards(reward: Reward | None, decisions: list[Decision]) -> list[Decision]:
    """Give decisions that were made at once the units of their rewards."""
    if reward is not None:
        table = decisions[0].table
        table = frozen(np.vstack([reward.shown(table), table[2:]]))
        for decision in decisions:
            decision._rows = table
    return decisions


def estimates_from(content: bytes) -> Floats:
    """theta_hat and theta, (2, d)."""
    return np.frombuffer(content).reshape(2, -1)


def explanation_of(made: Made, *, separate: bool) -> Explanation:
    decision, content, radius = made
    if decision.arms is None or not separate:
        theta_hat, theta = estimates_from(content)
        return Explanation(decision, theta_hat, theta, radius)
    estimates = np.frombuffer(content).reshape(len(decision.arms), 2, -1)
    theta_hat, theta = (
        dict(zip(decision.arms, estimates[:, which], strict=True)) for which in range(2)
    )
    return Explanation(decision, theta_hat, theta, radius)
