"""Worlds to play in: each draws a `Trace`, from a model, from a table or from a log."""

from driftbandits.environments.cases import Counts, Paired
from driftbandits.environments.logged import Logged, logged
from driftbandits.environments.registry import as_gymnasium, environment, environment_names
from driftbandits.environments.streams import Stream
from driftbandits.environments.synthetic import Abrupt, Drift, Seasonal, Stationary, abrupt2d
from driftbandits.environments.tables import Table, load_table
from driftbandits.environments.trace import Environment, Trace

__all__ = [
    "Abrupt",
    "Counts",
    "Drift",
    "Environment",
    "Logged",
    "Paired",
    "Seasonal",
    "Stationary",
    "Stream",
    "Table",
    "Trace",
    "abrupt2d",
    "as_gymnasium",
    "environment",
    "environment_names",
    "load_table",
    "logged",
]
