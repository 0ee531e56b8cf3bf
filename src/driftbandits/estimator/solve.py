"""theta-hat and its projection, each with a certificate.

Notation (beyond model.py and expansion.py)
--------
g(theta)   (d,)     sum w_s mu(a_s.theta) a_s + lam theta;   g(theta_hat) = b
J(theta)   (d, d)   its Jacobian
M          (d, d)   norm of the projection: V for a window, V2 for discounting
u          (d,)     M^-1 (b - g(theta))
nu         scalar   multiplier of ||theta|| = S:  J u = nu theta at the projection

The gauges hold, after `fit`: DECREMENT, the Newton decrement ||b - g||_{J^-1} of the last step
taken; ERROR_BOUND, a bound of ||theta_hat - exact root|| that counts the expansion's remainder,
the rows dropped by truncation and what Newton left over. After `project`: KKT_RESIDUAL, the part
of J u that is not along theta, over ||J u||.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandits import links
from driftbandits.estimator.expansion import anchor, evaluate, remainder
from driftbandits.estimator.memory import rebuild
from driftbandits.estimator.model import (
    DAMPED_STEPS,
    DECREMENT,
    DISCOUNT,
    ERROR_BOUND,
    EXACT,
    FITTED,
    GAUSS_NEWTON_STEPS,
    KKT_RESIDUAL,
    LEAK,
    LONGEST,
    MASS,
    NEWTON_STEPS,
    NO_PROJECTION,
    PROJECTED,
    PROJECTIONS,
    SUBTRACTIONS,
    VALID,
    WINDOW,
    Floats,
    Ints,
    Model,
    State,
)
from driftbandits.jit import compiled
from driftbandits.linalg import (
    backward_solve,
    cholesky,
    dot,
    forward_solve,
    inverse,
    minimise_in_ball,
    multiply,
    norm,
    sandwich,
)

ERROR_TOLERANCE = 1e-9
KKT_TOLERANCE = 1e-11
REACH = 0.5
"""Newton steps that move no a_s.theta further than this contract; longer ones are damped.

|mu''| <= mu' for every model here, so along a step p the curvature changes by at most e^(|a.p|).
"""
_MOST_NEWTON_STEPS = 1000
_MOST_GAUSS_NEWTON_STEPS = 100
_ROUNDING = 1e-15


@compiled
def fit(model: Model, ladder: Ints, state: State) -> None:
    """Bring theta_hat up to date with the sums: Newton on an expansion, certified or renewed."""
    if state.counters[FITTED]:
        return
    d = model.d
    theta = state.theta_hat
    if model.memory == WINDOW and state.counters[SUBTRACTIONS] >= model.span:
        rebuild(model, state)
        state.counters[VALID] = state.counters[VALID + 1] = 0
    if not state.counters[VALID]:
        anchor(model, ladder, state, 0, theta)
    g, J, C = np.empty(d), np.empty((d, d)), np.empty((d, d))
    step, point = np.empty(d), np.empty(d)
    powers = np.empty(ladder.shape[0])
    unlimited = model.link == links.IDENTITY
    for _ in range(_MOST_NEWTON_STEPS):
        evaluate(model, ladder, state, 0, theta, g, J, powers)
        if not cholesky(J, C):  # subtractions have eaten the digits: sum again
            rebuild(model, state)
            anchor(model, ladder, state, 0, theta)
            evaluate(model, ladder, state, 0, theta, g, J, powers)
            cholesky(J, C)
        for j in range(d):
            step[j] = state.b[j] - g[j]
        forward_solve(C, step)
        decrement = norm(step)
        backward_solve(C, step)
        length = state.gauges[LONGEST] * norm(step)
        state.counters[NEWTON_STEPS] += 1
        for j in range(d):
            point[j] = theta[j] + step[j]
        if unlimited or _distance(state, point) <= REACH:
            theta[:] = point
            condition = _trace_of_inverse(C)
            lost = remainder(model, state, 0, theta)
            contraction = 0.0 if unlimited else min(length, 1.0)
            bound = condition * lost + math.sqrt(condition) * contraction * decrement
            state.gauges[DECREMENT] = decrement
            state.gauges[ERROR_BOUND] = bound + condition * state.gauges[LEAK]
            rounding = _ROUNDING * math.sqrt(condition) * (state.gauges[MASS] + norm(state.b))
            if bound <= ERROR_TOLERANCE or (decrement <= rounding and lost <= rounding):
                break
            if condition * lost > 0.5 * ERROR_TOLERANCE:
                anchor(model, ladder, state, 0, theta)
        elif _distance(state, theta) > 0.0:
            anchor(model, ladder, state, 0, theta)
        else:
            damping = math.log1p(length) / length if length > REACH else 1.0
            for j in range(d):
                theta[j] += damping * step[j]
            state.counters[DAMPED_STEPS] += 1
            anchor(model, ladder, state, 0, theta)
    state.counters[FITTED] = 1
    _project(model, ladder, state)


@compiled
def _distance(state: State, point: Floats) -> float:
    """How far a_s.theta can have moved from the anchor, at most."""
    total = 0.0
    for j in range(point.size):
        delta = point[j] - state.anchors[0, j]
        total += delta * delta
    return float(state.gauges[LONGEST]) * math.sqrt(total)


@compiled
def _trace_of_inverse(C: Floats) -> float:
    """trace (C C')^-1 = ||C^-1||_F^2, at least the norm of the inverse."""
    d = C.shape[0]
    column = np.empty(d)
    total = 0.0
    for j in range(d):
        for i in range(j, d):
            value = 1.0 if i == j else 0.0
            for k in range(j, i):
                value -= C[i, k] * column[k]
            column[i] = value / C[i, i]
            total += column[i] * column[i]
    return total


@compiled
def _project(model: Model, ladder: Ints, state: State) -> None:
    length = norm(state.theta_hat)
    was_projected = state.counters[PROJECTED]
    state.gauges[KKT_RESIDUAL] = 0.0
    if model.projection == NO_PROJECTION or length <= model.S:
        state.theta[:] = state.theta_hat
        state.counters[PROJECTED] = 0
        return
    state.counters[PROJECTED] = 1
    state.counters[PROJECTIONS] += 1
    radial = state.theta_hat * (model.S / length)
    if model.projection != EXACT:
        state.theta[:] = radial
        return
    d = model.d
    M_inverse, C = np.empty((d, d)), np.empty((d, d))
    M = state.V2 if model.memory == DISCOUNT else state.V
    cholesky(M, C)
    inverse(C, M_inverse)
    if was_projected:
        achieved = _nearest_in_ball(model, ladder, state, M_inverse, state.theta)
        if achieved <= _squared_distance(model, ladder, state, M_inverse, radial):
            return
    state.theta[:] = radial
    _nearest_in_ball(model, ladder, state, M_inverse, state.theta)


@compiled
def _expansion_for(
    model: Model, ladder: Ints, state: State, point: Floats, stiffness: float
) -> int:
    """An expansion that is exact enough at `point`: theta_hat's, the projection's, or a new one."""
    for which in range(2):
        if (
            state.counters[VALID + which]
            and remainder(model, state, which, point) <= ERROR_TOLERANCE * stiffness
        ):
            return which
    anchor(model, ladder, state, 1, point)
    return 1


@compiled
def _squared_distance(
    model: Model, ladder: Ints, state: State, M_inverse: Floats, point: Floats
) -> float:
    """||b - g(point)||^2 in the norm of M^-1."""
    d = model.d
    g, J, u = np.empty(d), np.empty((d, d)), np.empty(d)
    powers = np.empty(ladder.shape[0])
    which = _expansion_for(model, ladder, state, point, model.lam)
    evaluate(model, ladder, state, which, point, g, J, powers)
    for j in range(d):
        g[j] = state.b[j] - g[j]
    multiply(M_inverse, g, u)
    return dot(g, u)


@compiled
def _nearest_in_ball(
    model: Model, ladder: Ints, state: State, M_inverse: Floats, theta: Floats
) -> float:
    """theta := a minimiser of ||b - g(theta)||_{M^-1} over the ball, from where it stands.

    Gauss-Newton: each step minimises the linearised distance over the ball, and is shortened
    until the distance falls. Returns the squared distance.
    """
    d, S = model.d, model.S
    g, u, pull = np.empty(d), np.empty(d), np.empty(d)
    J, A = np.empty((d, d)), np.empty((d, d))
    start, target = np.empty(d), np.empty(d)
    powers = np.empty(ladder.shape[0])
    shorten = 1.0
    best = math.inf
    for _ in range(_MOST_GAUSS_NEWTON_STEPS):
        which = _expansion_for(model, ladder, state, theta, model.lam)
        evaluate(model, ladder, state, which, theta, g, J, powers)
        state.counters[GAUSS_NEWTON_STEPS] += 1
        for j in range(d):
            g[j] = state.b[j] - g[j]
        multiply(M_inverse, g, u)
        distance = dot(g, u)
        if distance > best * (1.0 + 1e-13) and shorten > 1e-6:
            shorten *= 0.5
            for j in range(d):
                theta[j] = start[j] + shorten * (target[j] - start[j])
            continue
        best = distance
        multiply(J, u, pull)
        nu = max(dot(pull, theta), 0.0) / (S * S)
        off = 0.0
        for j in range(d):
            difference = pull[j] - nu * theta[j]
            off += difference * difference
        strength = norm(pull)
        state.gauges[KKT_RESIDUAL] = math.sqrt(off) / strength if strength > 0.0 else 0.0
        if state.gauges[KKT_RESIDUAL] <= KKT_TOLERANCE:
            break
        sandwich(J, M_inverse, A)
        multiply(A, theta, target)
        for j in range(d):
            pull[j] += target[j]
        start[:] = theta
        minimise_in_ball(A, pull, S, target)
        moved = 0.0
        for j in range(d):
            moved = max(moved, abs(target[j] - theta[j]))
        theta[:] = target
        shorten = 1.0
        if moved <= 1e-13 * S:
            break
    return best
