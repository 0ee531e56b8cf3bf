"""The worlds of experiments/suite-*.toml played quickly: regret, what is stuck, false reports.

python benchmarks/hard_worlds.py fixed-arms units --runs 20 --policy auto

Each line is one policy in one world: its mean final regret with a standard error, over that of the
reference in the same runs, the regret of the second half, the share of runs that are stuck and the
changes reported in a run. The reference is LogisticUCB x0.1 where it plays, otherwise the policy
itself in the first world of its group (same draws in other units), rewards counted in units of m.
A run is stuck if it loses at least .05 m a round in its last tenth: half of what the wrong arm
loses where the arms are close.

`still` are worlds in which nothing changes, of all kinds of rewards, some of which come a hundred
rounds late: what is reported there is false. They are played by an agent, one reward after the
other; the reference is `auto` without delay.
"""

from __future__ import annotations

import argparse
import math
from collections import deque

import numpy as np

import driftbandits as db
from driftbandits import experiments
from driftbandits.experiments import Experiment, draw_trace, play, player_seed

REFERENCE = "LogisticUCB x0.1"
STUCK = 0.05
GROUPS = ("rate-5", "rewards")
"""Where a new group of worlds begins, in a file without the reference."""
STILL_ROUNDS, STILL_SEED = 6000, 57
STILL = {
    "clicks": {},
    "counts": {"link": "poisson", "m": 20},
    "rare-counts": {"link": "poisson", "m": 20, "base_rate": 0.05},
    "ratings": {"link": "binomial", "m": 5},
    "amounts": {"link": "identity"},
}
DELAYS = {"": 0, "-late": 100}


def played(experiment: Experiment, label: str, replicate: int) -> tuple[np.ndarray, float, int]:
    """Cumulative regret over m, what of it a round of the last tenth has, changes reported."""
    trace = draw_trace(experiment.world, experiment.seed, replicate)
    seed = player_seed(experiment.seed, replicate)
    run = play(experiment.players[label], trace, seed, ("regret", "chosen", "detections"))
    regret = run.regret / experiment.world.m
    tenth = trace.horizon // 10
    return regret, float(regret[-1] - regret[-1 - tenth]) / tenth, len(run.detections)


def played_late(
    policy: db.Policy, trace: db.Trace, seed: int, delay: int
) -> tuple[np.ndarray, float, int]:
    """The same by an agent that learns rewards so many rounds late."""
    agent, waiting, chosen = db.Agent(policy, seed=seed), deque(), []
    for t in range(trace.horizon):
        choice = agent.decide(trace.actions[t])
        chosen.append(choice.index)
        waiting.append((choice, float(trace.rewards[t, choice.index])))
        if len(waiting) > delay:
            agent.update(*waiting.popleft())
    means = trace.means / policy.link.m
    lost = np.cumsum(means.max(axis=1) - means[np.arange(trace.horizon), chosen])
    tenth = trace.horizon // 10
    return lost, float(lost[-1] - lost[-1 - tenth]) / tenth, len(agent.detections)


def plus_minus(values: np.ndarray) -> str:
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{values.mean():9.1f} +-{error:5.1f}"


def show(world: str, label: str, runs: list[tuple[np.ndarray, float, int]], over: float) -> float:
    """Print a line; returns the mean regret. Over 0 is over itself."""
    final = np.array([regret[-1] for regret, _, _ in runs])
    half = np.array([regret[-1] - regret[len(regret) // 2 - 1] for regret, *_ in runs])
    stuck = np.mean([late >= STUCK for _, late, _ in runs])
    reports = np.mean([count for *_, count in runs])
    mean = float(final.mean())
    print(
        f"{world:<24}{label:<24}{plus_minus(final)}{mean / (over or mean):>10.2f}"
        f"{half.mean():>10.1f}{stuck:>7.0%}{reports:>9.2f}",
        flush=True,
    )
    return mean


def show_still(runs: int) -> None:
    for name, model in STILL.items():
        world = db.environment("stationary", horizon=STILL_ROUNDS, dim=3, **model)
        known = {key: value for key, value in model.items() if key in ("link", "m")}
        policy, over = db.policy("auto", dim=3, **known), 0.0
        for late, delay in DELAYS.items():
            found = []
            for i in range(runs):
                trace = draw_trace(world, STILL_SEED, i)
                found.append(played_late(policy, trace, player_seed(STILL_SEED, i), delay))
            mean = show(f"still-{name}{late}", "auto", found, over)
            over = over or mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="fixed-arms, units, quiet, rare-rewards, still")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--world", help="only worlds whose name contains this")
    parser.add_argument("--policy", action="append", help="only these labels, and the reference")
    given = parser.parse_args()
    print(f"{'world':<24}{'policy':<24}{'regret':>16}{'over ref.':>10}{'2nd half':>10}", end="")
    print(f"{'stuck':>7}{'reports':>9}")
    for name in given.files:
        if name == "still":
            show_still(given.runs)
            continue
        reference: dict[str, float] = {}
        for experiment in experiments.read_experiments(experiments.published()[f"suite-{name}"]):
            world = experiment.variant or experiment.name
            first = world in GROUPS or not reference
            if given.world and given.world not in world and not first:
                continue
            labels = [label for label in experiment.players if label == REFERENCE]
            wanted = given.policy or list(experiment.players)
            labels += [p for p in experiment.players if p in wanted and p not in labels]
            for label in labels:
                runs = [played(experiment, label, replicate) for replicate in range(given.runs)]
                is_base = label == REFERENCE or (first and REFERENCE not in labels)
                mean = show(world, label, runs, 0.0 if is_base else reference[label])
                if is_base:
                    reference |= dict.fromkeys(labels if label == REFERENCE else [label], mean)


if __name__ == "__main__":
    main()
