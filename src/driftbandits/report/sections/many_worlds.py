"""Many worlds: every policy against the best tuned in hindsight, and what was to be reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from driftbandits.report import hindsight
from driftbandits.report.files import ReportFolder
from driftbandits.report.goals import UNTUNED, goals_of
from driftbandits.report.hindsight import Point, Standing, Tuned, World
from driftbandits.report.recordings import Recording, policy_kind
from driftbandits.report.statistics import NO_ESTIMATE, Estimate, estimate
from driftbandits.report.tables import Table


@dataclass(frozen=True)
class ManyWorlds:
    """What the template says of the worlds."""

    worlds: Sequence[str]
    runs: Sequence[int]  # one number, unless worlds differ in it
    halves_differ: Sequence[str]  # worlds whose halves have different best policies
    radial_grids: bool
    jumps: bool  # is there a world in which a policy restarts at the true changes?
    goals: Table | None
    ratios: Table
    detections: Table | None
    measures: Table
    untuned: str = UNTUNED
    baseline: str = hindsight.BASELINE


def many_worlds(
    folder: ReportFolder, worlds: Sequence[World], beside: Sequence[Recording]
) -> ManyWorlds:
    standings = hindsight.standings_of(worlds)
    return ManyWorlds(
        worlds=[world.name for world in worlds],
        runs=sorted({len(world.replicates) for world in worlds}),
        halves_differ=[world.name for world in worlds if len(world.best.points) > 1],
        radial_grids=all(
            point["projection"] == "radial"
            for world in worlds
            for point in world.grid.policies.values()
        ),
        jumps=any(world.best_restarted is not None for world in worlds),
        goals=_goals(folder, worlds, beside),
        ratios=_ratios(folder, worlds, standings),
        detections=_detections(folder, worlds, standings),
        measures=_measures(folder, worlds),
    )


def _goals(
    folder: ReportFolder, worlds: Sequence[World], beside: Sequence[Recording]
) -> Table | None:
    rows = [
        (goal.what, goal.reached.mean, goal.reached.se, goal.wanted, goal.hoped, goal.verdict)
        for goal in goals_of(worlds, beside)
    ]
    names = ["goal", "mean", "se", "wanted", "hoped", "verdict"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return folder.table("suite-goals", frame) if rows else None


def _ratios(folder: ReportFolder, worlds: Sequence[World], standings: Sequence[Standing]) -> Table:
    names = [world.name for world in worlds]
    restarted = hindsight.restarted_standing(worlds)
    shown = [*([] if restarted is None else [restarted]), *standings]
    frame = pl.DataFrame([_row(standing, names) for standing in shown], infer_schema_length=None)
    return folder.table("suite-ratios", frame)


def _row(standing: Standing, names: Sequence[str]) -> dict[str, str | float | None]:
    ratios = {name: standing.ratios.get(name, NO_ESTIMATE) for name in names}
    return {
        "policy": standing.policy,
        "overall": standing.overall,
        "worst": standing.ratios[standing.worst].mean,
        "worst_world": standing.worst,
        "cost": standing.cost,
        **{name: ratio.mean for name, ratio in ratios.items()},
        **{f"{name}_se": ratio.se for name, ratio in ratios.items()},
    }


def _detections(
    folder: ReportFolder, worlds: Sequence[World], standings: Sequence[Standing]
) -> Table | None:
    names = [world.name for world in worlds]
    rows = [
        {"policy": own.policy, **{world.name: world.detections(own.policy) for world in worlds}}
        for own in standings
    ]
    reported = [row for row in rows if any(row[name] for name in names)]
    changes = [world.recording.facts.get("changes_a_run") for world in worlds]
    truth = {"policy": "true jumps", **dict(zip(names, changes, strict=True))}
    frame = pl.DataFrame([truth, *reported], infer_schema_length=None, strict=False)
    return folder.table("suite-detections", frame) if reported else None


def _measures(folder: ReportFolder, worlds: Sequence[World]) -> Table:
    """One line a world: what its ratios are measured by."""
    rows = []
    for world in worlds:
        best, stationary, restarted = (
            _regret(tuned) for tuned in (world.best, world.best_stationary, world.best_restarted)
        )
        rows.append(
            {
                "world": world.name,
                "title": world.recording.title,
                "runs": len(world.replicates),
                "best": " / ".join(point_words(point) for point in world.best.points),
                "mean": best.mean,
                "se": best.se,
                "flattered": world.best.flattered,
                "stationary": stationary.mean,
                "stationary_se": stationary.se,
                "restarted": restarted.mean,
                "restarted_se": restarted.se,
            }
        )
    return folder.table("suite-worlds", pl.DataFrame(rows, infer_schema_length=None))


def _regret(tuned: Tuned | None) -> Estimate:
    return NO_ESTIMATE if tuned is None else estimate(tuned.regret)


def point_words(point: Point) -> str:
    """A point of a grid by what was tuned.

    >>> point_words({"name": "SW-GLUCB", "window": 100, "discount": None, "bonus_scale": 0.1})
    'SW-GLUCB, window 100, bonus × 0.1'
    """
    words = [policy_kind(point)]
    if point["window"] is not None:
        words.append(f"window {point['window']}")
    if point["discount"] is not None:
        words.append(f"discount {point['discount']:g}")
    return ", ".join([*words, f"bonus × {point['bonus_scale']:g}"])
