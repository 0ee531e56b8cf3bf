"""Descriptions of charts, which the page and print both draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from driftbandits.report.recordings import Recording
from driftbandits.report.style import Look, looks

Floats = NDArray[np.float64]

MOST_POINTS = 240
"""More points of a curve than this are not seen, and make the page heavy."""


class Line(NamedTuple):
    """A policy's curve; low and high are a band, or whiskers on logarithmic axes."""

    label: str
    look: Look
    x: Floats
    y: Floats
    low: Floats
    high: Floats


class Reference(NamedTuple):
    """A thin line to compare with; only one with a label is in the legend."""

    label: str
    x: Floats
    y: Floats


class Chart(NamedTuple):
    """Curves over rounds, or a growth on logarithmic axes."""

    y_title: str
    lines: Sequence[Line]
    title: str = ""
    x_title: str = "round"
    changes: Sequence[int] = ()
    references: Sequence[Reference] = ()
    logarithmic: bool = False
    share: bool = False  # y is a share of rounds
    y_range: tuple[float, float] | None = None

    @property
    def end(self) -> float:
        return max((float(line.x[-1]) for line in self.lines if len(line.x)), default=1.0)

    @property
    def ticks(self) -> tuple[list[float], list[float]]:
        """The points of a growth, and round numbers for its other axis."""
        round_numbers = [step * 10.0**power for power in range(-9, 10) for step in (1, 2, 5)]
        low, high = self.y_range or (0.0, np.inf)
        x_ticks = sorted({float(x) for line in self.lines for x in line.x})
        return x_ticks, [tick for tick in round_numbers if low <= tick <= high]


class Path(NamedTuple):
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


class Figure(NamedTuple):
    """Charts that belong together. `columns` is how many stand side by side where there is room."""

    name: str
    charts: Sequence[Chart | Path]
    columns: int = 1

    @property
    def of_paths(self) -> bool:
        return isinstance(self.charts[0], Path)


def lines(recording: Recording, curve: pl.DataFrame) -> list[Line]:
    """Curves of `statistics.over_time`, with at most MOST_POINTS of their points."""
    made = []
    for label, look in looks(recording.policies).items():
        mine = curve.filter(policy=label).drop_nulls().sort("round").cast({"round": pl.Float64})
        spread = np.linspace(0, mine.height - 1, min(mine.height, MOST_POINTS))
        kept = mine[np.unique(spread.round().astype(np.int64))]
        made.append(
            Line(label, look, *(kept[c].to_numpy() for c in ("round", "mean", "q05", "q95")))
        )
    return made


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
