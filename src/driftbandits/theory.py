"""What is proved: how to tune, how wide to be, and what the regret is bounded by.

The paper's formulas, and those of the later works that `policies.rows` cites.

Notation
--------
T        horizon                              d        dimension of the model
Gamma    number of changes up to T            tau      window
gamma    discount                             D(gamma) rounds after which a change is forgotten
k, c     largest and smallest slope           lam      penalty
L, S     bounds of ||a|| and ||theta||        m        largest reward
delta    probability that a bound fails       n        rows that count: min(t, tau), ...
P_T      path length: sum of ||theta_t - theta_{t-1}|| up to T
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits.jit import compiled, inlined


class Problem(NamedTuple):
    """The constants that the bounds of the paper share."""

    d: int
    k: float
    c: float
    lam: float = 1.0
    L: float = 1.0
    S: float = 1.0
    m: float = 1.0
    delta: float = 0.01


def _check_tuning(dim: int, horizon: int, changes: int | None) -> None:
    for name, value in (("dim", dim), ("horizon", horizon)):
        if not (isinstance(value, (int, np.integer)) and value >= 1):
            raise ValueError(f"{name} must be an integer of at least 1; got {value!r}")
    if changes is not None and not (isinstance(changes, (int, np.integer)) and changes >= 0):
        raise ValueError(f"changes must be an integer of at least 0, or None; got {changes!r}")


def _rate(dim: int, horizon: int, changes: int | None, slope: float) -> float:
    """(sqrt(slope) Gamma/(dT))^(2/3), with 1 for an unknown Gamma."""
    _check_tuning(dim, horizon, changes)
    known = 1 if changes is None else changes
    rate = math.pow(math.sqrt(slope) * known / (dim * horizon), 2.0 / 3.0)
    if rate >= 1.0:
        raise ValueError(
            f"changes must be less than dim * horizon = {dim * horizon}; got {changes!r}: "
            "with a change in every round there is nothing to remember"
        )
    return rate


def tuned_window(*, dim: int, horizon: int, changes: int | None = None, slope: float = 1.0) -> int:
    """tau of Corollary `corollary:asympt_regret_SW`; without changes, the whole horizon.

    The self-concordant analysis (Russac et al. 2021) has the smallest slope in it: give c.

    >>> tuned_window(dim=2, horizon=6000, changes=3)
    252
    """
    rate = _rate(dim, horizon, changes, slope)
    # A power that should be whole may come out a hair above it: 100^(2/3 * 3/2).
    return horizon if changes == 0 else math.ceil(round(1.0 / rate, 9))


def tuned_discount(
    *, dim: int, horizon: int, changes: int | None = None, slope: float = 1.0
) -> float:
    """gamma of Corollary `corollary:asympt_regret_D`; without changes, 1 - 1/horizon.

    The self-concordant analysis (Russac et al. 2021) has the smallest slope in it: give c.

    >>> round(tuned_discount(dim=2, horizon=6000, changes=3), 5)
    0.99603
    """
    rate = _rate(dim, horizon, changes, slope)
    if changes == 0:
        if horizon == 1:
            raise ValueError("horizon must be at least 2 for a discount with changes=0; got 1")
        return 1.0 - 1.0 / horizon
    return 1.0 - rate


def _check_drift(dim: int, horizon: int, path_length: float) -> None:
    _check_tuning(dim, horizon, None)
    if not (math.isfinite(path_length) and path_length >= 0.0):
        raise ValueError(f"path_length must be finite and at least 0; got {path_length!r}")


def drift_discount(*, dim: int, horizon: int, path_length: float, slope: float = 1.0) -> float:
    """gamma = 1 - max(1/T, sqrt(slope P_T/(dT))), for gradual drift (Wang, Zhao, Zhou 2023).

    slope: 1 for LB-WeightUCB, k c for GLB-WeightUCB, k for SCB-WeightUCB.

    >>> round(drift_discount(dim=2, horizon=6000, path_length=6.0), 5)
    0.97764
    """
    _check_drift(dim, horizon, path_length)
    if horizon < 2:
        raise ValueError(f"horizon must be at least 2 for a discount; got {horizon!r}")
    loss = max(1.0 / horizon, math.sqrt(slope * path_length / (dim * horizon)))
    if loss >= 1.0:
        raise ValueError(
            f"path_length must be less than {dim * horizon / slope:g} over {horizon} rounds; got "
            f"{path_length!r}: with such a drift there is nothing to remember"
        )
    return 1.0 - loss


def restart_period(*, dim: int, horizon: int, path_length: float) -> int:
    """Rounds between restarts, floor((dT/P_T)^(2/3)) but at most T (Zhao et al. 2020).

    >>> restart_period(dim=2, horizon=6000, path_length=6.0)
    158
    """
    _check_drift(dim, horizon, path_length)
    if path_length == 0.0:
        return horizon
    # A power that should be whole may come out a hair below it.
    period = math.floor(round(math.pow(dim * horizon / path_length, 2.0 / 3.0), 9))
    return min(max(period, 1), horizon)


def drift_penalty(*, dim: int, slope: float = 1.0) -> float:
    """lam = d/c: the d/c^2 of Wang, Zhao, Zhou (2023), whose penalty is c lam theta."""
    return dim / slope


def self_concordant_penalty(*, dim: int, horizon: int) -> float:
    """lam = d log T (Russac et al. 2021; Wang, Zhao, Zhou 2023, whose penalty is c lam theta)."""
    _check_tuning(dim, horizon, None)
    if horizon < 2:
        raise ValueError(f"horizon must be at least 2 for the penalty d log T; got {horizon!r}")
    return dim * math.log(horizon)


def forgetting_time(gamma: float) -> float:
    """D(gamma) = log(1/(1-gamma))/(1-gamma), of Corollary `corollary:asympt_regret_D`."""
    _check_gamma(gamma)
    return -math.log1p(-gamma) / (1.0 - gamma)


def _check_gamma(gamma: float) -> None:
    if not 0.0 < gamma < 1.0:
        raise ValueError(f"gamma must lie strictly between 0 and 1; got {gamma!r}")


def _check_window(tau: int) -> None:
    if not tau >= 1:
        raise ValueError(f"tau must be at least 1; got {tau!r}")


@compiled
def discounted_count(gamma: float, t: float) -> float:
    """Sum of gamma^(2s) over t rows: the n of a discounted radius."""
    return -math.expm1(2.0 * t * math.log(gamma)) / -math.expm1(2.0 * math.log(gamma))


@compiled
def deviation(n: float, log_confidence: float, sigma: float, d: float, coefficient: float) -> float:
    """sigma sqrt(2 log(1/confidence) + d log(1 + coefficient n)): the c_t of every radius."""
    return sigma * math.sqrt(2.0 * log_confidence + d * math.log1p(coefficient * n))


@inlined
def union_rounds(t: float, horizon: float) -> float:
    """T up to a known horizon; beyond it, or without one (0), t(t+1)."""
    return horizon if t <= horizon else t * (t + 1.0)


@compiled
def union_log_confidence(t: float, horizon: float, delta: float) -> float:
    """log(T/delta) up to a known horizon; beyond it, or without one (0), log(t(t+1)/delta)."""
    return math.log(union_rounds(t, horizon) / delta)


@inlined
def local_deviation(
    n: float, log_confidence: float, m: float, d: float, k: float, lam: float
) -> float:
    """Deviation of the noise in the norm of the curvature, for actions of length 1 at most.

    A Bernstein bound: the variance is mu'(a.theta), and the noise at most m (Faury, Abeille,
    Calauzenes, Fercoq 2020, Theorem 1, with det H <= (lam + k n/d)^d).
    """
    root = math.sqrt(lam)
    unknown = log_confidence + d * math.log(2.0) + 0.5 * d * math.log1p(k * n / (d * lam))
    return root / (2.0 * m) + 2.0 * m / root * unknown


@inlined
def inside_radius(rho: float, k: float, lam: float, S: float, reach: float) -> float:
    """k sqrt(1+2S) (sqrt(lam) reach + rho), where both parameters lie in the ball of S."""
    return k * math.sqrt(1.0 + 2.0 * S) * (math.sqrt(lam) * reach + rho)


@inlined
def anywhere_radius(rho: float, k: float, lam: float, reach: float) -> float:
    """beta of Russac et al. (2021), wherever theta-hat lies, to be divided by sqrt(c)."""
    out = 1.0 + reach + math.sqrt((1.0 + reach) / lam) * rho + rho * rho / lam
    return k * math.sqrt(lam) * math.pow(out, 1.5)


@inlined
def discounted_reach(S: float, k: float, m: float, lam: float, T: float, gamma: float) -> float:
    """S, and what rounds that weigh less than 1/T add to it (Russac et al. 2021)."""
    return S + (2.0 * S * k + m) / (T * lam * (1.0 - gamma))


def discount_bias(problem: Problem, gamma: float, lag: float | None = None) -> float:
    """2 L^2 S k sqrt(c/lam) gamma^D/(1-gamma), the last term of `eq_rho_D`.

    D(gamma) is not a whole number, and the paper's set T(gamma) loses the term s = t-D, so
    gamma^(D-1) would be the conservative choice. The default is the paper's gamma^D; give `lag` for
    another exponent.
    """
    p = problem
    exponent = forgetting_time(gamma) if lag is None else lag
    tail = math.pow(gamma, exponent) / (1.0 - gamma)
    return 2.0 * p.L**2 * p.S * p.k * math.sqrt(p.c / p.lam) * tail


def rho_window(problem: Problem, *, t: int, tau: int, horizon: int | None = None) -> float:
    """rho_t^SW(delta), `eq_rho_SW`; without a horizon, log(t(t+1)/delta) replaces log(T/delta)."""
    _check_window(tau)
    p = problem
    confidence = union_log_confidence(float(t), float(horizon or 0), p.delta)
    c_t = deviation(float(min(t, tau)), confidence, p.m / 2, float(p.d), _coefficient(p))
    return 2.0 * p.k / p.c * (c_t + math.sqrt(p.c * p.lam) * p.S)


def rho_discount(problem: Problem, *, t: int, gamma: float) -> float:
    """rho_t^D(delta), `eq_rho_D`."""
    p = problem
    bias = discount_bias(p, gamma)
    n = discounted_count(gamma, float(t))
    c_t = deviation(n, math.log(1.0 / p.delta), p.m / 2, float(p.d), _coefficient(p))
    return 2.0 * p.k / p.c * (c_t + math.sqrt(p.c * p.lam) * p.S + bias)


def rho_stationary(problem: Problem, *, t: int) -> float:
    """rho of the stationary policy: a sum that only grows needs no union bound."""
    p = problem
    c_t = deviation(float(t), math.log(1.0 / p.delta), p.m / 2, float(p.d), _coefficient(p))
    return 2.0 * p.k / p.c * (c_t + math.sqrt(p.c * p.lam) * p.S)


def _coefficient(p: Problem) -> float:
    return p.c * p.L**2 / (p.d * p.lam)


def regret_bound_window(problem: Problem, *, horizon: int, tau: int, changes: int) -> float:
    """The bound of Theorem `theorem_regret_SW`, with probability at least 1 - 2 delta."""
    p = problem
    rho = rho_window(p, t=horizon, tau=tau, horizon=horizon)
    log_det = p.d * math.ceil(horizon / tau) * math.log1p(p.c * p.L**2 * tau / (p.d * p.lam))
    return 2.0 * math.sqrt(2.0) * rho * math.sqrt(horizon * log_det) + p.m * changes * tau


def regret_bound_discount(problem: Problem, *, horizon: int, gamma: float, changes: int) -> float:
    """The bound of Theorem `theorem_regret_D`, with probability at least 1 - 2 delta."""
    p = problem
    rho = rho_discount(p, t=horizon, gamma=gamma)
    log_det = horizon * math.log(1.0 / gamma) + math.log1p(
        p.c * p.L**2 / (p.d * p.lam * (1.0 - gamma))
    )
    stay = 2.0 * rho * math.sqrt(2.0 * p.d * horizon) * math.sqrt(log_det)
    return stay + p.m * changes * forgetting_time(gamma)


def covered_by_window(theta: ArrayLike, *, tau: int) -> NDArray[np.bool_]:
    """Which rounds are in T(tau), `D_tau_def`: no change in t-tau..t. theta is (T, d)."""
    _check_window(tau)
    return _rounds_since_change(theta) >= tau


def covered_by_discount(theta: ArrayLike, *, gamma: float) -> NDArray[np.bool_]:
    """Which rounds are in T(gamma): no change in t-D(gamma) < s <= t. theta is (T, d)."""
    # s > t - D over whole rounds: the furthest s is ceil(D) - 1 rounds back
    return _rounds_since_change(theta) >= math.ceil(forgetting_time(gamma)) - 1


def _rounds_since_change(theta: ArrayLike) -> NDArray[np.float64]:
    """Rounds that the parameter has already been theta_t; infinite before the first change."""
    path = np.asarray(theta, dtype=np.float64)
    if path.ndim != 2 or not np.isfinite(path).all():
        raise ValueError(f"theta must be a finite (T, d) array; got shape {path.shape}")
    changed = np.any(path[1:] != path[:-1], axis=1)
    since = np.full(len(path), np.inf)
    last = -1
    for t in range(1, len(path)):
        if changed[t - 1]:
            last = t
        if last >= 0:
            since[t] = t - last
    return since
