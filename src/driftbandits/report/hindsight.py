"""The numbers of a suite: in many worlds, every policy against the best tuned in hindsight.

A suite is a sweep whose experiments have grids. The points of a world's grid that do not restart
are the single-memory policies; the best of them is the measure of the world, and a policy's ratio
is its mean regret over the mean regret of that best.

The best of many points looks better than it is on the runs that it was chosen on. So the runs are
cut into halves, even and odd, and each half is compared with the point that was best on the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from driftbandits.report.recordings import Recording, policy_kind
from driftbandits.report.statistics import NO_ESTIMATE, Estimate, estimate

Floats = NDArray[np.float64]
Point = Mapping[str, Any]
"""A policy of a grid, as the spec has it."""

BASELINE = "D-GLUCB"
"""The policy whose cost is the unit."""


class Tuned(NamedTuple):
    """The best of some points of a grid: what each half of the runs is compared with."""

    points: tuple[Point, ...]  # one where both halves agree, else two
    regret: Floats  # (runs,)
    flattered: float  # mean regret of the best on all runs, which is a little too low


@dataclass(frozen=True, eq=False)
class World:
    """A world of the suite: the policies that played in it, and its grid."""

    recording: Recording
    grid: Recording

    @property
    def name(self) -> str:
        return str(self.recording.spec["variant"] or self.recording.name)

    @property
    def jumps(self) -> bool:
        return self.recording.change_count > 0

    @cached_property
    def replicates(self) -> list[int]:
        """The runs that everybody has played."""
        shared = set(self.recording.runs["replicate"]) & set(self.grid.runs["replicate"])
        return sorted(int(r) for r in shared)

    def regret(self, label: str) -> Floats:
        return _regrets(self.recording, self.replicates)[label]

    @cached_property
    def single_memory(self) -> list[Point]:
        return [point for point in self.grid.policies.values() if not point["restart"]]

    @cached_property
    def best(self) -> Tuned:
        """The best single-memory policy."""
        return self._tuned(self.single_memory)

    @cached_property
    def best_stationary(self) -> Tuned | None:
        """The policy that keeps everything, with its best bonus; None where the grid has none."""
        points = [point for point in self.single_memory if policy_kind(point) == "LogisticUCB"]
        return self._tuned(points) if points else None

    @cached_property
    def best_restarted(self) -> Tuned | None:
        """What restarts at the true changes, with its best bonus; None where nothing jumps."""
        points = [point for point in self.grid.policies.values() if point["restart"]]
        return self._tuned(points) if points and self.jumps else None

    def _tuned(self, points: Sequence[Point]) -> Tuned:
        own = _regrets(self.grid, self.replicates)
        values = np.array([own[point["label"]] for point in points])  # (points, runs)
        odd = np.array(self.replicates) % 2 == 1
        halves = (odd, ~odd) if 0 < odd.sum() < len(odd) else (np.ones_like(odd),)
        regret = np.empty(len(odd))
        chosen = []
        for here, other in zip(halves, reversed(halves), strict=True):
            best = int(values[:, other].mean(axis=1).argmin())
            regret[here] = values[best, here]
            chosen.append(best)
        named = tuple(points[i] for i in dict.fromkeys(chosen))
        return Tuned(named, regret, float(values.mean(axis=1).min()))

    def ratio(self, regret: Floats) -> Estimate:
        return ratio_of_means(regret, self.best.regret)

    def cost(self, label: str) -> float:
        """Time of a round over that of the baseline's, in the same runs."""
        seconds = dict(
            self.recording.runs.group_by("policy").agg(pl.col("seconds").sum()).iter_rows()
        )
        baseline = self.recording.labelled(BASELINE)
        return math.nan if baseline is None else float(seconds[label] / seconds[baseline])

    def detections(self, label: str) -> float:
        """Changes that a policy reported in a run, on average."""
        mine = self.recording.runs.filter(pl.col("policy") == label)["detections"]
        return float(mine.sum()) / mine.len()


def _regrets(recording: Recording, replicates: Sequence[int]) -> dict[str, Floats]:
    """Final regret of each policy in the given runs."""
    runs = recording.runs.filter(pl.col("replicate").is_in(replicates)).sort("replicate")
    return {
        str(label): mine["final_regret"].to_numpy()
        for (label,), mine in runs.group_by("policy", maintain_order=True)
    }


def ratio_of_means(one: Floats, other: Floats) -> Estimate:
    """Both played the same runs, so the error is that of what one has beyond its share."""
    if other.mean() <= 0.0:
        return NO_ESTIMATE
    ratio = float(one.mean() / other.mean())
    beyond = estimate(one - ratio * other)
    return Estimate(ratio, beyond.se / float(other.mean()), beyond.runs)


def members(recordings: Sequence[Recording]) -> list[Recording]:
    """The grids, and the experiments that they belong to, finished or not."""
    grids = [recording for recording in recordings if recording.spec.get("hindsight")]
    sweeps = {grid.spec["sweep"] for grid in grids} - {None}
    owners = [_owner(grid, recordings) for grid in grids]
    return [
        recording
        for recording in recordings
        if recording in grids or recording in owners or recording.spec.get("sweep") in sweeps
    ]


def _owner(grid: Recording, recordings: Iterable[Recording]) -> Recording | None:
    """The experiment that a grid belongs to: all that is recorded of the two agrees."""
    others = (recording for recording in recordings if not recording.spec.get("hindsight"))
    return next((other for other in others if _identity(other) == _identity(grid)), None)


def _identity(recording: Recording) -> tuple[Any, ...]:
    spec = recording.spec
    return spec.get("sweep"), spec.get("variant"), recording.title, recording.traces


def worlds_of(recordings: Sequence[Recording]) -> list[World]:
    """The worlds that have both policies and a grid, in the order of their file."""
    paired = [
        World(owner, grid)
        for grid in recordings
        if grid.spec.get("hindsight") and (owner := _owner(grid, recordings))
    ]
    found = [world for world in paired if world.replicates and world.single_memory]
    return sorted(found, key=lambda world: int(world.recording.spec["position"]))


def at_rest(recordings: Iterable[Recording]) -> list[Recording]:
    """Experiments in which nothing changes, with policies that all look for changes."""
    return [
        recording
        for recording in recordings
        if recording.rests and all(p.get("false_alarm_rate") for p in recording.policies.values())
    ]


class Standing(NamedTuple):
    """How a policy stands in every world."""

    policy: str
    ratios: dict[str, Estimate]  # by world
    cost: float  # over that of the baseline, geometric mean over all worlds

    @property
    def overall(self) -> float:
        return float(stats.gmean([ratio.mean for ratio in self.ratios.values()]))

    @property
    def worst(self) -> str:
        return max(self.ratios, key=lambda world: self.ratios[world].mean)


def standings_of(worlds: Sequence[World]) -> list[Standing]:
    """The policies that have played in every world, best first."""
    everywhere = [
        label
        for label in worlds[0].recording.policies
        if all(label in world.recording.policies for world in worlds)
    ]
    standings = [
        Standing(
            label,
            {world.name: world.ratio(world.regret(label)) for world in worlds},
            float(stats.gmean([world.cost(label) for world in worlds])),
        )
        for label in everywhere
    ]
    return sorted(standings, key=lambda standing: standing.overall)


def restarted_standing(worlds: Sequence[World]) -> Standing | None:
    """What restarts at the true changes, in the worlds that jump."""
    ratios = {
        world.name: world.ratio(world.best_restarted.regret)
        for world in worlds
        if world.best_restarted is not None
    }
    return Standing("restart at the true changes, tuned", ratios, math.nan) if ratios else None
