"""The pieces of the page: numbers in words, tables, figures, and the file that holds them all."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path as FilePath
from string import Template
from typing import Any

import polars as pl

from driftbandits.report import prints, web
from driftbandits.report.charts import Chart, Figure, Path
from driftbandits.report.style import Look

Row = Mapping[str, Any]

_DASH_ARRAYS = {"solid": "", "dash": "6 3", "dot": "2 2", "dashdot": "7 3 2 3", "longdash": "10 4"}


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading and how a row's cell is written (as HTML)."""

    heading: str
    cell: Callable[[Row], str]
    kind: str = "number"  # or text, which is not broken, or prose, which is
    paint: Callable[[Row], str] = lambda row: ""  # a colour behind the cell


@dataclass(frozen=True)
class Section:
    """A part of the page that the table of contents names."""

    id: str
    title: str
    body: str


@dataclass
class Book:
    """Where figures and tables go: to files, and as HTML into the page. It counts the figures."""

    directory: FilePath
    figures: int = 0
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for folder in ("figures", "tables"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)

    def figure(self, figure: Figure, caption: str) -> str:
        """Save a figure for print, and give back its interactive twin. The caption is HTML."""
        self.figures += 1
        png, _ = prints.save(figure, self.directory / "figures")
        picture = base64.b64encode(png.read_bytes()).decode()
        charts = "\n".join(_chart(chart) for chart in figure.charts)
        shape = "path" if isinstance(figure.charts[0], Path) else "curves"
        columns = min(figure.columns, len(figure.charts))
        return f"""<figure id="{escape(figure.name)}">
<div class="charts {shape} columns-{columns}" style="--columns: {columns}">
{charts}
</div>
<img class="still" alt="Figure {self.figures} as a still picture"
src="data:image/png;base64,{picture}">
<figcaption><b>Figure {self.figures}.</b> {caption}
Files: <code>figures/{escape(figure.name)}.svg</code>, <code>.png</code>.</figcaption>
</figure>"""

    def table(
        self,
        name: str,
        frame: pl.DataFrame,
        columns: Sequence[Column],
        caption: str,
        *,
        style: str = "",
    ) -> str:
        """Save a data frame as CSV, and give back a table of it. The caption is HTML."""
        self.save(name, frame)
        head = "".join(f'<th class="{c.kind}" scope="col">{c.heading}</th>' for c in columns)
        body = []
        for row in frame.iter_rows(named=True):
            first, *rest = columns
            cells = "".join(_cell(column, row) for column in rest)
            heading = f'<th class="{first.kind}" scope="row">{first.cell(row)}</th>'
            body.append(f"<tr>{heading}{cells}</tr>")
        rows = "\n".join(body)
        key = f"table-{escape(name)}"
        # The caption stands outside the box, so that it does not scroll away with the columns.
        return f"""<div class="{f"numbers {style}".rstrip()}">
<p class="caption" id="{key}-caption">{caption} File: <code>tables/{escape(name)}.csv</code>.</p>
<div class="table" tabindex="0" role="region" aria-labelledby="{key}-caption">
<table id="{key}" aria-labelledby="{key}-caption">
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
</div>"""

    def save(self, name: str, frame: pl.DataFrame) -> None:
        """The numbers as CSV, in full precision; a list becomes one column for each entry."""
        for column, kind in frame.schema.items():
            if isinstance(kind, pl.List):
                longest = int(frame[column].list.len().max() or 0)  # type: ignore[arg-type]
                entries = [
                    pl.col(column).list.get(i, null_on_oob=True).alias(f"{column}_{i + 1}")
                    for i in range(longest)
                ]
                frame = frame.with_columns(entries).drop(column)
        frame.write_csv(self.directory / "tables" / f"{name}.csv")


def _cell(column: Column, row: Row) -> str:
    colour = column.paint(row)
    style = f' style="background: {colour}"' if colour else ""
    return f'<td class="{column.kind}"{style}>{column.cell(row)}</td>'


def _chart(chart: Chart | Path) -> str:
    heading = ""
    if chart.title:
        mark = swatch(chart.look) if isinstance(chart, Path) else ""
        heading = f"<h4>{mark}{escape(chart.title)}</h4>\n"
    axis = "" if isinstance(chart, Path) else f'<p class="axis">{escape(chart.y_title)}</p>\n'
    data = web.as_script(web.figure(chart))
    return f"""<div class="chart">
{heading}{axis}<script type="application/json">{data}</script>
</div>"""


def swatch(look: Look) -> str:
    """A stroke of a policy's line, to find it in a figure."""
    dashes = _DASH_ARRAYS[look.dash]
    pattern = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        '<svg class="swatch" width="26" height="10" aria-hidden="true">'
        f'<line x1="0" y1="5" x2="26" y2="5" stroke="{look.colour}" stroke-width="2.5"{pattern}/>'
        "</svg>"
    )


def policy_column(look: Mapping[str, Look]) -> Column:
    def cell(row: Row) -> str:
        label = str(row["policy"])
        return (swatch(look[label]) if label in look else "") + escape(label)

    return Column("policy", cell, "text")


def plain(key: str, heading: str, form: str = ",.1f") -> Column:
    """A number in a given form; a dash where there is none."""
    return Column(heading, lambda row: number(row[key], form))


def number(value: float | None, form: str = ",.1f") -> str:
    """Written as the form says, a percent sign set off by a space that does not break."""
    if value is None or not math.isfinite(value):
        return "–"
    return format(value, form).replace("%", "\N{NO-BREAK SPACE}%")


def named(label: str) -> str:
    """A policy in a sentence: SW-GLUCB is not broken at its hyphen, a longer label may be."""
    short = len(label) < 24 and " " not in label
    return f'<span class="policy">{escape(label)}</span>' if short else escape(label)


def plus_minus(mean: float, se: float) -> str:
    r"""A mean with as many digits as its standard error supports, not to be broken.

    >>> plus_minus(298.83, 0.72), plus_minus(918.2, 8.4), plus_minus(0.7213, 0.0012)
    ('298.8\xa0±\xa00.7', '918\xa0±\xa08', '0.7213\xa0±\xa00.0012')
    """
    if not math.isfinite(se) or se <= 0:
        return number(mean, ",.4g")
    power = math.floor(math.log10(se))
    digits = max(0, -power + (1 if se < 2 * 10.0**power else 0))
    return f"{mean:,.{digits}f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{se:,.{digits}f}"


def joined(words: Sequence[str]) -> str:
    """One, two and three, as a list in a sentence."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def write_page(
    path: FilePath, *, title: str, lead: str, sections: Sequence[Section], footer: str
) -> None:
    """Put everything into one file that needs no network."""
    # `plotly` carries its JavaScript inside its wheel.
    from plotly.offline import get_plotlyjs

    links = [(section.id, section.title) for section in sections] + [("provenance", "Provenance")]
    text = Template(_part("page.html")).substitute(
        title=escape(title),
        style=_part("page.css"),
        lead=lead,
        contents="\n".join(f'<li><a href="#{i}">{escape(name)}</a></li>' for i, name in links),
        sections="\n".join(
            f'<section id="{s.id}">\n<h2>{escape(s.title)}</h2>\n{s.body}\n</section>'
            for s in sections
        ),
        footer=footer,
        plotly=get_plotlyjs(),
        script=_part("page.js"),
    )
    path.write_text(text, encoding="utf-8")


def _part(name: str) -> str:
    return resources.files("driftbandits.report").joinpath(name).read_text(encoding="utf-8")
