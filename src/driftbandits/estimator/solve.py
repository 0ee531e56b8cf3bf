"""theta-hat and its projection, each with a certificate.

Notation (beyond model.py and expansion.py)
--------
g(theta)   (d,)     sum w_s mu(a_s.theta) a_s + lam theta;   g(theta_hat) = b
J(theta)   (d, d)   its Jacobian
M          (d, d)   norm of the projection: V for a window, V2 for discounting
u          (d,)     M^-1 (b - g(theta))
pull       (d,)     J u, minus half the gradient of ||b - g(theta)||^2_{M^-1}
nu         scalar   multiplier of ||theta|| = S:  pull = nu theta at the projection

The gauges hold, after `fit`: DECREMENT, a bound of the Newton decrement ||b - g||_{J^-1} at
theta_hat (the decrement before the last step, times what such a step contracts); ERROR_BOUND,
a bound of ||theta_hat - exact root|| that counts the expansion's remainder, the rows dropped by
truncation and what Newton left over; KKT_RESIDUAL, the part of pull that is not along theta,
over ||pull||.
"""

from __future__ import annotations

import math

from driftbandits import links
from driftbandits.estimator.expansion import (
    anchor,
    evaluate,
    order_within,
    reach_of,
    remainder,
    sum_means,
)
from driftbandits.estimator.memory import rebuild
from driftbandits.estimator.model import (
    BEND,
    CURVATURE,
    CURVATURES,
    DAMPED_STEPS,
    DECREMENT,
    DESCENT_STEPS,
    DISCOUNT,
    ERROR_BOUND,
    EXACT,
    FACTOR,
    FITTED,
    FOR_THETA,
    FOR_THETA_HAT,
    IDLE,
    KKT_RESIDUAL,
    LEAK,
    LONGEST,
    M_INVERSE,
    MASS,
    MODEL,
    NEWTON_STEPS,
    NO_PROJECTION,
    POINT,
    PROJECTED,
    PROJECTIONS,
    PULL,
    SHIFTED,
    START,
    STEP,
    SUBTRACTIONS,
    THETA,
    THETA_HAT,
    V2,
    VALID,
    WINDOW,
    B,
    G,
    J,
    Model,
    State,
    V,
)
from driftbandits.jit import inlined, internal
from driftbandits.linalg import (
    backward_solve,
    cholesky,
    copy,
    distance,
    dot,
    forward_solve,
    inverse,
    invert_factor,
    minimise_in_ball,
    multiply,
    norm,
    sandwich,
)

ERROR_TOLERANCE = 4e-9
KKT_TOLERANCE = 1e-10
REACH = 0.5
"""Newton steps that move no a_s.theta further than this contract; longer ones are damped.

|mu''| <= mu' for every model here, so along a step p the curvature changes by at most e^(|a.p|).
"""
_FIRST_LOOK = 1e-8
"""Of MASS: what the first Newton step of a fit may leave out, for it is off by more than that."""
_MOST_NEWTON_STEPS = 1000
_MOST_DESCENT_STEPS = 100
_ROUNDING = 1e-15
_SHORT_WAY = 1e-4
_PATIENCE = 20


@inlined
def fit(model: Model, state: State) -> None:
    """Bring theta_hat and theta up to date: Newton on an expansion, certified or renewed."""
    if state.counters[FITTED]:
        return
    if model.memory == WINDOW and state.counters[SUBTRACTIONS] >= model.span:
        rebuild(model, state)
        state.counters[VALID] = state.counters[VALID + 1] = 0
    if model.link == links.IDENTITY:
        _solve_ridge(model, state)
    else:
        if not state.counters[VALID]:
            anchor(model, state, FOR_THETA_HAT, THETA_HAT)
        tolerance = _FIRST_LOOK * state.gauges[MASS]
        for _ in range(_MOST_NEWTON_STEPS):
            certified, tolerance = _newton_step(model, state, tolerance)
            if certified:
                break
    state.counters[FITTED] = 1
    _project(model, state)
    state.counters[IDLE] += 1
    if state.counters[IDLE] > _PATIENCE:
        state.counters[VALID + FOR_THETA] = 0


@inlined
def _solve_ridge(model: Model, state: State) -> None:
    """theta_hat := V^-1 b, which is exact: c = 1, so V is J and does not depend on theta."""
    vectors, matrices = state.vectors, state.matrices
    if (
        not cholesky(matrices, V, FACTOR)
        and model.memory == WINDOW
        and state.counters[SUBTRACTIONS] > 0
    ):
        rebuild(model, state)
        cholesky(matrices, V, FACTOR)
    copy(vectors, B, THETA_HAT)
    forward_solve(matrices, FACTOR, vectors, THETA_HAT)
    backward_solve(matrices, FACTOR, vectors, THETA_HAT)


@internal
def _newton_step(model: Model, state: State, tolerance: float) -> tuple[bool, float]:
    """Move theta_hat by one step, renewing the anchor where the expansion does not reach.

    `tolerance` is what the expansion may leave out of g in this step. Returns whether theta_hat is
    certified, and if not, the tolerance of the next step.
    """
    vectors, matrices, gauges = state.vectors, state.matrices, state.gauges
    start = reach_of(state, FOR_THETA_HAT, THETA_HAT)
    order = order_within(model, state, FOR_THETA_HAT, start, tolerance)
    if order == 0:
        order = model.order
    evaluate(model, state, FOR_THETA_HAT, THETA_HAT, order)
    if (
        not cholesky(matrices, J, FACTOR)
        and model.memory == WINDOW
        and state.counters[SUBTRACTIONS] > 0
    ):  # subtractions have eaten the digits: sum again
        rebuild(model, state)
        anchor(model, state, FOR_THETA_HAT, THETA_HAT)
        return False, tolerance
    for j in range(model.d):
        vectors[STEP, j] = vectors[B, j] - vectors[G, j]
    forward_solve(matrices, FACTOR, vectors, STEP)
    decrement = norm(vectors, STEP)
    backward_solve(matrices, FACTOR, vectors, STEP)
    for j in range(model.d):
        vectors[POINT, j] = vectors[THETA_HAT, j] + vectors[STEP, j]
    state.counters[NEWTON_STEPS] += 1
    length = gauges[LONGEST] * norm(vectors, STEP)
    reach = reach_of(state, FOR_THETA_HAT, POINT)
    if reach > REACH:
        if start == 0.0:
            _take_damped_step(model, state, length)
        anchor(model, state, FOR_THETA_HAT, THETA_HAT)
        return False, tolerance
    copy(vectors, POINT, THETA_HAT)
    condition = invert_factor(matrices, FACTOR, SHIFTED)
    # g and J are exact at the anchor: what a step from there leaves over is in `left` alone
    lost = 0.0 if start == 0.0 else remainder(model, state, FOR_THETA_HAT, reach, order)
    # along a step that moves no a.theta by more than s, curvature changes by a factor e^s at most
    left = 0.5 * length * math.exp(length) * decrement
    bound = condition * lost + math.sqrt(condition) * left
    gauges[DECREMENT] = left
    gauges[ERROR_BOUND] = bound + condition * gauges[LEAK]
    if bound <= ERROR_TOLERANCE:
        return True, tolerance
    rounding = _ROUNDING * math.sqrt(condition) * (gauges[MASS] + norm(vectors, B))
    if decrement <= rounding and lost <= rounding:  # as exact as the sums themselves
        return True, tolerance
    tolerance = 0.5 * ERROR_TOLERANCE / condition
    if remainder(model, state, FOR_THETA_HAT, reach, model.order) > tolerance:
        anchor(model, state, FOR_THETA_HAT, THETA_HAT)
    return False, tolerance


@internal
def _take_damped_step(model: Model, state: State, length: float) -> None:
    """The step that lowers the penalised loss most, for all that |mu''| <= mu' tells."""
    damping = math.log1p(length) / length if length > REACH else 1.0
    for j in range(model.d):
        state.vectors[THETA_HAT, j] += damping * state.vectors[STEP, j]
    state.counters[DAMPED_STEPS] += 1


@internal
def _project(model: Model, state: State) -> None:
    """theta := theta_hat, or its projection on the ball where it lies outside."""
    state.gauges[KKT_RESIDUAL] = 0.0
    length = norm(state.vectors, THETA_HAT)
    if model.projection == NO_PROJECTION or length <= model.S:
        copy(state.vectors, THETA_HAT, THETA)
        state.counters[PROJECTED] = 0
    else:
        _project_from_outside(model, state, length)


@internal
def _project_from_outside(model: Model, state: State, length: float) -> None:
    """theta := the projection of theta_hat, which is longer than S.

    The exact one is a minimiser of ||b - g(theta)||_{M^-1} over the ball: descent from the last
    projection, which must then be no worse than the radial one, or from the radial one.
    """
    vectors, matrices, counters = state.vectors, state.matrices, state.counters
    from_last = counters[PROJECTED] > 0 and model.projection == EXACT
    counters[PROJECTED] = 1
    counters[PROJECTIONS] += 1
    if not from_last:
        _set_radial(model, state, length)
    if model.projection != EXACT:
        return
    cholesky(matrices, V2 if model.memory == DISCOUNT else V, FACTOR)
    inverse(matrices, FACTOR, M_INVERSE)
    best, shorten, residual = math.inf, 1.0, 0.0
    fresh, comparing = True, False
    for attempt in range(_MOST_DESCENT_STEPS):
        which, reached = _look_from_theta(model, state, not comparing)
        if comparing:
            if best <= reached:
                copy(vectors, START, THETA)
                break
            best, from_last, comparing, fresh = math.inf, False, False, True
            continue
        counters[DESCENT_STEPS] += 1
        if reached > best * (1.0 + 1e-10) and shorten > 1e-6:
            shorten *= 0.5
            for j in range(model.d):
                way = vectors[POINT, j] - vectors[START, j]
                vectors[THETA, j] = vectors[START, j] + shorten * way
            continue
        best, shorten = reached, 1.0
        nu, residual = _measure_pull(model, state)
        if residual > KKT_TOLERANCE and attempt < _MOST_DESCENT_STEPS - 2:
            if model.order > 1:
                _set_bend(model, state, which)
            elif fresh:
                _set_bend_by_difference(model, state)
            fresh = False
            _step_in_ball(model, state, nu, residual)
            if distance(vectors, POINT, THETA) > 1e-14 * model.S:
                copy(vectors, THETA, START)
                copy(vectors, POINT, THETA)
                continue
        if not from_last:
            break
        copy(vectors, THETA, START)
        _set_radial(model, state, length)
        comparing = True
    state.gauges[KKT_RESIDUAL] = residual


@inlined
def _set_radial(model: Model, state: State, length: float) -> None:
    for j in range(model.d):
        state.vectors[THETA, j] = state.vectors[THETA_HAT, j] * (model.S / length)


@inlined
def _look_from_theta(model: Model, state: State, with_J: bool) -> tuple[int, float]:
    """||b - g(theta)||^2 in the norm of M^-1; leaves b - g in G, u in STEP and J.

    By theta_hat's expansion, by the projection's, or else by a pass, which makes a new expansion
    where J is wanted. Says by which expansion, and the squared distance.
    """
    vectors, gauges = state.vectors, state.gauges
    which, order = FOR_THETA_HAT, 0
    while which <= FOR_THETA and order == 0:
        if state.counters[VALID + which] or model.link == links.IDENTITY:
            reach = reach_of(state, which, THETA)
            tolerance = ERROR_TOLERANCE * model.lam
            if with_J:  # it loses one power of the reach less than g
                in_J = ERROR_TOLERANCE * state.matrices[J, 0, 0] / (model.order + 1.0)
                tolerance = min(tolerance, in_J * reach / gauges[LONGEST])
            order = order_within(model, state, which, reach, tolerance)
        which += order == 0
    if order == 0 and with_J:
        anchor(model, state, FOR_THETA, THETA)
        which, order = FOR_THETA, 1
    if order == 0:
        sum_means(model, state, THETA)
    else:
        evaluate(model, state, which, THETA, max(order, min(2, model.order)))
        if which == FOR_THETA:
            state.counters[IDLE] = 0
    for j in range(model.d):
        vectors[G, j] = vectors[B, j] - vectors[G, j]
    multiply(state.matrices, M_INVERSE, vectors, G, STEP)
    return which, dot(vectors, G, STEP)


@inlined
def _measure_pull(model: Model, state: State) -> tuple[float, float]:
    """PULL := J u; the multiplier nu that comes nearest, and the KKT residual."""
    vectors = state.vectors
    multiply(state.matrices, J, vectors, STEP, PULL)
    nu = max(dot(vectors, PULL, THETA), 0.0) / (model.S * model.S)
    off = 0.0
    for j in range(model.d):
        difference = vectors[PULL, j] - nu * vectors[THETA, j]
        off += difference * difference
    strength = norm(vectors, PULL)
    return nu, math.sqrt(off) / strength if strength > 0.0 else 0.0


@internal
def _step_in_ball(model: Model, state: State, nu: float, residual: float) -> None:
    """POINT := the minimiser over the ball of a quadratic model of the squared distance.

    Gauss-Newton's J M^-1 J, less BEND, the part of the true Hessian that is due to the curvature
    of g, where that leaves it positive.
    """
    d, vectors, matrices = model.d, state.vectors, state.matrices
    sandwich(matrices, J, M_INVERSE, SHIFTED, CURVATURE)
    enough = 0.01 * residual * residual  # a step gains no more digits than that
    bent = 1.0
    while bent >= 0.0:
        for i in range(d):
            vectors[STEP, i] = vectors[PULL, i]
            for j in range(d):
                matrices[MODEL, i, j] = matrices[CURVATURE, i, j] - bent * matrices[BEND, i, j]
                vectors[STEP, i] += matrices[MODEL, i, j] * vectors[THETA, j]
        if minimise_in_ball(
            matrices, MODEL, SHIFTED, FACTOR, vectors, STEP, model.S, POINT, G, nu, enough
        ):
            break
        bent -= 1.0


@inlined
def _set_bend(model: Model, state: State, which: int) -> None:
    """BEND := the derivative of J along u, which stands in STEP, after an evaluation at theta.

    C_3 of `evaluate` is the mean of the third derivative of Phi on the way from the anchor to
    theta, and M_3 its value at the anchor: by the trapezium rule it is 2 C_3 - M_3 at theta. A few
    digits are enough: BEND only shapes the steps, the KKT residual decides when to stop.
    """
    ladder, moments = state.ladder, state.moments
    for i in range(model.d):
        for j in range(i + 1):
            total = 0.0
            product = ladder[1 + i, 4 + j]
            for k in range(model.d):
                cubic = ladder[product, 4 + k]
                third = 2.0 * moments[CURVATURES, cubic] - moments[which, cubic]
                total += third * state.vectors[STEP, k]
            state.matrices[BEND, i, j] = total
            state.matrices[BEND, j, i] = total


@internal
def _set_bend_by_difference(model: Model, state: State) -> None:
    """BEND where the expansion has no third degree: by a difference of J over a short way."""
    vectors, matrices, ladder = state.vectors, state.matrices, state.ladder
    length = state.gauges[LONGEST] * norm(vectors, STEP)
    curved = length > 0.0 and model.link != links.IDENTITY
    way = _SHORT_WAY / length if curved else 0.0
    if curved:
        for j in range(model.d):
            vectors[POINT, j] = vectors[THETA, j] + way * vectors[STEP, j]
        anchor(model, state, FOR_THETA, POINT)
    for i in range(model.d):
        for j in range(model.d):
            there = state.moments[FOR_THETA, ladder[1 + i, 4 + j]] + (model.lam if i == j else 0.0)
            matrices[BEND, i, j] = (there - matrices[J, i, j]) / way if curved else 0.0
