"""Runs of policies in worlds: `simulate`, and experiments that are data and can be finished later.

(experiment,) = read_experiments("experiments/abrupt2d.toml")
run_experiment(experiment, out="results")
load("results/abrupt2d").runs
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from driftbandits.checks import RunFailed, SpecError, needed
from driftbandits.experiments.kernels import Run
from driftbandits.experiments.player import (
    Player,
    Restarted,
    draw_trace,
    play,
    player_seed,
)
from driftbandits.experiments.simulation import Result, simulate
from driftbandits.experiments.workers import LocalWorkers, local_workers

if TYPE_CHECKING:
    from driftbandits.experiments.results import Results, load, machine, run_experiment
    from driftbandits.experiments.spec import (
        REPRODUCED,
        Experiment,
        experiments_of,
        published,
        read_experiments,
    )

_HOMES = {
    "Results": "results",
    "load": "results",
    "machine": "results",
    "run_experiment": "results",
    "REPRODUCED": "spec",
    "Experiment": "spec",
    "experiments_of": "spec",
    "published": "spec",
    "read_experiments": "spec",
}

__all__ = [
    "REPRODUCED",
    "Experiment",
    "LocalWorkers",
    "Player",
    "Restarted",
    "Result",
    "Results",
    "Run",
    "RunFailed",
    "SpecError",
    "draw_trace",
    "experiments_of",
    "load",
    "local_workers",
    "machine",
    "play",
    "player_seed",
    "published",
    "read_experiments",
    "run_experiment",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Import what needs the extra on first use: `simulate` does without it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'driftbandits.experiments' has no attribute {name!r}")
    needed("Experiments", "msgspec", extra="experiments")
    return getattr(import_module(f"driftbandits.experiments.{_HOMES[name]}"), name)
