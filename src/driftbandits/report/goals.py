"""What `auto` was to reach in the suite, and what it has reached.

In the worlds with grids what counts is the best single memory in hindsight, among fixed arms
LogisticUCB with a tenth of its bonus, and where only units differ the same draws as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from driftbandits.report import statistics
from driftbandits.report.hindsight import (
    BASELINE,
    World,
    at_rest,
    ratio_of_means,
    standings_of,
)
from driftbandits.report.recordings import PAPER_WORLD, Recording
from driftbandits.report.statistics import NO_ESTIMATE, Estimate, estimate

UNTUNED = "auto"
REFERENCE = "LogisticUCB x0.1"
"""By which fixed arms are measured."""
QUIET = 100_000
"""Rounds from which on a world at rest tells whether regret comes to rest too."""
STUCK = 0.05
"""Of the largest reward, what a run that is stuck loses a round: half of what the wrong of two
close arms does."""
_ROUNDING = 1e-6


class Goal(NamedTuple):
    """A number that should be at most `wanted`, and at best `hoped` or less."""

    what: str
    reached: Estimate
    wanted: float
    hoped: float

    @property
    def verdict(self) -> str:
        if self.reached.mean <= self.hoped + _ROUNDING:
            return "more than hoped"
        return "yes" if self.reached.mean <= self.wanted + _ROUNDING else "no"


class Beside(NamedTuple):
    """A policy in a world, over what it is measured by there."""

    recording: Recording
    regret: Estimate
    over: Estimate
    stuck: Estimate

    @property
    def name(self) -> str:
        return str(self.recording.spec["variant"])


def goals_of(
    worlds: Sequence[World], beside: Sequence[Recording], *, policy: str = UNTUNED
) -> list[Goal]:
    """Those that the runs tell something of; none where the policy has not played."""
    label = worlds[0].recording.labelled(policy)
    if label is None:
        return []
    return [
        *_many_worlds(worlds, label),
        *_fixed_arms(beside, policy),
        *_other_units(beside, policy),
        *_quiet(beside, policy),
        *_false_reports(beside, policy),
        *_cost(worlds, label),
    ]


# -- the worlds with grids ------------------------------------------------------------------------


def _many_worlds(worlds: Sequence[World], label: str) -> list[Goal]:
    own = next((found for found in standings_of(worlds) if found.policy == label), None)
    if own is None:
        return []
    goals = [
        Goal("the paper’s world, mean regret", estimate(world.regret(label)), 65.0, 58.0)
        for world in worlds
        if world.recording.world == PAPER_WORLD
    ]
    many = f"{len(worlds)} worlds over the best single memory tuned in hindsight"
    goals.append(Goal(f"{many}: geometric mean", geometric_mean(worlds, label), 0.78, 0.7))
    return [*goals, Goal(f"the same: worst ({own.worst})", own.ratios[own.worst], 1.15, 1.0)]


def geometric_mean(worlds: Sequence[World], label: str) -> Estimate:
    """Of the ratios. Worlds share their draws, so a run's errors are added up over all worlds."""
    ratios = [world.ratio(world.regret(label)).mean for world in worlds]
    beyond: dict[int, float] = {}
    for world, ratio in zip(worlds, ratios, strict=True):
        best = world.best.regret
        errors = (world.regret(label) - ratio * best) / (ratio * best.mean())
        for replicate, error in zip(world.replicates, errors, strict=True):
            beyond[replicate] = beyond.get(replicate, 0.0) + float(error) / len(worlds)
    mean = float(stats.gmean(ratios))
    found = estimate(np.array(list(beyond.values())))
    return Estimate(mean, mean * found.se, found.runs)


def _cost(worlds: Sequence[World], label: str) -> list[Goal]:
    plane = [world for world in worlds if world.recording.facts["dim"] == 2]
    if not plane or plane[0].recording.labelled(BASELINE) is None:
        return []
    cost = float(stats.gmean([world.cost(label) for world in plane]))
    what = f"cost of a round over {BASELINE}, two features"
    return [Goal(what, NO_ESTIMATE._replace(mean=cost), 3.0, 1.5)]


# -- beside them ----------------------------------------------------------------------------------


def regret_of(recording: Recording, label: str) -> NDArray[np.float64]:
    """Final regret in each run, in units of the largest reward."""
    return statistics.values_of(recording, label) / largest_reward(recording)


def largest_reward(recording: Recording) -> float:
    return float(recording.spec["environment"].get("m", 1.0))


def since(recording: Recording, label: str, share: float) -> NDArray[np.float64]:
    """Regret a run has after a share of its rounds, and how many rounds that are: (runs, 2)."""
    curves = recording.curves.filter(pl.col("policy") == label).sort("replicate", "round")
    reached = curves.filter(pl.col("round") <= share * recording.horizon)
    early = reached.group_by("replicate", maintain_order=True).last()
    final = curves.group_by("replicate", maintain_order=True).last()
    regret = (final["regret"] - early["regret"]) / largest_reward(recording)
    return np.column_stack([regret.to_numpy(), (final["round"] - early["round"]).to_numpy()])


def stuck(recording: Recording, label: str) -> Estimate:
    """The share of runs that lose at least STUCK a round in their last tenth."""
    late = since(recording, label, 0.9)
    return estimate((late[:, 0] >= STUCK * late[:, 1]).astype(np.float64))


def among_fixed_arms(beside: Sequence[Recording], policy: str) -> list[Beside]:
    """Over the reference, in each world that both have played."""
    return [
        _beside(recording, policy, regret_of(recording, REFERENCE))
        for recording in sorted(beside, key=_position)
        if recording.spec["environment"].get("one_hot")
        and {policy, REFERENCE} <= recording.policies.keys()
    ]


def in_other_units(beside: Sequence[Recording], policy: str) -> dict[str, list[Beside]]:
    """Over the base, which is the first of its list, by what is told in other units."""
    sweeps = {r.spec["sweep"] for r in beside if r.spec["environment"].get("units")} - {None}
    groups: dict[str, list[Recording]] = {}
    for recording in sorted(beside, key=_position):
        if recording.spec["sweep"] in sweeps and policy in recording.policies:
            groups.setdefault(_told(recording.spec["environment"]), []).append(recording)
    return {
        told: [_beside(recording, policy, regret_of(group[0], policy)) for recording in group]
        for told, group in groups.items()
    }


def _told(options: Mapping[str, Any]) -> str:
    """Worlds of which this is the same have the same draws."""
    if options.get("link") == "identity":
        return "rewards"
    return "features" if options.get("base_rate") is None else "base rate"


def _position(recording: Recording) -> int:
    return int(recording.spec["position"])


def _beside(recording: Recording, label: str, unit: NDArray[np.float64]) -> Beside:
    own = regret_of(recording, label)
    return Beside(recording, estimate(own), ratio_of_means(own, unit), stuck(recording, label))


def _worst(rows: Sequence[Beside]) -> Beside:
    return max(rows, key=lambda row: row.over.mean)


def _fixed_arms(beside: Sequence[Recording], policy: str) -> list[Goal]:
    rows = among_fixed_arms(beside, policy)
    if not rows:
        return []
    worst, most = _worst(rows), max(rows, key=lambda row: row.stuck.mean)
    percent = Estimate(100 * most.stuck.mean, 100 * most.stuck.se, most.stuck.runs)
    many = f"{len(rows)} worlds of fixed arms"
    return [
        Goal(f"{many} over {REFERENCE}: worst ({worst.name})", worst.over, 1.2, 1.0),
        Goal(f"the same: runs that are stuck in %, most ({most.name})", percent, 2.0, 0.0),
    ]


def _other_units(beside: Sequence[Recording], policy: str) -> list[Goal]:
    groups = in_other_units(beside, policy)
    goals = []
    if told := groups.get("features", [])[1:]:
        worst = _worst(told)
        what = f"scale, shift, collinearity, first set over the base: worst of {len(told)}"
        goals.append(Goal(f"{what} ({worst.name})", worst.over, 1.15, 1.05))
    if told := groups.get("rewards", [])[1:]:
        worst = _worst(told)
        what = f"rewards times c, plus c over the base: worst of {len(told)}"
        goals.append(Goal(f"{what} ({worst.name})", worst.over, 1.0, 1.0))
    return goals


def _quiet(beside: Sequence[Recording], policy: str) -> list[Goal]:
    return [
        Goal(
            f"{recording.horizon:,} quiet rounds: regret of the second half",
            estimate(since(recording, policy, 0.5)[:, 0]),
            3.0,
            1.0,
        )
        for recording in beside
        if recording.rests and recording.horizon >= QUIET and policy in recording.policies
    ]


def _false_reports(beside: Sequence[Recording], policy: str) -> list[Goal]:
    goals = []
    for recording in sorted(at_rest(beside), key=_position):
        if label := recording.labelled(policy):
            mine = recording.runs.filter(pl.col("policy") == label)["detections"]
            allowed = recording.policies[label]["false_alarm_rate"] * recording.horizon
            over = estimate(mine.cast(pl.Float64).to_numpy() / allowed)
            rate = recording.spec["environment"].get("base_rate")
            of_it = "" if rate is None else f", rewards of {100 * rate:g} %"
            what = f"false reports over the {allowed:g} promised in {recording.horizon:,} rounds"
            goals.append(Goal(f"{what}{of_it}", over, 1.0, 0.5))
    return goals
