"""Tasks: a TOML file says which table is played, in which order, and what drifts.

    title = "Which of seven things does a piece of a picture show?"
    source = "river; UCI Image Segmentation"
    licence = "CC BY 4.0"
    install = "river"
    drift = "Three classes arrive late."
    rounds = 2000
    order = "random"              # or "file"; "window": each run plays the next part of the file

    [data]                        # a reader of `readers`, with its arguments
    reader = "classes"
    package = "river"             # or path = "mine.csv", beside the TOML file
    file = "datasets/segment.csv.zip"
    label = "category"

    [[change]]                    # at a share of the rounds
    at = 0.25
    arrives = [4]                 # arms; or permute = true

Contexts are standardised by the rows so far, for everybody alike.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.bench.readers import READERS, Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PUBLISHED = Path(__file__).with_name("tasks")
RANDOM, IN_ORDER, WINDOW = "random", "file", "window"
_SEED = 29
FARTHEST = 5.0
"""Standard deviations at which a standardised number is cut off."""


class Task(NamedTuple):
    """The rounds of a run. An arm that is not on offer has the id -1."""

    contexts: Floats  # (T, d)
    rewards: Floats  # (T, K)
    arms: Ints  # (T, K) ids
    costs: Floats | None = None  # (T, K)
    budget: float | None = None  # mean cost of a round that may not be exceeded in the end

    @property
    def horizon(self) -> int:
        return len(self.contexts)


class Facts(NamedTuple):
    """The facts that an entry knows before the first round."""

    dim: int
    arms: int  # ids go from 0 to arms - 1
    horizon: int
    low: float  # rewards are in low..high
    high: float
    clicks: bool  # rewards are 0 or 1
    budget: float | None
    prices: tuple[float, ...] | None  # of each arm: its mean cost before anything changes

    def share(self, reward: float) -> float:
        """Return how far a reward is from the lowest to the highest."""
        return (reward - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class TaskFile:
    """A task as its file describes it; `draw` reads the data.

    price   what a unit of cost takes off the reward
    budget  the mean cost of a round; what costs more than what is left is not on offer
    ranked  whether it counts in the tables of all tasks: it does not where most entries cannot do
            what it asks for
    """

    name: str
    folder: Path
    title: str
    rounds: int
    data: Mapping[str, Any]
    source: str = ""
    licence: str = ""
    install: str = ""
    drift: str = ""
    order: str = RANDOM
    change: Sequence[Mapping[str, Any]] = ()
    price: float = 0.0
    budget: float | None = None
    ranked: bool = True

    def draw(self, run: int, most: int | None = None) -> Task:
        """The rounds of one run: a function of the file and the run alone."""
        rng = np.random.default_rng(np.random.SeedSequence(_SEED, spawn_key=(run,)))
        reader = dict(self.data)
        name = checks.choice("reader", reader.pop("reader"), tuple(READERS))
        if "path" in reader:
            reader["path"] = self.folder / reader["path"]
        rows = READERS[name](rng=rng, **reader)
        wanted = min(self.rounds, most or self.rounds, len(rows.contexts))
        rows = self._with_late_arms(self._in_order(rows, run, wanted, rng), wanted)
        contexts = standardised_so_far(rows.contexts)
        task = Task(contexts, rows.rewards, rows.arms, rows.costs, self.budget)
        for change in self.change:
            task = _changed(task, int(change["at"] * task.horizon), change, rng)
        if self.price and task.costs is not None:
            return task._replace(rewards=task.rewards - self.price * task.costs, costs=None)
        return task

    def change_rounds(self, horizon: int) -> list[int]:
        return sorted({int(change["at"] * horizon) + 1 for change in self.change})

    def _in_order(self, rows: Rows, run: int, wanted: int, rng: np.random.Generator) -> Rows:
        n = len(rows.contexts)
        order = np.arange(n)
        if self.order == RANDOM:
            order = rng.permutation(n)
        elif self.order == WINDOW:
            order = np.roll(order, -(run * wanted % max(1, n - wanted + 1)))
        return rows.take(order)

    def _with_late_arms(self, rows: Rows, wanted: int) -> Rows:
        """Leave out rows of a class that has not arrived yet, and take the first `wanted` rows."""
        late = {arm: change["at"] for change in self.change for arm in change.get("arrives", ())}
        shared = bool((rows.arms == rows.arms[0]).all()) and rows.costs is None
        if not late or not shared:
            return rows.take(np.arange(wanted))
        best = rows.rewards.argmax(axis=1)
        kept: list[int] = []
        for row, label in enumerate(best):
            if len(kept) >= late.get(int(rows.arms[0, label]), 0.0) * wanted:
                kept.append(row)
            if len(kept) == wanted:
                break
        return rows.take(np.array(kept))


def standardised_so_far(rows: Floats) -> Floats:
    """Standardise each row by the mean and the standard deviation of the rows up to it.

    >>> standardised_so_far(np.array([[3.0], [5.0], [4.0]])).round(3).tolist()
    [[0.0], [1.0], [0.0]]
    """
    counts = np.arange(1.0, len(rows) + 1.0)[:, None]
    shifted = rows - rows[0]  # so that the squares of large numbers do not drown the differences
    means = np.cumsum(shifted, axis=0) / counts
    variances = np.cumsum(shifted**2, axis=0) / counts - means**2
    deviations = np.sqrt(np.maximum(variances, 0.0))
    centred = shifted - means
    standard = np.divide(centred, deviations, out=np.zeros_like(rows), where=deviations > 1e-9)
    cut: Floats = np.clip(standard, -FARTHEST, FARTHEST)
    return cut


def _changed(task: Task, at: int, change: Mapping[str, Any], rng: np.random.Generator) -> Task:
    """The task with one change from round `at` on."""
    rewards, arms = task.rewards.copy(), task.arms.copy()
    costs = None if task.costs is None else task.costs.copy()
    if change.get("permute"):
        K = rewards.shape[1]
        # A permutation in which no arm stays where it was.
        cycle = rng.permutation(K)
        moved = np.empty(K, dtype=np.int64)
        moved[cycle] = np.roll(cycle, 1)
        rewards[at:] = rewards[at:][:, moved]
    for arm in change.get("arrives", ()):
        arms[:at][arms[:at] == arm] = -1
    if "plays" in change:
        rewards[at:, change["arm"]] = task.rewards[at:, change["plays"]]
    if "price" in change and costs is not None:
        costs[at:, change["arm"]] *= change["price"]
    return task._replace(rewards=rewards, arms=arms, costs=costs)


def facts_of(task: Task) -> Facts:
    clicks = bool(np.isin(task.rewards, (0.0, 1.0)).all())
    low, high = (0.0, 1.0) if clicks else (float(task.rewards.min()), float(task.rewards.max()))
    prices = None
    if task.costs is not None:
        prices = tuple(task.costs[: max(1, task.horizon // 10)].mean(axis=0).tolist())
    arms, dim = int(task.arms.max()) + 1, task.contexts.shape[1]
    return Facts(dim, arms, task.horizon, low, high, clicks, task.budget, prices)


def read_task(path: str | Path) -> TaskFile:
    """Read a task of the package by its name, or the user's own file."""
    file = Path(path)
    if file.suffix != ".toml":
        published = {task.stem: task for task in sorted(PUBLISHED.glob("*.toml"))}
        file = published[checks.choice("task", str(path), tuple(published))]
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    for key in table:
        checks.choice(f"a key of {file.name}", key, [field.name for field in fields(TaskFile)][2:])
    if missing := [key for key in ("title", "rounds", "data") if key not in table]:
        raise ValueError(f"{file.name} must have {' and '.join(missing)}")
    checks.integer("rounds", table["rounds"], least=10)
    checks.choice("order", table.get("order", RANDOM), (RANDOM, IN_ORDER, WINDOW))
    return TaskFile(file.stem, file.parent, **table)


def task_files() -> list[TaskFile]:
    """The tasks of the package, whether or not their data is installed."""
    return [read_task(path) for path in sorted(PUBLISHED.glob("*.toml"))]
