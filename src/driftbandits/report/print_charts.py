"""Charts by matplotlib, as PNG and SVG for papers."""

from __future__ import annotations

import math
from pathlib import Path as File
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from driftbandits.report.charts import Chart, Figure, Line, Path
from driftbandits.report.style import (
    FAINT,
    INK,
    MATPLOTLIB_DASH,
    MATPLOTLIB_MARKER,
    QUIET,
    Look,
)

WIDTH = 7.0  # inches: the text width of most papers
SETTINGS: Any = {
    "font.size": 8.5,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.8,  # long enough for a dash pattern to be seen
    "lines.linewidth": 1.5,
    "savefig.dpi": 200,
    "svg.hashsalt": "driftbandits",  # the same results make the same file
    "text.color": INK,
    "xtick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.color": QUIET,
    "ytick.labelcolor": INK,
}
_THOUSANDS = FuncFormatter(lambda value, _: f"{value:,g}")
_DOTTED: Any = {"color": QUIET, "linewidth": 0.8, "linestyle": ":"}


def save(figure: Figure, directory: File) -> File:
    """Draw a figure as PNG and as SVG; the path of the PNG is returned."""
    with mpl.rc_context(SETTINGS):
        canvas = _draw(figure)
        png, svg = (directory / f"{figure.name}.{ending}" for ending in ("png", "svg"))
        canvas.savefig(png, metadata={"Software": None})
        canvas.set_layout_engine("none")  # what it found for the first file holds for the second
        canvas.savefig(svg, metadata={"Date": None, "Creator": None})
    return png


def _draw(figure: Figure) -> Canvas:
    columns = min(figure.columns, len(figure.charts))
    rows = math.ceil(len(figure.charts) / columns)
    height = WIDTH / columns + 0.1 if figure.of_paths else 3.5 if columns == 1 else 2.9
    canvas = Canvas(figsize=(WIDTH, rows * height), layout="constrained")
    grid = canvas.subplots(rows, columns, squeeze=False).flat
    for axes in grid[len(figure.charts) :]:
        axes.set_visible(False)
    for axes, chart in zip(grid, figure.charts, strict=False):
        if isinstance(chart, Path):
            _draw_path(axes, chart)
        else:
            _draw_chart(axes, chart, ticks=6 if columns == 1 else 4)
    if figure.of_paths:
        return canvas
    handles, labels = grid[0].get_legend_handles_labels()
    if columns > 1:
        canvas.legend(handles, labels, loc="outside upper left", ncols=3)
    else:  # in the order in which the curves end, so that the eye goes straight across
        order = sorted(range(len(labels)), key=lambda i: -_height_at_end(handles[i]))
        handles, labels = [handles[i] for i in order], [labels[i] for i in order]
        canvas.legend(handles, labels, loc="outside right upper")
    return canvas


def _height_at_end(handle: Any) -> float:
    line = handle[0] if isinstance(handle, tuple) else handle  # a tuple: a line with whiskers
    return float(line.get_ydata()[-1])


def _draw_chart(axes: Axes, chart: Chart, *, ticks: int) -> None:
    axes.set(title=chart.title, xlabel=chart.x_title, ylabel=chart.y_title)
    axes.grid(axis="both" if chart.logarithmic else "y")
    axes.set_axisbelow(True)
    for change in chart.changes:
        axes.axvline(change, color=QUIET, linewidth=0.9, dashes=(3, 3), zorder=1)
    for reference in chart.references:
        axes.plot(reference.x, reference.y, label=reference.label or None, **_DOTTED)
    for number, line in enumerate(chart.lines):
        how: Any = {
            "label": line.label,
            "linestyle": MATPLOTLIB_DASH[line.look.dash],
            **_drawn_as(line.look),
        }
        if chart.logarithmic:
            error = line.y - line.low, line.high - line.y
            axes.errorbar(line.x, line.y, yerr=error, capsize=2, elinewidth=0.8, **how)
        elif len(line.x):
            _draw_curve(axes, line, number / len(chart.lines), how)
    axes.xaxis.set_major_formatter(_THOUSANDS)
    if chart.logarithmic:
        x_ticks, y_ticks = chart.ticks
        axes.set(xscale="log", yscale="log", xticks=x_ticks, yticks=y_ticks)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(_THOUSANDS)
    else:
        axes.set_xlim(0, chart.end)
        axes.xaxis.set_major_locator(MaxNLocator(ticks, integer=True))
        if not chart.share:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(_THOUSANDS)
    if chart.y_range is not None:
        axes.set_ylim(chart.y_range)


def _draw_curve(axes: Axes, line: Line, shift: float, how: Any) -> None:
    """Draw a band and its line, whose markers are shifted: those of two lines do not coincide."""
    axes.fill_between(line.x, line.low, line.high, color=line.look.colour, alpha=0.14, linewidth=0)
    step = max(1, len(line.x) // 8)
    axes.plot(line.x, line.y, markevery=(int(shift * step), step), **how)


def _drawn_as(look: Look) -> dict[str, Any]:
    is_open = look.marker.endswith("-open")
    return {
        "color": look.colour,
        "marker": MATPLOTLIB_MARKER[look.marker.removesuffix("-open")],
        "markersize": 4.5,
        "markerfacecolor": "white" if is_open else look.colour,
        "markeredgecolor": look.colour,
    }


def _draw_path(axes: Axes, path: Path) -> None:
    span = (-path.reach, path.reach)
    axes.set(title=path.title, aspect="equal", xlim=span, ylim=span)
    if path.reach < 2:
        axes.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    for draw_axis in (axes.axhline, axes.axvline):
        draw_axis(0, color=FAINT, linewidth=0.6, zorder=0)
    for estimate, target in zip(path.estimates, path.targets, strict=True):
        axes.plot(*zip(estimate, target, strict=True), **_DOTTED)
    axes.plot(*path.targets.T, "^", color="white", markeredgecolor=INK, markersize=8)
    axes.plot(*path.estimates.T, linewidth=1.0, **_drawn_as(path.look))
    for label, point, (right, above) in zip(path.labels, path.estimates, path.corners, strict=True):
        axes.annotate(
            label,
            point,
            textcoords="offset points",
            xytext=(5 if right else -5, 4 if above else -4),
            ha="left" if right else "right",
            va="bottom" if above else "top",
            fontsize=7.5,
        )
