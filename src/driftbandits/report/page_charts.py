"""Charts as plotly's data, for the page. The script `page.js` draws them.

Plotly reads a little HTML in texts, so every text that comes from a spec is escaped here.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from driftbandits.report.charts import Chart, Floats, Line, Path
from driftbandits.report.style import FAINT, INK, QUIET, Look

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
_LAYOUT: Json = {
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "margin": {"l": 56, "r": 24, "t": 12, "b": 48},
    "hoverlabel": {"bgcolor": "white", "bordercolor": QUIET, "font": {"size": 12, "color": INK}},
    "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": QUIET, "activecolor": INK},
}
_DOTTED: Json = {
    "line": {"color": QUIET, "dash": "dot", "width": 1.2},
    "hoverinfo": "skip",
    "legendgroup": "reference",
}


def drawing(chart: Chart | Path) -> Json:
    """Return data and layout of a chart for plotly."""
    return _path(chart) if isinstance(chart, Path) else _chart(chart)


def rounded(values: Floats) -> list[float | None]:
    """Five digits are more than a screen shows, and make the page lighter."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]


def _chart(chart: Chart) -> Json:
    x_axis: Json = {**_AXIS, "title": {"text": escape(chart.x_title), "standoff": 8}}
    y_axis: Json = {**_AXIS, "automargin": True}
    if chart.y_range is not None:
        ends = np.log10(chart.y_range) if chart.logarithmic else np.array(chart.y_range)
        y_axis["range"] = rounded(ends)
    if chart.logarithmic:
        for axis, marks in zip((x_axis, y_axis), chart.ticks, strict=True):
            axis |= {"type": "log", "tickvals": marks, "ticktext": [f"{x:,g}" for x in marks]}
        curves = [_whiskers(line) for line in chart.lines]
    else:
        x_axis |= {"range": [0, chart.end], "tickformat": ",d", "showgrid": False}
        x_axis["unifiedhovertitle"] = {"text": "round %{x:,d}"}
        if not chart.share:
            y_axis |= {"rangemode": "tozero", "tickformat": ",d"}
        # The bands lie below all lines, so they come first.
        digits = ".3f" if chart.share else ",.1f"
        curves = [*map(_band, chart.lines), *(_curve(line, digits) for line in chart.lines)]
    curves += [
        _trace(one.x, one.y, one.label, **_DOTTED, showlegend=bool(one.label))
        for one in chart.references
    ]
    stroke = {"color": QUIET, "dash": "dash", "width": 1.1}
    return {
        "data": curves,
        "layout": {
            **_LAYOUT,
            "hovermode": "closest" if chart.logarithmic else "x unified",
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "itemwidth": 40},
            "shapes": [
                {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper"}
                | {"layer": "below", "line": stroke}
                for at in chart.changes
            ],
            "xaxis": x_axis,
            "yaxis": y_axis,
        },
    }


def _trace(x: Floats, y: Floats, name: str = "", **how: Any) -> Json:
    text = escape(name)
    points = {"x": rounded(x), "y": rounded(y)}
    return {"type": "scatter", "mode": "lines", **points, "name": text, "legendgroup": text, **how}


def _drawn_as(look: Look) -> Json:
    return {
        "mode": "lines+markers",
        "line": {"color": look.colour, "dash": look.dash, "width": 2.2},
        "marker": {"color": look.colour, "symbol": look.marker, "size": 8},
    }


def _band(line: Line) -> Json:
    """The area between the quantiles as one outline; it goes where its curve goes."""
    red, green, blue = (int(line.look.colour[i : i + 2], 16) for i in (1, 3, 5))
    return _trace(
        np.concatenate([line.x, line.x[::-1]]),
        np.concatenate([line.high, line.low[::-1]]),
        line.label,
        fill="toself",
        fillcolor=f"rgba({red},{green},{blue},0.13)",
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )


def _curve(line: Line, digits: str) -> Json:
    curve = _trace(line.x, line.y, line.label, **_drawn_as(line.look))
    curve["marker"]["maxdisplayed"] = 8
    curve["customdata"] = list(zip(rounded(line.low), rounded(line.high), strict=True))
    low, high = (f"%{{customdata[{i}]:{digits}}}" for i in (0, 1))
    return {**curve, "hovertemplate": f"%{{y:{digits}}} ({low} to {high})"}


def _whiskers(line: Line) -> Json:
    curve = _trace(line.x, line.y, line.label, **_drawn_as(line.look))
    curve["error_y"] = {"type": "data", "array": rounded(line.high - line.y), "width": 3}
    return {**curve, "hovertemplate": "%{x:,d}: %{y:,.1f}"}


def _path(path: Path) -> Json:
    span: Json = {
        **_AXIS,
        "range": [-path.reach, path.reach],
        "showgrid": False,
        "zeroline": True,
        "zerolinecolor": FAINT,
        "tickvals": [-1, 0, 1] if path.reach < 2 else None,
    }
    # From each estimate to the truth of its round; a gap after each.
    gap = np.full_like(path.estimates, np.nan)
    legs = np.stack([path.estimates, path.targets, gap], axis=1).reshape(-1, 2)
    outline = {"color": INK, "width": 1.3}
    truth = _trace(
        *path.targets.T,
        mode="markers",
        marker={"symbol": "triangle-up", "size": 14, "color": "white", "line": outline},
        hovertemplate="truth (%{x:.2f}, %{y:.2f})<extra></extra>",
    )
    estimates = _trace(*path.estimates.T, **_drawn_as(path.look)) | {
        "mode": "lines+markers+text",
        "line": {"color": path.look.colour, "width": 1.4},
        "text": list(path.labels),
        "textposition": [
            f"{'top' if above else 'bottom'} {'right' if right else 'left'}"
            for right, above in path.corners
        ],
        "textfont": {"size": 12},
        "customdata": list(path.rounds),
        "cliponaxis": False,
        "hovertemplate": "round %{customdata:,d} (%{x:.2f}, %{y:.2f})<extra></extra>",
    }
    return {
        "data": [_trace(*legs.T, **_DOTTED), truth, estimates],
        "layout": {
            **_LAYOUT,
            "margin": {"l": 30, "r": 8, "t": 8, "b": 28},
            "showlegend": False,
            "xaxis": span,
            "yaxis": {**span, "scaleanchor": "x"},
        },
    }
