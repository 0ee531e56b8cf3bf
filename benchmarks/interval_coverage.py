"""How often the intervals of off-policy evaluation hold the truth: docs/evaluation.md.

python benchmarks/interval_coverage.py --logs 1000

The world, its logger and the policy that is judged are those of tests/test_evaluate.py, which has
the short form of this.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from tables import table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from driftbandits.evaluate import evaluate
from driftbandits.evaluate.estimators import choice_probabilities
from test_evaluate import World, greedy_agent

NAMES = ("IPS", "SNIPS", "DR")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, nargs="*", default=[100, 300, 1000])
    given = parser.parse_args()
    agent, big = greedy_agent(), World(10**6, 100_000)
    pi = choice_probabilities(agent, list(big.actions)).reshape(big.means.shape)
    truth = float((pi * big.means).sum(axis=1).mean())
    rows = []
    for rounds in given.rounds:
        found = [evaluate(World(run, rounds).log(), agent, windows=2) for run in range(given.logs)]
        effective = np.mean([one.overall["IPS"].rounds for one in found])
        cells = [f"{rounds:,} ({effective:.0f})"]
        for name in NAMES:
            values = [one.overall[name] for one in found]
            cells.append(f"{np.mean([v.low <= truth <= v.high for v in values]):.0%}")
        rows.append([cell.replace("%", " %") for cell in cells])
    print("\n".join(table(["rounds (effective)", *NAMES], rows)))


if __name__ == "__main__":
    main()
