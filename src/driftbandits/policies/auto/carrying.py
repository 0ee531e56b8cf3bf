"""Carry what was learned over to a model of other coordinates.

A coordinate that both models have keeps what is known of it. One that is new starts at the prior,
and is as if it had always been there and had been 0 so far. One that goes is marginalised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from driftbandits.core import Buffers
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import FITTED, Ints, beyond, estimates_of

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy


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
