"""Worlds side by side: one table for experiments that the same policies have played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from driftbandits.report import statistics
from driftbandits.report.files import ReportFolder
from driftbandits.report.recordings import Recording
from driftbandits.report.statistics import NO_ESTIMATE, Estimate, estimate
from driftbandits.report.tables import Table


@dataclass(frozen=True)
class Group:
    """Experiments that stand in one table, by what a column of it is called."""

    name: str
    columns: Mapping[str, Recording]
    measure: str
    table: Table

    @property
    def runs(self) -> list[int]:
        return sorted({recording.replicates for recording in self.columns.values()})


def side_by_side(folder: ReportFolder, groups: Mapping[str, Sequence[Recording]]) -> list[Group]:
    return [_group(folder, name, recordings) for name, recordings in groups.items()]


def _group(folder: ReportFolder, name: str, recordings: Sequence[Recording]) -> Group:
    columns = {_column(recording): recording for recording in recordings}
    labels = dict.fromkeys(label for recording in recordings for label in recording.policies)
    rows = [_row(label, columns) for label in labels]
    table = folder.table(f"{name}-worlds", pl.DataFrame(rows, infer_schema_length=None))
    return Group(name, columns, recordings[0].measure, table)


def _column(recording: Recording) -> str:
    """The variant; of a stream its source and how it is told."""
    options = recording.spec["environment"]
    if recording.world == "stream":
        told = " raw" if options.get("scaling") == "raw" else ""
        return f"{options.get('source', 'phishing')}{told}"
    return str(recording.spec["variant"])


def _row(label: str, columns: Mapping[str, Recording]) -> dict[str, str | float]:
    row: dict[str, str | float] = {"policy": label}
    seconds = rounds = 0.0
    for name, recording in columns.items():
        found = _reached(recording, label)
        row[name], row[f"{name}_se"] = found.mean, found.se
        mine = recording.runs.filter(pl.col("policy") == label)
        seconds += float(mine["seconds"].sum())
        rounds += float(mine["rounds"].sum())
    row["microseconds_per_round"] = 1e6 * seconds / rounds
    return row


def _reached(recording: Recording, label: str) -> Estimate:
    if label not in recording.policies:
        return NO_ESTIMATE
    return estimate(statistics.values_of(recording, label))
