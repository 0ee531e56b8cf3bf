"""Reports of changes where nothing changes, so all are false: `python benchmarks/still_worlds.py`.

`auto` plays worlds of all kinds of rewards, some of which come a hundred rounds late. Each line has
the mean final regret with a standard error, that over the regret without delay, the regret of the
second half, the share of runs that are stuck and the changes reported in a run. Rewards are counted
in units of m. A run is stuck if it loses at least .05 a round in its last tenth.
"""

from __future__ import annotations

import sys
from collections import deque

import numpy as np

import driftbandits as db
from driftbandits.experiments import draw_trace, player_seed

ROUNDS, SEED, STUCK = 6000, 57, 0.05
WORLDS = {
    "clicks": {},
    "counts": {"link": "poisson", "m": 20},
    "rare-counts": {"link": "poisson", "m": 20, "base_rate": 0.05},
    "ratings": {"link": "binomial", "m": 5},
    "amounts": {"link": "identity"},
}
DELAYS = {"": 0, "-late": 100}


def played(policy: db.Policy, trace: db.Trace, seed: int, delay: int) -> tuple[np.ndarray, int]:
    """Cumulative regret over m, and the changes reported, with rewards so many rounds late."""
    agent, waiting, chosen = db.Agent(policy, seed=seed), deque(), []
    for t in range(trace.horizon):
        choice = agent.decide(trace.actions[t])
        chosen.append(choice.index)
        waiting.append((choice, float(trace.rewards[t, choice.index])))
        if len(waiting) > delay:
            agent.update(*waiting.popleft())
    return np.cumsum(trace.regret(chosen)) / policy.link.m, len(agent.detections)


def main(runs: int) -> None:
    print(f"{'world':<24}{'policy':<24}{'regret':>16}{'over ref.':>10}{'2nd half':>10}", end="")
    print(f"{'stuck':>7}{'reports':>9}")
    for name, model in WORLDS.items():
        world = db.environment("stationary", horizon=ROUNDS, dim=3, **model)
        known = {key: value for key, value in model.items() if key in ("link", "m")}
        policy, over = db.policy("auto", dim=3, **known), 0.0
        for late, delay in DELAYS.items():
            found = [
                played(policy, draw_trace(world, SEED, i), player_seed(SEED, i), delay)
                for i in range(runs)
            ]
            regret = np.array([lost for lost, _ in found])
            final, tenth = regret[:, -1], ROUNDS // 10
            over = over or final.mean()
            half = (final - regret[:, ROUNDS // 2 - 1]).mean()
            stuck = np.mean(final - regret[:, -1 - tenth] >= STUCK * tenth)
            reports = np.mean([count for _, count in found])
            print(
                f"{f'still-{name}{late}':<24}{'auto':<24}"
                f"{final.mean():9.1f} +-{final.std(ddof=1) / np.sqrt(runs):5.1f}"
                f"{final.mean() / over:>10.2f}{half:>10.1f}{stuck:>7.0%}{reports:>9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 20)
