"""What becomes of `auto` if one of its constants is another: docs/auto.md.

python benchmarks/sensitivity.py --runs 40

Each cell is the mean final regret with its standard error, on draws by which nothing was chosen.
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
import subprocess
import sys
import tempfile

import numpy as np
from hard_worlds import played, plus_minus

from driftbandits import experiments

PLANE = {"suite": ("paper", "stationary", "turn"), "suite-fixed-arms": ("2-arms", "2-unseen")}
SEED = 2718
"""No choice was made by it."""
OTHER_VALUES: dict[str, tuple[float | list[float], ...]] = {
    "OPTIMISM": (0.25, 1.0),
    "EXPLORATION": (0.5, 2.0),
    "UNEVEN": (2.0, 8.0),
    "LOOKS": (1.75, 3.5),
    "BASE_PRECISION": ([3.0, 0.1, 0.1], [100.0, 0.1, 0.1]),
    "PRIOR_TRUST": ([0.125, 0.125, 0.125, 0.125, 0.5], [0.5, 0.1, 0.1, 0.1, 0.2]),
    "_SHARE_OF_TRUST": (1e-6, 1e-4),
    "_SHARE_OF_DRIFTS": (5e-6, 5e-4),
}
"""Of constants of policies/adaptations/belief, one below and one above."""


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
    parser.add_argument("--plane", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--with", dest="constant", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.constant:
        set_constant(*json.loads(given.constant))
    if given.plane:
        print(json.dumps(play_the_plane(given.runs)))
    else:
        show_sensitivity(given.runs)


if __name__ == "__main__":
    main()
