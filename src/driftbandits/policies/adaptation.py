"""What a policy that adapts its memory adds to a row: its kind and its numbers."""

from __future__ import annotations

from typing import NamedTuple

from driftbandits.estimator.model import Floats
from driftbandits.jit import inlined, place

NO_ADAPTATION, RESTARTS, WINDOWS, POOLED = map(place, range(4))


class Adaptation(NamedTuple):
    """The last numbers of a policy. What a kind has no use for is 0."""

    kind: int = 0
    threshold: float = 0.0  # RESTARTS, POOLED: log of the evidence from which a change is believed
    dispersion: float = 0.0  # RESTARTS: variance of a reward over the slope of its mean
    block: int = 0  # WINDOWS: rounds after which a window is drawn anew
    windows: int = 0  # WINDOWS: how many there are
    mixing: float = 0.0  # WINDOWS: share of uniform draws
    low: float = 0.0  # WINDOWS: smallest reward
    range: float = 0.0  # WINDOWS: largest less smallest reward


SIZE = len(Adaptation._fields)


@inlined
def adaptation_of(numbers: Floats) -> Adaptation:
    n = numbers[numbers.shape[0] - SIZE :]
    return Adaptation(int(n[0]), n[1], n[2], int(n[3]), int(n[4]), n[5], n[6], n[7])
