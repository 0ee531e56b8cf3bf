"""Descriptions of charts, which the page and print both draw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from driftbandits.report.recordings import Recording
from driftbandits.report.style import Look, looks

Floats = NDArray[np.float64]

MOST_POINTS = 240
"""More points of a curve than this are not seen, and make the page heavy."""


@dataclass(frozen=True)
class Line:
    """A policy's curve; low and high are a band, or whiskers on logarithmic axes."""

    label: str
    look: Look
    x: Floats
    y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Reference:
    """A thin line to compare with; only one with a label is in the legend."""

    label: str
    x: Floats
    y: Floats


@dataclass(frozen=True)
class Chart:
    """Curves over rounds, or a growth on logarithmic axes."""

    title: str
    x_title: str
    y_title: str
    lines: Sequence[Line]
    changes: Sequence[int] = ()
    references: Sequence[Reference] = ()
    logarithmic: bool = False
    share: bool = False  # y is a share of rounds
    y_range: tuple[float, float] | None = None

    @property
    def end(self) -> float:
        return max((float(line.x[-1]) for line in self.lines if len(line.x)), default=1.0)

    @property
    def x_ticks(self) -> list[float]:
        """The points of a growth."""
        return sorted({float(x) for line in self.lines for x in line.x})

    @property
    def y_ticks(self) -> list[float]:
        """Round numbers of a logarithmic axis."""
        assert self.y_range is not None
        return nice_logarithmic_ticks(*self.y_range)


@dataclass(frozen=True)
class Path:
    """Where one policy's estimate was, round by round, and where the truth was."""

    title: str
    look: Look
    estimates: Floats  # (n, 2)
    targets: Floats  # (n, 2) the truth in the same rounds
    rounds: Sequence[int]
    labels: Sequence[str]  # (n,) of the rounds; empty where a neighbour speaks for several
    reach: float  # half of the width of the picture

    @property
    def corners(self) -> list[tuple[bool, bool]]:
        """Place each label off the truth: to the right of its point or not, above it or not."""
        away = self.estimates - self.targets
        inside = np.abs(self.estimates[:, 0]) < 0.6 * self.reach
        right = np.where(inside, away[:, 0] >= 0, self.estimates[:, 0] < 0)
        return list(zip(right.tolist(), (away[:, 1] >= 0).tolist(), strict=True))


@dataclass(frozen=True)
class Figure:
    """Charts that belong together. `columns` is how many stand side by side where there is room."""

    name: str
    charts: Sequence[Chart | Path]
    columns: int = 1

    @property
    def of_paths(self) -> bool:
        return isinstance(self.charts[0], Path)


def lines(recording: Recording, curve: pl.DataFrame) -> list[Line]:
    """Curves of `statistics.over_time`."""
    made = []
    for label, look in looks(recording.policies).items():
        mine = curve.filter(pl.col("policy") == label).drop_nulls().sort("round")
        keep = thinned(mine.height)
        x, y, low, high = (
            mine[name].cast(pl.Float64).to_numpy()[keep] for name in ("round", "mean", "q05", "q95")
        )
        made.append(Line(label, look, x, y, low, high))
    return made


def thinned(count: int) -> NDArray[np.int64]:
    """Indices of at most MOST_POINTS of `count` points, the first and the last among them."""
    if count <= MOST_POINTS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(np.int64))


def regret_chart(recording: Recording, curve: pl.DataFrame) -> Chart:
    known = bool(recording.spec["world"]["means_known"])
    return Chart(
        title="",
        x_title="round",
        y_title="cumulative dynamic regret" if known else "cumulative realised regret",
        lines=lines(recording, curve),
        changes=recording.changes,
    )


def share_charts(recording: Recording, curves: Mapping[str, pl.DataFrame]) -> list[Chart]:
    """One chart for each title, with the y axis that fits them all.

    A share of few rounds may be anything, so the first rounds have no say in that.
    """
    drawn = {title: lines(recording, curve) for title, curve in curves.items()}
    late = [
        end[line.x >= 0.03 * recording.horizon]
        for line in (line for group in drawn.values() for line in group)
        for end in (line.low, line.high)
    ]
    low, high = float(np.concatenate(late).min()), float(np.concatenate(late).max())
    room = 0.05 * (high - low)
    half = Reference("", np.array([1.0, recording.horizon]), np.array([0.5, 0.5]))
    return [
        Chart(
            title=title,
            x_title="round",
            y_title="share of positives found",
            lines=group,
            changes=recording.changes,
            references=[half],
            share=True,
            y_range=(low - room, high + room),
        )
        for title, group in drawn.items()
    ]


def growth_chart(
    recording: Recording,
    points: pl.DataFrame,
    *,
    by: str,
    x_title: str,
    power: float,
    rate: str,
    forgetting: Iterable[str],
) -> Chart:
    """Mean final regret against the horizon or the number of changes.

    The whiskers are two standard errors. Policies that forget have a line with the rate of the
    theory through their first point.
    """
    drawn: list[Line] = []
    references: list[Reference] = []
    for label, look in looks(recording.policies).items():
        group = points.filter(pl.col("policy") == label)
        x, y, se = (group[name].cast(pl.Float64).to_numpy() for name in (by, "mean", "se"))
        drawn.append(Line(label, look, x, y, y - 2.0 * se, y + 2.0 * se))
        if label in forgetting and len(x):
            name = "" if references else rate
            references.append(Reference(name, x, y[0] * (x / x[0]) ** power))
    # Few runs have whiskers that would make the rest of the chart too small to read.
    heights = np.concatenate(
        [reference.y for reference in references]
        + [end for line in drawn for end in (np.fmax(line.low, line.y / 2), line.y)]
        + [np.fmin(line.high, line.y * 2) for line in drawn]
    )
    return Chart(
        title="",
        x_title=x_title,
        y_title="mean final regret",
        lines=drawn,
        references=references,
        logarithmic=True,
        y_range=(float(np.nanmin(heights)) / 1.1, float(np.nanmax(heights)) * 1.1),
    )


def nice_logarithmic_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from just below `low` to just above `high`.

    >>> nice_logarithmic_ticks(130, 900)
    [100.0, 200.0, 500.0, 1000.0]
    """
    candidates = [
        step * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for step in (1, 2, 5)
    ]
    first = max((tick for tick in candidates if tick <= low), default=candidates[0])
    last = min((tick for tick in candidates if tick >= high), default=candidates[-1])
    return [tick for tick in candidates if first <= tick <= last]


def paths(recording: Recording, means: pl.DataFrame) -> list[Path]:
    """One picture a policy of the first two coordinates of theta-hat; none without a truth in 2-D.

    All pictures of a recording have the same scale.
    """
    truth = recording.true_theta
    known = means.filter(pl.col("distance").is_not_nan())
    if truth is None or truth.shape[1] != 2 or known.height == 0:
        return []
    estimates = {
        label: np.array([hat[:2] for hat in known.filter(policy=label)["theta_hat"].to_list()])
        for label in recording.policies
        if label in known["policy"]
    }
    reach = 1.35 * float(np.abs(np.concatenate([truth, *estimates.values()])).max())
    look = looks(recording.policies)
    made = []
    for label, points in estimates.items():
        rounds = known.filter(policy=label)["round"].to_list()
        labels = round_labels(rounds, points, near=0.25 * reach)
        targets = truth[np.array(rounds) - 1]
        made.append(Path(label, look[label], points, targets, rounds, labels, reach))
    return made


def round_labels(rounds: Sequence[int], points: Floats, *, near: float) -> list[str]:
    """A label for every point; points close to an earlier one share its label, not to overlap."""
    members: dict[int, list[int]] = {}
    for i, point in enumerate(points):
        first = next((k for k in members if np.linalg.norm(point - points[k]) < near), i)
        members.setdefault(first, []).append(rounds[i])
    labels = [""] * len(rounds)
    for first, group in members.items():
        words = [f"{t // 1000}k" if t % 1000 == 0 else str(t) for t in group]
        in_a_row = len(group) > 2 and len(set(np.diff(group))) == 1
        labels[first] = f"{words[0]}–{words[-1]}" if in_a_row else ", ".join(words)
    return labels
