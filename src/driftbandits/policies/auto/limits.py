"""Numbers that a belief limits because they lie far beyond what their column has shown.

The belief counts them in its buffers. Other policies limit nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from driftbandits.core import Buffers
from driftbandits.core.estimator.model import BELIEF, Floats
from driftbandits.core.estimator.state import Ints
from driftbandits.policies.auto.record import LAYOUT, PLACES, Belief

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

_FAR = 20.0  # times the range, from which a number is worth a warning: ordinary tails are not
_KNOWN = 8  # values of a column, before which its range is a guess and there is no warning

_LIMITS = int(PLACES.limits[0])


class LimitedColumn(NamedTuple):
    """A column that had numbers beyond its range: how many, and the last one as it was offered."""

    column: str | int  # its name, or its place where there are no names
    count: int  # type: ignore[assignment]  # how often a tuple holds something is not asked
    last: float


class Limit(NamedTuple):
    """The range that a column was limited to, and the last number beyond it."""

    low: float
    high: float
    value: float
    is_surprising: bool  # whether it is worth a warning


def limit_counter(policy: Policy, buffers: Buffers) -> Ints:
    """A view (1,) of the counter of limited numbers."""
    if policy.row.memory != BELIEF:
        return np.zeros(1, dtype=np.int64)
    return buffers.counters[_LIMITS : _LIMITS + 1]


def limited_columns(policy: Policy, buffers: Buffers) -> list[LimitedColumn]:
    """The columns that had limited numbers, by their places."""
    if policy.row.memory != BELIEF:
        return []
    belief: Belief = LAYOUT.in_python(buffers)
    return [
        LimitedColumn(int(j), int(belief.limited[j]), float(belief.last_limited[j]))
        for j in np.flatnonzero(belief.limited)
    ]


def limits_of(buffers: Buffers, rows: Floats) -> dict[int, Limit]:
    """Limits of the columns of these rows (K, dim), the last ones offered."""
    belief: Belief = LAYOUT.in_python(buffers)
    d = rows.shape[1]
    low, high, moved = belief.low[:d], belief.high[:d], belief.moved[:d]
    is_limited = (moved > 0.0) & ((rows < low) | (rows > high)).any(axis=0)
    found = {}
    for j in np.flatnonzero(is_limited).tolist():
        value = float(belief.last_limited[j])
        reach = _FAR * (high[j] - low[j]) / 2.0
        is_far = abs(value - belief.reference[j]) > reach
        is_surprising = bool(is_far and moved[j] >= _KNOWN)
        found[j] = Limit(float(low[j]), float(high[j]), value, is_surprising)
    return found
