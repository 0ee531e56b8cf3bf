"""What the regret is bounded by, and in which rounds the confidence bounds hold.

See theory/__init__.py for the notation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits.theory.radii import (
    Problem,
    check_window,
    forgetting_time,
    rho_discount,
    rho_window,
)


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
    check_window(tau)
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
