"""`auto` and what it was before in every world of the suite: docs/auto.md, docs/which-policy.md.

python benchmarks/auto.py --runs 40

Each line is the mean final regret with its standard error, and over that of the best single memory
of the world in hindsight, which docs/which-policy.md has from the last `make suite`. The draws are
those of the suite.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import numpy as np
from hard_worlds import played, plus_minus
from tables import with_table

import driftbandits as db
from driftbandits import experiments

PAGE = Path("docs/auto.md")
TUNED = Path("docs/which-policy.md")
PLAYERS = ("auto", "pool")


def tuned_regrets() -> dict[str, float]:
    """Of the best single memory in each world, as the last suite found it."""
    rows = re.findall(r"^\| ([\w-]+) \| [^|]* \| [^|]* \| ([\d.]+) \|$", TUNED.read_text(), re.M)
    return {world: float(regret) for world, regret in rows}


def cost_over_d_glucb() -> float:
    """Of a round in the paper's world, quickest runs of each."""
    players = {
        "auto": db.policy("auto", dim=2),
        "D-GLUCB": db.policy("D-GLUCB", dim=2, horizon=6000, changes=3),
    }
    seconds = db.simulate(players, db.environment("abrupt2d"), runs=20, seed=1).seconds
    return float(seconds["auto"].min() / seconds["D-GLUCB"].min())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    tuned = tuned_regrets()
    lines = ["| world | `auto` | over the best in hindsight | `pool` | over it |", "|---" * 5 + "|"]
    ratios: dict[str, list[float]] = {name: [] for name in PLAYERS}
    for experiment in experiments.read_experiments(experiments.published()["suite"]):
        if "auto" not in experiment.players:
            continue
        auto = experiment.players["auto"]
        pool = db.policy("pool", dim=auto.dim, link=auto.link.name, m=auto.link.m)
        both = dataclasses.replace(experiment, players={"auto": auto, "pool": pool})
        cells = []
        for name in PLAYERS:
            regret = np.array([played(both, name, i)[0][-1] for i in range(runs)])
            regret *= experiment.world.m
            over = regret.mean() / tuned[experiment.variant]
            ratios[name].append(over)
            cells += [" ".join(plus_minus(regret).replace("+-", "± ").split()), f"{over:.2f}"]
        lines.append(f"| {experiment.variant} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    means = [f"{np.exp(np.mean(np.log(ratios[name]))):.2f}" for name in PLAYERS]
    worst = [f"{max(ratios[name]):.2f}" for name in PLAYERS]
    lines.append(f"| geometric mean | | {means[0]} | | {means[1]} |")
    lines.append(f"| worst | | {worst[0]} | | {worst[1]} |")
    print(*lines[-2:], sep="\n")
    PAGE.write_text(with_table(PAGE.read_text(), "worlds", lines))
    own = [float(means[0]), float(worst[0]), *ratios["auto"], cost_over_d_glucb()]
    row = f"| auto | {' | '.join(f'{value:.2f}' for value in own)} |"
    TUNED.write_text(re.sub(r"^\| auto \| .*$", row, TUNED.read_text(), flags=re.M))


if __name__ == "__main__":
    main()
