"""What a policy will take, before it is accepted.

The arrays of a model are polynomials of its dimension, of the third degree at most. So four small
models of the same kind tell the size of a large one, which is never made. A step of a model
reads its arrays at least once, and a snapshot writes them, so time follows from size.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from driftbandits.policies import Policy, recorded_policy
from driftbandits.policies.configuration import LARGE
from driftbandits.service.limits import Limits
from driftbandits.service.refusals import Refused, invalid

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
    sizes = {d: _measured({**msgspec.json.decode(arguments), "dim": d}) for d in _SMALL}
    total = 0.0
    for d, size in sizes.items():
        weight = 1.0
        for other in _SMALL:
            if other != d:
                weight *= (dim - other) / (d - other)
        total += weight * size
    return round(total)


def _measured(arguments: dict[str, object]) -> int:
    return sum(array.nbytes for array in recorded_policy(arguments).new_buffers(_FIRST_ROWS))


def check_cost(policy: Policy, others: Iterable[Policy], limits: Limits) -> None:
    """Refuse a policy that is too large, or too large beside the others of its key."""
    size = state_bytes(policy)
    if size > limits.state_bytes:
        raise _too_costly(
            f"the state of this policy would take about {size / _MEGABYTE:,.0f} MB; a policy may "
            f"take {limits.state_bytes / _MEGABYTE:,.0f} MB. Give it fewer dimensions"
        )
    total = size + sum(state_bytes(other) for other in others)
    if total > limits.state_bytes_per_key:
        raise _too_costly(
            f"with this policy the states of its key would take about {total / _MEGABYTE:,.0f} MB; "
            f"a key may take {limits.state_bytes_per_key / _MEGABYTE:,.0f} MB"
        )


def _too_costly(message: str) -> Refused:
    return invalid(message, "$.dim")
