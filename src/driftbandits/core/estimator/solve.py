"""theta-hat and its projection, each with a certificate.

Notation (beyond model.py and expansion.py)
--------
g(theta)   (d,)     sum w_s mu(a_s.theta) a_s + lam theta;   g(theta_hat) = b
J(theta)   (d, d)   its Jacobian
M          (d, d)   norm of the projection: V for a window, V2 for discounting
residual   (d,)     b - g(theta)
u          (d,)     M^-1 residual, in scratch.step
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
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from driftbandits.core import linalg as la
from driftbandits.core.estimator import state as at
from driftbandits.core.estimator.expansion import (
    anchor,
    evaluate,
    order_within,
    reach_of,
    remainder,
    sum_means,
)
from driftbandits.core.estimator.inverse import FOR_SOLUTIONS, room_in, solve_design
from driftbandits.core.estimator.large import REACH, fit_large, set_radial
from driftbandits.core.estimator.memory import absorb, advance, drop_expansions, rebuild
from driftbandits.core.estimator.model import (
    DISCOUNT,
    EXACT,
    NO_PROJECTION,
    WINDOW,
    Floats,
    Model,
    as_numbers,
    estimator_model,
    for_large,
    model_of,
)
from driftbandits.core.estimator.state import (
    FOR_THETA,
    FOR_THETA_HAT,
    State,
    named,
    new_buffers,
    state_of,
)
from driftbandits.core.links import Link
from driftbandits.jit import Handle, compiled, floats_of, handle_of, inlined, internal, length_of

ERROR_TOLERANCE = 4e-9
KKT_TOLERANCE = 1e-10
_FIRST_LOOK = 1e-8
"""Share of MASS that the first Newton step may leave out; the step itself is off by more."""
_MOST_NEWTON_STEPS = 1000
_MOST_DESCENT_STEPS = 100
_ROUNDING = 1e-15
_SHORT_WAY = 1e-4
_PATIENCE = 20


@inlined
def damping(length: float) -> float:
    """Return the factor of a Newton step that moves some a_s.theta by `length`.

    A damped step is the one that lowers the penalised loss most, for all that |mu''| <= mu' tells.
    """
    return math.log1p(length) / length if length > REACH else 1.0


@inlined
def fit(model: Model, state: State, closeness: float) -> None:
    """Bring theta_hat and theta up to date: Newton on an expansion, certified or renewed.

    Of a large model they need be as near as `closeness` says, in the norm of V.
    """
    if state.counters[at.FITTED]:
        return
    if model.memory == WINDOW and state.counters[at.SUBTRACTIONS] >= model.span:
        rebuild(model, state)
        drop_expansions(state)
    _find_estimates(model, state, closeness)
    state.counters[at.FITTED] = 1


@inlined
def _find_large(model: Model, state: State, closeness: float) -> None:
    if model.order == 0:
        fit_large(model, state, closeness)
    else:
        _solve_large_ridge(model, state)
        _project_and_rest(model, state)


@inlined
def _find_small(model: Model, state: State, closeness: float) -> None:
    if model.linear:
        _solve_ridge(model, state)
    else:
        if not state.counters[at.VALID]:
            anchor(model, state, FOR_THETA_HAT, state.theta_hat)
        tolerance = _FIRST_LOOK * state.gauges[at.MASS]
        for _ in range(_MOST_NEWTON_STEPS):
            certified, tolerance = _newton_step(model, state, tolerance)
            if certified:
                break
    _project_and_rest(model, state)


@inlined
def _project_and_rest(model: Model, state: State) -> None:
    """Project theta_hat, and give up an expansion for theta that has long not been needed."""
    _project(model, state)
    state.counters[at.IDLE] += 1
    if state.counters[at.IDLE] > _PATIENCE:
        state.counters[at.VALID + FOR_THETA] = 0


_find_estimates = for_large(_find_large, _find_small)


@inlined
def _has_lost_digits(model: Model, state: State) -> bool:
    """Return whether subtractions may have cost a matrix its factor, which a rebuild mends."""
    return model.memory == WINDOW and bool(state.counters[at.SUBTRACTIONS] > 0)


@inlined
def _solve_ridge(model: Model, state: State) -> None:
    """theta_hat := V^-1 b, which is exact: c = 1, so V is J and does not depend on theta."""
    factor = state.scratch.factor
    if not la.cholesky(state.V, factor) and _has_lost_digits(model, state):
        rebuild(model, state)
        la.cholesky(state.V, factor)
    la.copy(state.b, state.theta_hat)
    la.forward_solve(factor, state.theta_hat)
    la.backward_solve(factor, state.theta_hat)


@inlined
def _solve_large_ridge(model: Model, state: State) -> None:
    """Solve the ridge regression by the inverse that is kept."""
    room = room_in(state)
    la.copy(state.b, room.rows[0])
    if not solve_design(state, 1, FOR_SOLUTIONS) and _has_lost_digits(model, state):
        rebuild(model, state)
        la.copy(state.b, room.rows[0])
        solve_design(state, 1, FOR_SOLUTIONS)
    la.copy(room.solutions[0], state.theta_hat)


@inlined
def take_ridge(model: Model, state: State, solution: Floats) -> None:
    """Take V^-1 b of a discounted memory, solved along with other rows, as theta_hat."""
    la.copy(solution, state.theta_hat)
    _project_and_rest(model, state)
    state.counters[at.FITTED] = 1


@internal
def _newton_step(model: Model, state: State, tolerance: float) -> tuple[bool, float]:
    """Move theta_hat by one step, renewing the anchor where the expansion does not reach.

    `tolerance` is what the expansion may leave out of g in this step. Returns whether theta_hat is
    certified, and if not, the tolerance of the next step.
    """
    gauges, scratch, theta_hat = state.gauges, state.scratch, state.theta_hat
    start = reach_of(state, FOR_THETA_HAT, theta_hat)
    order = order_within(model, state, FOR_THETA_HAT, start, tolerance)
    if order == 0:
        order = model.order
    evaluate(model, state, FOR_THETA_HAT, theta_hat, order)
    if not la.cholesky(scratch.J, scratch.factor) and _has_lost_digits(model, state):
        rebuild(model, state)
        anchor(model, state, FOR_THETA_HAT, theta_hat)
        return False, tolerance
    step, point = scratch.step, scratch.point
    for j in range(model.d):
        step[j] = state.b[j] - scratch.g[j]
    la.forward_solve(scratch.factor, step)
    decrement = la.norm(step)
    la.backward_solve(scratch.factor, step)
    for j in range(model.d):
        point[j] = theta_hat[j] + step[j]
    state.counters[at.NEWTON_STEPS] += 1
    length = gauges[at.LONGEST] * la.norm(step)
    reach = reach_of(state, FOR_THETA_HAT, point)
    if reach > REACH:
        if start == 0.0:
            la.add_scaled(theta_hat, damping(length), step)
            state.counters[at.DAMPED_STEPS] += 1
        anchor(model, state, FOR_THETA_HAT, theta_hat)
        return False, tolerance
    la.copy(point, theta_hat)
    condition = la.invert_factor(scratch.factor, scratch.inverse)
    # g and J are exact at the anchor: what a step from there leaves over is in `left` alone
    lost = 0.0 if start == 0.0 else remainder(model, state, FOR_THETA_HAT, reach, order)
    # along a step that moves no a.theta by more than s, curvature changes by a factor e^s at most
    left = 0.5 * length * math.exp(length) * decrement
    bound = condition * lost + math.sqrt(condition) * left
    gauges[at.DECREMENT] = left
    gauges[at.ERROR_BOUND] = bound + condition * gauges[at.LEAK]
    if bound <= ERROR_TOLERANCE:
        return True, tolerance
    rounding = _ROUNDING * math.sqrt(condition) * (gauges[at.MASS] + la.norm(state.b))
    if decrement <= rounding and lost <= rounding:  # as exact as the sums themselves
        return True, tolerance
    tolerance = 0.5 * ERROR_TOLERANCE / condition
    if remainder(model, state, FOR_THETA_HAT, reach, model.order) > tolerance:
        anchor(model, state, FOR_THETA_HAT, theta_hat)
    return False, tolerance


@internal
def _project(model: Model, state: State) -> None:
    """theta := theta_hat, or its projection where it is longer than S: eq:theta_tilde_SW, _D.

    The exact one is a minimiser of ||b - g(theta)||_{M^-1} over the ball: descent from the last
    projection, which must then be no worse than the radial one, or from the radial one.
    """
    counters, scratch, theta = state.counters, state.scratch, state.theta
    start, point, length = scratch.start, scratch.point, la.norm(state.theta_hat)
    state.gauges[at.KKT_RESIDUAL] = 0.0
    if model.projection == NO_PROJECTION or length <= model.S:
        la.copy(state.theta_hat, theta)
        counters[at.PROJECTED] = 0
        return
    from_last = counters[at.PROJECTED] > 0 and model.projection == EXACT
    counters[at.PROJECTED] = 1
    counters[at.PROJECTIONS] += 1
    if not from_last:
        set_radial(model, state, length)
    if model.projection != EXACT:
        return
    la.cholesky(state.V2 if model.memory == DISCOUNT else state.V, scratch.factor)
    la.inverse(scratch.factor, scratch.inverse)  # M^-1
    best, shorten, residual = math.inf, 1.0, 0.0
    fresh, comparing = True, False
    for attempt in range(_MOST_DESCENT_STEPS):
        which, reached = _look_from_theta(model, state, not comparing)
        if comparing:
            if best <= reached:
                la.copy(start, theta)
                break
            best, from_last, comparing, fresh = math.inf, False, False, True
            continue
        counters[at.DESCENT_STEPS] += 1
        if reached > best * (1.0 + 1e-10) and shorten > 1e-6:
            shorten *= 0.5
            step_back(state, shorten)
            continue
        best, shorten = reached, 1.0
        la.multiply(scratch.J, scratch.step, scratch.pull)
        nu, residual = measure_pull(model, state)
        if residual > KKT_TOLERANCE and attempt < _MOST_DESCENT_STEPS - 2:
            if model.order > 1:
                _set_bend(model, state, which)
            elif fresh:
                _set_bend_by_difference(model, state)
            fresh = False
            _step_in_ball(model, state, nu, residual)
            if la.distance(point, theta) > 1e-14 * model.S:
                la.copy(theta, start)
                la.copy(point, theta)
                continue
        if not from_last:
            break
        la.copy(theta, start)
        set_radial(model, state, length)
        comparing = True
    state.gauges[at.KKT_RESIDUAL] = residual


@inlined
def step_back(state: State, share: float) -> None:
    """theta := the point at that share of the way from scratch.start to scratch.point."""
    start, point = state.scratch.start, state.scratch.point
    for j in range(start.shape[0]):
        state.theta[j] = start[j] + share * (point[j] - start[j])


@inlined
def _look_from_theta(model: Model, state: State, with_J: bool) -> tuple[int, float]:
    """||b - g(theta)||^2 in the norm of M^-1, and scratch.residual, scratch.step := u, scratch.J.

    By theta_hat's expansion, by the projection's, or else by a pass, which makes a new expansion
    where J is wanted. Says by which expansion, and the squared distance.
    """
    scratch, theta = state.scratch, state.theta
    which, order = FOR_THETA_HAT, 0
    while which <= FOR_THETA and order == 0:
        if state.counters[at.VALID + which] or model.linear:
            reach = reach_of(state, which, theta)
            tolerance = ERROR_TOLERANCE * model.lam
            if with_J:  # it loses one power of the reach less than g
                in_J = ERROR_TOLERANCE * scratch.J[0, 0] / (model.order + 1.0)
                tolerance = min(tolerance, in_J * reach / state.gauges[at.LONGEST])
            order = order_within(model, state, which, reach, tolerance)
        which += order == 0
    if order == 0 and with_J:
        anchor(model, state, FOR_THETA, theta)
        which, order = FOR_THETA, 1
    if order == 0:
        sum_means(model, state, theta)
    else:
        evaluate(model, state, which, theta, max(order, min(2, model.order)))
        if which == FOR_THETA:
            state.counters[at.IDLE] = 0
    for j in range(model.d):
        scratch.residual[j] = state.b[j] - scratch.g[j]
    la.multiply(scratch.inverse, scratch.residual, scratch.step)
    return which, la.dot(scratch.residual, scratch.step)


@inlined
def measure_pull(model: Model, state: State) -> tuple[float, float]:
    """The multiplier nu by which nu theta comes nearest to scratch.pull, and the KKT residual."""
    pull, theta = state.scratch.pull, state.theta
    nu = max(la.dot(pull, theta), 0.0) / (model.S * model.S)
    off = 0.0
    for j in range(model.d):
        difference = pull[j] - nu * theta[j]
        off += difference * difference
    strength = la.norm(pull)
    return nu, math.sqrt(off) / strength if strength > 0.0 else 0.0


@internal
def _step_in_ball(model: Model, state: State, nu: float, residual: float) -> None:
    """scratch.point := the minimiser over the ball of a quadratic model of the squared distance.

    Gauss-Newton's J M^-1 J, less bend, the part of the true Hessian that is due to the curvature
    of g, where that leaves it positive.
    """
    scratch = state.scratch
    quadratic, curvature, bend = scratch.quadratic, scratch.curvature, scratch.bend
    la.sandwich(scratch.J, scratch.inverse, scratch.other_matrix, curvature)
    enough = 0.01 * residual * residual  # a step gains no more digits than that
    bent = 1.0
    while bent >= 0.0:
        for i in range(model.d):
            scratch.slope[i] = scratch.pull[i]
            for j in range(model.d):
                quadratic[i, j] = curvature[i, j] - bent * bend[i, j]
                scratch.slope[i] += quadratic[i, j] * state.theta[j]
        if minimise_quadratic(model, state, nu, enough):
            break
        bent -= 1.0


@inlined
def minimise_quadratic(model: Model, state: State, nu: float, tolerance: float) -> bool:
    """scratch.point := the minimiser over the ball of the model in scratch.quadratic and slope."""
    scratch = state.scratch
    return la.minimise_in_ball(
        scratch.quadratic,
        scratch.slope,
        model.S,
        nu,
        tolerance,
        scratch.point,
        scratch.other_matrix,
        scratch.factor,
        scratch.other,
    )


@inlined
def _set_bend(model: Model, state: State, which: int) -> None:
    """scratch.bend := the derivative of J along u, after an evaluation at theta.

    C_3 of `evaluate` is the mean of the third derivative of Phi on the way from the anchor to
    theta, and M_3 its value at the anchor: by the trapezium rule it is 2 C_3 - M_3 at theta. A few
    digits are enough: bend only shapes the steps, the KKT residual decides when to stop.
    """
    ladder, u, bend = state.ladder, state.scratch.step, state.scratch.bend
    for i in range(model.d):
        for j in range(i + 1):
            total = 0.0
            product = ladder[1 + i, 4 + j]
            for k in range(model.d):
                cubic = ladder[product, 4 + k]
                third = 2.0 * state.scratch.curvatures[cubic] - state.moments[which, cubic]
                total += third * u[k]
            bend[i, j] = total
            bend[j, i] = total


@internal
def _set_bend_by_difference(model: Model, state: State) -> None:
    """scratch.bend where the expansion has no third degree: a difference of J over a short way."""
    ladder, scratch = state.ladder, state.scratch
    u, point = scratch.step, scratch.point
    length = state.gauges[at.LONGEST] * la.norm(u)
    curved = length > 0.0 and not model.linear
    way = _SHORT_WAY / length if curved else 0.0
    if curved:
        for j in range(model.d):
            point[j] = state.theta[j] + way * u[j]
        anchor(model, state, FOR_THETA, point)
    for i in range(model.d):
        for j in range(model.d):
            there = state.moments[FOR_THETA, ladder[1 + i, 4 + j]] + (model.lam if i == j else 0.0)
            scratch.bend[i, j] = (there - scratch.J[i, j]) / way if curved else 0.0


# -- one fit from a table of rounds ----------------------------------------------------------------


class Estimate(NamedTuple):
    """A fit with its certificates."""

    theta_hat: Floats
    theta: Floats
    design: Floats  # V or W
    squared_design: Floats  # W~ for discounting, else the same as design
    newton_decrement: float
    error_bound: float  # of ||theta_hat - exact||
    kkt_residual: float  # 0 where nothing was projected


def estimate(
    actions: ArrayLike,
    rewards: ArrayLike,
    *,
    link: Link,
    lam: float = 1.0,
    S: float = 1.0,
    window: int | None = None,
    discount: float | None = None,
    projection: str = "exact",
) -> Estimate:
    """Fit theta to the rows of `actions` (n, d), oldest first, and project it on ||theta|| <= S.

    >>> from driftbandits.core.links import link
    >>> fit = estimate([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0], link=link("logistic"))
    >>> fit.newton_decrement < 1e-6
    True
    """
    rows = np.ascontiguousarray(actions, dtype=np.float64)
    outcomes = np.ascontiguousarray(rewards, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] < 1 or not np.isfinite(rows).all():
        raise ValueError(f"actions must be a finite (n, d) array; got shape {rows.shape}")
    if outcomes.shape != rows.shape[:1] or not np.isfinite(outcomes).all():
        raise ValueError(
            f"rewards must be {rows.shape[0]} finite numbers; got shape {outcomes.shape}"
        )
    low, high = link.reward_range()
    outside = (outcomes < low) | (outcomes > high)
    if not link.linear and outside.any():
        raise ValueError(
            f"rewards must lie in [{low:g}, {high:g}] for the {link.name} model; "
            f"got values from {outcomes.min():g} to {outcomes.max():g}"
        )
    longest = float(np.sqrt((rows**2).sum(axis=1)).max(initial=0.0)) or 1.0
    model = estimator_model(
        link,
        dim=rows.shape[1],
        lam=lam,
        S=S,
        L=longest,
        window=window,
        discount=discount,
        projection=projection,
    )
    buffers = new_buffers(as_numbers(model), len(rows) + 1)
    _absorb_all(handle_of(buffers), rows, outcomes)
    state = named(buffers)
    return Estimate(
        theta_hat=state.theta_hat.copy(),
        theta=state.theta.copy(),
        design=state.V.copy(),
        squared_design=(state.V if discount is None else state.V2).copy(),
        newton_decrement=float(state.gauges[at.DECREMENT]),
        error_bound=float(state.gauges[at.ERROR_BOUND]),
        kkt_residual=float(state.gauges[at.KKT_RESIDUAL]),
    )


@compiled
def _absorb_all(handle: Handle, actions: Floats, rewards: Floats) -> None:
    numbers = floats_of(handle, at.NUMBERS, (length_of(handle, at.NUMBERS, 0),))
    d = int(numbers[0])
    model, state = model_of(numbers, d, 0), state_of(handle, d)
    for s in range(rewards.size):
        advance(model, state, 1)
        for j in range(model.d):
            state.scratch.row[j] = actions[s, j]
        absorb(model, state, rewards[s], s + 1)
    fit(model, state, 0.0)
