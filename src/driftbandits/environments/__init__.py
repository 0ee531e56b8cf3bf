"""Worlds to play in: each draws a `Trace`, from a model, from a table or from a log."""

from driftbandits.environments.registry import environment, environment_names
from driftbandits.environments.synthetic import (
    Abrupt,
    Drift,
    Seasonal,
    Stationary,
    Synthetic,
    abrupt2d,
)
from driftbandits.environments.trace import Environment, Trace

__all__ = [
    "Abrupt",
    "Drift",
    "Environment",
    "Seasonal",
    "Stationary",
    "Synthetic",
    "Trace",
    "abrupt2d",
    "environment",
    "environment_names",
]
