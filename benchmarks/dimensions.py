"""What a decision and its reward cost an agent in many dimensions: `make bench`.

The yardstick here is a textbook LinUCB round in NumPy with its BLAS on one thread: all scores by
one product of matrices, the inverse kept by Sherman and Morrison, at the same d and K.

Every round offers fresh actions. An agent first learns as many rounds as its line says; then all
rounds that follow count, dear ones included, and the figure is their mean. They are played in turns
with rounds of the yardstick, of which the mean is taken too, on one core.
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
ROUNDS = 2000
TURN = 50
"""Rounds that are played before it is the other's turn."""


class Line(NamedTuple):
    """A policy whose rounds are timed."""

    label: str
    name: str
    arguments: dict[str, Any]
    before: int = 2000  # rounds that are learned first
    share: float = 1.0  # of the rounds that are timed


DISCOUNT = {"discount": 0.999}
LINES = (
    Line("LinUCB", "LinUCB", {}),
    Line("SW-LinUCB, window 1,000", "SW-LinUCB", {"window": 1000}),
    Line("D-LinUCB, discount .999", "D-LinUCB", DISCOUNT),
    Line("auto", "auto", {}),
    Line("SW-GLUCB, window 1,000", "SW-GLUCB", {"window": 1000}),
    Line("D-GLUCB, discount .999", "D-GLUCB", DISCOUNT),
    Line("LogisticUCB", "LogisticUCB", {}),
    Line("D-GLUCB, its memory full", "D-GLUCB", DISCOUNT, before=28_000, share=0.1),
)

OTHERS = tuple(
    Line(name, name, arguments, before=500, share=0.025)
    for name, arguments in {
        "D-LinTS": DISCOUNT,
        "D-RandLinUCB": DISCOUNT,
        "CD-LinUCB": {},
        "dLinUCB": {},
        "GLM-TSL": {},
        "CD-GLUCB": {},
        "SCB-WeightUCB": DISCOUNT,
    }.items()
)
"""Policies that factorise in every round, for which nothing is promised."""


class World:
    """Fresh actions of length 1 in every round, and 0/1 rewards of a logistic model."""

    def __init__(self, d: int) -> None:
        self.rng = np.random.default_rng(d)
        self.theta = self.rng.normal(size=d)

    def actions(self, count: int = ARMS) -> Floats:
        points = self.rng.normal(size=(count, self.theta.size))
        return points / np.linalg.norm(points, axis=1, keepdims=True)

    def reward(self, action: Floats) -> float:
        return float(self.rng.random() < 1.0 / (1.0 + np.exp(-action @ self.theta)))


def rounds_of(agent: db.Agent, world: World) -> Iterator[float]:
    """Seconds that each round takes the agent."""
    while True:
        actions = world.actions()
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
    while True:
        actions = world.actions()
        start = time.thread_time()
        along = actions @ inverse
        scores = actions @ (inverse @ b) + np.sqrt(np.einsum("ij,ij->i", along, actions))
        a = actions[int(scores.argmax())]
        u = inverse @ a
        inverse -= np.outer(u, u) / (1.0 + a @ u)
        b += a
        yield time.thread_time() - start


def measure(line: Line, d: int, count: int) -> dict[str, Any]:
    world = World(d)
    agent = db.Agent(db.policy(line.name, dim=d, **line.arguments))
    rows = world.actions(line.before)
    agent.learn(rows, [world.reward(a) for a in rows])
    players = rounds_of(agent, world), yardsticks(world)
    for player in players:
        next(player)  # the first of an agent loads or compiles the kernels
    passes = agent.work["passes"]
    taken = np.array(
        [[next(player) for _ in range(TURN)] for _ in range(count // TURN) for player in players]
    )
    seconds, yardstick = taken[::2].mean(), taken[1::2].mean()
    return {
        "policy": line.label,
        "d": d,
        "microseconds": seconds * 1e6,
        "longest": taken[::2].max() * 1e6,
        "passes": (agent.work["passes"] - passes) / taken[::2].size,
        "yardstick": yardstick * 1e6,
        "ratio": seconds / yardstick,
    }


def main(say: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/dimensions.json"))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--dimensions", type=int, nargs="*", default=list(DIMENSIONS))
    parser.add_argument("--policies", nargs="*", help="those whose label begins so")
    parser.add_argument("--others", action="store_true", help="policies that factorise instead")
    arguments = parser.parse_args()
    lines = OTHERS if arguments.others else LINES
    chosen = tuple(arguments.policies or [""])
    found = []
    say(f"{'policy':26} {'d':>3} us a round    longest  passes  yardsticks")
    for line in (line for line in lines if line.label.startswith(chosen)):
        for d in arguments.dimensions:
            row = measure(line, d, max(TURN, round(line.share * arguments.rounds)))
            found.append(row)
            say(
                f"{row['policy']:26} {d:3} {row['microseconds']:10,.0f} {row['longest']:10,.0f}"
                f" {row['passes']:7.1f} {row['ratio']:11.1f}"
            )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
