"""Experiments of the reader's own: a figure and a table each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driftbandits.report.files import ReportFolder
from driftbandits.report.recordings import Recording
from driftbandits.report.sections.parts import (
    Estimates,
    RegretOverTime,
    Summary,
    estimates,
    regret_over_time,
    summary,
)


@dataclass(frozen=True)
class OwnExperiment:
    """One experiment: with its regret, or where that cannot be measured with a table alone."""

    recording: Recording
    regret: RegretOverTime | None
    summary: Summary | None
    estimates: Estimates | None


def further(folder: ReportFolder, recordings: Sequence[Recording]) -> list[OwnExperiment]:
    return [_own_experiment(folder, recording) for recording in recordings]


def _own_experiment(folder: ReportFolder, recording: Recording) -> OwnExperiment:
    if not recording.has_regret:
        return OwnExperiment(recording, None, summary(folder, recording), None)
    regret = regret_over_time(folder, recording)
    return OwnExperiment(recording, regret, None, estimates(folder, recording))
