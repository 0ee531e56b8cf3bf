"""`auto` and what it was before in every world of the suite: docs/auto.md, docs/which-policy.md.

python benchmarks/auto.py --runs 40
python benchmarks/auto.py --sensitivity --runs 40

Each line is the mean final regret with its standard error, and over that of the best single memory
of the world in hindsight, which docs/which-policy.md has from the last `make suite`. The draws are
those of the suite.

With --sensitivity, what becomes of `auto` if one constant is another, on draws of its own.
Constants are compiled into the kernels, so each other value has a process and a kernel cache of its
own, and half a minute of compiling: the worlds are of the plane, which have kernels in common.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from hard_worlds import played, plus_minus
from tables import with_table

import driftbandits as db
from driftbandits import experiments

PAGE = Path("docs/auto.md")
TUNED = Path("docs/which-policy.md")
PLAYERS = ("auto", "pool")
PLANE = {"suite": ("paper", "stationary", "turn"), "suite-fixed-arms": ("2-arms", "2-unseen")}
SEED = 2718
"""Of the sensitivity: no choice was made by it."""
OTHER_VALUES: dict[str, tuple[float | list[float], ...]] = {
    "OPTIMISM": (0.25, 1.0),
    "EXPLORATION": (0.5, 2.0),
    "UNEVEN": (2.0, 8.0),
    "UNSEEN": (0.0, 0.3),
    "BASE_PRECISION": ([3.0, 0.1, 0.1], [100.0, 0.1, 0.1]),
    "PRIOR_TRUST": ([0.125, 0.125, 0.125, 0.125, 0.5], [0.5, 0.1, 0.1, 0.1, 0.2]),
    "_SHARE_OF_TRUST": (1e-6, 1e-4),
    "_SHARE_OF_DRIFTS": (5e-6, 5e-4),
}
"""Of constants of policies/adaptations/belief, one below and one above."""


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


def set_constant(name: str, value: float | list[float]) -> None:
    """In every module that has it, before anything is compiled."""
    package = importlib.import_module("driftbandits.policies.adaptations.belief")
    inside = [
        f"{package.__name__}.{found.name}" for found in pkgutil.iter_modules(package.__path__)
    ]
    modules = [package, *map(importlib.import_module, inside)]
    having = [module for module in modules if hasattr(module, name)]
    if not having:
        raise ValueError(f"no module of the belief has a constant {name}")
    for module in having:
        setattr(module, name, np.array(value) if isinstance(value, list) else value)


def play_the_plane(runs: int) -> list[list[float]]:
    """Final regrets of `auto` in the worlds of PLANE."""
    found = []
    for file, worlds in PLANE.items():
        for experiment in experiments.read_experiments(experiments.published()[file]):
            if experiment.variant in worlds and "auto" in experiment.players:
                own = dataclasses.replace(experiment, seed=SEED)
                found.append([float(played(own, "auto", i)[0][-1]) for i in range(runs)])
    return found


def played_with(runs: int, constant: str | None) -> list[list[float]]:
    """The same in a process of its own, with a constant told as JSON, or none."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--plane", "--runs", str(runs)]
        command += ["--with", constant] if constant else []
        environment = {**os.environ, "DRIFTBANDITS_CACHE_DIR": cache}
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    regrets: list[list[float]] = json.loads(done.stdout)
    return regrets


def show_sensitivity(runs: int) -> None:
    worlds = [world for own in PLANE.values() for world in own]
    print(f"| constant | value | {' | '.join(worlds)} |")
    print("|---" * (len(worlds) + 2) + "|", flush=True)
    wanted = [("as it is", "", None)]
    for name, values in OTHER_VALUES.items():
        wanted += [(f"`{name}`", str(value), json.dumps([name, value])) for value in values]
    for name, value, constant in wanted:
        cells = [
            " ".join(plus_minus(np.array(regret)).replace("+-", "± ").split())
            for regret in played_with(runs, constant)
        ]
        print(f"| {name} | {value} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--sensitivity", action="store_true")
    parser.add_argument("--plane", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--with", dest="constant", help=argparse.SUPPRESS)
    given = parser.parse_args()
    runs = given.runs
    if given.constant:
        set_constant(*json.loads(given.constant))
    if given.plane:
        print(json.dumps(play_the_plane(runs)))
        return
    if given.sensitivity:
        show_sensitivity(runs)
        return
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
    TUNED.write_text(re.sub(r"^\| auto \| .*$", row, TUNED.read_text(), count=1, flags=re.M))


if __name__ == "__main__":
    main()
