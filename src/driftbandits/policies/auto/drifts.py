"""Parameters that move all the time: Gaussian processes in time, as filters.

Every coordinate of theta_t - (0, ..., 0, base) is a stationary Gaussian process whose marginal is
the prior, with a Matern kernel. A Matern-1/2 process (Ornstein and Uhlenbeck) has no direction. A
Matern-3/2 process has a velocity, and is followed without lag where it turns steadily. In
state-space form both are filtered in O(d^2) (Hartikainen and Sarkka 2010).

Notation
--------
theta      (d,)       mean of the parameter
v          (d,)       mean of the velocity times the length scale over sqrt(3), so that a priori it
                      has the covariance of the parameter
P          (d, d)     covariance of the parameter; for Matern 3/2 also of parameter and velocity
"""

from __future__ import annotations

import math

from driftbandits.core import (
    Model,
    State,
    add_outer,
    add_scaled,
    copy,
    copy_matrix,
    dot,
    links,
    multiply,
    set_to_identity,
)
from driftbandits.jit import inlined, internal
from driftbandits.policies.auto.gaussians import (
    Learned,
    Noise,
    direction_of,
    evidence_of,
    forecast_of,
    learn_base,
    learn_reward,
    lost_by,
    settled,
    within_range,
)
from driftbandits.policies.auto.record import (
    DRIFTS,
    MATERN12,
    MATERN12_RATE,
    MATERN32,
    MATERN32_SCALE,
    ROOM,
    Belief,
)

_STEADY = math.sqrt(3.0)


@inlined
def drifts_of(model: Model) -> int:
    """Number of drift models. Large models keep only the Matern-1/2 ones."""
    return MATERN12 if model.fast else DRIFTS


@internal
def move(model: Model, belief: Belief, rounds: int) -> None:
    """Move every drift on by some rounds."""
    for i in range(MATERN12):
        kept = 1.0 - MATERN12_RATE[i]
        _move_matern12(model, belief, i, kept if rounds == 1 else kept**rounds)
    if not model.fast:
        for i in range(MATERN32):
            _move_matern32(model, belief, i, _STEADY / MATERN32_SCALE[i] * rounds)


@inlined
def _move_matern12(model: Model, belief: Belief, i: int, kept: float) -> None:
    d, base = model.d, belief.base[0]
    theta, P, prior_P = belief.drift_means[i], belief.drift_P[i], belief.prior_P
    along = math.sqrt(kept)
    theta[d - 1] -= base
    for j in range(d):
        theta[j] *= along
        for k in range(d):
            P[j, k] = kept * P[j, k] + (1.0 - kept) * prior_P[j, k]
    theta[d - 1] += base


@inlined
def _move_matern32(model: Model, belief: Belief, i: int, way: float) -> None:
    """The transition of a Matern 3/2 process over `way` = sqrt(3) rounds / scale."""
    d, base = model.d, belief.base[0]
    theta, v, prior_P = belief.drift_means[MATERN12 + i], belief.velocity[i], belief.prior_P
    place, cross, speed = belief.drift_P[MATERN12 + i], belief.cross_P[i], belief.velocity_P[i]
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
            fresh = prior_P[j, k]
            p, x, y, s = place[j, k], cross[j, k], cross[k, j], speed[j, k]
            place[j, k] = a * a * p + a * b * (x + y) + b * b * s + new_place * fresh
            speed[j, k] = c * c * p + c * e * (x + y) + e * e * s + new_speed * fresh
            place[k, j], speed[k, j] = place[j, k], speed[j, k]
            cross[j, k] = a * c * p + a * e * x + b * c * y + b * e * s + new_cross * fresh
            cross[k, j] = a * c * p + a * e * y + b * c * x + b * e * s + new_cross * fresh


@internal
def begin_as(model: Model, belief: Belief, r: int) -> None:
    """Let all drifts begin as segment r, without velocity."""
    for i in range(drifts_of(model)):
        copy(belief.theta[r], belief.drift_means[i])
        copy_matrix(belief.P[r], belief.drift_P[i])
    if not model.fast:
        for i in range(MATERN32):
            set_to_identity(belief.cross_P[i], 0.0)
            copy_matrix(belief.prior_P, belief.velocity_P[i])
            for j in range(model.d):
                belief.velocity[i, j] = 0.0


@inlined
def _variance_moved(i: int, age: float) -> float:
    """Variance of the movement of drift i over some rounds, relative to the prior's."""
    if i < MATERN12:
        return float(2.0 * (1.0 - (1.0 - MATERN12_RATE[i]) ** (0.5 * age)))
    way = _STEADY / MATERN32_SCALE[i - MATERN12] * age
    return float(2.0 * (1.0 - (1.0 + way) * math.exp(-way)))


@internal
def learn_by_drifts(
    model: Model, state: State, belief: Belief, reward: float, age: float, noise: Noise, first: int
) -> None:
    """Let the drifts learn the reward of scratch.row; evidence[first + i] := that of drift i.

    The movement of a.theta since the round of a late reward counts as noise.
    """
    row = state.scratch.row
    prior = 0.0
    if age > 0.0:
        direction_of(model, belief.prior_P, row, state.scratch.step)
        prior = forecast_of(model, state.scratch.step, row)
    for i in range(drifts_of(model)):
        weight = 1.0
        if age > 0.0:
            z = belief.shared_base[first + i] + forecast_of(model, belief.drift_means[i], row)
            slope = links.slope(model.link, model.m, z)
            weight = 1.0 / (1.0 + slope * prior * _variance_moved(i, age))
        if i < MATERN12:
            theta, P = belief.drift_means[i], belief.drift_P[i]
            base, variance = belief.shared_base[first + i], belief.base_variance[first + i]
            learned = learn_reward(model, state, theta, P, reward, weight, noise, base, variance)
        else:
            learned = _learn_matern32(model, state, belief, i - MATERN12, reward, weight, noise)
        belief.evidence[first + i] = learned.evidence
        learn_base(belief, first + i, learned)


@inlined
def _learn_matern32(
    model: Model,
    state: State,
    belief: Belief,
    i: int,
    reward: float,
    weight: float,
    noise: Noise,
) -> Learned:
    d, row = model.d, state.scratch.row
    along, speeding = state.scratch.step, state.scratch.pull
    theta = belief.drift_means[MATERN12 + i]
    place, cross, speed = belief.drift_P[MATERN12 + i], belief.cross_P[i], belief.velocity_P[i]
    multiply(place, row, along)
    for j in range(d):
        total = 0.0
        for k in range(d):
            total += cross[k, j] * row[k]
        speeding[j] = total
    z = within_range(model, belief.shared_base[ROOM + MATERN12 + i] + dot(theta, row))
    q = max(dot(along, row), 0.0) + belief.base_variance[ROOM + MATERN12 + i]
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
    return Learned(found, t, lost)
