"""What a belief consists of, for people."""

from __future__ import annotations

from typing import NamedTuple

from driftbandits.estimator import Buffers
from driftbandits.policies.adaptations.belief.record import (
    CHAINS,
    FIRST_OF_ALL,
    LAYOUT,
    ROUGH_SPEED,
    SMOOTH_SCALE,
    TIGHTNESS,
    Belief,
)


class Hypothesis(NamedTuple):
    """What may be true of the parameter, and how probable that is.

    path    constant; wandering: it has moved on within so many rounds, in no direction; turning:
            the same, but steadily
    since   the first round of a constant one; None: it has always been what it is
    rounds  within which one that moves goes its own way
    prior   of a constant one: how tight the prior was, as a share of lam
    """

    path: str
    probability: float
    since: int | None = None
    rounds: float | None = None
    prior: float | None = None


def hypotheses_in(buffers: Buffers, *, fast: bool) -> list[Hypothesis]:
    """Of a belief, the most probable first."""
    belief: Belief = LAYOUT.in_python(buffers)
    found = []
    for r in range(belief.segments[0]):
        start = int(belief.starts[r])
        found.append(
            Hypothesis(
                "constant",
                float(belief.held[r]),
                since=None if start == FIRST_OF_ALL else start,
                prior=float(TIGHTNESS[belief.kinds[r]]),
            )
        )
    paths = [("wandering", 1.0 / speed) for speed in ROUGH_SPEED]
    if not fast:
        paths += [("turning", scale) for scale in SMOOTH_SCALE]
    if found:
        for (path, rounds), weight in zip(paths, belief.drifting, strict=False):
            probability = float(belief.trust[CHAINS] * weight)
            found.append(Hypothesis(path, probability, rounds=float(rounds)))
    return sorted(found, key=lambda one: -one.probability)
