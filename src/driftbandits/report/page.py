"""The page: one HTML text that needs no other file, and the figures and tables beside it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from driftbandits.checks import write_whole
from driftbandits.report import formats, page_charts, print_charts
from driftbandits.report.charts import Figure
from driftbandits.report.recordings import Recording, find_recordings
from driftbandits.report.sections import (
    Picture,
    Provenance,
    Section,
    Table,
    provenance,
    sections,
)
from driftbandits.report.style import SVG_DASH

TITLE = "Generalized linear bandits in a changing world"
MOST_TILES = 5
"""Experiments whose best policy stands on the first screen."""


def write_page(directory: Path, *, title: str | None) -> Path:
    """Write `report.html` with the folders `figures` and `tables` into a folder with results."""
    if not directory.is_dir():
        raise ValueError(f"directory must be a folder with results; got {str(directory)!r}")
    recordings = find_recordings(directory)
    if not recordings:
        raise ValueError(
            f"directory must hold at least one experiment with finished runs; "
            f"{str(directory)!r} has none"
        )
    path = directory / "report.html"
    made_with = provenance(recordings)
    render(path, title or TITLE, sections(recordings), made_with, _unfinished(recordings))
    return path


def render(
    path: Path, title: str, found: Sequence[Section], made_with: Provenance, unfinished: str = ""
) -> None:
    """Write a page of sections, with the folders `figures` and `tables` beside it."""
    pictures = _save(path.parent, found, made_with.table)
    entries = [entry for section in found for entry in section.entries]
    text = (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            first=next(iter(entries), None),
            tiles=[entry for entry in entries if entry.value][:MOST_TILES],
            unfinished=unfinished,
            sections=found,
            provenance=made_with,
            pictures=pictures,
            # `plotly` carries its JavaScript inside its wheel.
            plotly=Markup(get_plotlyjs()),
        )
    )
    write_whole(path, text.encode())


def _unfinished(recordings: Sequence[Recording]) -> str:
    return formats.joined(
        [
            f"{recording.name} ({formats.counted(recording.results.missing, 'run')} to go)"
            for recording in recordings
            if recording.results.missing
        ]
    )


@dataclass(frozen=True)
class Drawn:
    """A figure as the page shows it: charts that can be touched, and a still picture of them."""

    figure: Figure
    number: int
    drawings: Sequence[page_charts.Json]
    still: str  # PNG, base64


def _save(directory: Path, found: Sequence[Section], last: Table) -> dict[str, Drawn]:
    """Save all figures and tables; the figures come back as the page draws them, by name."""
    figures, tables = directory / "figures", directory / "tables"
    for folder in (figures, tables):
        folder.mkdir(exist_ok=True)
    drawn: dict[str, Drawn] = {}
    numbers = count(1)
    _save_table(tables / "provenance.csv", last.frame)
    for part in (part for section in found for entry in section.entries for part in entry.parts):
        if isinstance(part, Table):
            _save_table(tables / f"{part.name}.csv", part.frame)
            continue
        for name, frame in part.frames.items():
            _save_table(tables / f"{name}.csv", frame)
        drawn[part.figure.name] = Drawn(
            part.figure,
            next(numbers),
            [page_charts.drawing(chart) for chart in part.figure.charts],
            base64.b64encode(print_charts.save(part.figure, figures).read_bytes()).decode(),
        )
    return drawn


def _save_table(path: Path, frame: pl.DataFrame) -> None:
    """The numbers as CSV, in full precision; a list becomes one column for each entry."""
    for column, dtype in frame.schema.items():
        if isinstance(dtype, pl.List):
            longest = max(frame[column].list.len(), default=0)
            entries = [
                pl.col(column).list.get(i, null_on_oob=True).alias(f"{column}_{i + 1}")
                for i in range(longest)
            ]
            frame = frame.with_columns(entries).drop(column)
    frame.write_csv(path)


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("driftbandits.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(SVG_DASH=SVG_DASH)
    made.tests["picture"] = lambda part: isinstance(part, Picture)
    made.policies["json.dumps_kwargs"] = {
        "separators": (",", ":"),
        "allow_nan": False,
        "ensure_ascii": False,
    }
    return made
