"""What a round of separate arms costs, in textbook rounds: `python benchmarks/separate_arms.py`.

A textbook round is one of LinUCB in NumPy for K = 10 actions of d = 64: all scores by one
product of matrices, the inverse kept by Sherman and Morrison. A round is `decide` and `update` of
an agent with 10 arms of 64 features; beside it, 20 arms are offered of 20 and of 1,000 that are
known. Blocks of rounds take turns, so that each finds its own memory in the cache. A time is the
mean over a block, since some rounds renew what others use, and the least of all blocks counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import driftbandits as db

DIM, OFFERED = 64, 10
KNOWN, OF_KNOWN = 1_000, 20
ROUNDS, BLOCK = 800, 100
POLICIES = ("LinUCB", "SW-LinUCB", "D-LinUCB", "auto")
MEMORY = {"SW-LinUCB": {"window": 1000}, "D-LinUCB": {"discount": 0.999}}

Floats = NDArray[np.float64]
Round = Callable[[int], None]


class TextbookLinUCB:
    """Never to be tuned."""

    def __init__(self, actions: Floats) -> None:
        self.actions = actions
        self.inverse, self.b = np.eye(DIM), np.zeros(DIM)

    def play(self, t: int) -> None:
        X = self.actions[t]
        theta, spread = self.inverse @ self.b, X @ self.inverse
        scores = X @ theta + 0.3 * np.sqrt(np.einsum("ij,ij->i", spread, X))
        a = X[int(np.argmax(scores))]
        u = self.inverse @ a
        self.inverse -= np.outer(u, u) / (1.0 + a @ u)
        self.b += float(t % 2) * a


def separate_arms(name: str, contexts: Floats, known: int, offered: int) -> Round:
    """A round among some of the arms that are known."""
    agent = db.Agent(db.policy(name, dim=DIM, arms="separate", **MEMORY.get(name, {})))
    arms = list(range(known))
    agent.decide(contexts[0], arms=arms)

    def play(t: int) -> None:
        first = t % (known - offered + 1)
        agent.update(agent.decide(contexts[t], arms=arms[first : first + offered]), float(t % 2))

    return play


def best_in_turns(rounds: dict[str, Round]) -> dict[str, float]:
    """Seconds of a round of each; the first two blocks warm up."""
    best = dict.fromkeys(rounds, np.inf)
    for start in range(0, ROUNDS, BLOCK):
        for name, play in rounds.items():
            before = time.thread_time()
            for t in range(start, start + BLOCK):
                play(t)
            taken = (time.thread_time() - before) / BLOCK
            if start >= 2 * BLOCK:
                best[name] = min(best[name], taken)
    return best


def main() -> None:
    rng = np.random.default_rng(0)
    actions = rng.standard_normal((ROUNDS, OFFERED, DIM))
    actions /= np.linalg.norm(actions, axis=2, keepdims=True)
    contexts = np.ascontiguousarray(actions[:, 0])
    rounds: dict[str, Round] = {"yardstick": TextbookLinUCB(actions).play}
    for name in POLICIES:
        rounds[name] = separate_arms(name, contexts, OFFERED, OFFERED)
    taken = best_in_turns(rounds)
    yardstick = taken.pop("yardstick")
    print(f"a textbook round: {1e6 * yardstick:.0f} us (LinUCB, d = {DIM}, K = {OFFERED})")
    print(f"{OFFERED} arms x {DIM} features, decide + update, in textbook rounds:")
    for name, seconds in taken.items():
        print(f"  {name:10s} {seconds / yardstick:6.1f}")
    print(f"{OF_KNOWN} arms offered, of {KNOWN:,} known over of {OF_KNOWN} known:")
    for name in ("LinUCB", "auto"):
        among = {
            str(known): separate_arms(name, contexts, known, OF_KNOWN)
            for known in (OF_KNOWN, KNOWN)
        }
        taken = best_in_turns(among)
        print(f"  {name:10s} {taken[str(KNOWN)] / taken[str(OF_KNOWN)]:6.2f}")


if __name__ == "__main__":
    main()
