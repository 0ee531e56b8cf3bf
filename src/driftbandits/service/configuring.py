"""From the body that configures a policy to the policy it asks for."""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from driftbandits import operations, wire
from driftbandits.agent.laws import has_law
from driftbandits.policies import Policy, policy_names, uses
from driftbandits.policies import policy as make_policy
from driftbandits.policies.scoring import CONSTANT, GREEDY
from driftbandits.service.forgetting import arguments_by_time
from driftbandits.service.refusals import Refused, invalid
from driftbandits.store.records import Configured

_PARAMETERS = inspect.signature(make_policy).parameters
_COLUMNS = {"type": "object", "additionalProperties": {"type": "string"}}
_PAIR = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
FeaturesTable = Annotated[
    dict[str, Any],
    Meta(
        description="The plain data of driftbandits.Features: the kind of each column (number, "
        "log, category, cycle:PERIOD, bins:N, flag, tags, vector:N or text), and pairs to cross.",
        extra_json_schema={
            "properties": {
                "context": _COLUMNS,
                "arm": _COLUMNS,
                "cross": {"type": "array", "items": _PAIR},
                "extra": {"enum": ["refuse", "ignore"]},
                "limit": {"type": "integer"},
                "levels": {"type": "integer"},
                "fitted": {"type": "object"},
            },
            "additionalProperties": False,
        },
    ),
]


def _arguments() -> Iterator[tuple[str, Any] | tuple[str, Any, Any]]:
    """The arguments of `driftbandits.policy`, whatever they are by now."""
    hints = {**typing.get_type_hints(make_policy), "features": FeaturesTable | None}
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
PUT_SHADOW = dataclasses.replace(operations.PUT_SHADOW, request=PolicyRequest)


_SHORTEST_S = 1e-6
"""Of a half-life or a window: a thousandth of it is a tick, and time is counted in nanoseconds."""
_FORGETS_BY = {"half_life_s": "discount", "window_s": "window"}


def wanted_policy(request: Any) -> Policy:
    """The policy that a `PolicyRequest` asks for."""
    given = _given(request)
    by_clock = {name: by for name, by in _FORGETS_BY.items() if getattr(request, name) is not None}
    for name, argument in by_clock.items():
        if getattr(request, name) < _SHORTEST_S:
            raise invalid(
                f"{name} must be at least {_SHORTEST_S:g}; got {getattr(request, name)!r}",
                f"$.{name}",
            )
        if given.get(argument) is not None:
            raise invalid(f"give {name} or {argument}, not both", f"$.{name}")
        if given["name"] in policy_names() and not uses(given["name"], argument):
            raise invalid(
                f"{name} is for policies that have a {argument}, and {given['name']} has none",
                f"$.{name}",
            )
    by_time = arguments_by_time(half_life_s=request.half_life_s, window_s=request.window_s)
    policy = _made({**given, **by_time})
    if policy.features is not None and policy.features.limit > wire.MOST_DIMENSIONS:
        raise _too_large("features.limit", policy.features.limit, wire.MOST_DIMENSIONS)
    if policy.dim > wire.MOST_DIMENSIONS:  # of features that were fitted
        raise _too_large("dim", policy.dim, wire.MOST_DIMENSIONS)
    return policy


def _given(request: Any) -> dict[str, Any]:
    """The arguments of a policy that the request has, none larger than anything can use."""
    given = {
        name: value
        for name, value in msgspec.structs.asdict(request).items()
        if name in _PARAMETERS and value is not UNSET
    }
    for name, value in given.items():
        if isinstance(value, int) and abs(value) > wire.LARGEST_INTEGER:
            raise _too_large(name, value, wire.LARGEST_INTEGER)
    dim = given.get("dim") or 0
    if dim > wire.MOST_DIMENSIONS:
        raise _too_large("dim", dim, wire.MOST_DIMENSIONS)
    return given


def _too_large(name: str, value: int, most: int) -> Refused:
    return invalid(f"{name} must be at most {most}; got {value}", f"$.{name}")


def _made(arguments: dict[str, Any]) -> Policy:
    try:
        return make_policy(**arguments)
    except (ValueError, TypeError, OverflowError) as error:
        first = str(error).split(" ", 1)[0]
        elsewhere = "$" if arguments.get("features") is None else "$.features"
        raise invalid(str(error), f"$.{first}" if first in _PARAMETERS else elsewhere) from None


def wanted_record(request: Any, policy: Policy, *, key: str) -> Configured:
    """What the log will say of a `PolicyRequest`; the writer adds its version and its seed."""
    return Configured(
        version=0,
        arguments=policy.arguments,
        seed=0,
        mode=request.mode,
        reward_wait_s=request.reward_wait_s,
        default_reward=_default_reward(request, policy),
        half_life_s=request.half_life_s,
        window_s=request.window_s,
        fresh=True,
        key=key,
        control=_control(request, policy),
        shares=_shares(request, policy),
        budget=_budget(request, policy),
        limit_window=request.limit_window,
    )


def _needs_law(name: str, policy: Policy) -> None:
    if not has_law(policy):
        raise invalid(
            f"{name} must not be given for {policy.name}, which samples: it knows the probability "
            "of its own choice alone, and not of what is played instead",
            f"$.{name}",
        )


def _control(request: Any, policy: Policy) -> float:
    share: float = request.control
    if share:
        _needs_law("control", policy)
    return share


def _shares(request: Any, policy: Policy) -> dict[str, tuple[float, float]] | None:
    shares = {arm: (pair[0], pair[1]) for arm, pair in (request.shares or {}).items()}
    if not shares:
        return None
    _needs_law("shares", policy)
    for arm, (least, most) in shares.items():
        if least > most or most == 0.0:
            raise invalid(
                "shares must be [min, max] of an arm, with min <= max and max above 0; got "
                f"[{least:g}, {most:g}]",
                f"$.shares.{arm}",
            )
    together = math.fsum(least for least, _ in shares.values())
    if together > 1.0:
        raise invalid(f"the min of all shares must sum to at most 1; got {together:g}", "$.shares")
    return shares


def _budget(request: Any, policy: Policy) -> float | None:
    budget: float | None = request.budget
    if budget is None:
        return None
    _needs_law("budget", policy)
    if policy.row.score in (GREEDY, CONSTANT):
        raise invalid(
            f"budget must not be given for {policy.name}, which has no upper bound of what the "
            "baseline earns",
            "$.budget",
        )
    if not all(map(math.isfinite, policy.reward_range())):
        raise invalid("budget needs a reward with a range, as 'amount:0..500'", "$.budget")
    return budget


def _default_reward(request: Any, policy: Policy) -> float:
    default: float = request.default_reward or 0.0
    if request.reward_wait_s is None:
        if request.default_reward is not None:
            raise invalid("default_reward needs reward_wait_s", "$.default_reward")
        return default
    low, high = policy.reward_range()
    if not low <= default <= high:
        raise invalid(
            f"default_reward must be in [{low:g}, {high:g}] for this policy; got {default!r}",
            "$.default_reward",
        )
    return default
