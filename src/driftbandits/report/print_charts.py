"""Charts by matplotlib, as PNG and SVG for papers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from driftbandits.report.charts import (
    CORNERS,
    Chart,
    EstimatePath,
    Figure,
    Line,
    nice_logarithmic_ticks,
)
from driftbandits.report.style import (
    FAINT,
    INK,
    MATPLOTLIB_DASH,
    MATPLOTLIB_MARKER,
    QUIET,
    Look,
)

WIDTH = 7.0  # inches: the text width of most papers
ENTRY = 0.17  # inches that an entry of a legend is high
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


def save(figure: Figure, directory: Path) -> tuple[Path, Path]:
    """Draw a figure; gives back its PNG and its SVG."""
    with mpl.rc_context(SETTINGS):
        canvas = draw(figure)
        png, svg = (directory / f"{figure.name}.{ending}" for ending in ("png", "svg"))
        canvas.savefig(png, metadata={"Software": None})
        canvas.set_layout_engine("none")  # what it found for the first file holds for the second
        canvas.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def draw(figure: Figure) -> Canvas:
    columns = min(figure.columns, len(figure.charts))
    rows = math.ceil(len(figure.charts) / columns)
    of_paths = isinstance(figure.charts[0], EstimatePath)
    height = WIDTH / columns + 0.1 if of_paths else 3.5 if columns == 1 else 2.5
    canvas = Canvas(figsize=(WIDTH, rows * height), layout="constrained")
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(rows, columns, squeeze=False, sharey="none" if of_paths else "row")
    for axes in grid.flat[len(figure.charts) :]:
        axes.set_visible(False)
    for axes, chart in zip(grid.flat, figure.charts, strict=False):
        if isinstance(chart, EstimatePath):
            draw_path(axes, chart)
        else:
            draw_chart(axes, chart, narrow=columns > 1)
        if columns == 1 and not of_paths:
            entries = _legend_beside(axes)
            canvas.set_figheight(max(canvas.get_figheight(), rows * (entries * ENTRY + 0.5)))
    if columns > 1 and not of_paths:
        handles, labels = grid.flat[0].get_legend_handles_labels()
        _legend_above(canvas, handles, labels)
    return canvas


def _legend_above(canvas: Canvas, handles: list[Any], labels: list[str]) -> None:
    """In as few rows as the width allows."""
    points = sum(34 + 5 * len(label) for label in labels)  # about what the entries take
    rows = math.ceil(points / (70 * WIDTH))
    columns = math.ceil(len(labels) / rows)
    canvas.legend(handles, labels, loc="outside upper left", ncols=columns, columnspacing=1.0)


def _legend_beside(axes: Axes) -> int:
    """In the order in which the curves end, so that the eye goes straight across; how many."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: -_height_at_end(handles[i]))
    axes.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
    )
    return len(labels)


def _height_at_end(handle: Any) -> float:
    line = handle[0] if isinstance(handle, tuple) else handle  # a tuple: a line with whiskers
    return float(line.get_ydata()[-1])


def draw_chart(axes: Axes, chart: Chart, *, narrow: bool) -> None:
    axes.set_title(chart.title)
    axes.set_xlabel(chart.x_title)
    axes.set_ylabel(chart.y_title)
    axes.grid(axis="both" if chart.logarithmic else "y")
    axes.set_axisbelow(True)
    for change in chart.changes:
        axes.axvline(change, color=QUIET, linewidth=0.9, dashes=(3, 3), zorder=1)
    for reference in chart.references:
        axes.plot(
            reference.x,
            reference.y,
            color=QUIET,
            linewidth=0.9,
            linestyle=":",
            label=reference.label or None,
        )
    for i, line in enumerate(chart.lines):
        draw_line(axes, line, whiskers=chart.logarithmic, first_marker=i / len(chart.lines))
    if chart.logarithmic:
        _logarithmic(axes, chart)
    else:
        end = max((float(line.x[-1]) for line in chart.lines if len(line.x)), default=1.0)
        axes.set_xlim(0, end)
        axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        if chart.y_range is not None:
            axes.set_ylim(chart.y_range)
        if not chart.share:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def draw_line(axes: Axes, line: Line, *, whiskers: bool, first_marker: float) -> None:
    """`first_marker` (0 to 1) shifts the markers, so that those of two lines do not coincide."""
    if not len(line.x):
        return
    style = marker_of(line.look)
    if whiskers:
        axes.errorbar(
            line.x,
            line.y,
            yerr=(line.y - line.low, line.high - line.y),
            color=line.look.colour,
            linestyle=MATPLOTLIB_DASH[line.look.dash],
            label=line.label,
            capsize=2,
            elinewidth=0.8,
            **style,
        )
        return
    axes.fill_between(line.x, line.low, line.high, color=line.look.colour, alpha=0.14, linewidth=0)
    step = max(1, len(line.x) // 8)
    axes.plot(
        line.x,
        line.y,
        color=line.look.colour,
        linestyle=MATPLOTLIB_DASH[line.look.dash],
        label=line.label,
        markevery=(int(first_marker * step), step),
        **style,
    )


def marker_of(look: Look) -> dict[str, Any]:
    is_open = look.marker.endswith("-open")
    return {
        "marker": MATPLOTLIB_MARKER[look.marker.removesuffix("-open")],
        "markersize": 4.5,
        "markerfacecolor": "white" if is_open else look.colour,
        "markeredgecolor": look.colour,
    }


def _logarithmic(axes: Axes, chart: Chart) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = sorted({float(x) for line in chart.lines for x in line.x})
    axes.set_xticks(ticks)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    assert chart.y_range is not None
    axes.set_yticks(nice_logarithmic_ticks(*chart.y_range))
    axes.set_ylim(chart.y_range)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def draw_path(axes: Axes, path: EstimatePath) -> None:
    axes.set_title(path.title)
    axes.set_aspect("equal")
    axes.set_xlim(-path.reach, path.reach)
    axes.set_ylim(-path.reach, path.reach)
    if path.reach < 2:
        axes.set_xticks([-1, 0, 1])
        axes.set_yticks([-1, 0, 1])
    axes.axhline(0, color=FAINT, linewidth=0.6, zorder=0)
    axes.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
    for estimate, target in zip(path.estimates, path.targets, strict=True):
        axes.plot(*zip(estimate, target, strict=True), color=QUIET, linewidth=0.7, linestyle=":")
    axes.plot(*path.targets.T, "^", color="white", markeredgecolor=INK, markersize=8)
    axes.plot(*path.estimates.T, color=path.look.colour, linewidth=1.0, **marker_of(path.look))
    for label, place, point in zip(path.labels, path.places, path.estimates, strict=True):
        right, up = CORNERS[place]
        axes.annotate(
            label,
            point,
            textcoords="offset points",
            xytext=(5 * right, 4 * up),
            ha="left" if right > 0 else "right",
            va="bottom" if up > 0 else "top",
            fontsize=7.5,
        )
