"""What a policy would have earned on a log, overall and window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbandits import checks
from driftbandits.agent import Agent
from driftbandits.checks import Floats
from driftbandits.evaluate.estimators import (
    Scored,
    UnknownProbabilities,
    Value,
    choice_probabilities,
    mean_value,
    ratio_of_means,
    replay,
    reward_model,
    robust_mean,
    scored,
    weighted_mean,
)
from driftbandits.evaluate.log import Log
from driftbandits.policies import Policy

LOGGED, REPLAY, IPS, SNIPS, DR = "logged", "replay", "IPS", "SNIPS", "DR"
_SUSPICIOUS = 4.0
"""Standard errors by which a share may miss what it must be on average."""
FEWEST_ROUNDS = 10.0
"""With fewer effective rounds an interval says nothing."""


@dataclass(frozen=True)
class Window:
    """Some consecutive rounds of a log."""

    first: int
    last: int
    begins: int  # nanoseconds since 1970
    ends: int
    values: dict[str, Value]

    @property
    def rounds(self) -> slice:
        return slice(self.first, self.last + 1)


@dataclass(frozen=True)
class Evaluation:
    """Mean reward a round of one target, by estimator."""

    target: str
    level: float
    overall: dict[str, Value]
    windows: list[Window]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that are not known become null."""
        return {
            "target": self.target,
            "level": self.level,
            "overall": _plain(self.overall),
            "windows": [
                {
                    **{name: getattr(window, name) for name in ("first", "last", "begins", "ends")},
                    "values": _plain(window.values),
                }
                for window in self.windows
            ],
            "notes": self.notes,
        }


def _plain(values: dict[str, Value]) -> dict[str, dict[str, float | None]]:
    return {
        name: {label: x if math.isfinite(x) else None for label, x in value._asdict().items()}
        for name, value in values.items()
    }


def evaluate(
    log: Log,
    target: Policy | Agent,
    *,
    windows: int = 10,
    level: float = 0.95,
    seed: int = 0,
) -> Evaluation:
    """What `target` would have earned a round on the log of another policy.

    A policy learns along the log, and is evaluated twice. By replay: it decides on every logged
    set and learns where it agrees with the log. And by IPS, SNIPS and DR: at the beginning of each
    window it has learned every logged round before, and stays as it is through the window; the
    first window only teaches. An agent stays as it is through the whole log (IPS, SNIPS, DR).
    DR's reward model in a window is learned from the windows before.

    windows  parts of the log with equally many rounds
    level    of the intervals, see `estimators`
    """
    if not isinstance(log, Log):
        raise ValueError(f"log must be a Log, as read_log gives; got {log!r}")
    if not isinstance(target, (Policy, Agent)):
        raise ValueError(f"target must be a policy or an agent; got {target!r}")
    policy = target.policy if isinstance(target, Agent) else target
    if policy.separate:
        raise ValueError("target must have arms='shared': separate arms are not evaluated on a log")
    if policy.dim != log.dim:
        raise ValueError(f"target has dim={policy.dim}, but the log's actions have {log.dim}")
    checks.integer("windows", windows, least=1, most=len(log))
    checks.number("level", level, above=0, below=1)
    checks.integer("seed", seed, least=0, most=2**63 - 1)

    parts = [_window(log, rows) for rows in np.array_split(np.arange(len(log)), windows)]
    overall: dict[str, Value] = {}
    notes = [] if log.known.all() else [_unknown_rewards(log)]

    by_round = log.reward
    _add(LOGGED, lambda rows: mean_value(_known(by_round[rows]), level=level), parts, overall)
    if isinstance(target, Policy):
        accepted, share = replay(log, policy, seed=seed)
        earned = np.where(accepted, log.reward, np.nan)
        _add(REPLAY, lambda rows: mean_value(_known(earned[rows]), level=level), parts, overall)
        found = _support_note("accepted rounds", accepted / share, REPLAY)
        notes += found
        _tell_nothing((REPLAY,) if found else (), overall, parts)
    _add_frozen(log, target, parts, overall, notes, level=level, seed=seed)
    _hold(policy, overall, parts)
    notes += _too_few(overall)
    return Evaluation(policy.name, float(level), overall, parts, notes)


def _window(log: Log, rows: Any) -> Window:
    first, last = int(rows[0]), int(rows[-1])
    return Window(first, last, int(log.at[first]), int(log.at[last]), {})


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _add(
    name: str,
    value_of: Callable[[slice], Value],
    parts: Sequence[Window],
    overall: dict[str, Value],
) -> None:
    overall[name] = value_of(slice(parts[0].first, parts[-1].last + 1))
    for window in parts:
        window.values[name] = value_of(window.rounds)


def _add_frozen(
    log: Log,
    target: Policy | Agent,
    parts: list[Window],
    overall: dict[str, Value],
    notes: list[str],
    *,
    level: float,
    seed: int,
) -> None:
    """IPS, SNIPS and DR of a target that stays as it is through each window."""
    try:
        pieces = _frozen_pieces(log, target, parts, seed=seed)
    except UnknownProbabilities as error:
        if isinstance(target, Agent):
            raise
        notes.append(str(error))
        return
    for window, piece in pieces:
        window.values.update(_frozen_values(piece, level))
    if pieces:
        columns = zip(*(piece for _, piece in pieces), strict=True)
        whole = Scored(*(np.concatenate(column) for column in columns))
        overall.update(_frozen_values(whole, level))
        found = _support_note("weights", whole.weights, f"{IPS}, {SNIPS} and {DR}")
        notes += found
        _tell_nothing((IPS, SNIPS, DR) if found else (), overall, parts)


def _frozen_pieces(
    log: Log, target: Policy | Agent, parts: list[Window], *, seed: int
) -> list[tuple[Window, Scored]]:
    """The rounds of each window with the target as it was at its beginning."""
    agent = Agent(target, seed=seed) if isinstance(target, Policy) else target
    pieces = []
    for window in parts:
        rounds = window.rounds
        if isinstance(target, Agent) or window.first > 0:
            pi = choice_probabilities(agent, log.arms[rounds])
            model = reward_model(log, agent.policy, rounds=slice(0, window.first), of=rounds)
            pieces.append((window, scored(log, rounds, pi, model)))
        if isinstance(target, Policy):
            _learn(agent, log, rounds)
    return pieces


def _frozen_values(piece: Scored, level: float) -> dict[str, Value]:
    return {
        IPS: weighted_mean(piece.rewards, piece.weights, level=level),
        SNIPS: ratio_of_means(piece.rewards, piece.weights, level=level),
        DR: robust_mean(piece.robust, piece.weights, level=level),
    }


def _learn(agent: Agent, log: Log, rounds: slice) -> None:
    """Learn what the log saw, each round at its own time."""
    known = log.known[rounds]
    agent.tick(len(known))
    if known.any():
        ages = len(known) - 1 - np.flatnonzero(known)
        agent.learn(log.played[rounds][known], log.reward[rounds][known], ages=ages)


def _support_note(what: str, ratios: Floats, estimators: str) -> list[str]:
    """A complaint where a ratio, which is 1 on average if every action had a chance, is not."""
    ratios = np.asarray(ratios, dtype=np.float64)
    error = float(ratios.std()) / math.sqrt(ratios.size)
    average = float(ratios.mean())
    if abs(average - 1.0) <= _SUSPICIOUS * error:
        return []
    return [
        f"{what} are {average:.2f} of what they must be on average: the log's propensities are not "
        f"the true ones, or it never tried what the target chooses. Do not trust {estimators}."
    ]


def _tell_nothing(
    names: tuple[str, ...], overall: dict[str, Value], parts: Sequence[Window]
) -> None:
    """Numbers that cannot be trusted are not shown."""
    for values in (overall, *(window.values for window in parts)):
        for name in names:
            if name in values:
                values[name] = Value(math.nan, math.nan, math.nan, values[name].rounds)


def _hold(policy: Policy, overall: dict[str, Value], parts: Sequence[Window]) -> None:
    """No interval for a few rounds, and none that leaves the range of rewards."""
    low, high = policy.reward_range()
    for values in (overall, *(window.values for window in parts)):
        for name, (value, least, most, rounds) in values.items():
            if rounds < FEWEST_ROUNDS:
                values[name] = Value(value, math.nan, math.nan, rounds)
            elif not math.isnan(least):
                values[name] = Value(value, max(least, low), min(most, high), rounds)


def _too_few(overall: dict[str, Value]) -> list[str]:
    few = {name: value for name, value in overall.items() if value.rounds < FEWEST_ROUNDS}
    told = {name: value for name, value in few.items() if not math.isnan(value.value)}
    if not told:
        return []
    counts = ", ".join(f"{name} {value.rounds:.1f}" for name, value in told.items())
    return [
        f"too few rounds tell anything of the target (effective: {counts}; {FEWEST_ROUNDS:.0f} are "
        "the least): it chooses what the log hardly ever tried. Let the service explore more "
        "(epsilon, control), or collect for longer."
    ]


def _unknown_rewards(log: Log) -> str:
    share = 1.0 - float(log.known.mean())
    return (
        f"{100 * share:.1f} % of the rewards are unknown and left out, which is fair only if "
        "that has nothing to do with what they would have been"
    )
