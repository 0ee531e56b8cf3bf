"""Parameters that move all the time: Gaussian processes in time, as filters.

Every coordinate of theta_t - (0, ..., 0, base) is a stationary Gaussian process whose marginal is
the prior, with a Matern kernel. Of smoothness 1/2 (Ornstein and Uhlenbeck) a path is rough and has
no direction. Of smoothness 3/2 it has a velocity, and is followed without lag where it turns
steadily. In state-space form both are filtered in O(d^2) (Hartikainen and Sarkka 2010).

Notation
--------
theta      (d,)       place, of rough and smooth paths
v          (d,)       velocity of a smooth path times its scale over sqrt(3), so that a priori it
                      has the covariance of the place
P          (d, d)     covariance of the place; of smooth paths also of place and velocity
"""

from __future__ import annotations

import math

from driftbandits import links
from driftbandits.estimator import Model, State
from driftbandits.jit import inlined, internal
from driftbandits.linalg import (
    add_outer,
    add_scaled,
    copy,
    copy_matrix,
    dot,
    multiply,
    set_to_identity,
)
from driftbandits.policies.adaptations.belief.gaussians import (
    Noise,
    direction_of,
    evidence_of,
    forecast_of,
    learn_reward,
    lost_by,
    settled,
    within_range,
)
from driftbandits.policies.adaptations.belief.record import (
    DRIFTS,
    ROUGH,
    ROUGH_SPEED,
    SMOOTH,
    SMOOTH_SCALE,
    Belief,
)

_STEADY = math.sqrt(3.0)


@inlined
def drifts_of(model: Model) -> int:
    """How many there are: a large model has rough paths alone."""
    return ROUGH if model.fast else DRIFTS


@internal
def move(model: Model, belief: Belief, rounds: int) -> None:
    """Let time pass."""
    for i in range(ROUGH):
        kept = 1.0 - ROUGH_SPEED[i]
        _move_rough(model, belief, i, kept if rounds == 1 else kept**rounds)
    if not model.fast:
        for i in range(SMOOTH):
            _move_smooth(model, belief, i, _STEADY / SMOOTH_SCALE[i] * rounds)


@inlined
def _move_rough(model: Model, belief: Belief, i: int, kept: float) -> None:
    d, base = model.d, belief.base[0]
    theta, P, newborn = belief.places[i], belief.place_P[i], belief.newborn
    along = math.sqrt(kept)
    theta[d - 1] -= base
    for j in range(d):
        theta[j] *= along
        for k in range(d):
            P[j, k] = kept * P[j, k] + (1.0 - kept) * newborn[j, k]
    theta[d - 1] += base


@inlined
def _move_smooth(model: Model, belief: Belief, i: int, way: float) -> None:
    """The transition of a Matern 3/2 process over `way` = sqrt(3) rounds / scale."""
    d, base = model.d, belief.base[0]
    theta, v, newborn = belief.places[ROUGH + i], belief.velocity[i], belief.newborn
    place, cross, speed = belief.place_P[ROUGH + i], belief.cross_P[i], belief.velocity_P[i]
    decay = math.exp(-way)
    a, b, c, e = decay * (1.0 + way), decay * way, -decay * way, decay * (1.0 - way)
    new_place, new_cross = 1.0 - a * a - b * b, -(a * c + b * e)
    new_speed = 1.0 - c * c - e * e
    theta[d - 1] -= base
    for j in range(d):
        theta[j], v[j] = a * theta[j] + b * v[j], c * theta[j] + e * v[j]
    theta[d - 1] += base
    for j in range(d):
        for k in range(j + 1):
            fresh = newborn[j, k]
            p, x, y, s = place[j, k], cross[j, k], cross[k, j], speed[j, k]
            place[j, k] = a * a * p + a * b * (x + y) + b * b * s + new_place * fresh
            speed[j, k] = c * c * p + c * e * (x + y) + e * e * s + new_speed * fresh
            place[k, j], speed[k, j] = place[j, k], speed[j, k]
            cross[j, k] = a * c * p + a * e * x + b * c * y + b * e * s + new_cross * fresh
            cross[k, j] = a * c * p + a * e * y + b * c * x + b * e * s + new_cross * fresh


@internal
def begin_as(model: Model, belief: Belief, r: int) -> None:
    """Let all drifts be what segment r is, at rest."""
    for i in range(drifts_of(model)):
        copy(belief.theta[r], belief.places[i])
        copy_matrix(belief.P[r], belief.place_P[i])
    if not model.fast:
        for i in range(SMOOTH):
            set_to_identity(belief.cross_P[i], 0.0)
            copy_matrix(belief.newborn, belief.velocity_P[i])
            for j in range(model.d):
                belief.velocity[i, j] = 0.0


@inlined
def _wandered(i: int, age: float) -> float:
    """Variance of what drift i moves in so many rounds, over that of its prior."""
    if i < ROUGH:
        return float(2.0 * (1.0 - (1.0 - ROUGH_SPEED[i]) ** (0.5 * age)))
    way = _STEADY / SMOOTH_SCALE[i - ROUGH] * age
    return float(2.0 * (1.0 - (1.0 + way) * math.exp(-way)))


@internal
def learn_by_drifts(
    model: Model, state: State, belief: Belief, reward: float, age: float, noise: Noise, first: int
) -> None:
    """Let the drifts learn the reward of scratch.row; evidence[first + i] := what drift i had.

    A late reward says less of the present: how far a.theta has moved since is noise of its own.
    """
    row = state.scratch.row
    doubt = 0.0
    if age > 0.0:
        direction_of(model, belief.newborn, row, state.scratch.step)
        doubt = forecast_of(model, state.scratch.step, row)
    for i in range(drifts_of(model)):
        weight = 1.0
        if age > 0.0:
            z = forecast_of(model, belief.places[i], row)
            slope = links.slope(model.link, model.m, z)
            weight = 1.0 / (1.0 + slope * doubt * _wandered(i, age))
        if i < ROUGH:
            belief.evidence[first + i] = learn_reward(
                model, state, belief.places[i], belief.place_P[i], reward, weight, noise
            )
        else:
            belief.evidence[first + i] = _learn_smoothly(
                model, state, belief, i - ROUGH, reward, weight, noise
            )


@inlined
def _learn_smoothly(
    model: Model,
    state: State,
    belief: Belief,
    i: int,
    reward: float,
    weight: float,
    noise: Noise,
) -> float:
    d, row = model.d, state.scratch.row
    along, speeding = state.scratch.step, state.scratch.pull
    theta = belief.places[ROUGH + i]
    place, cross, speed = belief.place_P[ROUGH + i], belief.cross_P[i], belief.velocity_P[i]
    multiply(place, row, along)
    for j in range(d):
        total = 0.0
        for k in range(d):
            total += cross[k, j] * row[k]
        speeding[j] = total
    z, q = within_range(model, dot(theta, row)), max(dot(along, row), 0.0)
    t = settled(model, reward, z, q, weight)
    found = evidence_of(
        model, reward, z, q, noise, t if weight == 1.0 else settled(model, reward, z, q, 1.0)
    )
    slope = weight * links.slope(model.link, model.m, z + q * t)
    lost = lost_by(q, slope)
    add_scaled(theta, t, along)
    add_scaled(belief.velocity[i], t, speeding)
    add_outer(place, -lost, along)
    add_outer(speed, -lost, speeding)
    for j in range(d):
        for k in range(d):
            cross[j, k] -= lost * along[j] * speeding[k]
    return found
