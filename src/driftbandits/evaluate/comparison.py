"""Estimates of what a policy would have earned on a log, overall and window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.agent import Agent
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
from driftbandits.evaluate.log import ESTIMATED, UNKNOWN, Log
from driftbandits.policies import ACCEPTED, Policy, check_actions, policy, policy_names, takes

Floats = NDArray[np.float64]

LOGGED, REPLAY, IPS, SNIPS, DR = "logged", "replay", "IPS", "SNIPS", "DR"
_SUSPICIOUS = 4.0
"""Standard errors by which a share may miss what it must be on average."""
FEWEST_ROUNDS = 10.0
"""With fewer effective rounds an interval says nothing."""
_NOTES = {
    ESTIMATED: "the propensities are estimated from the logged choices. That is right only if the "
    "logging policy looked at nothing but the columns of the context, did not change along the "
    "log, and gave every arm a chance.",
    UNKNOWN: "the log has no propensities, so only replay can evaluate. That is right only if the "
    "logging policy chose evenly at random among the arms; otherwise give the propensities, or "
    "estimate them.",
}


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
    """The mean reward a round of one target, by estimator."""

    target: str
    level: float
    overall: dict[str, Value]
    windows: list[Window]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with null for unknown numbers."""
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
    """Estimate what `target` would have earned a round on the log of another policy.

    A policy learns along the log, and is evaluated twice. By replay: it decides on every logged
    set and learns where it agrees with the log. And by IPS, SNIPS and DR: at the beginning of each
    window it has learned every logged round before, and stays as it is through the window; the
    first window only teaches. An agent stays as it is through the whole log (IPS, SNIPS, DR).
    DR's reward model in a window is learned from the windows before. A log without propensities
    can only be replayed.

    windows  parts of the log with equally many rounds
    level    of the intervals, see `estimators`
    """
    if not isinstance(log, Log):
        raise ValueError(f"log must be a Log, as read_log gives; got {log!r}")
    if not isinstance(target, (Policy, Agent)):
        raise ValueError(f"target must be a policy or an agent; got {target!r}")
    policy = target.policy if isinstance(target, Agent) else target
    if policy.features is not None:
        raise ValueError(
            "target has features, but the log already has vectors: give a policy with "
            f"dim={log.dim}, and the features to the function that reads the log"
        )
    if policy.separate:
        raise ValueError("target must have arms='shared': separate arms are not evaluated on a log")
    if policy.dim != log.dim:
        raise ValueError(f"target has dim={policy.dim}, but the log's actions have {log.dim}")
    if log.propensities == UNKNOWN and isinstance(target, Agent):
        raise ValueError(
            "target must be a policy: an agent is evaluated by its propensities, which this log "
            'has not. Estimate them with propensities="estimate"'
        )
    checks.integer("windows", windows, least=1, most=len(log))
    checks.number("level", level, above=0, below=1)
    checks.integer("seed", seed, least=0, most=2**63 - 1)

    parts = [_window(log, rows) for rows in np.array_split(np.arange(len(log)), windows)]
    overall: dict[str, Value] = {}
    notes = [_NOTES[log.propensities]] if log.propensities in _NOTES else []
    notes += [] if log.known.all() else [_unknown_rewards(log)]

    by_round = log.reward
    _add(LOGGED, lambda rows: mean_value(_known(by_round[rows]), level=level), parts, overall)
    if isinstance(target, Policy):
        accepted, share = replay(log, policy, seed=seed)
        earned = np.where(accepted, log.reward, np.nan)
        _add(REPLAY, lambda rows: mean_value(_known(earned[rows]), level=level), parts, overall)
        found = _support_note("accepted rounds", accepted / share, REPLAY)
        notes += found
        _remove((REPLAY,) if found else (), overall, parts)
    if log.propensities != UNKNOWN:
        _add_frozen(log, target, parts, overall, notes, level=level, seed=seed)
    _limit(policy, overall, parts)
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
    """Add IPS, SNIPS and DR of a target that stays as it is through each window."""
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
        _remove((IPS, SNIPS, DR) if found else (), overall, parts)


def _frozen_pieces(
    log: Log, target: Policy | Agent, parts: list[Window], *, seed: int
) -> list[tuple[Window, Scored]]:
    """Score the rounds of each window with the target as it was at its beginning."""
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
    """Warn if a ratio that is 1 on average, where every action had a chance, is not."""
    ratios = np.asarray(ratios, dtype=np.float64)
    error = float(ratios.std()) / math.sqrt(ratios.size)
    average = float(ratios.mean())
    if abs(average - 1.0) <= _SUSPICIOUS * error:
        return []
    return [
        f"{what} are {average:.2f} of what they must be on average: the log's propensities are not "
        f"the true ones, or it never tried what the target chooses. Do not trust {estimators}."
    ]


def _remove(names: tuple[str, ...], overall: dict[str, Value], parts: Sequence[Window]) -> None:
    """Replace values that cannot be trusted by NaN."""
    for values in (overall, *(window.values for window in parts)):
        for name in names:
            if name in values:
                values[name] = Value(math.nan, math.nan, math.nan, values[name].rounds)


def _limit(policy: Policy, overall: dict[str, Value], parts: Sequence[Window]) -> None:
    """Remove intervals of a few rounds, and cut others to the range of rewards."""
    low, high = policy.reward_range()
    for values in (overall, *(window.values for window in parts)):
        for name, (value, least, most, rounds) in values.items():
            if rounds < FEWEST_ROUNDS:
                values[name] = Value(value, math.nan, math.nan, rounds)
            elif not math.isnan(least):
                values[name] = Value(value, max(least, low), min(most, high), rounds)


def _too_few(overall: dict[str, Value]) -> list[str]:
    few = {name: value for name, value in overall.items() if value.rounds < FEWEST_ROUNDS}
    shown = {name: value for name, value in few.items() if not math.isnan(value.value)}
    if not shown:
        return []
    counts = ", ".join(f"{name} {value.rounds:.1f}" for name, value in shown.items())
    return [
        f"too few rounds inform about the target (effective: {counts}; {FEWEST_ROUNDS:.0f} are "
        "needed): it chooses what the log hardly ever tried. Explore more (epsilon, control), or "
        "collect for longer."
    ]


def _unknown_rewards(log: Log) -> str:
    share = 1.0 - float(log.known.mean())
    return (
        f"{100 * share:.1f} % of the rewards are unknown and left out, which is fair only if "
        "that has nothing to do with what they would have been"
    )


# -- policies for a log ----------------------------------------------------------------------------


def policy_for(log: Log, name: str, **given: Any) -> Policy:
    """Make a policy for the actions and the rewards of a log.

    Its dimension is the log's. Rewards mean what they meant to the service that wrote the log; in
    other logs they are clicks if all lie in [0, 1] and amounts otherwise. A kind of reward without
    a range has that of the log, if the policy needs one. L, unless it is given, is the length of
    the longest action where 1 would refuse some.
    """
    if name not in policy_names():
        return policy(name, dim=log.dim)  # which says what there is
    arguments = {**_rewards_of(log, name, given), **given}
    made = _made(log, name, arguments)
    longest = _longest(log)
    if "L" in given or "too_long" in given or not takes(name, "L"):
        return made
    if check_actions(made.numbers, np.ascontiguousarray(longest[None, :])) == ACCEPTED:
        return made
    return _made(log, name, {**arguments, "L": float(np.linalg.norm(longest))})


def _rewards_of(log: Log, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if log.served is None:
        known = log.reward[log.known]
        is_amount = ((known < 0.0) | (known > 1.0)).any()
        says = {"reward", "link", "m"} & given.keys() or not takes(name, "reward")
        return {"reward": "amount"} if is_amount and not says else {}
    served = log.served
    names = ("reward", "outside") if served.get("reward") else ("link", "m", "centre")
    return {key: served[key] for key in names if served.get(key) is not None and takes(name, key)}


def _made(log: Log, name: str, arguments: dict[str, Any]) -> Policy:
    try:
        return policy(name, dim=log.dim, **arguments)
    except ValueError as error:
        text = arguments.get("reward")
        known = log.reward[log.known]
        if text not in ("amount", "cost", "count") or "range" not in str(error) or not known.size:
            raise
        low, high = float(known.min()), float(known.max())
        end = math.nextafter(max(high, low + 1.0), math.inf)
        ranged = f"count:{end!r}" if text == "count" else f"{text}:{low!r}..{end!r}"
        return policy(name, dim=log.dim, **{**arguments, "reward": ranged})


def _longest(log: Log) -> Any:
    lengths = [float(np.square(actions).sum(axis=1).max()) for actions in log.arms]
    actions = log.arms[int(np.argmax(lengths))]
    return actions[int(np.argmax(np.square(actions).sum(axis=1)))]
