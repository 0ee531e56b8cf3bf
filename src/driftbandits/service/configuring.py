"""From the body that configures a policy to the policy it asks for."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from driftbandits import operations, wire
from driftbandits.policies import Policy
from driftbandits.policies import policy as make_policy
from driftbandits.service.fold import TICKS
from driftbandits.service.problems import invalid

_PARAMETERS = inspect.signature(make_policy).parameters


def _arguments() -> Iterator[tuple[str, Any] | tuple[str, Any, Any]]:
    """The arguments of `driftbandits.policy`, whatever they are by now."""
    hints = typing.get_type_hints(make_policy)
    for name, parameter in _PARAMETERS.items():
        if parameter.default is parameter.empty:
            yield name, hints[name]
        else:
            yield name, hints[name] | UnsetType, UNSET


PolicyRequest = msgspec.defstruct(
    "PolicyRequest",
    list(_arguments()),
    bases=(wire.PolicyRequest,),
    module=__name__,
    kw_only=True,
    namespace={"__doc__": "The arguments of `driftbandits.policy`, and how they are served."},
)
CONFIGURE = dataclasses.replace(operations.CONFIGURE, request=PolicyRequest)


def wanted_policy(request: Any) -> Policy:
    given = {
        name: value
        for name, value in msgspec.structs.asdict(request).items()
        if name in _PARAMETERS and value is not msgspec.UNSET
    }
    for name, value in given.items():
        if isinstance(value, int) and abs(value) > wire.LARGEST_INTEGER:
            raise invalid(
                f"{name} must be at most {wire.LARGEST_INTEGER}; got {value}", f"$.{name}"
            )
    if request.dim > wire.MOST_DIMENSIONS:
        raise invalid(f"dim must be at most {wire.MOST_DIMENSIONS}; got {request.dim}", "$.dim")
    by_time = {"half_life_s": "discount", "window_s": "window"}
    for name, argument in by_time.items():
        if getattr(request, name) is None:
            continue
        if given.get(argument) is not None:
            raise invalid(f"give {name} or {argument}, not both", f"$.{name}")
        given[argument] = TICKS if argument == "window" else 0.5 ** (1.0 / TICKS)
    try:
        policy = make_policy(**given)
    except (ValueError, TypeError, OverflowError) as error:
        first = str(error).split(" ", 1)[0]
        raise invalid(str(error), f"$.{first}" if first in _PARAMETERS else "$") from None
    for name, argument in by_time.items():
        if getattr(request, name) is not None and getattr(policy, argument) is None:
            raise invalid(f"{policy.name} forgets by no {argument}", f"$.{name}")
    return policy
