"""Parts that several sections have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from driftbandits.report import charts, statistics
from driftbandits.report.files import PageFigure, ReportFolder
from driftbandits.report.recordings import Recording
from driftbandits.report.statistics import Estimate
from driftbandits.report.style import looks
from driftbandits.report.tables import Table


class Reached(NamedTuple):
    """A policy, and what it reached in the mean."""

    label: str
    estimate: Estimate


def reached(recording: Recording, label: str) -> Reached:
    return Reached(label, statistics.estimate(statistics.values_of(recording, label)))


def ranked(recording: Recording) -> list[Reached]:
    """All policies, best first."""
    return [reached(recording, label) for label in statistics.ordering(recording)]


def best(recording: Recording) -> Reached:
    return reached(recording, statistics.ordering(recording)[0])


@dataclass(frozen=True)
class Summary:
    """What every policy reached and what that cost."""

    recording: Recording
    table: Table

    @property
    def form(self) -> str:
        return ",.1f" if self.recording.measure == "final regret" else ".3f"


def summary(folder: ReportFolder, recording: Recording) -> Summary:
    frame = statistics.summary(recording)
    return Summary(
        recording, folder.table(f"{recording.name}-summary", frame, looks(recording.policies))
    )


@dataclass(frozen=True)
class RegretOverTime:
    """The regret of an experiment, as a figure and in numbers."""

    recording: Recording
    figure: PageFigure
    summary: Summary


def regret_over_time(folder: ReportFolder, recording: Recording) -> RegretOverTime:
    name = f"{recording.name}-regret"
    curve = statistics.over_time(recording.curves, "regret")
    folder.save(name, curve)
    drawn = charts.Figure(name, charts.regret_charts(recording, curve))
    return RegretOverTime(recording, folder.figure(drawn), summary(folder, recording))


@dataclass(frozen=True)
class Estimates:
    """Where the mean estimates were, and how far from the truth."""

    figure: PageFigure
    distances: Table
    rounds: Sequence[str]  # columns of the distances


def estimates(folder: ReportFolder, recording: Recording) -> Estimates | None:
    """None where there is no truth to draw."""
    means = statistics.mean_theta(recording)
    drawn = charts.paths(recording, means)
    if not drawn:
        return None
    name = f"{recording.name}-theta"
    folder.save(name, means)
    wide = means.select("policy", "round", "distance").pivot(on="round", values="distance")
    return Estimates(
        folder.figure(charts.Figure(name, drawn, columns=3)),
        folder.table(f"{name}-distance", wide, looks(recording.policies)),
        rounds=wide.columns[1:],
    )
