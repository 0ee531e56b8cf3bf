"""Experiments: a spec (TOML) -> runs on an executor -> results that can be finished later.

(experiment,) = read_experiments("experiments/abrupt2d.toml")
run_experiment(experiment, out="results")
load("results/abrupt2d").runs
"""

from driftbandits import extras

extras.needed("Experiments", "msgspec", extra="experiments")

from driftbandits.errors import RunFailed, SpecError
from driftbandits.experiments.results import Results, load
from driftbandits.experiments.runner import run_experiment
from driftbandits.experiments.spec import Experiment, published, read_experiments

__all__ = [
    "Experiment",
    "Results",
    "RunFailed",
    "SpecError",
    "load",
    "published",
    "read_experiments",
    "run_experiment",
]
