"""Worlds by name, as experiment files and the command line speak of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from driftbandits.environments import checks
from driftbandits.environments.synthetic import Abrupt, Drift, Seasonal, Stationary, abrupt2d
from driftbandits.environments.trace import Environment

_WORLDS: dict[str, Callable[..., Environment]] = {
    "abrupt": Abrupt,
    "abrupt2d": abrupt2d,
    "drift": Drift,
    "seasonal": Seasonal,
    "stationary": Stationary,
}


def environment_names() -> tuple[str, ...]:
    """The names that `environment` knows."""
    return tuple(sorted(_WORLDS))


def environment(name: str, **options: Any) -> Environment:
    """The world `name`, with its options.

    >>> environment("abrupt2d", horizon=600).changes
    (101, 201, 301)
    """
    make = _WORLDS[checks.one_of("name", name, _WORLDS)]
    allowed = inspect.signature(make).parameters
    for option in options:
        if option not in allowed:
            raise ValueError(
                f"{option} is not an option of the world {name}; "
                f"it has {', '.join(sorted(allowed))}"
            )
    return make(**options)
