"""What it costs to decide by a model that is some rounds old.

One writer learns, readers decide by the fold that they were last given: every decision is made by a
model that has seen the rewards up to so many rounds before it. The same traces are played for each
age. Prints the regret of a run (mean and standard error), its ratio to that of a model that is
never old, and how much more it is, for each time that the world has to be learned and each round of
age: where a delay costs a term of its own and no more, that is a constant.

    python benchmarks/staleness.py [--runs 8] [--horizon 24000] [--ages 0 10 100 1000 4000]
"""

from __future__ import annotations

import argparse
from collections import deque

import numpy as np

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
    """Each with how often a model has to be learned anew."""
    abrupt = db.environment("abrupt2d", horizon=horizon)
    still = db.environment("stationary", horizon=horizon, dim=10, arms=10)
    return {"three changes, d = 2": (abrupt, 4), "no change, d = 10": (still, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--horizon", type=int, default=24_000)
    parser.add_argument("--ages", type=int, nargs="*", default=[0, 10, 100, 1000, 4000])
    options = parser.parse_args()
    for world, (environment, times) in worlds(options.horizon).items():
        traces = [
            environment.draw(np.random.default_rng([2026, run])) for run in range(options.runs)
        ]
        dim = traces[0].actions.shape[2]
        tuned = {"horizon": options.horizon, "changes": max(times - 1, 1)}
        for policy in (
            db.policy("auto", dim=dim),
            db.policy("D-LinUCB", dim=dim, bonus_scale=0.1, **tuned),
            db.policy("SW-GLUCB", dim=dim, bonus_scale=0.1, **tuned),
        ):
            fresh = 0.0
            for age in options.ages:
                found = [
                    regret(policy, trace, age=age, seed=run) for run, trace in enumerate(traces)
                ]
                mean, error = np.mean(found), np.std(found, ddof=1) / np.sqrt(len(found))
                fresh = float(mean) if age == options.ages[0] else fresh
                more = f"{(mean - fresh) / (times * age):.2f}" if age else "   "
                print(
                    f"{world:22} {policy.name:9} age {age:5}: {mean:7.1f} +- {error:4.1f}"
                    f"   {mean / fresh:5.2f}   {more}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
