"""Worlds by name, as experiment files and the command line speak of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from driftbandits import checks, extras
from driftbandits.environments.cases import Counts, Paired
from driftbandits.environments.logged import logged
from driftbandits.environments.shop import Shop
from driftbandits.environments.streams import Stream
from driftbandits.environments.synthetic import Abrupt, Drift, Seasonal, Stationary, abrupt2d
from driftbandits.environments.trace import Environment

_WORLDS: dict[str, Callable[..., Environment]] = {
    "abrupt": Abrupt,
    "abrupt2d": abrupt2d,
    "counts": Counts,
    "drift": Drift,
    "logged": logged,
    "paired": Paired,
    "seasonal": Seasonal,
    "shop": Shop,
    "stationary": Stationary,
    "stream": Stream,
}


def environment_names() -> tuple[str, ...]:
    """The names that `environment` knows."""
    return tuple(sorted(_WORLDS))


def environment(name: str, **options: Any) -> Environment:
    """The world `name`, with its options.

    >>> environment("abrupt2d", horizon=600).changes
    (101, 201, 301)
    """
    make = _WORLDS[checks.choice("name", name, environment_names())]
    allowed = inspect.signature(make).parameters
    for option in options:
        if option not in allowed:
            raise ValueError(
                f"{option} is not an option of the world {name}{checks.perhaps(option, allowed)}; "
                f"it has {', '.join(sorted(allowed))}"
            )
    return make(**options)


def as_gymnasium(environment: Environment, *, seed: int | None = None) -> Any:
    """Any world as a Gymnasium environment, a `driftbandits.environments.gym.BanditEnv`.

    `seed` belongs to the first `reset` that is given none.
    """
    extras.load("gymnasium", "Gymnasium environments need gymnasium", extra="gym")
    from driftbandits.environments.gym import BanditEnv

    return BanditEnv(environment, seed=seed)
