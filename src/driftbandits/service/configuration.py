"""Make a policy, its estimated cost and its record from the body that configures it.

Forgetting by the clock: a half-life or a window in seconds is a number of ticks to the agent.
Costs: the arrays of a model are polynomials of its dimension, of the third degree at most, so four
small models of the same kind tell the size of a large one, which is never made.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from driftbandits import api
from driftbandits.agent import has_probabilities
from driftbandits.api import operations
from driftbandits.core import keeps_rows
from driftbandits.core.estimator.model import EVERYTHING, SINCE_RESTART
from driftbandits.policies import (
    CONSTANT,
    GREEDY,
    LARGE,
    Policy,
    policy_from,
    policy_names,
    uses,
)
from driftbandits.policies import policy as make_policy
from driftbandits.service.auth import Limits
from driftbandits.service.refusals import invalid
from driftbandits.store.records import Configured

TICKS = 1000
"""Ticks of the agent's clock in a half-life or a window."""

_NANOSECONDS = 1_000_000_000


def arguments_by_time(
    *, half_life_s: float | None, window_s: float | None
) -> dict[str, float | int]:
    """The arguments of a policy that forgets by the clock."""
    arguments: dict[str, float | int] = {}
    if half_life_s is not None:
        arguments["discount"] = 0.5 ** (1.0 / TICKS)
    if window_s is not None:
        arguments["window"] = TICKS
    return arguments


def ticks_of(elapsed_ns: int, *, seconds: float) -> int:
    """Count the ticks of a clock, given the seconds of a half-life or a window."""
    return int(elapsed_ns * TICKS // max(1, round(seconds * _NANOSECONDS)))


_SMALL = (LARGE, LARGE + 4, LARGE + 8, LARGE + 12)
_FIRST_ROWS = 64
_MEGABYTE = 1_000_000


def state_bytes(policy: Policy) -> int:
    """About how large the state is at the beginning; for separate arms, of one of them."""
    dim = policy.dim if policy.features is None else policy.features.limit
    arguments = {**policy.arguments, "arms": "shared"}
    arguments.pop("features", None)
    return _state_bytes(msgspec.json.encode(arguments), max(dim, LARGE))


@lru_cache(maxsize=1000)
def _state_bytes(arguments: bytes, dim: int) -> int:
    total = 0.0
    for d in _SMALL:
        made = policy_from({**msgspec.json.decode(arguments), "dim": d})
        size = sum(array.nbytes for array in made.new_buffers(_FIRST_ROWS))
        total += size * math.prod((dim - other) / (d - other) for other in _SMALL if other != d)
    return round(total)


def check_cost(policy: Policy, others: Iterable[Policy], limits: Limits) -> None:
    """Refuse a policy that is too large, or too large beside the others of its key."""
    size = state_bytes(policy)
    if size > limits.state_bytes:
        raise invalid(
            f"the state of this policy would take about {size / _MEGABYTE:,.0f} MB; a policy may "
            f"take {limits.state_bytes / _MEGABYTE:,.0f} MB. Give it fewer dimensions",
            "$.dim",
        )
    total = size + sum(state_bytes(other) for other in others)
    if total > limits.state_bytes_per_key:
        raise invalid(
            f"with this policy the states of its key would take about {total / _MEGABYTE:,.0f} MB; "
            f"a key may take {limits.state_bytes_per_key / _MEGABYTE:,.0f} MB",
            "$.dim",
        )


def notes(policy: Policy) -> list[str]:
    """Return hints for the person who configures the policy."""
    features, model = policy.features, policy.model
    if features is not None and features.context and not (features.crossed or policy.separate):
        return [
            "No column of the context is crossed with the arm, so the context cannot change which "
            'arm is chosen. Add a cross such as ["arm", "*"] to the features.'
        ]
    if not keeps_rows(model) or model.memory not in (EVERYTHING, SINCE_RESTART):
        return []
    until = "" if model.memory == EVERYTHING else " until it detects a change"
    return [
        f"{policy.name} keeps every row that it has learned from{until}: its memory, its snapshots "
        "and the time of a decision grow with the log. GLOC and GLB-OMD learn in one pass and "
        "keep no rows, SW-* and D-* forget, and auto stays small."
    ]


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
                "extra": {
                    "anyOf": [
                        {"enum": ["refuse", "ignore"]},
                        {"type": "array", "items": {"type": "string"}},
                    ]
                },
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
    bases=(api.PolicyRequest,),
    module=__name__,
    kw_only=True,
    namespace={"__doc__": "The arguments of `driftbandits.policy`, and how they are served."},
)
CONFIGURE = dataclasses.replace(operations.CONFIGURE, request=PolicyRequest)
PUT_SHADOW = dataclasses.replace(operations.PUT_SHADOW, request=PolicyRequest)


_SHORTEST_S = 1e-6
"""Shortest half-life or window: a thousandth of it is a tick, and time is in nanoseconds."""
_FORGETS_BY = {"half_life_s": "discount", "window_s": "window"}


def wanted_policy(request: Any) -> Policy:
    """The policy that a `PolicyRequest` asks for."""
    given = {
        name: value
        for name, value in msgspec.structs.asdict(request).items()
        if name in _PARAMETERS and value is not UNSET
    }
    for name, value in given.items():  # none larger than anything can use
        if isinstance(value, int):
            _check_most(name, value, api.LARGEST_INTEGER)
    _check_most("dim", given.get("dim") or 0, api.MOST_DIMENSIONS)
    for name, argument in _FORGETS_BY.items():
        seconds = getattr(request, name)
        if seconds is None:
            continue
        if seconds < _SHORTEST_S:
            raise invalid(f"{name} must be at least {_SHORTEST_S:g}; got {seconds!r}", f"$.{name}")
        if given.get(argument) is not None:
            raise invalid(f"give {name} or {argument}, not both", f"$.{name}")
        if given["name"] in policy_names() and not uses(given["name"], argument):
            raise invalid(
                f"{name} is for policies that have a {argument}, and {given['name']} has none",
                f"$.{name}",
            )
    given |= arguments_by_time(half_life_s=request.half_life_s, window_s=request.window_s)
    try:
        with warnings.catch_warnings(action="ignore"):  # `notes` say it to the caller
            policy = make_policy(**given)
    except (ValueError, TypeError, OverflowError) as error:
        first = str(error).split(" ", 1)[0]
        elsewhere = "$" if given.get("features") is None else "$.features"
        raise invalid(str(error), f"$.{first}" if first in _PARAMETERS else elsewhere) from None
    if policy.features is not None:
        _check_most("features.limit", policy.features.limit, api.MOST_DIMENSIONS)
    _check_most("dim", policy.dim, api.MOST_DIMENSIONS)  # of features that were fitted
    return policy


def _check_most(name: str, value: int, most: int) -> None:
    if abs(value) > most:
        raise invalid(f"{name} must be at most {most}; got {value}", f"$.{name}")


def wanted_record(request: Any, policy: Policy, *, key: str) -> Configured:
    """Return the record of a `PolicyRequest`; the writer adds its version and its seed."""
    limits = {"control": request.control, "shares": request.shares, "budget": request.budget}
    for name, limit in limits.items():
        if limit and not has_probabilities(policy):
            raise invalid(
                f"{name} must not be given for {policy.name}, which samples: it knows the "
                "probability of its own choice alone, and not of what is played instead",
                f"$.{name}",
            )
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
        control=request.control,
        shares=_shares(request),
        budget=_budget(request, policy),
        limit_window=request.limit_window,
    )


def _shares(request: Any) -> dict[str, tuple[float, float]] | None:
    shares = {arm: (pair[0], pair[1]) for arm, pair in (request.shares or {}).items()}
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
    return shares or None


def _budget(request: Any, policy: Policy) -> float | None:
    budget: float | None = request.budget
    if budget is not None and policy.row.score in (GREEDY, CONSTANT):
        raise invalid(
            f"budget must not be given for {policy.name}, which has no upper bound of what the "
            "baseline earns",
            "$.budget",
        )
    if budget is not None and not all(map(math.isfinite, policy.reward_range())):
        raise invalid("budget needs a reward with a range, as 'amount:0..500'", "$.budget")
    return budget


def _default_reward(request: Any, policy: Policy) -> float:
    default: float = request.default_reward or 0.0
    low, high = policy.reward_range()
    if request.reward_wait_s is None and request.default_reward is not None:
        raise invalid("default_reward needs reward_wait_s", "$.default_reward")
    if request.reward_wait_s is not None and not low <= default <= high:
        raise invalid(
            f"default_reward must be in [{low:g}, {high:g}] for this policy; got {default!r}",
            "$.default_reward",
        )
    return default
