"""One Gaussian learns one reward: the mode of prior times likelihood, and the evidence.

A reward informs one direction only, so the mode is the root of a scalar equation (`settled`), and
the covariance loses a rank-one matrix. A mean is looked at only where rewards can be: a count is at
most m, so that no action is so long that its exponential leaves no digits for the others.

Notation
--------
theta, P   mean of a Gaussian, and its covariance over phi
phi        dispersion: Var(X) over that of the reward model
z, q       a . theta and a' P a
t          what the reward moves theta by along P a: the root of t = weight (X - mu(z + q t))
"""

from __future__ import annotations

import math
from typing import NamedTuple

from driftbandits.core import (
    Model,
    State,
    add_outer,
    add_scaled,
    cholesky,
    copy,
    copy_matrix,
    dot,
    dot_large,
    inverse,
    links,
    multiply,
    multiply_large,
)
from driftbandits.core.estimator.memory import load_row
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import HEAD, TAIL
from driftbandits.jit import inlined, internal
from driftbandits.policies.auto.columns import (
    has_moved,
    limit_row,
    limited_reward,
    slopes_of,
)
from driftbandits.policies.auto.priors import make_covariance, make_precision
from driftbandits.policies.auto.record import (
    FIRST_OF_ALL,
    LEAST_POPULATION,
    Belief,
)

MOST_REFITTED = 2048
"""A segment is fitted anew until it holds so many rewards; so many rows are kept."""
LATER_FITS = (16, 64, 256, 1024)
"""Numbers of rewards at which later segments are fitted anew, with the prior of then."""
MOST_LEARNED_AGAIN = 256
"""Most rewards at which a large model learns its rows again, one by one."""
_MOST_STEPS = 30
_FARTHEST = 30.0
_ABOVE_ALL_COUNTS = 2.0  # log of the largest mean over the largest count
_MOST_ROOT_STEPS = 60
_QUICK_ROOT_STEPS = 8
_ROOT_STEP = 1e-7  # after which the root is known to about its square
_STEEPEST = 1e100
_WORST = -1e30
_NEAR = 0.5
_DECREMENT = 1e-10  # from which the next step is the last: 1e-5 standard deviations from the mode


class Noise(NamedTuple):
    """Dispersion of rewards, as far as it is known."""

    phi: float
    freedom: float  # of Student's t, by which rewards of a linear model are weighed


class Learned(NamedTuple):
    """Changes of a Gaussian by a reward."""

    evidence: float  # of the reward, beforehand
    t: float
    lost: float  # what P has lost along P a


@inlined
def forecast_of(model: Model, theta: Floats, row: Floats) -> float:
    return dot_large(theta, row) if model.fast else dot(theta, row)


@inlined
def _highest(model: Model) -> float:
    """The largest z at which mu is looked at: where it grows without bound, little above m."""
    if links.growth(model.link, 1.0) > 1.0:
        return math.log(max(model.m, 1.0)) + _ABOVE_ALL_COUNTS
    return _FARTHEST


@inlined
def within_range(model: Model, z: float) -> float:
    """z, where mu(z) is a number."""
    return z if model.linear else min(max(z, -_FARTHEST), _highest(model))


@internal
def settled(model: Model, reward: float, z: float, q: float, weight: float) -> float:
    """The root t.

    Newton's method within the bracket that the monotone mu gives, which is halved now and then
    where it does not get on: where q is large it may go to and fro between the flat ends of mu.
    """
    surprise = weight * (reward - links.mean(model.link, model.m, z))
    t: float = surprise / (1.0 + q * weight * links.slope(model.link, model.m, z))
    if model.linear:
        return t
    low, high = min(surprise, 0.0), max(surprise, 0.0)
    if q > 0.0:
        low, high = max(low, (-_FARTHEST - z) / q), min(high, (_highest(model) - z) / q)
        t = min(max(t, low), high)
    for step_number in range(_MOST_ROOT_STEPS):
        mode = z + q * t
        rise = t - weight * (reward - links.mean(model.link, model.m, mode))
        if rise > 0.0:
            high = t
        else:
            low = t
        step = rise / (1.0 + q * weight * links.slope(model.link, model.m, mode))
        t -= step
        if abs(step) <= _ROOT_STEP * model.m:
            break
        is_slow = step_number >= _QUICK_ROOT_STEPS and step_number % 2 == 0
        if is_slow or not low < t < high:
            t = 0.5 * (low + high)
    return t


@inlined
def lost_by(q: float, slope: float) -> float:
    """Return the loss of P along P a to a reward: slope / (1 + q slope), whatever the slope."""
    return slope / (1.0 + q * slope) if slope < _STEEPEST else 1.0 / q


@inlined
def finite(evidence: float) -> float:
    """Evidence, where nothing was as improbable as no number can say."""
    return evidence if math.isfinite(evidence) else _WORST


@inlined
def direction_of(model: Model, P: Floats, row: Floats, out: Floats) -> None:
    """out := P a."""
    if model.fast:
        multiply_large(P, row, out)
    else:
        multiply(P, row, out)


@inlined
def evidence_of(model: Model, reward: float, z: float, q: float, noise: Noise, t: float) -> float:
    """Log evidence of a reward where a.theta is N(z, phi q) and the root t is known.

    The variance of a linear model's rewards is estimated: at first from two or three of them, and
    tails of amounts are never those of a Gaussian. So they are weighed by Student's t.
    """
    if noise.phi == 0.0:  # nobody knows yet how rewards are dispersed
        return 0.0
    if not model.linear:
        mode = z + q * t
        log_likelihood = reward * mode - links.log_partition(model.link, model.m, mode)
        fit = log_likelihood - 0.5 * q * t * t
        slope = links.slope(model.link, model.m, mode)
        return finite(fit / noise.phi - 0.5 * math.log1p(q * slope))
    away = (reward - z) * (reward - z) / (noise.phi * (1.0 + q))
    tails = 0.5 * (noise.freedom + 1.0) * math.log1p(away / noise.freedom)
    return finite(-tails - 0.5 * math.log1p(q))


@internal
def learn_reward(
    model: Model,
    state: State,
    theta: Floats,
    P: Floats,
    reward: float,
    weight: float,
    noise: Noise,
    base: float,
    variance: float,
) -> Learned:
    """Let a Gaussian learn the reward of scratch.row.

    `base` is what separate arms share of a . theta, and `variance` what is not known of it.
    """
    row, along = state.scratch.row, state.scratch.step
    direction_of(model, P, row, along)
    z = within_range(model, base + forecast_of(model, theta, row))
    q = max(forecast_of(model, along, row), 0.0) + variance
    t = settled(model, reward, z, q, weight)
    if weight < 1.0:
        found = evidence_of(model, reward, z, q, noise, settled(model, reward, z, q, 1.0))
    else:
        found = evidence_of(model, reward, z, q, noise, t)
    slope = weight * links.slope(model.link, model.m, z + q * t)
    lost = lost_by(q, slope)
    add_scaled(theta, t, along)
    add_outer(P, -lost, along)
    return Learned(found, t, lost)


@inlined
def learn_base(belief: Belief, h: int, learned: Learned) -> None:
    """Let hypothesis h learn the base that separate arms share, as if it knew of no other tie."""
    variance = belief.base_variance[h]
    if variance > 0.0:
        belief.shared_base[h] += variance * learned.t
        left = variance * (1.0 - variance * learned.lost)
        belief.base_variance[h] = left if left > LEAST_POPULATION else LEAST_POPULATION


@inlined
def _first_row(model: Model, state: State, start: int) -> int:
    """The first of the rows that a segment holds; they lie in order of time."""
    i = state.counters[TAIL]
    while i > state.counters[HEAD] and state.rows[model.d + 1, i - 1] >= start:
        i -= 1
    return int(i)


@inlined
def _remembered(model: Model, state: State, belief: Belief, i: int) -> float:
    """The reward of row i, as the model is given it."""
    reward = float(state.rows[model.d, i])
    return limited_reward(model, belief, reward) - belief.offset[0] if model.linear else reward


@internal
def fit_anew(model: Model, state: State, belief: Belief, r: int) -> None:
    """The exact mode of segment r over its rows under the prior of now, and Laplace's covariance.

    What one reward after the other makes of it is biased where the slope of mu changes a lot on
    the way, as it does where rewards are rare, and has the prior of then.
    """
    theta, P, scratch, d = belief.theta[r], belief.P[r], state.scratch, model.d
    precision, hessian, pull, step = scratch.quadratic, scratch.J, scratch.pull, scratch.point
    last = d - 1
    is_new, base = belief.starts[r] > FIRST_OF_ALL, belief.bases[r]
    make_precision(model, belief, belief.kinds[r], is_new, precision)
    first = _first_row(model, state, belief.starts[r])
    for _ in range(_MOST_STEPS):
        theta[last] -= base
        multiply(precision, theta, pull)
        theta[last] += base
        copy_matrix(precision, hessian)
        for i in range(first, state.counters[TAIL]):
            load_row(model, state, i)
            limit_row(model, state, belief)
            z = within_range(model, belief.shared_base[r] + dot(scratch.row, theta))
            reward = _remembered(model, state, belief, i)
            add_scaled(pull, links.mean(model.link, model.m, z) - reward, scratch.row)
            add_outer(hessian, links.slope(model.link, model.m, z), scratch.row)
        cholesky(hessian, scratch.factor)
        inverse(scratch.factor, P)
        multiply(P, pull, step)
        decrement = dot(step, pull)
        if model.linear or decrement < _DECREMENT:
            add_scaled(theta, -1.0, step)
            break
        far = math.sqrt(decrement)  # damped as for self-concordant functions, until it is near
        add_scaled(theta, -1.0 / (1.0 + far) if far > _NEAR else -1.0, step)
    _clear_unseen(model, belief, P)


@inlined
def _clear_unseen(model: Model, belief: Belief, P: Floats) -> None:
    """Clear the variances of unseen features."""
    for j in range(slopes_of(model, belief)):
        if not has_moved(belief, j):
            for k in range(model.d):
                P[j, k] = P[k, j] = 0.0


@internal
def learn_again(model: Model, state: State, belief: Belief, r: int, noise: Noise) -> None:
    """Segment r from its rows under the prior of now, one after the other."""
    row = state.scratch.start
    copy(state.scratch.row, row)
    is_new = belief.starts[r] > FIRST_OF_ALL
    make_covariance(model, state, belief, belief.kinds[r], is_new, belief.P[r])
    for j in range(model.d):
        belief.theta[r, j] = 0.0
    belief.theta[r, model.d - 1] += belief.bases[r]
    for i in range(_first_row(model, state, belief.starts[r]), state.counters[TAIL]):
        load_row(model, state, i)
        limit_row(model, state, belief)
        reward, base = _remembered(model, state, belief, i), belief.shared_base[r]
        learn_reward(model, state, belief.theta[r], belief.P[r], reward, 1.0, noise, base, 0.0)
    copy(row, state.scratch.row)
