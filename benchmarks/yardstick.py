"""The yardstick: one plain compiled LinUCB round, which every speed figure is divided by.

Kept as simple as a textbook on purpose, and never to be tuned: generic d, `np.linalg.inv` of the
design matrix every round, K scores, a rank-one update.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@numba.njit(cache=True)
def play_plain_linucb(actions: Floats, rewards: Floats, radius: float) -> int:
    """Play a trace; returns how often arm 0 was chosen, so that nothing is optimised away."""
    T, K, d = actions.shape
    V = np.eye(d)
    b = np.zeros(d)
    firsts = 0
    for t in range(T):
        V_inverse = np.linalg.inv(V)
        theta = V_inverse @ b
        best, best_score = 0, -np.inf
        for k in range(K):
            mean, norm = 0.0, 0.0
            for i in range(d):
                mean += actions[t, k, i] * theta[i]
                for j in range(d):
                    norm += actions[t, k, i] * V_inverse[i, j] * actions[t, k, j]
            score = mean + radius * np.sqrt(norm)
            if score > best_score:
                best, best_score = k, score
        for i in range(d):
            b[i] += rewards[t, best] * actions[t, best, i]
            for j in range(d):
                V[i, j] += actions[t, best, i] * actions[t, best, j]
        firsts += best == 0
    return firsts
