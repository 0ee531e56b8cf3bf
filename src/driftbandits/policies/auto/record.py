"""State of a belief, and what Python reads in it. See __init__.py for the notation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from driftbandits.core import Buffers
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import FITTED, Ints, N, beyond, estimates_of, layout_beyond
from driftbandits.jit import Share

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

SEGMENTS = 8
"""Number of segments kept from one reward to the next."""
ROOM = SEGMENTS + 1  # one more while a new one is weighed against the others

HAZARDS = np.array([0.0, 1 / 5000, 1 / 800, 1 / 150])
"""Probabilities of a change in a round, of four chains over the same segments."""
CHAINS = len(HAZARDS)
PRIOR_TRUST = np.array([0.3, 0.1, 0.1, 0.1, 0.4])
"""Prior probabilities of the chains, and of the drifts together."""

TIGHTNESS = np.array([1.0, 0.25, 0.0625])
"""Priors that compete: what each multiplies lam with, ..."""
BASE_PRECISION = np.array([10.0, 0.1, 0.1])
"""... and how sure each is that a typical action pays what a base of 0 says."""
KINDS = len(TIGHTNESS)
LONE_BASE_PRECISION = 1.0
"""Base precision of the loosest prior of separate arms whose features never moved."""
NEW_BASE_PRECISION = 4.0
"""At least so sure is a segment that begins later: a change of taste keeps the base."""

POPULATION = 4.0
"""Variance of the base that separate arms have in common, over phi, when nothing is known, ..."""
LEAST_POPULATION = 0.01
"""... and however much is."""

MATERN12_RATE = np.array([2.0**-12, 2.0**-8])
"""Shares of the prior that Matern-1/2 drifts draw anew in a round."""
MATERN12 = len(MATERN12_RATE)
MATERN32_SCALE = np.array([16384.0, 4096.0, 1024.0, 256.0])
"""Length scales of Matern-3/2 drifts, in rounds."""
MATERN32 = len(MATERN32_SCALE)
DRIFTS = MATERN12 + MATERN32
HYPOTHESES = ROOM + DRIFTS

KEPT_VALUES = 32
"""Number of values of a column that are kept, see priors.py."""

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
    kind: Annotated[Ints, Share("counters")]  # of prior that is the most probable
    learned: Annotated[Ints, Share("counters")]  # how many rewards
    weights: Annotated[Floats, Share("gauges", CHAINS * ROOM)]  # of the segments in each chain
    trust: Annotated[Floats, Share("gauges", CHAINS + 1)]  # in each chain, and in the drifts
    held: Annotated[Floats, Share("gauges", ROOM)]  # weights of the segments over all chains
    drift_weights: Annotated[Floats, Share("gauges", DRIFTS)]  # weights of the drifts
    offset: Annotated[Floats, Share("gauges")]  # the first reward of a linear model
    size: Annotated[Floats, Share("gauges")]  # of the last reported change, in rewards
    spread: Annotated[Floats, Share("gauges", 2)]  # of rewards about forecasts: seen, expected
    rewarded: Annotated[Floats, Share("gauges", 4)]  # count, mean, variance, its largest
    shared_base: Annotated[Floats, Share("gauges", HYPOTHESES)]  # of all arms, by hypothesis, ...
    base_variance: Annotated[Floats, Share("gauges", HYPOTHESES)]  # ... over phi; 0: no such arms
    # separate arms share the above, see IN_COMMON
    counts: Annotated[Ints, Share("counters", ROOM)]  # rewards that a segment holds
    sets: Annotated[Ints, Share("counters")]  # of actions that were offered
    renewal: Annotated[Ints, Share("counters")]  # at how many sets the prior is made again
    prior_kind: Annotated[Ints, Share("counters")]  # the kind of prior_P
    version: Annotated[Ints, Share("counters")]  # how often columns or prior have changed
    limits: Annotated[Ints, Share("counters")]  # numbers that were limited
    constant: Annotated[Ints, Share("counters")]  # is the last feature always 1?
    bases: Annotated[Floats, Share("gauges", ROOM)]  # that segments began with
    offered: Annotated[Floats, Share("gauges")]  # actions that the moments consist of
    base: Annotated[Floats, Share("gauges")]  # a . theta of a typical action
    evidence: Annotated[Floats, Share("gauges", HYPOTHESES)]  # scratch
    theta: Annotated[Floats, Share("vectors", ROOM)]
    mean: Annotated[Floats, Share("vectors")]  # of the mixture
    centre: Annotated[Floats, Share("vectors")]  # means of the features
    variance: Annotated[Floats, Share("vectors")]  # their variances
    # of columns, see priors.py
    reference: Annotated[Floats, Share("vectors")]  # what a feature is counted from
    moved: Annotated[Floats, Share("vectors")]  # values that differed from it
    since: Annotated[Floats, Share("vectors")]  # sets when the reference was taken
    low: Annotated[Floats, Share("vectors")]  # limits of the values
    high: Annotated[Floats, Share("vectors")]
    scale: Annotated[Floats, Share("vectors")]  # usual distance from the reference
    begun_scale: Annotated[Floats, Share("vectors")]  # the same when the slope last began anew, ...
    stamps: Annotated[Floats, Share("vectors")]  # ... and the version when it did
    limited: Annotated[Floats, Share("vectors")]  # numbers that were limited, ...
    last_limited: Annotated[Floats, Share("vectors")]  # ... and the last one
    kept: Annotated[Floats, Share("vectors", KEPT_VALUES)]
    P: Annotated[Floats, Share("matrices", ROOM)]
    prior_P: Annotated[Floats, Share("matrices")]  # prior covariance of a new segment
    # large models have the Matern-1/2 drifts alone
    drift_means: Annotated[Floats, Share("vectors", DRIFTS)]  # Matern-1/2 first
    drift_P: Annotated[Floats, Share("matrices", DRIFTS)]
    # of small models alone
    velocity: Annotated[Floats, Share("vectors", MATERN32)]
    cross_P: Annotated[Floats, Share("matrices", MATERN32)]  # of place and velocity
    velocity_P: Annotated[Floats, Share("matrices", MATERN32)]
    moments: Annotated[Floats, Share("matrices", 2)]  # mean products of features; of the last set


LAYOUT = layout_beyond(Belief)
PLACES: Belief = LAYOUT.in_python(
    SimpleNamespace(**{store: np.arange(size) for store, size in LAYOUT.sizes.items()})
)
"""Where in their stores the fields lie."""
IN_COMMON = {
    "counters": slice(int(PLACES.starts[0]), int(PLACES.counts[0])),
    "gauges": slice(int(PLACES.weights[0]), int(PLACES.bases[0])),
}
"""Where the fields lie that separate arms share, those before `bases`, by store."""
OF_SMALL_MODELS = {"vectors": 2 * MATERN32, "matrices": 3 * MATERN32 + 2}
"""Arrays of small models only, at the end of the stores."""


# -- what people ask for ---------------------------------------------------------------------------


class Hypothesis(NamedTuple):
    """A hypothesis about the parameter and its posterior probability.

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


def hypotheses(policy: Policy, buffers: Buffers) -> list[Hypothesis]:
    """Hypotheses about the parameter, the most probable first."""
    belief: Belief = LAYOUT.in_python(buffers)
    found = []
    for r in range(belief.segments[0]):
        start, prior = int(belief.starts[r]), float(TIGHTNESS[belief.kinds[r]])
        since = None if start == FIRST_OF_ALL else start
        found.append(Hypothesis("constant", float(belief.held[r]), since=since, prior=prior))
    paths = [("wandering", 1.0 / speed) for speed in MATERN12_RATE]
    if not policy.fast:
        paths += [("turning", scale) for scale in MATERN32_SCALE]
    if found:
        for (path, rounds), weight in zip(paths, belief.drift_weights, strict=False):
            probability = float(belief.trust[CHAINS] * weight)
            found.append(Hypothesis(path, probability, rounds=float(rounds)))
    return sorted(found, key=lambda one: -one.probability)


def weights_of_ages(policy: Policy, buffers: Buffers, ages: Floats) -> Floats:
    """Probability that the parameter of each age is still the present one."""
    belief: Belief = LAYOUT.in_python(buffers)
    weights = np.zeros_like(ages)
    for r in range(belief.segments[0]):
        held = belief.trust[:CHAINS] @ belief.weights[r::ROOM][:CHAINS]
        weights += held * (buffers.counters[N] - ages >= belief.starts[r])
    fading = [(1.0 - speed) ** (ages / 2.0) for speed in MATERN12_RATE]
    if not policy.fast:
        ways = [np.sqrt(3.0) * ages / scale for scale in MATERN32_SCALE]
        fading += [(1.0 + way) * np.exp(-way) for way in ways]
    for weight, faded in zip(belief.drift_weights, fading, strict=False):
        weights += belief.trust[CHAINS] * weight * faded
    return weights


_FAR = 20.0  # times the range, from which a number is worth a warning: ordinary tails are not
_KNOWN = 8  # values of a column, before which its range is a guess and there is no warning


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
    if not policy.row.believes:
        return np.zeros(1, dtype=np.int64)
    counter: Ints = LAYOUT.in_python(buffers).limits
    return counter


def limited_columns(policy: Policy, buffers: Buffers) -> list[LimitedColumn]:
    """The columns that had limited numbers, by their places."""
    if not policy.row.believes:
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


# -- carrying over ---------------------------------------------------------------------------------


class Move(NamedTuple):
    """Coordinate sources[i] becomes targets[i]; others are new, or gone."""

    sources: Ints
    targets: Ints

    def with_intercept(self, old: Policy, new: Policy) -> Move:
        """Return the move for models, whose intercept stands behind the features."""
        if not old.intercept:
            return self
        return Move(np.append(self.sources, old.dim), np.append(self.targets, new.dim))

    def moved(self, vectors: Floats, size: int) -> Floats:
        """Vectors (..., d) in the new coordinates, 0 in those that are new."""
        result = np.zeros((*vectors.shape[:-1], size))
        result[..., self.targets] = vectors[..., self.sources]
        return result


def larger(dim: int) -> Move:
    """All coordinates stay what they are."""
    return Move(np.arange(dim), np.arange(dim))


def carried_over(old: Policy, buffers: Buffers, new: Policy, move: Move) -> Buffers:
    """The buffers of the new policy, with what those of the old one know."""
    move = move.with_intercept(old, new)
    made = new.new_buffers(buffers.rows.shape[1])
    made.rows[:-2] = move.moved(buffers.rows[:-2].T, new.model_dim).T
    made.rows[-2:] = buffers.rows[-2:]
    made.counters[:] = buffers.counters
    made.gauges[:] = buffers.gauges
    estimates_of(made)[:] = move.moved(estimates_of(buffers), new.model_dim)
    (vectors, matrices), (new_vectors, new_matrices) = beyond(buffers), beyond(made)
    for target, vector in zip(new_vectors, vectors, strict=False):
        target[:] = move.moved(vector, new.model_dim)
    there, here = np.ix_(move.targets, move.targets), np.ix_(move.sources, move.sources)
    for target, matrix in zip(new_matrices, matrices, strict=False):
        target[there] = matrix[here]  # a new feature is unseen, as if it had always been 0
    made.counters[FITTED] = 0
    return made
