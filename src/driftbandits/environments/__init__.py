"""Worlds to play in: each draws a `Trace` from a model or from recorded data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from driftbandits import checks
from driftbandits.environments.datasets import (
    Counts,
    Paired,
    Table,
    load_table,
)
from driftbandits.environments.shop import Shop
from driftbandits.environments.synthetic import Abrupt, Drift, Seasonal, Stationary, abrupt2d
from driftbandits.environments.trace import Environment, Logged, TableRows, Trace, table_world

__all__ = [
    "Abrupt",
    "Counts",
    "Drift",
    "Environment",
    "Logged",
    "Paired",
    "Seasonal",
    "Shop",
    "Stationary",
    "Table",
    "TableRows",
    "Trace",
    "abrupt2d",
    "as_gymnasium",
    "environment",
    "environment_names",
    "load_table",
]

_WORLDS: dict[str, Callable[..., Environment]] = {
    "abrupt": Abrupt,
    "abrupt2d": abrupt2d,
    "counts": Counts,
    "drift": Drift,
    "logged": Logged,
    "paired": Paired,
    "seasonal": Seasonal,
    "shop": Shop,
    "stationary": Stationary,
    "table": table_world,
}


def environment_names() -> tuple[str, ...]:
    """Return the names that `environment` knows."""
    return tuple(sorted(_WORLDS))


def environment(name: str, **options: Any) -> Environment:
    """Make the world `name`, with its options.

    >>> environment("abrupt2d", horizon=600).changes
    (101, 201, 301)
    """
    make = _WORLDS[checks.choice("name", name, environment_names())]
    allowed = dict(inspect.signature(make).parameters)
    if make is table_world:
        del allowed["columns"]
        allowed |= inspect.signature(Trace.from_frame).parameters
        del allowed["table"]
    for option in options:
        if option not in allowed:
            raise ValueError(
                f"{option} is not an option of the world {name}{checks.perhaps(option, allowed)}; "
                f"it has {', '.join(sorted(allowed))}"
            )
    missing = [
        option
        for option, parameter in allowed.items()
        if parameter.default is inspect.Parameter.empty and option not in options
    ]
    if missing:
        raise ValueError(f"the world {name} needs {' and '.join(missing)}")
    return make(**options)


def as_gymnasium(environment: Environment, *, seed: int | None = None) -> Any:
    """Make a Gymnasium environment of a world, a `driftbandits.environments.gym.BanditEnv`.

    `seed` belongs to the first `reset` that is given none.
    """
    checks.load("gymnasium", "Gymnasium environments need gymnasium", extra="gym")
    from driftbandits.environments.gym import BanditEnv

    return BanditEnv(environment, seed=seed)
