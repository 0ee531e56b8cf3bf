"""Scores of actions: their means, and upper bounds where knowledge is uneven.

Where the action sets vary, what is played teaches about everything, and a belief is best followed
nearly greedily (Bastani, Bayati, Khosravi 2021). Where they do not, an action that is not played is
not learned about. How much less is known of action i than of the best one, relative to what is
offered, is

    rho_i = (q_i / l_i) / (q_* / l_*),

q being variances of a.theta in the belief and l in the prior. With K arms that are all offered
every time it is N_*/N_i, plays of the best arm over those of arm i, and playing arm i while its
mean + sqrt(2 log rho_i) sd is the largest is the rule of IMED (Honda and Takemura 2015; for linear
bandits Bian and Tan 2024). So a score is the mean plus c_i standard deviations,

    c_i^2 = OPTIMISM^2 + 2 EXPLORATION log+(rho_i / UNEVEN).

An action that is not played may have changed, and no reward speaks of it: that what is played
stays as it is makes every hypothesis of a change improbable, also for what is not played. So the
slow Matern-1/2 drift, whose variance grows where nothing was seen for long, bounds scores from
below: where

    v_i = u_i - UNEVEN l_i u_* / l_* > 0,

u being variances of a.theta in it and m means, a score is at least m_i + REVISITS (K-1)^(-1/4)
sqrt(v_i). Where its variance is large it learns quickly, so that a revisit that pays is followed by
another.

With r revisits a round of each of K-1 actions, of which one has improved, they cost (K-1) r and
finding it takes 1/r rounds: the sum is least for r ~ (K-1)^(-1/2). Since v grows evenly with time,
r grows with the square of the factor of its root.
"""

from __future__ import annotations

import math

from driftbandits.core import Model, State, dot_large, links, multiply_rows
from driftbandits.core.estimator.inverse import BLOCK, room_in
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import RADIUS
from driftbandits.jit import inlined, internal
from driftbandits.policies.auto.gaussians import forecast_of, within_range
from driftbandits.policies.auto.record import ROOM, Belief
from driftbandits.policies.auto.weighing import dispersion, mean_base
from driftbandits.policies.scoring import Scoring

OPTIMISM = 0.5
"""Standard deviations that every score adds to its mean."""
EXPLORATION = 1.0
UNEVEN = 4.0
"""Usual unevenness of knowledge where actions are drawn at random."""
REVISITS = 2.5
"""Standard deviations of a change that was not seen, with one action beside the best."""


@internal
def measure(
    model: Model, scoring: Scoring, state: State, belief: Belief, features: Floats, table: Floats
) -> None:
    """Rows of `table`: a . theta; its variances in the prior, the slow drift and the belief; and
    a . theta in the slow drift."""
    state.gauges[RADIUS] = scoring.bonus_scale * OPTIMISM
    phi, base = dispersion(model, belief), mean_base(model, belief)
    for i in range(features.shape[0]):
        table[0, i] = base + forecast_of(model, belief.mean, features[i])
        drift = forecast_of(model, belief.drift_means[0], features[i])
        table[4, i] = belief.shared_base[ROOM] + drift
    _measure(model, state, features, belief.prior_P, table[1])
    _measure(model, state, features, belief.drift_P[0], table[2])
    _measure(model, state, features, state.scratch.bonus, table[3])
    for i in range(features.shape[0]):
        table[2, i] *= phi


@internal
def score(model: Model, scoring: Scoring, offset: float, table: Floats) -> None:
    """Rows 0, 1 and 2 of `table`: means, widths and scores, after `measure`."""
    best, most = 0, -math.inf
    for i in range(table.shape[1]):
        table[0, i] = within_range(model, table[0, i])
        table[3, i] = max(table[3, i], 0.0)
        mean = _mean_of(model, table[0, i], table[3, i])
        if mean > most:
            best, most = i, mean
    even, still = 0.0, math.inf
    if table.shape[1] > 0 and table[1, best] > 0.0:
        even = UNEVEN * table[3, best] / table[1, best]
        still = UNEVEN * table[2, best] / table[1, best]
    many = 1.0 / math.sqrt(max(table.shape[1] - 1.0, 1.0))
    revisits = REVISITS * math.sqrt(many)
    for i in range(table.shape[1]):
        z, prior, square = table[0, i], table[1, i], table[3, i]
        c = OPTIMISM * OPTIMISM
        if even > 0.0 and prior > 0.0 and square > even * prior:
            c += 2.0 * EXPLORATION * math.log(square / (even * prior))
        better = math.sqrt(many * c * square)
        unknown = table[2, i] - still * prior
        if unknown > 0.0:
            better = max(better, table[4, i] + revisits * math.sqrt(unknown) - z)
        mean = _mean_of(model, z, square)
        high = within_range(model, z + scoring.bonus_scale * better)
        up = _mean_of(model, high, square)
        table[0, i] = scoring.centre + offset + mean
        table[1, i] = up - mean
        table[2, i] = table[0, i] + table[1, i]


@inlined
def _mean_of(model: Model, z: float, variance: float) -> float:
    """Mean reward where a . theta is believed to be N(z, variance)."""
    return float(links.mean(model.link, model.m, z / links.blur(model.link, variance)))


@internal
def _measure(model: Model, state: State, features: Floats, A: Floats, out: Floats) -> None:
    """out := a' A a for a symmetric A; of large models a block of actions at a time."""
    if model.fast:
        steps = room_in(state).steps
        for start in range(0, features.shape[0], BLOCK):
            block = features[start : start + BLOCK]
            multiply_rows(block, A, steps[: block.shape[0]])
            for i in range(block.shape[0]):
                out[start + i] = dot_large(block[i], steps[i])
    else:
        for i in range(features.shape[0]):
            square = 0.0
            for j in range(model.d):
                along = 0.5 * features[i, j] * A[j, j]
                for k in range(j):
                    along += features[i, k] * A[j, k]
                square += 2.0 * features[i, j] * along
            out[i] = square
