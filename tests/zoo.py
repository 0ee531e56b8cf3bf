"""What people do to the columns of a table, numbers that make no sense, and who plays them.

The rows come in the order in which they are played. A preparation is `(rows, rng) -> rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import driftbandits as db
from driftbandits.bench import Task
from driftbandits.bench.entries import PlainLinUCB
from driftbandits.bench.tasks import facts_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
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


PREPARATIONS: Mapping[str, Preparation] = {
    "raw": lambda rows, rng: rows,
    "std": standardised,
    "std-online": standardised_online,
    "whitened": whitened,
    "components+30": lambda rows, rng: components(rows)[0] + 30.0,
    "mixed": mixed,
    "far": lambda rows, rng: standardised(rows, rng) + 1e6,
    "levels": lambda rows, rng: levels(rows, redundant=True),
    "levels-less": lambda rows, rng: levels(rows, redundant=False),
}


class Absurd(NamedTuple):
    """Which numbers are multiplied, and by how much."""

    factor: float
    share: float = 0.0  # of the rows
    columns: int | None = None  # how many; all unless given
    at: tuple[int, ...] = ()  # rows, beside the share


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


class Auto:
    """An agent with separate arms."""

    def __init__(self, dim: int, seed: int) -> None:
        self.agent = db.Agent(db.policy("auto", dim=dim, arms="separate"), seed=seed)

    def decide(self, context: Floats, arms: Ints) -> int:
        self.choice = self.agent.decide(context, arms=arms.tolist())
        return self.choice.index

    def update(self, index: int, reward: float) -> None:
        self.agent.update(self.choice, reward)


def chosen_by(label: str, task: Task, seed: int) -> Ints:
    """The index that `auto` or "LinUCB <bonus>" chose in every round."""
    T, dim = task.contexts.shape
    kind, _, bonus = label.partition(" ")
    player: Any = Auto(dim, seed)
    if kind == "LinUCB":
        player = PlainLinUCB(facts_of(task), seed, bonus=float(bonus))
    chosen = np.empty(T, dtype=np.int64)
    for t, (context, arms) in enumerate(zip(task.contexts, task.arms, strict=True)):
        chosen[t] = player.decide(context, arms)
        player.update(chosen[t], float(task.rewards[t, chosen[t]]))
    return chosen


def share_of_way(means: Floats, chosen: Ints, since: int) -> float:
    """0 for random choices, 1 for the best, from some round on."""
    earned = means[np.arange(len(chosen)), chosen][since:].mean()
    random, best = means[since:].mean(), means[since:].max(axis=1).mean()
    return float((earned - random) / (best - random))
