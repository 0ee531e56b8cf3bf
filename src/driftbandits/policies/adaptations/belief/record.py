"""What a belief consists of. See __init__.py for the model and the notation."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import Ints, layout_beyond
from driftbandits.jit import Share

SEGMENTS = 8
"""How many are kept from one reward to the next."""
ROOM = SEGMENTS + 1  # one more while a new one is weighed against the others

HAZARDS = np.array([0.0, 1 / 5000, 1 / 800, 1 / 150])
"""Chances of a change in a round, in four chains over the same segments; in the first none."""
CHAINS = len(HAZARDS)
PRIOR_TRUST = np.array([0.3, 0.1, 0.1, 0.1, 0.4])
"""In the chains, and in the drifts together, before anything is seen."""

TIGHTNESS = np.array([1.0, 0.25, 0.0625])
"""Priors that compete: what each multiplies lam with, ..."""
BASE_PRECISION = np.array([10.0, 0.1, 0.1])
"""... and how sure each is that a typical action pays what a base of 0 says."""
KINDS = len(TIGHTNESS)
NEW_BASE_PRECISION = 4.0
"""At least so sure is a segment that begins later: a change of taste keeps the base."""

ROUGH_SPEED = np.array([2.0**-12, 2.0**-8])
"""Shares of its prior that a parameter on a rough path (Matern 1/2) draws anew in a round."""
ROUGH = len(ROUGH_SPEED)
SMOOTH_SCALE = np.array([16384.0, 4096.0, 1024.0, 256.0])
"""Rounds within which a parameter on a smooth path (Matern 3/2) goes its own way."""
SMOOTH = len(SMOOTH_SCALE)
DRIFTS = ROUGH + SMOOTH
HYPOTHESES = ROOM + DRIFTS

FIRST_OF_ALL = -(2**62)
"""Where segments start that hold everything."""


class Belief(NamedTuple):
    """Segments, drifts, their weights, and what is known of the features."""

    starts: Annotated[Ints, Share("counters", ROOM)]  # the first round of a segment, in order
    serials: Annotated[Ints, Share("counters", ROOM)]  # no two segments have the same
    kinds: Annotated[Ints, Share("counters", ROOM)]  # whose prior they began with
    segments: Annotated[Ints, Share("counters")]  # how many there are
    born: Annotated[Ints, Share("counters")]  # how many there ever were
    newest: Annotated[Ints, Share("counters")]  # the latest round whose reward is known
    reported: Annotated[Ints, Share("counters")]  # where the last reported change was
    weights: Annotated[Floats, Share("gauges", CHAINS * ROOM)]  # of the segments in each chain
    trust: Annotated[Floats, Share("gauges", CHAINS + 1)]  # in each chain, and in the drifts
    held: Annotated[Floats, Share("gauges", ROOM)]  # weights of the segments over all chains
    drifting: Annotated[Floats, Share("gauges", DRIFTS)]  # weights of the drifts
    offset: Annotated[Floats, Share("gauges")]  # the first reward of a linear model
    size: Annotated[Floats, Share("gauges")]  # of the last reported change, in rewards
    spread: Annotated[Floats, Share("gauges", 2)]  # of rewards about forecasts: seen, expected
    rewarded: Annotated[Floats, Share("gauges", 4)]  # count, mean, variance, its largest
    # the above is common to separate arms, see IN_COMMON
    own_spread: Annotated[Floats, Share("gauges", 2)]  # as `spread`, of this arm
    counts: Annotated[Ints, Share("counters", ROOM)]  # rewards that a segment holds
    sets: Annotated[Ints, Share("counters")]  # of actions that were offered
    renewal: Annotated[Ints, Share("counters")]  # at how many sets the prior is made again
    kind: Annotated[Ints, Share("counters")]  # of prior that `newborn` is
    constant: Annotated[Ints, Share("counters")]  # is the last feature always 1?
    bases: Annotated[Floats, Share("gauges", ROOM)]  # that segments began with
    offered: Annotated[Floats, Share("gauges")]  # actions that the moments consist of
    base: Annotated[Floats, Share("gauges")]  # a . theta of a typical action
    evidence: Annotated[Floats, Share("gauges", HYPOTHESES)]  # scratch
    theta: Annotated[Floats, Share("vectors", ROOM)]
    centre: Annotated[Floats, Share("vectors")]  # means of the features
    squares: Annotated[Floats, Share("vectors")]  # means of their squares
    peaks: Annotated[Floats, Share("vectors")]  # largest squared distance from the mean, faded
    P: Annotated[Floats, Share("matrices", ROOM)]
    newborn: Annotated[Floats, Share("matrices")]  # covariance that a segment begins with
    # of large models the rough paths alone
    places: Annotated[Floats, Share("vectors", DRIFTS)]  # theta of the drifts, rough ones first
    place_P: Annotated[Floats, Share("matrices", DRIFTS)]
    # of small models alone
    velocity: Annotated[Floats, Share("vectors", SMOOTH)]
    cross_P: Annotated[Floats, Share("matrices", SMOOTH)]  # of place and velocity
    velocity_P: Annotated[Floats, Share("matrices", SMOOTH)]
    moments: Annotated[Floats, Share("matrices", 2)]  # mean products of features; of the last set


LAYOUT = layout_beyond(Belief)
IN_COMMON = {
    "counters": ("starts", "serials", "kinds", "segments", "born", "newest", "reported"),
    "gauges": ("weights", "trust", "held", "drifting", "offset", "size", "spread", "rewarded"),
}
"""What the rewards of every arm say together, by store; those of one store lie in a row."""
OF_SMALL_MODELS = {"vectors": 2 * SMOOTH, "matrices": 3 * SMOOTH + 2}
"""What only they have, at the end of the stores."""
