"""The page: one HTML text that needs no other file, and the figures and tables beside it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from driftbandits.checks import write_whole
from driftbandits.report import page_charts, print_charts
from driftbandits.report.formats import counted, joined
from driftbandits.report.recordings import find_recordings
from driftbandits.report.sections import Picture, Provenance, Section, Table, provenance, sections
from driftbandits.report.style import SVG_DASH

TITLE = "Generalized linear bandits in a changing world"
MOST_TILES = 5
"""Experiments whose best policy stands on the first screen."""


def write_page(directory: Path, title: str | None) -> Path:
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
    unfinished = [
        f"{recording.name} ({counted(recording.results.missing, 'run')} to go)"
        for recording in recordings
        if recording.results.missing
    ]
    made_with = provenance(recordings)
    render(path, title or TITLE, sections(recordings), made_with, joined(unfinished))
    return path


def render(
    path: Path, title: str, found: Sequence[Section], made_with: Provenance, unfinished: str = ""
) -> None:
    """Write a page of sections, with the folders `figures` and `tables` beside it."""
    templates = Environment(
        loader=PackageLoader("driftbandits.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.tests["picture"] = lambda part: isinstance(part, Picture)
    compact = {"separators": (",", ":"), "allow_nan": False, "ensure_ascii": False}
    templates.policies["json.dumps_kwargs"] = compact
    entries = [entry for section in found for entry in section.entries]
    text = templates.get_template("page.html").render(
        title=title,
        first=next(iter(entries), None),
        tiles=[entry for entry in entries if entry.value][:MOST_TILES],
        unfinished=unfinished,
        sections=found,
        provenance=made_with,
        pictures=_save(path.parent, [part for entry in entries for part in entry.parts]),
        SVG_DASH=SVG_DASH,
        # `plotly` carries its JavaScript inside its wheel.
        plotly=Markup(get_plotlyjs()),
    )
    _save_table(path.parent / "tables" / "provenance.csv", made_with.table.frame)
    write_whole(path, text.encode())


def _save(directory: Path, parts: Sequence[Picture | Table]) -> dict[str, dict[str, Any]]:
    """Save figures and tables; the figures come back as the page draws them, by name.

    That is their charts for plotly, and a still picture for where there are no scripts.
    """
    figures, tables = directory / "figures", directory / "tables"
    for folder in (figures, tables):
        folder.mkdir(exist_ok=True)
    drawn: dict[str, dict[str, Any]] = {}
    for part in parts:
        frames = {part.name: part.frame} if isinstance(part, Table) else part.frames
        for name, frame in frames.items():
            _save_table(tables / f"{name}.csv", frame)
        if isinstance(part, Picture):
            still = print_charts.save(part.figure, figures).read_bytes()
            drawn[part.figure.name] = {
                "number": len(drawn) + 1,
                "drawings": [page_charts.drawing(chart) for chart in part.figure.charts],
                "still": base64.b64encode(still).decode(),
            }
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
