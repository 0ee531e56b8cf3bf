"""Real data: the paper's Figure 3 for every table that was played, then the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftbandits.environments import Counts, Paired
from driftbandits.report import charts, statistics
from driftbandits.report.files import PageFigure, ReportFolder
from driftbandits.report.recordings import Recording, bonus_of
from driftbandits.report.sections.parts import (
    RegretOverTime,
    Summary,
    regret_over_time,
    summary,
)
from driftbandits.report.statistics import Estimate, Stretches
from driftbandits.report.style import looks
from driftbandits.report.tables import Table

OWN_TABLES = {"paired": Paired.table, "counts": Counts.table}
"""What the worlds are made of where their options say nothing."""
RECOVERED = 0.9
"""Back at this part of the level before the change, a policy has recovered."""


@dataclass(frozen=True)
class RealData:
    """What the template says of real data."""

    tables: Sequence[str]
    pairs: Sequence[Pairs]
    counts: Sequence[RegretOverTime]


@dataclass(frozen=True)
class Pairs:
    """The experiments with pairs of one table, the widest bonus first."""

    table: str
    runs: int
    figure: PageFigure
    experiments: Sequence[PairsWithBonus]


@dataclass(frozen=True)
class PairsWithBonus:
    """One experiment with pairs."""

    recording: Recording
    recovery: Recovery | None  # none where nothing changes
    summary: Summary


@dataclass(frozen=True)
class Recovery:
    """Are the policies that forget back after the change, and ahead of the one that does not?"""

    stretches: Stretches
    table: Table
    forgetting: Sequence[str]
    levels: Sequence[float]  # of `forgetting`, as a part of that before the change
    stationary: Stationary | None
    least: float = RECOVERED

    @property
    def all_back(self) -> bool:
        return min(self.levels) > self.least


@dataclass(frozen=True)
class Stationary:
    """The policy that does not forget, and by how much the others are ahead of it."""

    label: str
    level: float
    gains: Sequence[Estimate]

    @property
    def all_ahead(self) -> bool:
        return all(gain.mean > 0 and gain.clear for gain in self.gains)

    @property
    def all_behind(self) -> bool:
        return all(gain.mean < 0 and gain.clear for gain in self.gains)


def real_data(
    folder: ReportFolder, *, paired: Sequence[Recording], counts: Sequence[Recording]
) -> RealData | None:
    if not paired and not counts:
        return None
    return RealData(
        tables=list(dict.fromkeys(_table_of(recording) for recording in (*paired, *counts))),
        pairs=[_pairs(folder, table, group) for table, group in _by_table(paired).items()],
        counts=[regret_over_time(folder, recording) for recording in counts],
    )


def _table_of(recording: Recording) -> str:
    return str(recording.spec["environment"].get("table", OWN_TABLES[recording.world]))


def _by_table(recordings: Sequence[Recording]) -> dict[str, list[Recording]]:
    """The widest bonus first."""
    grouped: dict[str, list[Recording]] = {}
    for recording in sorted(recordings, key=lambda r: -max(map(bonus_of, r.policies.values()))):
        grouped.setdefault(_table_of(recording), []).append(recording)
    return grouped


def _pairs(folder: ReportFolder, table: str, group: Sequence[Recording]) -> Pairs:
    return Pairs(
        table,
        runs=group[0].replicates,
        figure=folder.figure(_shares(folder, group)),
        experiments=[
            PairsWithBonus(recording, _recovery(folder, recording), summary(folder, recording))
            for recording in group
        ],
    )


def _shares(folder: ReportFolder, group: Sequence[Recording]) -> charts.Figure:
    """Two rows: the shares so far, and those of the last rounds."""
    so_far: list[charts.Chart] = []
    recent: list[charts.Chart] = []
    for recording in group:
        window = max(1, recording.horizon // 8)
        shares = statistics.shares(recording, window)
        for column, made, title in (
            ("so_far", so_far, f"{recording.bonus_in_words}: share so far"),
            ("recent", recent, f"{recording.bonus_in_words}: last {window} rounds"),
        ):
            curve = statistics.over_time(shares.drop_nulls(column), column)
            folder.save(f"{recording.name}-share-{column.replace('_', '-')}", curve)
            made.append(charts.share_chart(recording, curve, title))
    shown = [*charts.on_one_scale(so_far), *charts.on_one_scale(recent)]
    return charts.Figure(f"{group[0].name}-share", shown, columns=max(2, len(group)))


def _recovery(folder: ReportFolder, recording: Recording) -> Recovery | None:
    stretches = statistics.recovery_stretches(recording)
    if stretches is None:
        return None
    frame = statistics.recovery(recording)
    level = dict(frame.select("policy", "end_over_first_segment").iter_rows())
    forgetting = recording.forgetting
    return Recovery(
        stretches,
        folder.table(f"{recording.name}-recovery", frame, looks(recording.policies)),
        forgetting,
        levels=[level[label] for label in forgetting],
        stationary=_stationary(recording, level, forgetting),
    )


def _stationary(
    recording: Recording, level: Mapping[str, float], forgetting: Sequence[str]
) -> Stationary | None:
    label = recording.labelled("LogisticUCB")
    if label is None:
        return None
    gains = [statistics.difference(recording, own, label) for own in forgetting]
    return Stationary(label, level[label], gains)
