"""What a decision and its reward cost an agent in many dimensions: `make bench`.

The yardstick here is a textbook LinUCB round in NumPy with its BLAS on one thread: all scores by
one product of matrices, the inverse kept by Sherman and Morrison, at the same d and K.

Agents are timed when their memories are full, in turns with the yardstick, on one core. A time is a
mean over rounds, because a renewal now and then is part of the price.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import driftbandits as db

Floats = NDArray[np.float64]

DIMENSIONS = (20, 100, 400)
ARMS = 10
SETS = 64
PATIENCE_SECONDS = 2.0
"""For the rounds of each policy at each dimension that are timed."""


class Line(NamedTuple):
    """A policy, and what its round should cost in yardsticks."""

    name: str
    arguments: dict[str, Any]
    rounds: int  # after which it is timed
    reach: float
    dream: float


LINES = (
    Line("LinUCB", {}, 300, 8, 3),
    Line("SW-LinUCB", {"window": 250}, 300, 8, 3),
    Line("D-LinUCB", {"discount": 0.999}, 300, 8, 3),
    Line("auto", {}, 300, 12, 6),
    Line("SW-GLUCB", {"window": 1000}, 1000, 20, 8),
    Line("D-GLUCB", {"discount": 0.999}, 1000, 20, 8),
    Line("LogisticUCB", {}, 2000, 20, 8),
)


class World:
    """Sets of actions no longer than 1, and 0/1 rewards of a logistic model."""

    def __init__(self, d: int) -> None:
        self.rng = np.random.default_rng(d)
        points = self.rng.normal(size=(SETS, ARMS, d))
        self.sets = points / np.linalg.norm(points, axis=2, keepdims=True)
        self.theta = self.rng.normal(size=d)

    def __iter__(self) -> Iterator[Floats]:
        while True:
            yield self.sets[self.rng.integers(SETS)]

    def reward(self, action: Floats) -> float:
        return float(self.rng.random() < 1.0 / (1.0 + np.exp(-action @ self.theta)))


def rounds_of(agent: db.Agent, world: World) -> Iterator[float]:
    """Seconds that each round takes the agent."""
    for actions in world:
        start = time.thread_time()
        choice = agent.decide(actions)
        decided = time.thread_time()
        reward = world.reward(actions[choice.index])
        begun = time.thread_time()
        agent.update(choice, reward)
        yield decided - start + time.thread_time() - begun


def yardsticks(world: World) -> Iterator[float]:
    """Seconds that each round takes the textbook."""
    d = world.theta.size
    inverse, b = np.eye(d), np.zeros(d)
    for actions in world:
        start = time.thread_time()
        along = actions @ inverse
        scores = actions @ (inverse @ b) + np.sqrt(np.einsum("ij,ij->i", along, actions))
        a = actions[int(scores.argmax())]
        u = inverse @ a
        inverse -= np.outer(u, u) / (1.0 + a @ u)
        b += a
        yield time.thread_time() - start


def best_mean(rounds: Iterator[float], count: int) -> float:
    """The least of four means over a quarter of the rounds each."""
    times = [next(rounds) for _ in range(count)]
    return float(np.array(times)[: 4 * (count // 4)].reshape(4, -1).mean(axis=1).min())


def measure(line: Line, d: int, patience: float) -> dict[str, Any]:
    world = World(d)
    agent = db.Agent(db.policy(line.name, dim=d, **line.arguments))
    rows = world.sets.reshape(-1, d)[world.rng.integers(SETS * ARMS, size=line.rounds)]
    agent.learn(rows, [world.reward(a) for a in rows])
    rounds, textbook = rounds_of(agent, world), yardsticks(world)
    next(rounds)  # the first loads or compiles the kernels
    count = int(np.clip(patience / next(rounds), 8, 400))
    yardstick = best_mean(textbook, 400)
    seconds = best_mean(rounds, count)
    return {
        "policy": line.name,
        "d": d,
        "microseconds": seconds * 1e6,
        "yardstick": yardstick * 1e6,
        "ratio": seconds / yardstick,
        "reach": line.reach,
        "dream": line.dream,
    }


def main(say: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/dimensions.json"))
    parser.add_argument("--seconds", type=float, default=PATIENCE_SECONDS)
    parser.add_argument("--policies", nargs="*", default=[line.name for line in LINES])
    arguments = parser.parse_args()
    found = []
    say("policy        d  us a round  yardsticks  reach  dream")
    for line in LINES:
        if line.name not in arguments.policies:
            continue
        for d in DIMENSIONS:
            row = measure(line, d, arguments.seconds)
            found.append(row)
            say(
                f"{row['policy']:11} {d:4} {row['microseconds']:11,.0f}"
                f" {row['ratio']:11.1f} {row['reach']:6g} {row['dream']:6g}"
            )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
