"""What a policy that adapts its memory adds to a row: its kind and its numbers."""

from __future__ import annotations

from typing import NamedTuple

from driftbandits.estimator.model import Floats
from driftbandits.jit import inlined, place

NO_ADAPTATION, RESTARTS, WINDOWS, POOLED, MODELS = map(place, range(5))


class Adaptation(NamedTuple):
    """The last numbers of a policy. What a kind has no use for is 0."""

    kind: int = 0
    threshold: float = 0.0  # of evidence of a change, its log; MODELS: of a share of bad rewards
    dispersion: float = 0.0  # RESTARTS: variance of a reward over the slope of its mean
    block: int = 0  # WINDOWS: rounds after which a window is drawn anew
    windows: int = 0  # WINDOWS: how many there are
    mixing: float = 0.0  # WINDOWS: share of uniform draws
    low: float = 0.0  # WINDOWS: smallest reward
    range: float = 0.0  # WINDOWS: largest less smallest reward
    surprise: float = 0.0  # MODELS: how far noise may carry a reward
    doubt: float = 0.0  # MODELS: ln(1/delta2) / 2


SIZE = len(Adaptation._fields)


@inlined
def adaptation_of(numbers: Floats) -> Adaptation:
    n = numbers[numbers.shape[0] - SIZE :]
    return Adaptation(int(n[0]), n[1], n[2], int(n[3]), int(n[4]), n[5], n[6], n[7], n[8], n[9])
