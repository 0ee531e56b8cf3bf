"""The worlds of experiments/suite-*.toml played quickly: regret, what is stuck, false reports.

python benchmarks/hard_worlds.py fixed-arms units --runs 20 --policy auto

Each line is one policy in one world: its mean final regret with a standard error, over that of the
reference in the same runs, the regret of the second half, the share of runs that are stuck and the
changes reported in a run. The reference is LogisticUCB x0.1 where it plays, otherwise the policy
itself in the first world of its group (same draws in other units), rewards counted in units of m.
A run is stuck if it loses at least .05 m a round in its last tenth: half of what the wrong arm
loses where the arms are close.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from driftbandits import experiments
from driftbandits.experiments import Experiment
from driftbandits.simulation import draw_trace, play, player_seed

REFERENCE = "LogisticUCB x0.1"
STUCK = 0.05
GROUPS = ("rate-5", "rewards")
"""Where a new group of worlds begins, in a file without the reference."""


def played(experiment: Experiment, label: str, replicate: int) -> tuple[np.ndarray, float, int]:
    """Cumulative regret over m, what of it a round of the last tenth has, changes reported."""
    trace = draw_trace(experiment.world, experiment.seed, replicate)
    seed = player_seed(experiment.seed, replicate)
    run = play(experiment.players[label], trace, seed, ("regret", "chosen", "detections"))
    regret = run.regret / experiment.world.m
    tenth = trace.horizon // 10
    return regret, float(regret[-1] - regret[-1 - tenth]) / tenth, len(run.detections)


def plus_minus(values: np.ndarray) -> str:
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{values.mean():9.1f} +-{error:5.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="fixed-arms, units, quiet, rare-rewards")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--world", help="only worlds whose name contains this")
    parser.add_argument("--policy", action="append", help="only these labels, and the reference")
    given = parser.parse_args()
    print(f"{'world':<24}{'policy':<24}{'regret':>16}{'over ref.':>10}{'2nd half':>10}", end="")
    print(f"{'stuck':>7}{'reports':>9}")
    for name in given.files:
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
                final = np.array([regret[-1] for regret, _, _ in runs])
                half = np.array([regret[-1] - regret[len(regret) // 2 - 1] for regret, *_ in runs])
                if label == REFERENCE:
                    reference = dict.fromkeys(labels, float(final.mean()))
                elif first and REFERENCE not in labels:
                    reference[label] = float(final.mean())
                stuck = np.mean([late >= STUCK for _, late, _ in runs])
                reports = np.mean([count for *_, count in runs])
                print(
                    f"{world:<24}{label:<24}{plus_minus(final)}"
                    f"{final.mean() / reference[label]:>10.2f}{half.mean():>10.1f}"
                    f"{stuck:>7.0%}{reports:>9.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
