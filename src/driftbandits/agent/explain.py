"""Decisions: what an agent hands out, which wait for a reward, and why they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.features import ArmId, Encoded, Reward, aligned
from driftbandits.policies import SCALED, Move, Policy

Floats = NDArray[np.float64]
Limits = Mapping[int, tuple[float, float, float, float]]
"""The range of each column whose numbers a decision limited, also in the units that were offered.
"""

EXPLAINED_DECISIONS = 1000
MOST_CONTRIBUTIONS = 10
"""The number of features that a printed explanation shows."""
CONSTANT = "constant"
"""The name of the intercept among the features."""
_MOST_ARMS = 5  # whose features a printed explanation shows


class UnknownDecision(ValueError):
    """A reward was given for a decision that is not waiting for one."""


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


def frozen(array: Floats) -> Floats:
    """Protect an array that is handed out and also kept."""
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


def has_probabilities(policy: Policy) -> bool:
    """Tell whether `probabilities_of` holds: a policy that samples knows only those it has used."""
    return policy.row.score < SCALED


def probabilities_of(policy: Policy, decision: Decision, free: NDArray[np.bool_]) -> Floats:
    """The probability with which the policy chooses each of the actions that are free.

    Only for a decision that has just been made: those of a save file have the scores as rewards.
    """
    epsilon, scores = policy.scoring.epsilon, decision._rows[2 if policy.reward is None else 3]
    best = scores[free].max()
    tied = free & (scores == best)
    found = np.where(tied, (1.0 - epsilon) / np.count_nonzero(tied), 0.0)
    return found + np.where(free, epsilon / np.count_nonzero(free), 0.0)


# -- which decisions wait, and by what the last ones were made -------------------------------------


Pending = tuple[int, Floats, Any]
"""The round of a decision whose reward has not come, the action (1, dim) that was played, and its
arm where arms have ids: a plain tuple, as it is made in every round."""


class Made(NamedTuple):
    """A decision and what it was made by."""

    decision: Decision
    estimates: bytes  # theta_hat and theta, of each arm where arms are separate
    radius: float
    encoded: Encoded | None  # where actions came from tables
    limits: Limits


class Ledger:
    """The pending decisions, and the last ones that were made; both in the order of their ids."""

    def __init__(self) -> None:
        self.pending: dict[int, Pending] = {}
        self.made: dict[int, Made] = {}
        self.last_expired = 0

    def enter(
        self,
        decisions: list[Decision],
        estimates: bytes,
        radius: float,
        actions: Floats,
        played: Sequence[int] | None,
        encoded: Encoded | None,
        limits: Limits,
    ) -> None:
        """Note new decisions, what they were made by, and whose rewards will be learned."""
        for place, decision in enumerate(decisions):
            id = decision.id
            row = decision.index if played is None else played[place]
            arm = None if decision.arms is None else decision.arms[row]
            self.pending[id] = decision.round, actions[row : row + 1].copy(), arm
            self.made[id] = Made(decision, estimates, radius, encoded, limits)
        while len(self.made) > EXPLAINED_DECISIONS:
            del self.made[next(iter(self.made))]

    def expire(self, last_forgotten_round: int) -> None:
        """Drop decisions whose rewards can no longer matter, so that memory stays bounded."""
        pending = self.pending
        while pending:
            oldest = next(iter(pending))
            if pending[oldest][0] > last_forgotten_round:
                break
            del pending[oldest]
            self.last_expired = oldest

    def moved(self, old: Policy, new: Policy, move: Move) -> Ledger:
        """Return these decisions in other coordinates."""
        places = dict(zip(move.sources.tolist(), move.targets.tolist(), strict=True))
        with_intercept = move.with_intercept(old, new)

        def moved(made: Made) -> Made:
            vectors = np.frombuffer(made.estimates).reshape(-1, old.model_dim)
            return made._replace(
                estimates=with_intercept.moved(vectors, new.model_dim).tobytes(),
                encoded=made.encoded and made.encoded.moved(places),
                limits={places[at]: x for at, x in made.limits.items() if at in places},
            )

        other = Ledger()
        other.pending = {
            id: (t, move.moved(action, new.dim), arm)
            for id, (t, action, arm) in self.pending.items()
        }
        other.made = {id: moved(made) for id, made in self.made.items()}
        other.last_expired = self.last_expired
        return other


# -- why -------------------------------------------------------------------------------------------


class Explanation(NamedTuple):
    """Why a decision was made: the worth of every action at the time, and by which estimate."""

    decision: Decision
    theta_hat: Any  # (d,), or by the id of the arm where arms are separate
    theta: Any
    radius: float  # bonus_scale included; 0 for policies without a bonus
    contributions: dict[ArmId, dict[str, float]] | None = None
    """The part of each named feature in the a . theta of each arm, where there are features."""
    limits: Mapping[Any, tuple[float, float]] = {}
    """The ranges of columns, by name or place, that had numbers beyond: the model was given an end
    of the range instead."""

    @property
    def means(self) -> Floats:
        """The expected reward of each action, (K,)."""
        return self.decision.means

    def __str__(self) -> str:
        return self.table()

    def table(self, most: int | None = MOST_CONTRIBUTIONS) -> str:
        """The explanation as text, with the `most` features that matter most; None: with all."""
        d = self.decision
        kind = "action" if d.arms is None else "arm"
        names = [str(name) for name in (d.arms or range(len(d.scores)))]
        order = np.argsort(-d.scores, kind="stable").tolist()
        chosen = f"{kind} {names[d.index]}, chosen with probability {d.propensity:.3g}"
        rows = [[kind, "mean", "width", "score", ""]]
        for i in order:
            mark = "<" if i == d.index else ""
            rows.append([names[i], *(f"{x:.4f}" for x in d.table[:, i]), mark])
        lines = [f"round {d.round}: {chosen}", *aligned(rows)]
        if self.contributions is not None:
            lines += self._contributions([d.arms[i] for i in order[:_MOST_ARMS]], most)  # type: ignore[index]
        for name, (low, high) in self.limits.items():
            what = f"column {name}" if isinstance(name, int) else name
            lines.append(f"* {what}: limited to {low:.4g} .. {high:.4g}, far beyond which it was")
        return "\n".join(lines)

    def _contributions(self, best: list[ArmId], most: int | None) -> list[str]:
        """The features that differ most between the best arms first."""
        known = self.contributions or {}
        columns = {
            name: [known[arm].get(name, 0.0) for arm in best]
            for name in dict.fromkeys(name for arm in best for name in known[arm])
        }
        ordered = sorted(columns, key=lambda name: min(columns[name]) - max(columns[name]))
        rows = [["", *map(str, best)]]
        for name in ordered[:most]:
            label = f"{name} *" if name in self.limits else name
            rows.append([label, *(f"{x:.4f}" for x in columns[name])])
        lines = ["what each feature adds, before the link:", *aligned(rows)]
        left_out = len(ordered) + 1 - len(rows)
        if left_out:
            lines.append(f"{left_out} more features differ less: table(None) shows all")
        return lines


def explanation_of(made: Made, policy: Policy, names: Sequence[str] | None) -> Explanation:
    """The explanation of a decision; `names` are those of the coordinates, where they have any."""
    decision, encoded = made.decision, made.encoded
    estimates = np.frombuffer(made.estimates).reshape(-1, 2, policy.model_dim)
    theta_hat: Any
    theta: Any
    theta_hat, theta = estimates[0]
    if policy.separate:
        theta_hat, theta = (
            dict(zip(decision.arms or (), of_arms, strict=True))
            for of_arms in estimates.swapaxes(0, 1)
        )
    contributions = None
    if names is not None and encoded is not None:
        contributions = {
            arm: _added(made, own, theta[arm] if policy.separate else theta, policy, names)
            for arm, own in zip(encoded.arms, encoded.own, strict=True)
        }
    limits = {at if names is None else names[at]: x[2:] for at, x in made.limits.items()}
    return Explanation(decision, theta_hat, theta, made.radius, contributions, limits)


def _added(
    made: Made, own: list[tuple[int, float]], theta: Floats, policy: Policy, names: Sequence[str]
) -> dict[str, float]:
    """The part of each feature, as the model was given it, in the a . theta of an arm."""
    assert made.encoded is not None
    ranges = {at: limit[:2] for at, limit in made.limits.items()}
    values = {at: 0.0 for at, (low, high) in ranges.items() if not low <= 0.0 <= high}
    for at, x in (*made.encoded.shared, *own):
        values[at] = values.get(at, 0.0) + x
    for at, (low, high) in ranges.items():
        if at in values:
            values[at] = min(max(values[at], low), high)
    parts = {CONSTANT: float(theta[-1])} if policy.intercept else {}
    return {**parts, **{names[at]: x * float(theta[at]) for at, x in values.items()}}
