"""Charts as plotly's data, for the page. The script `page.js` draws them.

Plotly reads a little HTML in texts, so every text that comes from a spec is escaped here.
"""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

import numpy as np

from driftbandits.report.charts import (
    Chart,
    EstimatePath,
    Floats,
    Line,
    Reference,
    nice_logarithmic_ticks,
)
from driftbandits.report.style import FAINT, INK, QUIET, Look, translucent

Json = dict[str, Any]

_AXIS: Json = {
    "gridcolor": "#ecebe8",
    "linecolor": QUIET,
    "showline": True,
    "ticks": "outside",
    "tickcolor": QUIET,
    "ticklen": 4,
    "zeroline": False,
}


class PageChart(NamedTuple):
    """A chart of the page."""

    title: str
    axis: str  # of y; it stands above the chart, where it is read without turning the head
    look: Look | None  # of the only policy, where there is one
    drawing: Json  # what plotly needs: data and layout


def page_chart(chart: Chart | EstimatePath) -> PageChart:
    if isinstance(chart, EstimatePath):
        return PageChart(chart.title, "", chart.look, _path_drawing(chart))
    return PageChart(chart.title, chart.y_title, None, _chart_drawing(chart))


def rounded(values: Floats) -> list[float | None]:
    """Five digits are more than a screen shows, and make the page lighter."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]


def _layout(x_axis: Json, y_axis: Json) -> Json:
    return {
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 24, "t": 12, "b": 48},
        "hoverlabel": {
            "bgcolor": "white",
            "bordercolor": QUIET,
            "font": {"size": 12, "color": INK},
        },
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": QUIET, "activecolor": INK},
        "xaxis": {**_AXIS, **x_axis},
        "yaxis": {**_AXIS, "automargin": True, **y_axis},
    }


def _chart_drawing(chart: Chart) -> Json:
    own = _growth_drawing(chart) if chart.logarithmic else _curves_drawing(chart)
    layout = own["layout"]
    layout["xaxis"]["title"] = {"text": escape(chart.x_title), "standoff": 8}
    layout["legend"] = {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1.02,
        "yanchor": "bottom",
        "itemwidth": 40,
    }
    layout["shapes"] = [_change(at) for at in chart.changes]
    own["data"] += [_reference(reference) for reference in chart.references]
    return own


def _curves_drawing(chart: Chart) -> Json:
    digits = ".3f" if chart.share else ",.1f"
    ends = [float(line.x[-1]) for line in chart.lines if len(line.x)]
    x_axis: Json = {
        "range": [0, max(ends, default=1.0)],
        "tickformat": ",d",
        "showgrid": False,
        "unifiedhovertitle": {"text": "round %{x:,d}"},
    }
    y_axis: Json = {} if chart.share else {"rangemode": "tozero", "tickformat": ",d"}
    if chart.y_range is not None:
        y_axis["range"] = rounded(np.array(chart.y_range))
    # The bands lie below all lines, so they come first.
    curves = [_curve(line, digits) for line in chart.lines]
    return {
        "data": [*map(_band, chart.lines), *curves],
        "layout": {**_layout(x_axis, y_axis), "hovermode": "x unified"},
    }


def _growth_drawing(chart: Chart) -> Json:
    ticks = sorted({float(x) for line in chart.lines for x in line.x})
    x_axis: Json = {"type": "log", "tickvals": ticks, "ticktext": [f"{x:,.0f}" for x in ticks]}
    heights = np.array(chart.y_range)
    marks = nice_logarithmic_ticks(*heights)
    y_axis: Json = {
        "type": "log",
        "range": rounded(np.log10(heights)),
        "tickvals": marks,
        "ticktext": [f"{mark:,g}" for mark in marks],
    }
    return {
        "data": [_whiskers(line) for line in chart.lines],
        "layout": {**_layout(x_axis, y_axis), "hovermode": "closest"},
    }


def _band(line: Line) -> Json:
    """The area between the quantiles as one outline; it goes where its curve goes."""
    x = np.concatenate([line.x, line.x[::-1]])
    y = np.concatenate([line.high, line.low[::-1]])
    return {
        "type": "scatter",
        "mode": "lines",
        "x": rounded(x),
        "y": rounded(y),
        "fill": "toself",
        "fillcolor": translucent(line.look.colour, 0.13),
        "line": {"width": 0},
        "hoverinfo": "skip",
        "legendgroup": escape(line.label),
        "name": escape(line.label),
        "showlegend": False,
    }


def _curve(line: Line, digits: str) -> Json:
    name = escape(line.label)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": rounded(line.x),
        "y": rounded(line.y),
        "customdata": list(zip(rounded(line.low), rounded(line.high), strict=True)),
        "line": {"color": line.look.colour, "dash": line.look.dash, "width": 2.2},
        "marker": {
            "color": line.look.colour,
            "symbol": line.look.marker,
            "size": 8,
            "maxdisplayed": 8,
        },
        "legendgroup": name,
        "name": name,
        "hovertemplate": f"%{{y:{digits}}} "
        f"(%{{customdata[0]:{digits}}} to %{{customdata[1]:{digits}}})",
    }


def _whiskers(line: Line) -> Json:
    name = escape(line.label)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": rounded(line.x),
        "y": rounded(line.y),
        "error_y": {"type": "data", "array": rounded(line.high - line.y), "width": 3},
        "line": {"color": line.look.colour, "dash": line.look.dash, "width": 2.2},
        "marker": {"color": line.look.colour, "symbol": line.look.marker, "size": 8},
        "legendgroup": name,
        "name": name,
        "hovertemplate": "%{x:,d}: %{y:,.1f}",
    }


def _reference(reference: Reference) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": rounded(reference.x),
        "y": rounded(reference.y),
        "line": {"color": QUIET, "dash": "dot", "width": 1.4},
        "hoverinfo": "skip",
        "legendgroup": "reference",
        "name": escape(reference.label),
        "showlegend": bool(reference.label),
    }


def _change(at: int) -> Json:
    return {
        "type": "line",
        "x0": at,
        "x1": at,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "layer": "below",
        "line": {"color": QUIET, "dash": "dash", "width": 1.1},
    }


def _path_drawing(path: EstimatePath) -> Json:
    span: Json = {
        "range": [-path.reach, path.reach],
        "showgrid": False,
        "zeroline": True,
        "zerolinecolor": FAINT,
        "tickvals": [-1, 0, 1] if path.reach < 2 else None,
    }
    layout = _layout(dict(span), {**span, "scaleanchor": "x"})
    layout["margin"] = {"l": 30, "r": 8, "t": 8, "b": 28}
    layout["showlegend"] = False
    return {"data": [_links(path), _truth(path), _estimates(path)], "layout": layout}


def _links(path: EstimatePath) -> Json:
    """From each estimate to the truth of its round; a gap after each."""
    gap = np.full(len(path.estimates), np.nan)
    x, y = (
        np.stack([path.estimates[:, i], path.targets[:, i], gap], axis=1).ravel() for i in (0, 1)
    )
    return {
        "type": "scatter",
        "mode": "lines",
        "x": rounded(x),
        "y": rounded(y),
        "line": {"color": QUIET, "dash": "dot", "width": 1},
        "hoverinfo": "skip",
    }


def _truth(path: EstimatePath) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": rounded(path.targets[:, 0]),
        "y": rounded(path.targets[:, 1]),
        "marker": {
            "symbol": "triangle-up",
            "size": 14,
            "color": "white",
            "line": {"color": INK, "width": 1.3},
        },
        "hovertemplate": "truth (%{x:.2f}, %{y:.2f})<extra></extra>",
    }


def _estimates(path: EstimatePath) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "x": rounded(path.estimates[:, 0]),
        "y": rounded(path.estimates[:, 1]),
        "text": list(path.labels),
        "textposition": list(path.places),
        "textfont": {"size": 12},
        "customdata": list(path.rounds),
        "cliponaxis": False,
        "line": {"color": path.look.colour, "width": 1.4},
        "marker": {"color": path.look.colour, "symbol": path.look.marker, "size": 9},
        "hovertemplate": "round %{customdata:,d} (%{x:.2f}, %{y:.2f})<extra></extra>",
    }
