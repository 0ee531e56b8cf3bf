"""Randomised choices, and the probability of each.

A policy that maximises one random line per action, D-RandLinUCB, has a propensity in closed form:
the share of the random scale for which the action is on the upper envelope.

A policy that samples a parameter draws `votes` samples instead of one, all independent, and every
sample votes for its best action (tied ones share the vote). The first sample decides, so the
choice has the probabilities of the sampler. And the samples are exchangeable: given which votes
were cast, though not in which order, the probability of an action is exactly its share of the
votes, and that is the propensity. An action without a vote has probability 0 in that round: give
the policy an epsilon where every action must be possible.

Means, widths and scores do not depend on what is drawn: a width is k times the standard deviation
of a . theta, which bounds that of the mean.

Notation
--------
A          scalar   scale of the noise, bonus_scale rho / k
z          (d,)     standard normal
POSTERIOR  theta_hat + A J^-1/2 z: the Laplace approximation of a posterior
PERTURBED  the root of g(theta) = b + A C^1/2 z, where C = sum w_s^2 a_s a_s' + (lam/c) I: noise on
           every reward enters the score equation only through b, so one draw stands for all of
           them. The ridge counts as d more rows sqrt(lam/c) e_j, without which a direction that
           was never played would never be explored.
AUGMENTED  theta_hat + A (theta - theta_hat), where theta is drawn from the posterior of a logistic
           model by Polya-Gamma augmentation, see below
"""

from __future__ import annotations

import math

from driftbandits.core import Model, State, link
from driftbandits.core import linalg as la
from driftbandits.core.estimator.expansion import evaluate, reach_of, remainder
from driftbandits.core.estimator.memory import load_row
from driftbandits.core.estimator.model import DISCOUNT, Floats
from driftbandits.core.estimator.solve import ERROR_TOLERANCE, damping
from driftbandits.core.estimator.state import FOR_THETA_HAT, HEAD, LONGEST, RADIUS, TAIL
from driftbandits.jit import inlined, internal, place
from driftbandits.policies.adaptations.exponential import draw_arm
from driftbandits.policies.curvature import sum_at
from driftbandits.policies.randomness import MIXTURE, TAKEN, TIES, key_of, normal, pick, uniform
from driftbandits.policies.scoring import AUGMENTED, PERTURBED, SCALED, WEIGHTED, Scoring, by_size

_factorise, _invert = by_size(la.cholesky_large, la.cholesky), by_size(la.inverse_large, la.inverse)
_forward = by_size(la.forward_solve_large, la.forward_solve)
_backward = by_size(la.backward_solve_large, la.backward_solve)
_multiply_by_factor = by_size(la.multiply_by_factor_large, la.multiply_by_factor)

_SMALLEST_SHARE = 2.0**-53
_MOST_STEPS = 1000
_LAST_STEP = 1e-5  # the error after a Newton step is at most of the order of its square


@internal
def make_sampling_matrices(model: Model, scoring: Scoring, state: State) -> None:
    """scratch.bonus := covariance of the sampled parameter over A^2, and what samples need."""
    scratch = state.scratch
    if model.order > 0:
        evaluate(model, state, FOR_THETA_HAT, state.theta_hat, model.order)
    else:  # the sums of a large model have no J
        sum_at(model, state, state.theta_hat)
    _factorise(model, scratch.J, scratch.factor)
    if scoring.score != PERTURBED:
        _invert(model, scratch.factor, scratch.bonus)
    else:
        C = state.V2 if model.memory == DISCOUNT else state.V
        _invert(model, scratch.factor, scratch.inverse)
        la.sandwich(scratch.inverse, C, scratch.other_matrix, scratch.bonus)
        _factorise(model, C, scratch.noise_factor)


@internal
def draw(
    model: Model,
    scoring: Scoring,
    state: State,
    features: Floats,
    table: Floats,
    seed: int,
    t: int,
    steepest: float,
) -> tuple[int, float]:
    """An action of those that are not TAKEN in row 3 of the table, and its probability.

    features (K, d) are the actions as the model sees them, `steepest` is k; row 3 is used as
    scratch.
    """
    free = 0
    for i in range(table.shape[1]):
        free += table[3, i] > TAKEN
    chosen = -1
    if scoring.epsilon > 0.0 and uniform(seed, t, MIXTURE) < scoring.epsilon:
        left, chosen = int(uniform(seed, t, TIES) * free), 0
        while left > 0 or table[3, chosen] == TAKEN:
            left -= table[3, chosen] > TAKEN
            chosen += 1
    if scoring.score == SCALED:
        possible = 0.0
        if chosen < 0:
            _mark_highest_lines(table, abs(normal(seed, t, 0)))
            chosen, _ = pick(0.0, table, seed, t)
            possible = _SMALLEST_SHARE  # whatever rounding says of the share
        share = max(_share_of_line(table, chosen), possible)
    elif scoring.score == WEIGHTED:
        chosen, share = draw_arm(scoring, state, features, table, seed, t, chosen)
    else:
        chosen, share = _vote(model, scoring, state, features, table, seed, t, steepest, chosen)
    return chosen, (1.0 - scoring.epsilon) * share + scoring.epsilon / free


@internal
def _mark_highest_lines(table: Floats, scale: float) -> None:
    """Row 3 := 1 where mean + scale width is largest, and 0 elsewhere.

    By differences, as in `_share_of_line`: sums would round lines to ties that differ in it.
    """
    highest = -1
    for i in range(table.shape[1]):
        if table[3, i] > TAKEN:
            ahead = 1.0
            if highest >= 0:
                ahead = table[0, i] - table[0, highest]
                ahead += scale * (table[1, i] - table[1, highest])
            if ahead > 0.0:
                highest = i
    for i in range(table.shape[1]):
        if table[3, i] > TAKEN:
            same = table[0, i] == table[0, highest] and table[1, i] == table[1, highest]
            table[3, i] = 1.0 if same else 0.0


@internal
def _share_of_line(table: Floats, i: int) -> float:
    """Probability that mean + |z| width is largest for action i, z standard normal."""
    low, high = 0.0, math.inf
    same = 0
    for j in range(table.shape[1]):
        if table[3, j] == TAKEN:
            continue
        ahead = table[0, j] - table[0, i]
        wider = table[1, j] - table[1, i]
        if wider < 0.0:
            low = max(low, ahead / -wider)
        elif wider > 0.0:
            high = min(high, -ahead / wider)
        elif ahead > 0.0:
            return 0.0
        elif ahead == 0.0:
            same += 1
    share = math.erfc(low / math.sqrt(2.0)) - math.erfc(high / math.sqrt(2.0))
    return max(share, 0.0) / same


@internal
def _vote(
    model: Model,
    scoring: Scoring,
    state: State,
    features: Floats,
    table: Floats,
    seed: int,
    t: int,
    steepest: float,
    chosen: int,
) -> tuple[int, float]:
    """The choice of the first sample, unless one is given, and its share of all votes."""
    noise, sample = state.scratch.noise, state.scratch.point
    wide = state.gauges[RADIUS] / steepest
    share = 0.0
    for vote in range(scoring.votes):
        for j in range(model.d):
            noise[j] = wide * normal(seed, t, vote * model.d + j)
        _sample(model, scoring.score, state)
        if scoring.score == AUGMENTED:
            sweep(model, state, wide, key_of(seed, t, vote))
        best = TAKEN
        tied = 0
        for i in range(table.shape[1]):
            if table[3, i] == TAKEN:
                continue
            value = 0.0
            for j in range(model.d):
                value += features[i, j] * sample[j]
            table[3, i] = value
            if value > best:
                best = value
                tied = 0
            tied += value == best
        if chosen < 0:
            chosen, _ = pick(0.0, table, seed, t)
        if table[3, chosen] == best:
            share += 1.0 / tied
    return chosen, share / scoring.votes


@inlined
def _sample(model: Model, score: int, state: State) -> None:
    """scratch.point := a sample of the parameter, from A z in scratch.noise, which is used up."""
    scratch = state.scratch
    noise = scratch.noise
    if score == PERTURBED:
        _multiply_by_factor(model, scratch.noise_factor, noise)
        if not model.linear:
            _solve_perturbed(model, state)
            return
        _forward(model, scratch.factor, noise)
    _backward(model, scratch.factor, noise)
    for j in range(model.d):
        scratch.point[j] = state.theta_hat[j] + noise[j]


@internal
def _solve_perturbed(model: Model, state: State) -> None:
    """scratch.point := the root of g(theta) = b + noise, by Newton from theta_hat.

    The expansion of g about theta_hat's anchor is used where it is as exact as `fit` needs it, and
    a pass over the memory where it is not.
    """
    scratch = state.scratch
    point, step = scratch.point, scratch.step
    la.copy(state.theta_hat, point)
    for _ in range(_MOST_STEPS):
        reach = reach_of(state, FOR_THETA_HAT, point)
        lost = remainder(model, state, FOR_THETA_HAT, reach, model.order)
        if lost <= ERROR_TOLERANCE * model.lam and model.order > 0:
            evaluate(model, state, FOR_THETA_HAT, point, model.order)
        else:
            sum_at(model, state, point)
        la.cholesky(scratch.J, scratch.factor)
        for j in range(model.d):
            step[j] = state.b[j] + scratch.noise[j] - scratch.g[j]
        la.forward_solve(scratch.factor, step)
        la.backward_solve(scratch.factor, step)
        length = state.gauges[LONGEST] * la.norm(step)
        la.add_scaled(point, damping(length), step)
        if length <= _LAST_STEP:
            break


# -- Polya-Gamma augmentation ----------------------------------------------------------------------
#
# Polson, Scott, Windle (2013), Bayesian Inference for Logistic Models Using Polya-Gamma Latent
# Variables: a sweep draws
#
#     omega_s ~ PG(m, a_s . theta)                      for every row that is remembered
#     theta   ~ N(Q^-1 kappa, Q^-1)                     Q = sum omega_s a_s a_s' + lam I,
#                                                       kappa = sum (X_s - m/2) a_s
#
# and leaves the posterior of theta as it is. Sweeps begin at a draw from Laplace's approximation,
# so that a decision depends on no earlier one. It is the nearer to the posterior the more rows
# there are; few rows get more sweeps, which cost little there. Other reward models have no such
# augmentation, and the approximation stays.
#
# PG(1, z) is drawn as Devroye (2009) draws J*(1, z/2), a quarter of which it is: a proposal with an
# exponential right tail and an inverse Gaussian left part, accepted by an alternating series.
# PG(m, z) is a sum of m of them. Every number is a function of a key, the round of its row and its
# place: late rewards change none.

ROWS_A_DRAW, MOST_SWEEPS = 512, 16
"""There are as many sweeps as pass over so many rows, one at least and no more than these."""
_LOGISTIC = place(link("logistic").code)
_CUT = 0.64
"""Where the two parts of the proposal meet."""
_FARTHEST = 300.0
"""Largest z/2 that is used: beyond it a mean is 0 or 1 to 260 digits, and exp would overflow."""
_NO_ROW = place(0)
"""In place of a round."""


@internal
def sweep(model: Model, state: State, wide: float, key: int) -> None:
    """scratch.point := theta_hat + wide (a draw from the posterior - theta_hat), from where it is.

    The covariance that scratch.factor is of is left alone, for the next draw.
    """
    if model.link == _LOGISTIC:
        n = int(state.counters[TAIL] - state.counters[HEAD])
        sweeps = min(max(ROWS_A_DRAW // max(n, 1), 1), MOST_SWEEPS)
        for number in range(sweeps):
            _sweep_once(model, state, key_of(key, _NO_ROW, number))
        for j in range(model.d):
            step = state.scratch.point[j] - state.theta_hat[j]
            state.scratch.point[j] = state.theta_hat[j] + wide * step


@internal
def _sweep_once(model: Model, state: State, key: int) -> None:
    scratch = state.scratch
    row, point, mean, Q = scratch.row, scratch.point, scratch.step, scratch.other_matrix
    la.set_to_identity(Q, model.lam)
    la.copy(state.b, mean)
    for s in range(state.counters[HEAD], state.counters[TAIL]):
        load_row(model, state, s)
        omega = polya_gamma(int(model.m), la.dot(row, point), key, int(state.rows[model.d + 1, s]))
        la.add_outer(Q, omega, row)
        la.add_scaled(mean, -0.5 * model.m, row)
    for j in range(model.d):
        point[j] = normal(key, _NO_ROW, j)
    # Q = C C': the mean is C'^-1 C^-1 kappa, and C'^-1 z has covariance Q^-1
    C = scratch.noise_factor
    _factorise(model, Q, C)
    _forward(model, C, mean)
    la.add_scaled(point, 1.0, mean)
    _backward(model, C, point)


@internal
def polya_gamma(m: int, z: float, key: int, s: int) -> float:
    """A draw from PG(m, z), by the numbers of a key and a round."""
    half = min(0.5 * abs(z), _FARTHEST)
    total, used = 0.0, 0
    for _ in range(m):
        x, used = _jacobi(half, key, s, used)
        total += 0.25 * x
    return total


@internal
def _jacobi(z: float, key: int, s: int, used: int) -> tuple[float, int]:
    """A draw from J*(1, z), and how many random numbers are used then."""
    rate = 0.125 * math.pi * math.pi + 0.5 * z * z
    right = 0.5 * math.pi / rate * math.exp(-rate * _CUT)
    root = math.sqrt(2.0 * _CUT)
    left = math.exp(-z) * math.erfc((1.0 - _CUT * z) / root)
    left += math.exp(z) * math.erfc((1.0 + _CUT * z) / root)
    while True:
        if uniform(key, s, used) * (right + left) < right:
            x = _CUT - math.log1p(-uniform(key, s, used + 1)) / rate
            used += 2
        else:
            x, used = _left_part(z, key, s, used + 1)
        total = _coefficient(0, x)
        level = uniform(key, s, used) * total
        used += 1
        n = 0
        while True:  # partial sums lie above and below the density in turn
            n += 1
            if n % 2 == 1:
                total -= _coefficient(n, x)
                if level <= total:
                    return x, used
            else:
                total += _coefficient(n, x)
                if level > total:
                    break


@internal
def _coefficient(n: int, x: float) -> float:
    """A coefficient of the alternating series of the density of J*(1, 0), by its faster form."""
    k = n + 0.5
    if x > _CUT:
        return math.pi * k * math.exp(-0.5 * k * k * math.pi * math.pi * x)
    return math.pi * k * math.pow(2.0 / (math.pi * x), 1.5) * math.exp(-2.0 * k * k / x)


@internal
def _left_part(z: float, key: int, s: int, used: int) -> tuple[float, int]:
    """An inverse Gaussian number of mean 1/z and shape 1, below the cut."""
    x = 2.0 * _CUT
    if z * _CUT < 1.0:  # the mean lies above the cut: draw with mean infinity
        accept = 0.0
        while uniform(key, s, used) >= accept:
            one = -math.log1p(-uniform(key, s, used + 1))
            other = -math.log1p(-uniform(key, s, used + 2))
            used += 3
            accept = 0.0
            if one * one <= 2.0 * other / _CUT:
                x = _CUT / (1.0 + _CUT * one) ** 2
                accept = math.exp(-0.5 * z * z * x)
        return x, used + 1
    mean = 1.0 / z
    while x > _CUT:
        angle = 2.0 * math.pi * uniform(key, s, used + 1)
        y = -2.0 * mean * math.log1p(-uniform(key, s, used)) * math.cos(angle) ** 2
        x = mean + 0.5 * mean * (y - math.sqrt(4.0 * y + y * y))
        if uniform(key, s, used + 2) * (mean + x) > mean:
            x = mean * mean / x
        used += 3
    return x, used
