"""theta-hat of large models: passes of two products each, and stale inverses.

A large model keeps no matrix of an expansion, only the sums of g at theta_hat and at theta. A step
multiplies what is left of the equation by the inverse of an earlier curvature, see stale.py. The
certificate needs none of it. With r = b - g(theta_hat) from exact sums and J >= c V,

    ||theta_hat - exact||_V <= ||r||_{V^-1} / c,

so the error of any a.theta_hat is at most that many times ||a||_{V^-1}, which is how widths are
measured. Outside the ball of S the smallest slope of the rows stands for c.

Notation (beyond solve.py)
--------
closeness  scalar   what ||theta - exact||_V may be
"""

from __future__ import annotations

import math

from driftbandits.estimator.inverse import is_due, renew
from driftbandits.estimator.model import Model
from driftbandits.estimator.passes import sum_means_large
from driftbandits.estimator.sphere import MOST_STEPS, ROUNDING, SLOW, project_large
from driftbandits.estimator.stale import (
    LEAST,
    MADE,
    NEWTON,
    charge,
    renew_newton,
    set_residual,
    size_of,
)
from driftbandits.estimator.state import (
    DAMPED_STEPS,
    DECREMENT,
    ERROR_BOUND,
    FOR_THETA_HAT,
    LEAK,
    LONGEST,
    NEWTON_STEPS,
    VALID,
    Large,
    State,
    large_of,
)
from driftbandits.jit import inlined, internal
from driftbandits.linalg import add_scaled, copy, multiply_large, norm

REACH = 0.5
"""Newton steps that move no a_s.theta further than this contract; longer ones are damped.

|mu''| <= mu' for every model here, so along a step p the curvature changes by at most e^(|a.p|).
"""


@internal
def fit_large(model: Model, state: State, closeness: float) -> None:
    """Bring theta_hat and theta up to date, to within `closeness` in the norm of V."""
    if is_due(state.notes):
        renew(state.V, True, state.P, state.notes, state.scratch.factor)
    large = large_of(state)
    off = _solve(model, state, large, closeness)
    project_large(model, state, large, closeness, off)


@inlined
def _solve(model: Model, state: State, large: Large, closeness: float) -> float:
    """Newton's steps with a stale inverse until theta_hat is certified; returns the bound."""
    gauges, counters, scratch, theta_hat = (
        state.gauges,
        state.counters,
        state.scratch,
        state.theta_hat,
    )
    notes, residual, step = large.notes, scratch.residual, scratch.step
    sums = state.moments[FOR_THETA_HAT]
    last, steps, renewed = math.inf, 0, False
    to_length = math.sqrt(model.c / model.lam)  # ||x|| <= that times ||x||_V
    off = math.inf
    for _ in range(MOST_STEPS):
        if not counters[VALID + FOR_THETA_HAT]:
            notes[LEAST] = sum_means_large(model, state.rows, counters, theta_hat, sums)
            copy(theta_hat, state.anchors[FOR_THETA_HAT])
            counters[VALID + FOR_THETA_HAT] = 1
        set_residual(model.lam, state.b, sums, theta_hat, residual)
        left = (
            size_of(residual, state.P, state.notes, state.scratch.other) + to_length * gauges[LEAK]
        )
        off = left / min(notes[LEAST], model.c)
        moves = gauges[LONGEST] * to_length * off
        # along the way to the root curvature falls by a factor e^s at most, s <= moves e^s
        off = off * math.exp(1.43 * moves) if moves <= 0.25 else math.inf
        size = norm(state.b) + norm(sums) + model.lam * norm(theta_hat)
        if off <= closeness or left <= ROUNDING * to_length * size:
            break
        if notes[MADE + NEWTON] == 0.0 or left > SLOW * last:
            renew_newton(model, state, large)
            renewed = True
        last = left
        steps += 1
        multiply_large(large.newton, residual, step)
        length = gauges[LONGEST] * norm(step)
        damped = math.log1p(length) / length if length > REACH else 1.0
        counters[DAMPED_STEPS] += damped < 1.0
        counters[NEWTON_STEPS] += 1
        add_scaled(theta_hat, damped, step)
        counters[VALID + FOR_THETA_HAT] = 0
    if not renewed:
        charge(model, counters, notes, NEWTON, steps, 1)
    gauges[DECREMENT] = math.sqrt(model.c) * off
    gauges[ERROR_BOUND] = to_length * off
    return off
