"""The Gaussians of a belief, and how they learn: segments that stay, and drifts that move.

One reward informs one direction only, so the mode of prior times likelihood is the root of a scalar
equation (`settled`), and the covariance loses a rank-one matrix. A mean is looked at only where
rewards can be: a count is at most m, so that no action is so long that its exponential leaves no
digits for the others.

A drift is a stationary Gaussian process in time for every coordinate of theta_t - (0, ..., 0,
base), whose marginal is the prior, with a Matern kernel. A Matern-1/2 process (Ornstein and
Uhlenbeck) has no direction. A Matern-3/2 process has a velocity, and is followed without lag where
it turns steadily. In state-space form both are filtered in O(d^2) (Hartikainen and Sarkka 2010).

A segment never forgets, and holds the rewards of its first round and all later ones (run lengths,
Adams and MacKay 2007; Fearnhead and Liu 2007). A new one begins with every new round; when there
are too many, one is merged into a neighbour. Every chain has its own hazard and its own weights
over the same segments.

Notation
--------
theta, P   mean of a Gaussian, and its covariance over phi; for Matern 3/2 also the cross covariance
           of parameter and velocity, and the covariance of the velocity
v          (d,) mean of the velocity times the length scale over sqrt(3), so that a priori it has
           the covariance of the parameter
phi        dispersion: Var(X) over that of the reward model
z, q       a . theta and a' P a
t          what the reward moves theta by along P a: the root of t = weight (X - mu(z + q t))
"""

from __future__ import annotations

import math
from typing import NamedTuple

from driftbandits.core import Model, State, links
from driftbandits.core import linalg as la
from driftbandits.core.estimator.memory import load_row
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import BEGUN, HEAD, TAIL
from driftbandits.jit import inlined, internal
from driftbandits.policies.auto.priors import (
    clear_unseen,
    limit_row,
    limited_reward,
    make_covariance,
    make_precision,
)
from driftbandits.policies.auto.record import (
    CHAINS,
    DRIFTS,
    FIRST_OF_ALL,
    HAZARDS,
    KINDS,
    LEAST_POPULATION,
    MATERN12,
    MATERN12_RATE,
    MATERN32,
    MATERN32_SCALE,
    PRIOR_TRUST,
    ROOM,
    SEGMENTS,
    Belief,
)
from driftbandits.policies.scoring import by_size

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


forecast_of = by_size(la.dot_large, la.dot)
_multiply = by_size(la.multiply_large, la.multiply)


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
def evidence_of(model: Model, reward: float, z: float, q: float, noise: Noise, t: float) -> float:
    """Log evidence of a reward where a.theta is N(z, phi q) and the root t is known.

    The variance of a linear model's rewards is estimated: at first from two or three of them, and
    tails of amounts are never those of a Gaussian. So they are weighed by Student's t.
    """
    if noise.phi == 0.0:  # nobody knows yet how rewards are dispersed
        return 0.0
    if model.linear:
        away = (reward - z) * (reward - z) / (noise.phi * (1.0 + q))
        tails = 0.5 * (noise.freedom + 1.0) * math.log1p(away / noise.freedom)
        evidence = -tails - 0.5 * math.log1p(q)
    else:
        mode = z + q * t
        log_likelihood = reward * mode - links.log_partition(model.link, model.m, mode)
        fit = log_likelihood - 0.5 * q * t * t
        slope = links.slope(model.link, model.m, mode)
        evidence = fit / noise.phi - 0.5 * math.log1p(q * slope)
    return evidence if math.isfinite(evidence) else _WORST


@inlined
def _learned(
    model: Model, reward: float, z: float, q: float, weight: float, noise: Noise
) -> Learned:
    """Changes that a reward makes where a.theta is N(z, phi q)."""
    t = settled(model, reward, z, q, weight)
    alone = t if weight == 1.0 else settled(model, reward, z, q, 1.0)
    slope = weight * links.slope(model.link, model.m, z + q * t)
    lost = slope / (1.0 + q * slope) if slope < _STEEPEST else 1.0 / q
    return Learned(evidence_of(model, reward, z, q, noise, alone), t, lost)


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
    _multiply(model, P, row, along)
    z = within_range(model, base + forecast_of(model, theta, row))
    q = max(forecast_of(model, along, row), 0.0) + variance
    learned = _learned(model, reward, z, q, weight, noise)
    la.add_scaled(theta, learned.t, along)
    la.add_outer(P, -learned.lost, along)
    return learned


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
        la.multiply(precision, theta, pull)
        theta[last] += base
        la.copy_matrix(precision, hessian)
        for i in range(first, state.counters[TAIL]):
            load_row(model, state, i)
            limit_row(model, state, belief)
            z = within_range(model, belief.shared_base[r] + la.dot(scratch.row, theta))
            reward = _remembered(model, state, belief, i)
            la.add_scaled(pull, links.mean(model.link, model.m, z) - reward, scratch.row)
            la.add_outer(hessian, links.slope(model.link, model.m, z), scratch.row)
        la.cholesky(hessian, scratch.factor)
        la.inverse(scratch.factor, P)
        la.multiply(P, pull, step)
        decrement = la.dot(step, pull)
        if model.linear or decrement < _DECREMENT:
            la.add_scaled(theta, -1.0, step)
            break
        far = math.sqrt(decrement)  # damped as for self-concordant functions, until it is near
        la.add_scaled(theta, -1.0 / (1.0 + far) if far > _NEAR else -1.0, step)
    clear_unseen(model, belief, P)


@internal
def learn_again(model: Model, state: State, belief: Belief, r: int, noise: Noise) -> None:
    """Segment r from its rows under the prior of now, one after the other."""
    row = state.scratch.start
    la.copy(state.scratch.row, row)
    is_new = belief.starts[r] > FIRST_OF_ALL
    make_covariance(model, state, belief, belief.kinds[r], is_new, belief.P[r])
    belief.theta[r][:] = 0.0
    belief.theta[r, model.d - 1] += belief.bases[r]
    for i in range(_first_row(model, state, belief.starts[r]), state.counters[TAIL]):
        load_row(model, state, i)
        limit_row(model, state, belief)
        reward, base = _remembered(model, state, belief, i), belief.shared_base[r]
        learn_reward(model, state, belief.theta[r], belief.P[r], reward, 1.0, noise, base, 0.0)
    la.copy(row, state.scratch.row)


# -- drifts ----------------------------------------------------------------------------------------

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
        la.copy(belief.theta[r], belief.drift_means[i])
        la.copy_matrix(belief.P[r], belief.drift_P[i])
    if not model.fast:
        for i in range(MATERN32):
            la.set_to_identity(belief.cross_P[i], 0.0)
            la.copy_matrix(belief.prior_P, belief.velocity_P[i])
            belief.velocity[i][:] = 0.0


@inlined
def _variance_moved(i: int, age: float) -> float:
    """Variance of the movement of drift i over some rounds, relative to the prior's."""
    if i < MATERN12:
        return float(2.0 * (1.0 - (1.0 - MATERN12_RATE[i]) ** (0.5 * age)))
    way = _STEADY / MATERN32_SCALE[i - MATERN12] * age
    return float(2.0 * (1.0 - (1.0 + way) * math.exp(-way)))


@internal
def learn_by_drifts(
    model: Model, state: State, belief: Belief, reward: float, age: float, noise: Noise
) -> None:
    """Let the drifts learn the reward of scratch.row; evidence[ROOM + i] := that of drift i.

    The movement of a.theta since the round of a late reward counts as noise.
    """
    row = state.scratch.row
    prior = 0.0
    if age > 0.0:
        _multiply(model, belief.prior_P, row, state.scratch.step)
        prior = forecast_of(model, state.scratch.step, row)
    for i in range(drifts_of(model)):
        weight = 1.0
        if age > 0.0:
            z = belief.shared_base[ROOM + i] + forecast_of(model, belief.drift_means[i], row)
            slope = links.slope(model.link, model.m, z)
            weight = 1.0 / (1.0 + slope * prior * _variance_moved(i, age))
        if i < MATERN12:
            theta, P = belief.drift_means[i], belief.drift_P[i]
            base, variance = belief.shared_base[ROOM + i], belief.base_variance[ROOM + i]
            learned = learn_reward(model, state, theta, P, reward, weight, noise, base, variance)
        else:
            learned = _learn_matern32(model, state, belief, i - MATERN12, reward, weight, noise)
        belief.evidence[ROOM + i] = learned.evidence
        learn_base(belief, ROOM + i, learned)


@inlined
def _learn_matern32(
    model: Model, state: State, belief: Belief, i: int, reward: float, weight: float, noise: Noise
) -> Learned:
    d, row = model.d, state.scratch.row
    along, speeding = state.scratch.step, state.scratch.pull
    theta = belief.drift_means[MATERN12 + i]
    place, cross, speed = belief.drift_P[MATERN12 + i], belief.cross_P[i], belief.velocity_P[i]
    la.multiply(place, row, along)
    for j in range(d):
        total = 0.0
        for k in range(d):
            total += cross[k, j] * row[k]
        speeding[j] = total
    z = within_range(model, belief.shared_base[ROOM + MATERN12 + i] + la.dot(theta, row))
    q = max(la.dot(along, row), 0.0) + belief.base_variance[ROOM + MATERN12 + i]
    learned = _learned(model, reward, z, q, weight, noise)
    la.add_scaled(theta, learned.t, along)
    la.add_scaled(belief.velocity[i], learned.t, speeding)
    la.add_outer(place, -learned.lost, along)
    la.add_outer(speed, -learned.lost, speeding)
    for j in range(d):
        for k in range(d):
            cross[j, k] -= learned.lost * along[j] * speeding[k]
    return learned


# -- segments --------------------------------------------------------------------------------------

_DRIFTS_BEGIN = 64  # rewards up to which drifts are started again with the prior of now


@internal
def hold(belief: Belief) -> None:
    """held := weights of the segments over all chains."""
    for r in range(belief.segments[0]):
        total = 0.0
        for h in range(CHAINS):
            total += belief.trust[h] * belief.weights[h * ROOM + r]
        belief.held[r] = total


@internal
def begin(model: Model, state: State, belief: Belief) -> None:
    """One segment for each kind of prior, which hold everything, and drifts like the first."""
    for which in range(CHAINS + 1):
        belief.trust[which] = PRIOR_TRUST[which]
    for i in range(drifts_of(model)):
        belief.drift_weights[i] = 1.0 / drifts_of(model)
    for kind in range(KINDS):
        belief.starts[kind], belief.serials[kind] = FIRST_OF_ALL, kind
        belief.kinds[kind] = kind
        make_covariance(model, state, belief, kind, False, belief.P[kind])
        for h in range(CHAINS):
            belief.weights[h * ROOM + kind] = 1.0 / KINDS
    belief.segments[0] = belief.born[0] = KINDS
    hold(belief)
    begin_as(model, belief, 0)


@internal
def align(model: Model, state: State, belief: Belief, common: Belief) -> None:
    """Let the segments of an arm be those of all arms; those it does not know are new to it."""
    known = belief.segments[0]
    after = 0
    for r in range(common.segments[0]):
        while after < known and belief.serials[after] < common.serials[r]:
            after += 1
        if after < known and belief.serials[after] == common.serials[r]:
            if after > r:
                belief.counts[r], belief.bases[r] = belief.counts[after], belief.bases[after]
                la.copy(belief.theta[after], belief.theta[r])
                la.copy_matrix(belief.P[after], belief.P[r])
        else:
            _empty(model, belief, r)


@internal
def begin_arm(model: Model, state: State, belief: Belief) -> None:
    """Let an arm that is new know the segments of all arms, and nothing of its own."""
    likely = 0
    for r in range(belief.segments[0]):
        _empty(model, belief, r)
        is_new = belief.starts[r] > FIRST_OF_ALL
        make_covariance(model, state, belief, belief.kinds[r], is_new, belief.P[r])
        if belief.kinds[r] == belief.kind[0] and belief.kinds[likely] != belief.kind[0]:
            likely = r
    begin_as(model, belief, likely)


@inlined
def _empty(model: Model, belief: Belief, r: int) -> None:
    """Let segment r be what is believed before any reward."""
    belief.counts[r] = 0
    belief.bases[r] = belief.base[0]
    belief.theta[r][:] = 0.0
    belief.theta[r, model.d - 1] += belief.base[0]
    la.copy_matrix(belief.prior_P, belief.P[r])


@internal
def learn_by_segments(
    model: Model, state: State, belief: Belief, reward: float, s: int, noise: Noise
) -> None:
    """Let the segments that reach back to round s learn the reward of scratch.row.

    evidence[r] := that of the reward before. The others began later and say nothing of round s;
    `weigh` gives them what the others say together.
    """
    for r in range(belief.segments[0]):
        if belief.starts[r] <= s:
            theta, P = belief.theta[r], belief.P[r]
            base, variance = belief.shared_base[r], belief.base_variance[r]
            learned = learn_reward(model, state, theta, P, reward, 1.0, noise, base, variance)
            belief.evidence[r] = learned.evidence
            learn_base(belief, r, learned)
            belief.counts[r] += 1


@internal
def fit_segments(model: Model, state: State, belief: Belief, s: int, noise: Noise) -> None:
    """Fit segments anew that hold 1, 2, 4, 8, ... rewards, after one of round s.

    So a young belief has the prior of now, and no fit is more than half a recursion. Those
    that began later are fitted at fewer of these.
    """
    likely = _likely_kind(belief)
    for r in range(belief.segments[0]):
        n = belief.counts[r]
        if belief.starts[r] > s or n & (n - 1) != 0:
            continue
        holds_everything = belief.starts[r] == FIRST_OF_ALL
        if model.fast:
            if holds_everything and n <= MOST_LEARNED_AGAIN:
                learn_again(model, state, belief, r, noise)
        elif n <= MOST_REFITTED and (holds_everything or n in LATER_FITS):
            fit_anew(model, state, belief, r)
        if holds_everything and belief.kinds[r] == likely and n <= _DRIFTS_BEGIN:
            begin_as(model, belief, r)
    belief.kind[0] = likely


@inlined
def _likely_kind(belief: Belief) -> int:
    """The kind of prior whose segments weigh most together."""
    likely, most = 0, -1.0
    for kind in range(KINDS):
        total = 0.0
        for r in range(belief.segments[0]):
            if belief.kinds[r] == kind:
                total += belief.held[r]
        if total > most:
            likely, most = kind, total
    return likely


@internal
def begin_segment(model: Model, state: State, belief: Belief, start: int) -> None:
    """Begin a segment with round `start`, and merge one if there are too many."""
    r = belief.segments[0]
    rounds = 1 if belief.starts[r - 1] == FIRST_OF_ALL else start - belief.starts[r - 1]
    for h in range(CHAINS):
        stays = (1.0 - HAZARDS[h]) ** rounds
        for i in range(r):
            belief.weights[h * ROOM + i] *= stays
        belief.weights[h * ROOM + r] = 1.0 - stays
    belief.starts[r], belief.serials[r], belief.kinds[r] = start, belief.born[0], belief.kind[0]
    belief.shared_base[r], belief.base_variance[r] = _mean_of_bases(belief)
    _empty(model, belief, r)
    belief.segments[0] += 1
    belief.born[0] += 1
    hold(belief)
    if belief.segments[0] > SEGMENTS:
        _merge(model, state, belief, _least_missed(belief, start))


@inlined
def _mean_of_bases(belief: Belief) -> tuple[float, float]:
    """The base that arms share in the likely segments, and its variance."""
    weight, base, variance = 1e-12, 0.0, 0.0
    for r in range(belief.segments[0]):
        weight += belief.held[r]
        base += belief.held[r] * belief.shared_base[r]
        variance += belief.held[r] * belief.base_variance[r]
    return base / weight, variance / weight


@inlined
def _least_missed(belief: Belief, now: int) -> int:
    """The segment with the least weight times the gap that it would leave, relative to its age."""
    chosen, least = 0, -1.0
    for r in range(belief.segments[0] - 1):
        gap = 1.0
        if r > 0 and belief.starts[r - 1] > FIRST_OF_ALL:
            before = belief.starts[r - 1]
            gap = (belief.starts[r + 1] - before) / float(now - before)
        loss = gap * (belief.held[r] + 1e-12)
        if least < 0.0 or loss < least:
            chosen, least = r, loss
    return chosen


@internal
def _merge(model: Model, state: State, belief: Belief, r: int) -> None:
    """Give the weight of segment r to the neighbour that began nearer to it, and close the gap."""
    into = r + 1
    if r > 0 and belief.starts[r] - belief.starts[r - 1] <= belief.starts[r + 1] - belief.starts[r]:
        into = r - 1
    for h in range(CHAINS):
        belief.weights[h * ROOM + into] += belief.weights[h * ROOM + r]
    for i in range(r, belief.segments[0] - 1):
        belief.starts[i], belief.serials[i] = belief.starts[i + 1], belief.serials[i + 1]
        belief.kinds[i], belief.counts[i] = belief.kinds[i + 1], belief.counts[i + 1]
        belief.bases[i] = belief.bases[i + 1]
        belief.shared_base[i] = belief.shared_base[i + 1]
        belief.base_variance[i] = belief.base_variance[i + 1]
        la.copy(belief.theta[i + 1], belief.theta[i])
        la.copy_matrix(belief.P[i + 1], belief.P[i])
        for h in range(CHAINS):
            belief.weights[h * ROOM + i] = belief.weights[h * ROOM + i + 1]
    belief.segments[0] -= 1
    hold(belief)
    if belief.starts[0] > FIRST_OF_ALL:
        state.counters[BEGUN] = belief.starts[0] - 1
