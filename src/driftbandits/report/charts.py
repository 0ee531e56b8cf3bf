"""What each chart shows, said once for the page and for print."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from driftbandits.report.recordings import FORGETTING, Recording, bonus_words, policy_kind
from driftbandits.report.statistics import half_width
from driftbandits.report.style import Look, looks, panels

Floats = NDArray[np.float64]

MOST_POINTS = 240
"""More points of a curve than this are not seen, and make the page heavy."""


@dataclass(frozen=True)
class Line:
    """A policy's curve; low and high are a band, or whiskers where the points are few."""

    label: str
    look: Look
    x: Floats
    y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Reference:
    """A thin line to compare with, without a policy; only one with a label is in the legend."""

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


@dataclass(frozen=True)
class EstimatePath:
    """Where one policy's estimate was, round by round, and where the truth was."""

    title: str
    look: Look
    estimates: Floats  # (n, 2)
    labels: Sequence[str]  # (n,) of the rounds; empty where a neighbour speaks for several
    places: Sequence[str]  # (n,) the corner of the point at which its label stands
    rounds: Sequence[int]
    targets: Floats  # (n, 2) the truth in the same rounds
    reach: float  # half of the width of the picture


@dataclass(frozen=True)
class Figure:
    """Charts that belong together. `columns` is how many stand side by side where there is room."""

    name: str
    charts: Sequence[Chart | EstimatePath]
    columns: int = 1


def lines(recording: Recording, curve: pl.DataFrame, labels: Iterable[str]) -> list[Line]:
    """Curves of `statistics.over_time`."""
    look = looks(recording.policies)
    made = []
    for label in labels:
        mine = curve.filter(pl.col("policy") == label).drop_nulls().sort("round")
        keep = thinned(mine.height)
        x, y, low, high = (
            mine[name].cast(pl.Float64).to_numpy()[keep] for name in ("round", "mean", "q05", "q95")
        )
        made.append(Line(label, look[label], x, y, low, high))
    return made


def thinned(count: int) -> NDArray[np.int64]:
    """Indices of at most MOST_POINTS of `count` points, the first and the last among them."""
    if count <= MOST_POINTS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(np.int64))


def regret_charts(recording: Recording, curve: pl.DataFrame) -> list[Chart]:
    """One chart, or one for each bonus where there are many policies."""
    known = bool(recording.facts.get("means_known"))
    made = [
        Chart(
            title="" if scale is None else bonus_words(scale),
            x_title="round",
            y_title="cumulative dynamic regret" if known else "cumulative realised regret",
            lines=lines(recording, curve, panel),
            changes=recording.changes,
        )
        for scale, panel in panels(recording.policies).items()
    ]
    return made if len(made) == 1 else on_one_scale(made)


def share_chart(recording: Recording, curve: pl.DataFrame, title: str) -> Chart:
    half = Reference("", np.array([1.0, recording.horizon]), np.array([0.5, 0.5]))
    return Chart(
        title=title,
        x_title="round",
        y_title="share of positives found",
        lines=lines(recording, curve, recording.policies),
        changes=recording.changes,
        references=[half],
        share=True,
    )


def on_one_scale(shown: Sequence[Chart]) -> list[Chart]:
    """The same charts with the y axis that fits them all, so that they compare at a glance.

    A regret starts at 0. A share of few rounds may be anything, so the first rounds have no say.
    """
    ends = []
    for line in (line for chart in shown for line in chart.lines):
        late = line.x >= 0.03 * line.x[-1]
        ends += [line.low[late], line.high[late]]
    low, high = min(float(end.min()) for end in ends), max(float(end.max()) for end in ends)
    room = 0.05 * (high - low)
    return [
        replace(chart, y_range=(low - room if chart.share else 0.0, high + room)) for chart in shown
    ]


def growth_chart(
    recording: Recording, points: pl.DataFrame, *, by: str, x_title: str, power: float, rate: str
) -> Chart:
    """Mean final regret against the horizon or the number of changes.

    `recording` lends the looks.
    """
    look = looks(recording.policies)
    drawn: list[Line] = []
    references: list[Reference] = []
    for label, policy in recording.policies.items():
        group = points.filter(pl.col("policy") == label)
        x, y, se = (group[name].cast(pl.Float64).to_numpy() for name in (by, "mean", "se"))
        half = half_width(se, group["runs"].to_numpy())
        drawn.append(Line(label, look[label], x, y, y - half, y + half))
        if policy_kind(policy) in FORGETTING:
            name = "" if references else rate
            references.append(Reference(name, x, y[0] * (x / x[0]) ** power))
    return Chart(
        title="",
        x_title=x_title,
        y_title="mean final regret",
        lines=drawn,
        references=references,
        logarithmic=True,
        y_range=_logarithmic_range(drawn, references),
    )


def _logarithmic_range(
    drawn: Sequence[Line], references: Sequence[Reference]
) -> tuple[float, float]:
    """Room for all points, and for whiskers as far as to half and twice of theirs.

    Few runs have whiskers that would make the rest of the chart too small to read.
    """
    points = [line.y for line in drawn] + [reference.y for reference in references]
    low = [np.maximum(line.low, line.y / 2) for line in drawn]
    high = [np.minimum(line.high, line.y * 2) for line in drawn]
    heights = np.concatenate([*points, *low, *high])
    return float(np.nanmin(heights)) / 1.1, float(np.nanmax(heights)) * 1.1


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


def paths(recording: Recording, means: pl.DataFrame) -> list[EstimatePath]:
    """One picture a policy of the first two coordinates of theta-hat; none without a truth in 2-D.

    All pictures of a recording have the same scale.
    """
    truth = recording.true_theta
    if truth is None or truth.shape[1] != 2 or means.height == 0:
        return []
    look = looks(recording.policies)
    corners = [*(hat[:2] for hat in means["theta_hat"].to_list()), *truth[means["round"] - 1]]
    reach = 1.35 * float(np.abs(np.array(corners)).max())
    made = []
    for label in recording.policies:
        mine = means.filter(pl.col("policy") == label)
        rounds = mine["round"].to_list()
        estimates = np.array([hat[:2] for hat in mine["theta_hat"].to_list()])
        targets = truth[np.array(rounds) - 1]
        labels = round_labels(rounds, estimates, near=0.14 * reach)
        places = label_places(labels, estimates, targets, reach)
        made.append(
            EstimatePath(label, look[label], estimates, labels, places, rounds, targets, reach)
        )
    return made


def round_labels(rounds: Sequence[int], points: Floats, *, near: float) -> list[str]:
    """A label for every point; points close to an earlier one share its label, not to overlap."""
    members: dict[int, list[int]] = {}
    for i, point in enumerate(points):
        first = next((k for k in members if np.linalg.norm(point - points[k]) < near), i)
        members.setdefault(first, []).append(i)
    labels = [""] * len(rounds)
    for first, group in members.items():
        labels[first] = _joined([rounds[i] for i in group])
    return labels


CORNERS = {
    "top right": (1.0, 1.0),
    "bottom right": (1.0, -1.0),
    "top left": (-1.0, 1.0),
    "bottom left": (-1.0, -1.0),
}


def label_places(labels: Sequence[str], points: Floats, targets: Floats, reach: float) -> list[str]:
    """For each label the corner of its point with most room to other points, paths and labels."""
    along = np.linspace(0.0, 1.0, 9)[:, None]
    legs = [a + along * (b - a) for a, b in itertools.pairwise(points)]
    legs += [a + along * (b - a) for a, b in zip(points, targets, strict=True)]
    taken = np.concatenate([points, targets, *legs])
    places = []
    for label, point in zip(labels, points, strict=True):
        # about where the middle of the text comes to stand
        away = reach * np.array([0.06 + 0.04 * len(label), 0.11])
        room = {}
        for corner, direction in CORNERS.items():
            middle = point + away * direction
            end = abs(middle[0]) + away[0] - 0.06 * reach
            inside = bool(max(end, abs(middle[1])) < reach)
            nearest = np.abs((taken - middle) / away).max(axis=1).min()
            room[corner] = (inside, float(nearest))
        best = max(room, key=lambda corner: room[corner])
        places.append(best)
        if label:
            taken = np.concatenate([taken, [point + away * CORNERS[best]]])
    return places


def _joined(rounds: Sequence[int]) -> str:
    """1k, or 4k–6k for neighbours in a row, or 1k, 3k."""
    words = [f"{t // 1000}k" if t % 1000 == 0 else str(t) for t in rounds]
    steps = set(np.diff(rounds))
    if len(words) > 2 and len(steps) == 1:
        return f"{words[0]}–{words[-1]}"
    return ", ".join(words)
