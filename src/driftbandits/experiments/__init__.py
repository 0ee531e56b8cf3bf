"""Runs of policies in worlds: `simulate`, and experiments that are data and can be finished later.

(experiment,) = read_experiments("experiments/abrupt2d.toml")
run_experiment(experiment, out="results")
load("results/abrupt2d").runs
"""

from driftbandits.checks import RunFailed, SpecError
from driftbandits.experiments.kernels import Run
from driftbandits.experiments.player import Player, Restarted, draw_trace, play, player_seed
from driftbandits.experiments.results import Results, load, machine, run_experiment
from driftbandits.experiments.simulation import Result, simulate
from driftbandits.experiments.spec import (
    REPRODUCED,
    Experiment,
    experiments_of,
    published,
    read_experiments,
)
from driftbandits.experiments.workers import LocalWorkers, local_workers

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
