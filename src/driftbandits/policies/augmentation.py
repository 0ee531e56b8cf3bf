"""A draw from the posterior of a logistic model, by Polya-Gamma augmentation.

Polson, Scott, Windle (2013), Bayesian Inference for Logistic Models Using Polya-Gamma Latent
Variables: a sweep draws

    omega_s ~ PG(m, a_s . theta)                          for every row that is remembered
    theta   ~ N(Q^-1 kappa, Q^-1)                         Q = sum omega_s a_s a_s' + lam I,
                                                          kappa = sum (X_s - m/2) a_s

and the posterior of theta is what sweeps leave as it is. They begin at a draw from Laplace's
approximation, so that a decision depends on no earlier one. That is the nearer to the posterior the
more rows there are; few rows get more sweeps, which cost little there. Other reward models have no
such augmentation, and the approximation stays.

PG(1, z) is drawn as Devroye (2009) draws J*(1, z/2), a quarter of which it is: a proposal with an
exponential right tail and an inverse Gaussian left part, accepted by an alternating series.
PG(m, z) is a sum of m of them.

Every number is a function of a key, the round of its row and its place: late rewards change none.
"""

from __future__ import annotations

import math

from driftbandits.estimator import Model, State
from driftbandits.estimator.memory import load_row
from driftbandits.estimator.state import HEAD, TAIL
from driftbandits.jit import internal, place
from driftbandits.linalg import (
    add_outer,
    add_scaled,
    backward_solve,
    backward_solve_large,
    cholesky,
    cholesky_large,
    copy,
    dot,
    forward_solve,
    forward_solve_large,
    set_to_identity,
)
from driftbandits.links import link
from driftbandits.policies.chance import key_of, normal, uniform

ROWS_A_DRAW, MOST_SWEEPS = 512, 16
"""There are as many sweeps as pass over so many rows, one at least and no more than these."""
_LOGISTIC = place(link("logistic").code)
_CUT = 0.64
"""Where the two parts of the proposal meet."""
_FARTHEST = 300.0
"""Of z/2: beyond it a chance is 0 or 1 to 260 digits, and exp would overflow."""
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
    set_to_identity(Q, model.lam)
    copy(state.b, mean)
    for s in range(state.counters[HEAD], state.counters[TAIL]):
        load_row(model, state, s)
        omega = polya_gamma(int(model.m), dot(row, point), key, int(state.rows[model.d + 1, s]))
        add_outer(Q, omega, row)
        add_scaled(mean, -0.5 * model.m, row)
    for j in range(model.d):
        point[j] = normal(key, _NO_ROW, j)
    # Q = C C': the mean is C'^-1 C^-1 kappa, and C'^-1 z has covariance Q^-1
    C = scratch.noise_factor
    if model.fast:
        cholesky_large(Q, C)
        forward_solve_large(C, mean)
        add_scaled(point, 1.0, mean)
        backward_solve_large(C, point)
    else:
        cholesky(Q, C)
        forward_solve(C, mean)
        add_scaled(point, 1.0, mean)
        backward_solve(C, point)


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
    """Of the alternating series of the density of J*(1, 0), by the form that falls faster."""
    k = n + 0.5
    if x > _CUT:
        return math.pi * k * math.exp(-0.5 * k * k * math.pi * math.pi * x)
    return math.pi * k * math.pow(2.0 / (math.pi * x), 1.5) * math.exp(-2.0 * k * k / x)


@internal
def _left_part(z: float, key: int, s: int, used: int) -> tuple[float, int]:
    """An inverse Gaussian number of mean 1/z and shape 1, below the cut."""
    x = 2.0 * _CUT
    if z * _CUT < 1.0:  # the mean lies above the cut: from the law of mean infinity
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
