"""How regret grows with the horizon and with the number of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from driftbandits.report import charts, statistics
from driftbandits.report.files import PageFigure, ReportFolder
from driftbandits.report.recordings import Recording, swept_by
from driftbandits.report.style import looks
from driftbandits.report.tables import Table


class Rate(NamedTuple):
    """How the theory says that regret grows, up to logarithms."""

    axis: str
    symbol: str
    power: Fraction

    @property
    def in_words(self) -> str:
        return f"growth as {self.symbol}^({self.power})"


RATES = {
    "horizon": Rate("horizon T", "T", Fraction(2, 3)),
    "changes": Rate("number of changes Γ", "Γ", Fraction(1, 3)),
}
"""By what differs between the variants of a sweep."""


@dataclass(frozen=True)
class Growth:
    """Regret against the horizon or the number of changes."""

    rate: Rate
    figure: PageFigure
    powers: Table


def growth(folder: ReportFolder, sweeps: Mapping[str, Sequence[Recording]]) -> list[Growth]:
    """Sweeps of the horizon first."""
    found = [
        _growth(folder, name, by, group)
        for by in RATES
        for name, group in sweeps.items()
        if swept_by(group) == by
    ]
    return [one for one in found if one is not None]


def _growth(folder: ReportFolder, name: str, by: str, group: Sequence[Recording]) -> Growth | None:
    points = statistics.growth(group, by)
    fitted = statistics.slopes(points, by)
    if not fitted.height:
        return None
    folder.save(name, points)
    chart = charts.growth_chart(
        group[0],
        points,
        by=by,
        x_title=RATES[by].axis,
        power=float(RATES[by].power),
        rate=RATES[by].in_words,
    )
    return Growth(
        RATES[by],
        folder.figure(charts.Figure(name, [chart])),
        folder.table(f"{name}-slopes", fitted, looks(group[0].policies)),
    )
