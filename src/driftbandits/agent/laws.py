"""With which probability a policy chooses each action, beside the one that it has chosen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent.decisions import Decision, Floats
from driftbandits.policies import Policy
from driftbandits.policies.scoring import SCALED


def has_law(policy: Policy) -> bool:
    """Whether these are known: one that samples knows the probability of its own choice alone."""
    return policy.row.score < SCALED


def law_of(policy: Policy, decision: Decision, free: NDArray[np.bool_]) -> Floats:
    """The probability of each action that is free, as `pick` chooses among them.

    Only for a decision that has just been made: those of a save file have the scores as rewards.
    """
    epsilon, scores = policy.scoring.epsilon, decision._rows[2 if policy.reward is None else 3]
    best = scores[free].max()
    tied = free & (scores == best)
    law = np.where(tied, (1.0 - epsilon) / np.count_nonzero(tied), 0.0)
    return law + np.where(free, epsilon / np.count_nonzero(free), 0.0)
