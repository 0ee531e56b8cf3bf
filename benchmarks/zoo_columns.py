"""What people do to the columns of a table, and numbers that make no sense.

`benchmarks/zoo.py` plays real tables with all of it and `tests/zoo_cases.py` small ones. The rows
come in the order in which they are played. A preparation is `(rows, rng) -> rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Preparation = Callable[[Floats, np.random.Generator], Floats]

MOST_INDICATORS = 100
LEVEL_SHARES = (0.005, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 0.995)
"""Quantiles between the levels of a number: the outermost levels are rare."""


def standardised(rows: Floats, rng: np.random.Generator) -> Floats:
    """Subtract the mean of the whole table and divide by its deviation."""
    deviations = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(deviations > 0.0, deviations, 1.0)


def standardised_online(rows: Floats, rng: np.random.Generator) -> Floats:
    """Standardise each row by the rows before it, as a running scaler does, and clip at 4."""
    n, d = rows.shape
    mean, squares = np.zeros(d), np.zeros(d)
    scaled = np.zeros((n, d))
    for t, row in enumerate(rows):
        if t:
            scaled[t] = (row - mean) / np.sqrt(squares / t + 1e-6)
        step = row - mean
        mean = mean + step / (t + 1)
        squares += step * (row - mean)
    return np.clip(scaled, -4.0, 4.0)


def min_max(rows: Floats, rng: np.random.Generator) -> Floats:
    """Map every column to [0, 1]."""
    ranges = np.ptp(rows, axis=0)
    return (rows - rows.min(axis=0)) / np.where(ranges > 0.0, ranges, 1.0)


def components(rows: Floats) -> tuple[Floats, Floats]:
    """Principal components of the standardised columns, and their deviations."""
    scaled = standardised(rows, np.random.default_rng())
    _, singular, axes = np.linalg.svd(scaled, full_matrices=False)
    kept = singular > 1e-6 * singular[0]
    return scaled @ axes[kept].T, singular[kept] / np.sqrt(len(rows))


def whitened(rows: Floats, rng: np.random.Generator) -> Floats:
    """Divide every principal component by its deviation."""
    scores, deviations = components(rows)
    return scores / deviations


def mixed(rows: Floats, rng: np.random.Generator) -> Floats:
    """Apply a random invertible map of condition 100 to the standardised columns, and a shift."""
    d = rows.shape[1]
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    scales = np.geomspace(0.1, 10.0, d)
    return standardised(rows, rng) @ (left * scales) @ right + rng.normal(0.0, 100.0, size=d)


def levels(rows: Floats, *, redundant: bool) -> Floats:
    """Indicators of quantile bins, of the columns with most information if there are many."""
    cuts = [np.unique(np.quantile(column, LEVEL_SHARES)) for column in rows.T]
    bins = [np.searchsorted(cut, column) for cut, column in zip(cuts, rows.T, strict=True)]
    shares = [np.bincount(b) / len(rows) for b in bins]
    entropies = [-np.sum(p[p > 0.0] * np.log(p[p > 0.0])) for p in shares]
    blocks: list[Floats] = []
    for j in np.argsort(entropies)[::-1]:
        present = np.unique(bins[j])
        block = (bins[j][:, None] == present[0 if redundant else 1 :]).astype(np.float64)
        if sum(b.shape[1] for b in blocks) + len(present) <= MOST_INDICATORS:
            blocks.append(block)
    return np.hstack(blocks)


CONSTANTS = np.array([0.0, 1.0, -1.0, 0.001, 7.0, 30.0, 365.0, -5e3, 1e6, 1.0])

PREPARATIONS: Mapping[str, Preparation] = {
    "raw": lambda rows, rng: rows,
    "std": standardised,
    "std-online": standardised_online,
    "min-max": min_max,
    "whitened": whitened,
    "components+30": lambda rows, rng: components(rows)[0] + 30.0,
    "mixed": mixed,
    "far": lambda rows, rng: standardised(rows, rng) + 1e6,
    "twice": lambda rows, rng: np.hstack([rows, rows]),
    "constants": lambda rows, rng: np.hstack([rows, np.tile(CONSTANTS, (len(rows), 1))]),
    "levels": lambda rows, rng: levels(rows, redundant=True),
    "levels-less": lambda rows, rng: levels(rows, redundant=False),
}
INVERTIBLE = tuple(name for name in PREPARATIONS if not name.startswith("levels"))
"""Preparations that keep all that a linear model can learn of a table."""


class Absurd(NamedTuple):
    """Which numbers are multiplied, and by how much."""

    factor: float
    share: float = 0.0  # of the rows
    columns: int | None = None  # how many; all unless given
    at: tuple[int, ...] = ()  # rows, beside the share


ABSURD: Mapping[str, Absurd] = {
    "1%x1e6-one": Absurd(1e6, 0.01, columns=1),
    "1%x1e6-all": Absurd(1e6, 0.01),
    ".1%x1e12": Absurd(1e12, 0.001),
}


def with_absurd(
    rows: Floats, absurd: Absurd, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """Multiply some numbers; return the rows and which of them are absurd.

    Rows come from the last nine tenths, so that there is something to lose. Columns are those that
    are seldom 0.
    """
    n, d = rows.shape
    first = n // 10
    hit = np.zeros(n, dtype=bool)
    count = max(1, round(absurd.share * n)) if absurd.share else 0
    hit[first + rng.choice(n - first, size=count, replace=False)] = True
    hit[list(absurd.at)] = True
    columns = np.argsort((rows == 0.0).mean(axis=0), kind="stable")[: absurd.columns or d]
    changed = rows.copy()
    changed[np.ix_(hit, columns)] *= absurd.factor
    return changed, hit
