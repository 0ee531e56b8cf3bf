"""Templates filled with what the sections found: one HTML text that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from driftbandits.report import formats, tables

DASHES = {"solid": "", "dash": "6 3", "dot": "2 2", "dashdot": "7 3 2 3", "longdash": "10 4"}
"""The dashes of a look, for SVG."""


@dataclass(frozen=True)
class Section:
    """A part of the page that the table of contents names; its template reads its content."""

    id: str
    title: str
    content: Any

    @property
    def template(self) -> str:
        return f"{self.id.replace('-', '_')}.html"


def rendered(*, title: str, overview: Any, sections: Sequence[Section], provenance: Any) -> str:
    # `plotly` carries its JavaScript inside its wheel.
    from plotly.offline import get_plotlyjs

    template = environment().get_template("page.html")
    return template.render(
        title=title,
        overview=overview,
        sections=sections,
        provenance=provenance,
        plotly=Markup(get_plotlyjs()),
    )


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("driftbandits.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=formats.number,
        whole=formats.whole,
        joined=formats.joined,
        rounds=formats.rounds,
        with_error=lambda estimate: formats.plus_minus(estimate.mean, estimate.se),
    )
    made.globals.update(
        DASHES=DASHES,
        Column=tables.Column,
        text_column=tables.text_column,
        prose_column=tables.prose_column,
        number_column=tables.number_column,
        mean_column=tables.mean_column,
        ratio_column=tables.ratio_column,
        counted=formats.counted,
        plus_minus=formats.plus_minus,
        next_figure=count(1).__next__,
    )
    made.policies["json.dumps_kwargs"] = {
        "separators": (",", ":"),
        "allow_nan": False,
        "ensure_ascii": False,
    }
    return made
