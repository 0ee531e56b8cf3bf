"""Estimates of what a policy would have earned on a log, overall and window by window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.agent import Agent
from driftbandits.evaluate.estimators import (
    Scored,
    Value,
    choice_probabilities,
    effective_rounds,
    mean_value,
    ratio_of_means,
    replay,
    reward_model,
    scored,
)
from driftbandits.evaluate.log import ESTIMATED, UNKNOWN, Log
from driftbandits.policies import Policy, policy, policy_names, row_of, takes

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
    "logging policy chose evenly at random among the arms; otherwise give propensity, the column "
    "that has them, or the word estimate.",
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
        windows = [{**vars(window), "values": _plain(window.values)} for window in self.windows]
        return {**vars(self), "overall": _plain(self.overall), "windows": windows}

    @property
    def _tables(self) -> list[dict[str, Value]]:
        return [self.overall, *(window.values for window in self.windows)]

    def _add(self, name: str, rewards: Floats) -> None:
        """Add the mean of the rewards (n,) that are known."""
        spans = [slice(None), *(window.rounds for window in self.windows)]
        for values, rounds in zip(self._tables, spans, strict=True):
            known = rewards[rounds]
            values[name] = mean_value(known[~np.isnan(known)], level=self.level)

    def _check(self, what: str, ratios: Floats, *names: str) -> None:
        """Remove values if a ratio whose mean is 1 where every action had a chance has another."""
        error, average = float(ratios.std()) / math.sqrt(ratios.size), float(ratios.mean())
        if abs(average - 1.0) <= _SUSPICIOUS * error:
            return
        listed = " and ".join(", ".join(names).rsplit(", ", 1))
        self.notes.append(
            f"{what} are {average:.2f} times what they must be on average: the true propensities "
            "are others, or the log never tried what the target chooses. Do not trust "
            f"{listed}."
        )
        for values in self._tables:
            for name in values.keys() & set(names):
                values[name] = Value(math.nan, math.nan, math.nan, values[name].rounds)

    def _limit(self, low: float, high: float) -> None:
        """Remove intervals of a few rounds, and cut others to the range of rewards."""
        for values in self._tables:
            for name, (value, least, most, rounds) in values.items():
                if rounds < FEWEST_ROUNDS:
                    values[name] = Value(value, math.nan, math.nan, rounds)
                elif not math.isnan(least):
                    within = min(value, max(least, low)), max(value, min(most, high))
                    values[name] = Value(value, *within, rounds)
        few = [
            f"{name} {value.rounds:.1f}"
            for name, value in self.overall.items()
            if value.rounds < FEWEST_ROUNDS and not math.isnan(value.value)
        ]
        if few:
            self.notes.append(
                f"too few rounds inform about the target (effective: {', '.join(few)}; "
                f"{FEWEST_ROUNDS:.0f} are needed): it chooses what the log hardly ever tried. "
                "Explore more (epsilon, control), or collect for longer."
            )


def _plain(values: dict[str, Value]) -> dict[str, dict[str, float | None]]:
    return {
        name: {label: x if math.isfinite(x) else None for label, x in value._asdict().items()}
        for name, value in values.items()
    }


def evaluate(
    log: Log,
    target: Policy | Agent | str,
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

    target   a policy, an agent, or the name of a policy, as `policy_for` makes it
    windows  parts of the log with equally many rounds
    level    of the intervals, see `estimators`
    """
    _check_log(log)
    if isinstance(target, str):
        target = policy_for(log, target)
    if not isinstance(target, (Policy, Agent)):
        raise ValueError(f"target must be a policy, its name, or an agent; got {target!r}")
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
    level = checks.number("level", level, above=0, below=1)
    checks.integer("seed", seed, least=0, most=2**63 - 1)
    if not log.known.any():
        raise ValueError(f"log must have at least one known reward; got none in {len(log)} rounds")

    ends = [(rows[0], rows[-1]) for rows in np.array_split(np.arange(len(log)), windows)]
    parts = [Window(int(a), int(b), int(log.at[a]), int(log.at[b]), {}) for a, b in ends]
    notes = [_NOTES[log.propensities]] if log.propensities in _NOTES else []
    found = Evaluation(policy.name, level, {}, parts, notes)
    if not log.known.all():
        notes.append(
            f"{100 * (1.0 - log.known.mean()):.1f} % of the rewards are unknown and left out, "
            "which is fair only if that has nothing to do with what they would have been"
        )
    found._add(LOGGED, log.reward)
    if isinstance(target, Policy):
        accepted, share = replay(log, policy, seed=seed)
        found._add(REPLAY, np.where(accepted, log.reward, np.nan))
        found._check("accepted rounds", accepted / share, REPLAY)
    if log.propensities != UNKNOWN:
        _add_frozen(log, target, found, seed=seed)
    outside = rewards_outside(log, policy)
    notes.extend(outside)
    found._limit(*((-math.inf, math.inf) if outside else policy.reward_range()))
    return found


def rewards_outside(log: Log, policy: Policy) -> list[str]:
    """Say in a sentence how many rewards of a log a policy has to clip; nothing if none."""
    low, high = policy.reward_range()
    known = log.reward[log.known]
    count = int(((known < low) | (known > high)).sum())
    if not count:
        return []
    return [
        f"{count} of {known.size} rewards lie outside {low:g}..{high:g}; the policy learns them as "
        "the nearest end, so another kind of reward may suit this log better"
    ]


def _add_frozen(log: Log, target: Policy | Agent, found: Evaluation, *, seed: int) -> None:
    """Add IPS, SNIPS and DR of a target that stays as it is through each window."""
    learns = isinstance(target, Policy)
    agent = Agent(target, seed=seed) if isinstance(target, Policy) else target
    agent.warns &= not learns  # a note says how many rewards lie outside the range
    pieces = []
    for window in found.windows:
        rounds = window.rounds
        known = log.known[rounds]
        if window.first > 0 or not learns:
            pi = choice_probabilities(agent, log.arms[rounds])
            if pi is None:
                reason = f"{agent.policy.name} draws its scores, so only replay can evaluate it"
                if not learns:
                    raise ValueError(reason)
                found.notes.append(reason)
                return
            model = reward_model(log, agent.policy, rounds=slice(0, window.first), of=rounds)
            pieces.append((window.values, scored(log, rounds, pi, model)))
        if learns:
            agent.tick(len(known))
        if learns and known.any():  # each round is learned at its own time
            ages = len(known) - 1 - np.flatnonzero(known)
            agent.learn(log.played[rounds][known], log.reward[rounds][known], ages=ages)
    if pieces:
        columns = zip(*(piece for _, piece in pieces), strict=True)
        whole = Scored(*(np.concatenate(column) for column in columns))
        for values, (weights, rewards, robust) in [*pieces, (found.overall, whole)]:
            how = {"level": found.level, "rounds": effective_rounds(weights)}
            values[IPS] = mean_value(weights * rewards, **how)
            values[SNIPS] = ratio_of_means(rewards, weights, level=found.level)
            values[DR] = mean_value(robust, **how)
        found._check("weights", whole.weights, IPS, SNIPS, DR)


# -- policies for a log ----------------------------------------------------------------------------


def policy_for(log: Log, name: str, **given: Any) -> Policy:
    """Make a policy for the actions and the rewards of a log.

    Its dimension is the log's. Rewards mean what they meant to the service that wrote the log; in
    other logs they are clicks if all lie in [0, 1] and amounts otherwise. A kind of reward without
    a range has that of the log, if the policy needs one. L, unless it is given, is the length of
    the longest action where 1 would refuse some.
    """
    _check_log(log)
    if name not in policy_names():
        return policy(name, dim=log.dim)  # which says what there is
    arguments = {**_rewards_of(log, name, given), **given}
    longest = max(float(np.linalg.norm(actions, axis=1).max()) for actions in log.arms)
    if longest > 1.0 + 1e-9 and takes(name, "L") and not {"L", "too_long"} & arguments.keys():
        arguments["L"] = longest
    text, known = arguments.get("reward"), log.reward[log.known]
    if text in ("amount", "cost", "count") and known.size and not row_of(name).believes:
        low, high = float(known.min()), float(known.max())
        ends = low, math.nextafter(max(high, low + 1.0), math.inf)
        first, last = (np.format_float_positional(end, trim="-") for end in ends)
        arguments["reward"] = f"count:{last}" if text == "count" else f"{text}:{first}..{last}"
    return policy(name, dim=log.dim, **arguments)


def _check_log(log: Any) -> None:
    if not isinstance(log, Log):
        raise ValueError(f"log must be a Log, as read_log gives; got {checks.brief(log)}")


def _rewards_of(log: Log, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that say what the rewards of a log are."""
    if log.served is None:
        known = log.reward[log.known]
        is_amount = ((known < 0.0) | (known > 1.0)).any()
        says = {"reward", "link", "m"} & given.keys() or not takes(name, "reward")
        return {"reward": "amount"} if is_amount and not says else {}
    served = log.served
    names = ("reward", "outside") if served.get("reward") else ("link", "m", "centre")
    return {key: served[key] for key in names if served.get(key) is not None and takes(name, key)}
