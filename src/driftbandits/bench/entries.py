"""Entries: who plays. Ours with one setting each, and a LinUCB as plain as it can be.

`facts` says what an entry is told before the first round; other libraries are entered in
benchmarks/peers/entries.py in the same way.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from driftbandits.agent import Agent
from driftbandits.bench.tasks import Facts, Floats
from driftbandits.policies import policy


class Entry(Protocol):
    """The methods of an entry. It may have `pay(cost)` too, where arms cost something."""

    def decide(self, context: Floats, arms: Sequence[int]) -> int:
        """Return an index into `arms`."""

    def update(self, index: int, reward: float) -> None:
        """Learn the reward of the arm with this index in the last `decide`."""


Make = Callable[[Facts, int], Entry]


class NotPlayed(Exception):
    """An entry raises it when it is made for a task that it cannot play, and says why."""


class Separate:
    """A policy of this package, with coefficients of its own for each arm.

    It is given the context over the root of its length, so that the norm is about 1, and the share
    of the range that a reward is.
    """

    def __init__(self, name: str, facts: Facts, seed: int, **setting: Any) -> None:
        made = policy(name, dim=facts.dim, arms="separate", reward="click", **setting)
        self.agent = Agent(made, seed=seed)
        self.agent.warns = False
        self.scale, self.facts = facts.dim**-0.5, facts

    def decide(self, context: Floats, arms: Sequence[int]) -> int:
        self.choice = self.agent.decide(self.scale * context, arms=list(arms))
        return self.choice.index

    def update(self, index: int, reward: float) -> None:
        self.agent.update(self.choice, self.facts.share(reward))


class Paced(Separate):
    """A policy whose choices must last for a budget: each pays a penalty for what its arm costs.

    The penalty on a cost of one budget rises by 2 % a round while more than the budget is spent,
    and falls while less is. What an arm costs is a mean of its last fifty or so bills.
    """

    def __init__(self, name: str, facts: Facts, seed: int, **setting: Any) -> None:
        super().__init__(name, facts, seed, **setting)
        assert facts.budget is not None
        assert facts.prices is not None
        self.budget, self.seed = facts.budget, seed
        self.penalty, self.spent = 0.01, facts.budget
        self.costs = np.array(facts.prices)

    def decide(self, context: Floats, arms: Sequence[int]) -> int:
        row, self.arms = self.scale * context, list(arms)
        scores = self.agent.preview(row, arms=self.arms, seed=self.seed).scores
        index = int(np.argmax(scores - self.penalty * self.costs[self.arms] / self.budget))
        self.arm = self.arms[index]
        self.choice = self.agent.decide(row, arms=self.arms, played=index)
        return index

    def pay(self, cost: float) -> None:
        self.costs[self.arm] += 0.02 * (cost - self.costs[self.arm])
        self.spent += 0.05 * (cost - self.spent)
        self.penalty *= float(np.exp(0.02 * np.clip(self.spent / self.budget - 1.0, -1.0, 1.0)))


class PlainLinUCB:
    """One ridge regression an arm, with a constant and a bonus."""

    def __init__(self, facts: Facts, seed: int, *, bonus: float = 0.3) -> None:
        d = facts.dim + 1
        self.bonus = bonus
        self.inverse, self.b = np.tile(np.eye(d), (facts.arms, 1, 1)), np.zeros((facts.arms, d))

    def decide(self, context: Floats, arms: Sequence[int]) -> int:
        self.x, self.arms = np.append(context, 1.0), np.asarray(arms)
        along = self.inverse[self.arms] @ self.x
        widths = np.sqrt(np.maximum(along @ self.x, 0.0))
        return int(np.argmax((self.b[self.arms] * along).sum(axis=1) + self.bonus * widths))

    def update(self, index: int, reward: float) -> None:
        arm = self.arms[index]
        u = self.inverse[arm] @ self.x
        self.inverse[arm] -= np.outer(u, u) / (1.0 + self.x @ u)
        self.b[arm] += reward * self.x


def _bounded(name: str) -> Make:
    """A policy of the paper: bounds that fit standardised contexts, and a tenth of its bonus."""
    return lambda facts, seed: Separate(
        name, facts, seed, horizon=facts.horizon, S=3.0, L=2.0, bonus_scale=0.1, too_long="rescale"
    )


def _auto(facts: Facts, seed: int) -> Entry:
    return (Separate if facts.budget is None else Paced)("auto", facts, seed)


OURS: Mapping[str, Make] = {
    "auto": _auto,
    "D-GLUCB x0.1": _bounded("D-GLUCB"),
    "SW-GLUCB x0.1": _bounded("SW-GLUCB"),
    "D-LinUCB x0.1": _bounded("D-LinUCB"),
    "LinUCB x0.1": _bounded("LinUCB"),
    "LinUCB in ten lines": PlainLinUCB,
}


def entries_of(path: str | Path) -> Mapping[str, Make]:
    """Read the `ENTRIES` of a Python file: label -> a function make(facts, seed)."""
    file = Path(path)
    spec = importlib.util.spec_from_file_location(f"entries_of_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ValueError(f"entries must be a Python file; got {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, "ENTRIES", None)
    if not isinstance(found, Mapping) or not all(callable(make) for make in found.values()):
        raise ValueError(f"{file} must have ENTRIES, a dict of functions make(facts, seed)")
    return found
