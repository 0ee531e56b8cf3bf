"""What it costs to decide by a model that is some rounds old.

One writer learns, readers decide by the fold that they were last given: every decision is made by a
model that has seen the rewards up to so many rounds before it. The same traces are played for each
age. Prints a table of the regret of a run, its mean and standard error.

    python benchmarks/staleness.py [--runs 8] [--horizon 24000] [--ages 0 10 100 1000 4000]
"""

from __future__ import annotations

import argparse
from collections import deque

import numpy as np
from tables import table

import driftbandits as db
from driftbandits.environments import Environment


def regret(policy: db.Policy, trace: db.Trace, *, age: int, seed: int) -> float:
    """Of decisions that are made by what was learned `age` rounds before."""
    agent, waiting, total = db.Agent(policy, seed=seed), deque[tuple[int, float]](), 0.0
    assert trace.means is not None
    for actions, rewards, means in zip(trace.actions, trace.rewards, trace.means, strict=True):
        choice = agent.decide(actions)
        total += float(means.max() - means[choice.index])
        waiting.append((choice.id, float(rewards[choice.index])))
        if len(waiting) > age:
            agent.update(*waiting.popleft())
    return total


def worlds(horizon: int) -> dict[str, tuple[Environment, int]]:
    """Each with how often it changes."""
    abrupt = db.environment("abrupt2d", horizon=horizon)
    still = db.environment("stationary", horizon=horizon, dim=10, arms=10)
    return {"three changes, d = 2": (abrupt, 3), "no change, d = 10": (still, 0)}


def drawn(environment: Environment, runs: int) -> list[db.Trace]:
    return [environment.draw(np.random.default_rng([2026, run])) for run in range(runs)]


def policies(dim: int, horizon: int, changes: int) -> list[db.Policy]:
    tuned = {"dim": dim, "bonus_scale": 0.1, "horizon": horizon, "changes": max(changes, 1)}
    tuned_ones = [db.policy(name, **tuned) for name in ("SW-GLUCB", "D-LinUCB")]
    return [db.policy("auto", dim=dim), *tuned_ones]


def told(policy: db.Policy, traces: list[db.Trace], age: int) -> str:
    found = [regret(policy, trace, age=age, seed=run) for run, trace in enumerate(traces)]
    return f"{np.mean(found):,.0f} +- {np.std(found, ddof=1) / np.sqrt(len(found)):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--horizon", type=int, default=24_000)
    parser.add_argument("--ages", type=int, nargs="*", default=[0, 10, 100, 1000, 4000])
    options = parser.parse_args()
    columns = {
        f"{policy.name}, {world}": [told(policy, traces, age) for age in options.ages]
        for world, (environment, changes) in worlds(options.horizon).items()
        for traces in [drawn(environment, options.runs)]
        for policy in policies(traces[0].actions.shape[2], options.horizon, changes)
    }
    ages = [f"{age:,}" for age in options.ages]
    rows = [list(cells) for cells in zip(ages, *columns.values(), strict=True)]
    print("\n".join(table(["age in rounds", *columns], rows)))


if __name__ == "__main__":
    main()
