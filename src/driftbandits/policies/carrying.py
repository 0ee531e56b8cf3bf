"""What was learned, carried over to a model of other coordinates.

A coordinate that both models have keeps what is known of it. One that is new starts at the prior,
and is as if it had always been there and had been 0 so far. One that goes is marginalised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from driftbandits.estimator import Buffers
from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import FITTED, Ints, estimates_of

if TYPE_CHECKING:
    from driftbandits.policies.configuration import Policy


class Move(NamedTuple):
    """Coordinate sources[i] becomes targets[i]; others are new, or gone."""

    sources: Ints
    targets: Ints

    def with_intercept(self, old: Policy, new: Policy) -> Move:
        """The same for models, whose intercept stands behind the features."""
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


def carries_over(policy: Policy) -> bool:
    """Whether a model can gain coordinates and keep what it has learned."""
    return hasattr(policy.adaptation, "carry_over")


def carried_over(old: Policy, buffers: Buffers, new: Policy, move: Move) -> Buffers:
    """The buffers of the new policy, with what those of the old one know."""
    move = move.with_intercept(old, new)
    made = new.new_buffers(buffers.rows.shape[1])
    made.rows[:-2] = move.moved(buffers.rows[:-2].T, new.model_dim).T
    made.rows[-2:] = buffers.rows[-2:]
    made.counters[:] = buffers.counters
    made.gauges[:] = buffers.gauges
    estimates_of(made)[:] = move.moved(estimates_of(buffers), new.model_dim)
    old.adaptation.carry_over(new, buffers, made, move)
    made.counters[FITTED] = 0
    return made


def carried_precision(precision: Floats, move: Move, prior: Floats) -> Floats:
    """The precision of what stays, without what goes, and the prior's (d,) for what is new."""
    kept = move.sources
    gone = np.setdiff1d(np.arange(len(precision)), kept)
    block = precision[np.ix_(kept, kept)]
    if gone.size:
        across = precision[np.ix_(gone, kept)]
        block = block - across.T @ np.linalg.solve(precision[np.ix_(gone, gone)], across)
    result = np.diag(prior)
    result[np.ix_(move.targets, move.targets)] = block
    return result
