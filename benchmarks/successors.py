"""The paper's policies beside what was published after them, and what widths cover in practice.

python benchmarks/successors.py regret      # the paper's world, the draws of `make reproduce`
python benchmarks/successors.py coverage    # how often the truth is at most the score
"""

from __future__ import annotations

import argparse

import numpy as np
from tables import table

import driftbandits as db
from driftbandits.experiments import draw_trace, play

SEED = 2020
WORLD = {"horizon": 6000, "changes": 3}
NAMES = (
    *("LogisticUCB", "SW-GLUCB", "D-GLUCB", "LinUCB", "SW-LinUCB", "D-LinUCB"),
    *("GLB-WeightUCB", "LB-WeightUCB", "SCB-WeightUCB", "GLB-OMD", "DOMD-GLB"),
)
PLAYED = {
    **{name: {"name": name} for name in NAMES},
    **{f"{name}, lam = d": {"name": name, "lam": 2.0} for name in ("GLB-OMD", "DOMD-GLB")},
}
WORLDS = {
    "nothing changes": db.environment("stationary", horizon=6000),
    "the paper's": db.environment("abrupt2d"),
    "10 changes": db.environment("abrupt", horizon=6000, changes=10),
    "slow turn": db.environment("drift", horizon=6000, speed=0.0005),
    "fast turn": db.environment("drift", horizon=6000, speed=0.008),
}
COVERED = {
    **{name: db.policy(name, dim=2, **WORLD) for name in ("SW-GLUCB", "D-GLUCB", "DOMD-GLB")},
    **{
        f"{name} x0.1": db.policy(name, dim=2, bonus_scale=0.1, **WORLD)
        for name in ("SW-GLUCB", "D-GLUCB", "DOMD-GLB")
    },
    "auto": db.policy("auto", dim=2),
}


def kilobytes(policy: db.Policy, trace: db.Trace, rounds: int) -> float:
    """The size of the state after so many rounds."""
    agent = db.Agent(policy, seed=0)
    for actions, rewards in zip(trace.actions[:rounds], trace.rewards, strict=False):
        choice = agent.decide(actions)
        agent.update(choice, rewards[choice.index])
    return sum(array.nbytes for array in agent._learner._model.buffers) / 1e3


def regret_table(runs: int) -> list[str]:
    world, scales = db.environment("abrupt2d"), (1.0, 0.1)
    policies = {
        (label, scale): db.policy(dim=2, bonus_scale=scale, **given, **WORLD)
        for label, given in PLAYED.items()
        for scale in scales
    }
    named = {f"{label} {scale}": policy for (label, scale), policy in policies.items()}
    result = db.simulate(named, world, runs=runs, seed=SEED)
    trace = draw_trace(world, SEED, 0)
    rows = []
    for label in PLAYED:
        cells = [label]
        for scale in scales:
            final = result.regret[f"{label} {scale}"][:, -1]
            cells.append(f"{final.mean():.0f} ± {final.std(ddof=1) / np.sqrt(runs):.0f}")
        # The fastest run has been disturbed least.
        seconds = min(result.seconds[f"{label} {scale}"].min() for scale in scales)
        cells.append(f"{seconds / trace.horizon * 1e6:.1f}")
        policy = policies[label, 1.0]
        cells.append(" / ".join(f"{kilobytes(policy, trace, T):.0f}" for T in (1000, 6000)))
        rows.append(cells)
    headings = ["policy", "regret", "bonus x0.1", "µs a round", "kB after 1,000 / 6,000 rounds"]
    return table(headings, rows)


def coverage_table(runs: int) -> list[str]:
    found = np.empty((len(COVERED), len(WORLDS), runs, 3))
    for j, world in enumerate(WORLDS.values()):
        for run in range(runs):
            trace = draw_trace(world, SEED, run)
            for i, policy in enumerate(COVERED.values()):
                found[i, j, run] = covered(policy, trace, run)
    rows = []
    for label, by_world in zip(COVERED, found.mean(axis=2), strict=True):
        shares = [f"{every:.3f}/{best:.3f}" for every, best, _ in by_world]
        rows.append([label, f"{by_world[:, 2].mean():.2f}", *shares])
    return table(["policy", "mean width", *WORLDS], rows)


def covered(policy: db.Policy, trace: db.Trace, seed: int) -> tuple[float, float, float]:
    """Share of arms and of best arms whose mean is at most the score; the mean width."""
    run = play(policy, trace, seed, ["intervals"])
    held = trace.means <= run.means + run.widths
    best = held[np.arange(trace.horizon), trace.means.argmax(axis=1)]
    return held.mean(), best.mean(), run.widths.mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=("regret", "coverage"))
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    make = regret_table if given.table == "regret" else coverage_table
    print("\n".join(make(given.runs)))


if __name__ == "__main__":
    main()
