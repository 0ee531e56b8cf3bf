"""How much better than its mean an action may be, and when that should count.

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
slow wanderer, which doubts what it has not seen for long, has a say of its own: where

    v_i = u_i - UNEVEN l_i u_* / l_* > 0,

u being variances of a.theta in it and m means, a score is at least m_i + LOOKS (K-1)^(-1/4)
sqrt(v_i). Of what it doubts it learns quickly, so that a look that pays is followed by another.

With r looks a round at each of K-1 actions, of which one has improved, looking costs (K-1) r and
finding it takes 1/r rounds: the sum is least for r ~ (K-1)^(-1/2). Since v grows evenly with time,
r grows with the square of the factor of its root.
"""

from __future__ import annotations

import math

from driftbandits import links
from driftbandits.estimator import Model, State
from driftbandits.estimator.inverse import BLOCK, room_in
from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import RADIUS
from driftbandits.jit import inlined, internal
from driftbandits.linalg import dot_large, multiply_rows
from driftbandits.policies.adaptations.belief.gaussians import within_range
from driftbandits.policies.adaptations.belief.record import Belief
from driftbandits.policies.adaptations.belief.weighing import dispersion
from driftbandits.policies.scoring import Scoring, feature, load_block, shrinkage

OPTIMISM = 0.5
"""Standard deviations that every score adds to its mean."""
EXPLORATION = 1.0
UNEVEN = 4.0
"""How uneven knowledge is where actions are drawn at random."""
LOOKS = 2.5
"""Standard deviations of what may have changed unseen, with one action beside the best."""


@internal
def measure(
    model: Model, scoring: Scoring, state: State, belief: Belief, actions: Floats, table: Floats
) -> None:
    """Rows of `table`: a . theta; its variances in the prior, as it wanders, in the belief; and
    a . theta as it wanders."""
    state.gauges[RADIUS] = scoring.bonus_scale * OPTIMISM
    _forecast(model, scoring, state.theta, actions, table[0])
    _forecast(model, scoring, belief.places[0], actions, table[4])
    phi = dispersion(model, belief)
    if model.fast:
        _measure_large(scoring, state, actions, belief.newborn, table[1])
        _measure_large(scoring, state, actions, belief.place_P[0], table[2])
        _measure_large(scoring, state, actions, state.scratch.bonus, table[3])
    else:
        _measure(model, scoring, actions, belief.newborn, table[1])
        _measure(model, scoring, actions, belief.place_P[0], table[2])
        _measure(model, scoring, actions, state.scratch.bonus, table[3])
    for i in range(actions.shape[0]):
        table[2, i] *= phi


@internal
def score(model: Model, scoring: Scoring, offset: float, table: Floats) -> None:
    """Rows 0, 1 and 2 of `table`: means, widths and scores, after `measure`."""
    best = 0
    for i in range(table.shape[1]):
        if table[0, i] > table[0, best]:
            best = i
    even, still = 0.0, math.inf
    if table.shape[1] > 0 and table[1, best] > 0.0:
        even = UNEVEN * table[3, best] / table[1, best]
        still = UNEVEN * table[2, best] / table[1, best]
    looks = LOOKS / math.sqrt(math.sqrt(max(table.shape[1] - 1.0, 1.0)))
    for i in range(table.shape[1]):
        z, prior, square = within_range(model, table[0, i]), table[1, i], max(table[3, i], 0.0)
        c = OPTIMISM * OPTIMISM
        if even > 0.0 and prior > 0.0 and square > even * prior:
            c += 2.0 * EXPLORATION * math.log(square / (even * prior))
        better = math.sqrt(c * square)
        doubt = table[2, i] - still * prior
        if doubt > 0.0:
            better = max(better, table[4, i] + looks * math.sqrt(doubt) - z)
        mean = links.mean(model.link, model.m, z)
        high = within_range(model, z + scoring.bonus_scale * better)
        up = links.mean(model.link, model.m, high)
        table[0, i] = scoring.centre + offset + mean
        table[1, i] = up - mean
        table[2, i] = table[0, i] + table[1, i]


@inlined
def _forecast(model: Model, scoring: Scoring, theta: Floats, actions: Floats, out: Floats) -> None:
    """out := a . theta."""
    for i in range(actions.shape[0]):
        shrink = shrinkage(scoring, actions, i)
        z = 0.0
        for j in range(model.d):
            z += feature(scoring, actions, i, j, shrink) * theta[j]
        out[i] = z


@inlined
def _measure(model: Model, scoring: Scoring, actions: Floats, A: Floats, out: Floats) -> None:
    """out := a' A a for a symmetric A."""
    for i in range(actions.shape[0]):
        shrink = shrinkage(scoring, actions, i)
        square = 0.0
        for j in range(model.d):
            a = feature(scoring, actions, i, j, shrink)
            along = 0.5 * a * A[j, j]
            for k in range(j):
                along += feature(scoring, actions, i, k, shrink) * A[j, k]
            square += 2.0 * a * along
        out[i] = square


@internal
def _measure_large(scoring: Scoring, state: State, actions: Floats, A: Floats, out: Floats) -> None:
    """The same, a block of actions at a time."""
    room = room_in(state)
    for start in range(0, actions.shape[0], BLOCK):
        n = load_block(scoring, actions, start, room.rows)
        multiply_rows(room.rows[:n], A, room.steps[:n])
        for i in range(n):
            out[start + i] = dot_large(room.rows[i], room.steps[i])
