"""One Gaussian learns one reward: the mode of prior times likelihood, and the evidence.

A reward informs one direction only, so the mode is the root of a scalar equation (`settled`), and
the covariance loses a rank-one matrix. Means are told from what rewards can be: a count is at most
m, so that no action is so long that its exponential leaves no digits for the others.

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

from driftbandits import links
from driftbandits.estimator import Model, State
from driftbandits.estimator.memory import load_row
from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import HEAD, TAIL
from driftbandits.jit import inlined, internal
from driftbandits.linalg import (
    add_outer,
    add_scaled,
    cholesky,
    copy,
    copy_matrix,
    dot,
    dot_large,
    inverse,
    multiply,
    multiply_large,
)
from driftbandits.policies.adaptations.belief.priors import make_covariance, make_precision
from driftbandits.policies.adaptations.belief.record import FIRST_OF_ALL, Belief
from driftbandits.policies.adaptations.filters import evidence_at

MOST_REFITTED = 2048
"""A segment is fitted anew until it holds so many rewards; so many rows are kept."""
LATER_FITS = (16, 64, 256, 1024)
"""The same for one that began later, with the prior of then: some of the powers of two."""
MOST_LEARNED_AGAIN = 256
"""The same for a large model, which learns its rows again one by one."""
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
    """How rewards are dispersed, as far as that is known."""

    phi: float
    freedom: float  # of Student's t, by which rewards of a linear model are weighed


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
    """What P loses along P a to a reward: slope / (1 + q slope), whatever the slope."""
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
    """Of a reward whose a.theta is believed N(z, phi q), where the root t is known.

    The variance of a linear model's rewards is estimated: at first from two or three of them, and
    tails of amounts are never those of a Gaussian. So they are weighed by Student's t.
    """
    if not model.linear:
        return finite(evidence_at(model, reward, z, q, noise.phi, t))
    if noise.phi == 0.0:
        return 0.0
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
) -> float:
    """Let a Gaussian learn the reward of scratch.row; returns the evidence of it beforehand."""
    row, along = state.scratch.row, state.scratch.step
    direction_of(model, P, row, along)
    z = within_range(model, forecast_of(model, theta, row))
    q = max(forecast_of(model, along, row), 0.0)
    t = settled(model, reward, z, q, weight)
    if weight < 1.0:
        found = evidence_of(model, reward, z, q, noise, settled(model, reward, z, q, 1.0))
    else:
        found = evidence_of(model, reward, z, q, noise, t)
    slope = weight * links.slope(model.link, model.m, z + q * t)
    add_scaled(theta, t, along)
    add_outer(P, -lost_by(q, slope), along)
    return found


@inlined
def _first_row(model: Model, state: State, start: int) -> int:
    """The first of the rows that a segment holds; they lie in order of time."""
    i = state.counters[TAIL]
    while i > state.counters[HEAD] and state.rows[model.d + 1, i - 1] >= start:
        i -= 1
    return int(i)


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
            z, reward = within_range(model, dot(scratch.row, theta)), state.rows[d, i]
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
    _let_sleep(model, belief, P)


@inlined
def _let_sleep(model: Model, belief: Belief, P: Floats) -> None:
    """Features that were never anything but 0 have no variance until they awake."""
    for j in range(model.d - belief.constant[0]):
        if belief.newborn[j, j] == 0.0:
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
        learn_reward(model, state, belief.theta[r], belief.P[r], state.rows[model.d, i], 1.0, noise)
    copy(row, state.scratch.row)
