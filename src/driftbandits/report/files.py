"""The files beside the page: every figure for print, and the numbers of every table as CSV."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from driftbandits.report import print_charts
from driftbandits.report.charts import EstimatePath, Figure
from driftbandits.report.page_charts import PageChart, page_chart
from driftbandits.report.style import Look
from driftbandits.report.tables import Table


@dataclass(frozen=True)
class PageFigure:
    """A figure as the page shows it: charts that can be touched, and a still picture of them."""

    name: str
    shape: str  # path or curves
    columns: int
    charts: Sequence[PageChart]
    picture: str  # PNG, base64


@dataclass(frozen=True)
class ReportFolder:
    """Where figures and tables are saved on their way to the page."""

    directory: Path

    def __post_init__(self) -> None:
        for folder in ("figures", "tables"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)

    def figure(self, figure: Figure) -> PageFigure:
        """Save a figure for print, and give back its twin for the page."""
        png, _ = print_charts.save(figure, self.directory / "figures")
        return PageFigure(
            figure.name,
            shape="path" if isinstance(figure.charts[0], EstimatePath) else "curves",
            columns=min(figure.columns, len(figure.charts)),
            charts=[page_chart(chart) for chart in figure.charts],
            picture=base64.b64encode(png.read_bytes()).decode(),
        )

    def table(self, name: str, frame: pl.DataFrame, looks: Mapping[str, Look] = {}) -> Table:
        """Save a data frame, and give it back as a table of the page."""
        self.save(name, frame)
        return Table(name, frame, looks)

    def save(self, name: str, frame: pl.DataFrame) -> None:
        """The numbers as CSV, in full precision; a list becomes one column for each entry."""
        for column, dtype in frame.schema.items():
            if isinstance(dtype, pl.List):
                longest = int(frame[column].list.len().max() or 0)  # type: ignore[arg-type]
                entries = [
                    pl.col(column).list.get(i, null_on_oob=True).alias(f"{column}_{i + 1}")
                    for i in range(longest)
                ]
                frame = frame.with_columns(entries).drop(column)
        frame.write_csv(self.directory / "tables" / f"{name}.csv")
