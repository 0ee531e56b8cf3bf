"""The projection of a large model's theta-hat: Newton's steps along the sphere.

With q the part of `pull` that is not along theta,

    ||theta - exact||_V <= ||q||_{V^-1} / h,      h V <= J M^-1 J - bend + nu I / 2   near theta:

on the sphere theta.(theta - exact) is half of ||theta - exact||^2, which is where half of nu stays.

Notation: as in large.py, passes.py and stale.py
"""

from __future__ import annotations

import math

from driftbandits import links
from driftbandits.estimator.expansion import sum_means
from driftbandits.estimator.inverse import FOR_DIRECTIONS, room_in, solve
from driftbandits.estimator.model import DISCOUNT, EXACT, NO_PROJECTION, Floats, Model
from driftbandits.estimator.passes import sum_along, sum_means_large
from driftbandits.estimator.stale import (
    DESCENT,
    FURTHEST,
    MADE,
    NEAREST,
    NU,
    OFF,
    charge,
    renew_descent,
    set_residual,
    size_of,
)
from driftbandits.estimator.state import (
    AGE,
    DESCENT_STEPS,
    FOR_THETA,
    KKT_RESIDUAL,
    LEFT,
    LONGEST,
    PROJECTED,
    PROJECTIONS,
    VALID,
    Large,
    State,
)
from driftbandits.jit import inlined, internal
from driftbandits.linalg import copy, dot, multiply_large, norm

MOST_STEPS = 200
SLOW = 0.5
"""A step that leaves more than this share of what was left calls for a new inverse."""
ROUNDING = 1e-14


@inlined
def project_large(model: Model, state: State, large: Large, closeness: float, off: float) -> None:
    """theta := theta_hat, or its projection on the ball where it lies outside."""
    state.gauges[KKT_RESIDUAL] = 0.0
    large.notes[OFF] = off
    length = norm(state.theta_hat)
    if model.projection == NO_PROJECTION or length <= model.S:
        copy(state.theta_hat, state.theta)
        state.counters[PROJECTED] = 0
        state.counters[VALID + FOR_THETA] = 0
        large.notes[MADE + DESCENT] = 0.0
        return
    from_last = state.counters[PROJECTED] > 0 and model.projection == EXACT
    state.counters[PROJECTED] = 1
    state.counters[PROJECTIONS] += 1
    if not from_last:
        _set_radial(model, state)
    descending = model.projection == EXACT
    while descending:
        _descend(model, state, large, closeness)
        descending = from_last and _radial_is_nearer(model, state, large)
        if descending:
            from_last = False
            _set_radial(model, state)


@inlined
def _set_radial(model: Model, state: State) -> None:
    length = norm(state.theta_hat)
    for j in range(model.d):
        state.theta[j] = state.theta_hat[j] * (model.S / length)
    state.counters[VALID + FOR_THETA] = 0


@inlined
def _radial_is_nearer(model: Model, state: State, large: Large) -> bool:
    """Whether the radial projection has a smaller ||b - g||_{M^-1} than theta.

    With D the way from theta to the radial point, nu ||D||^2 >= sup|mu''| max|a.u| ||D||^2_V rules
    it out, since then u.(g(radial) - g(theta)) <= 0. Else a pass tells.
    """
    scratch, notes = state.scratch, large.notes
    radial, way, product = scratch.start, scratch.point, scratch.other
    scale = model.S / norm(state.theta_hat)
    for j in range(model.d):
        radial[j] = scale * state.theta_hat[j]
        way[j] = radial[j] - state.theta[j]
    multiply_large(state.V, way, product)
    bent = links.derivative_bound(model.link, model.m, 2, model.S * state.gauges[LONGEST])
    if bent * notes[FURTHEST] * dot(way, product) <= notes[NU] * dot(way, way):
        return False
    sum_means(model, state, radial)
    for j in range(model.d):
        scratch.residual[j] = state.b[j] - scratch.g[j]
    _solve_in_norm(model, state, large)
    return bool(dot(scratch.residual, scratch.step) < notes[NEAREST])


@inlined
def _look(model: Model, state: State, large: Large) -> float:
    """||b - g(theta)||^2 in the norm of M^-1; scratch.residual, and scratch.step := u."""
    scratch, theta, sums = state.scratch, state.theta, state.moments[FOR_THETA]
    if not state.counters[VALID + FOR_THETA]:
        sum_means_large(model, state.rows, state.counters, theta, sums)
        copy(theta, state.anchors[FOR_THETA])
        state.counters[VALID + FOR_THETA] = 1
    set_residual(model.lam, state.b, sums, theta, scratch.residual)
    _solve_in_norm(model, state, large)
    return dot(scratch.residual, scratch.step)


@internal
def _solve_in_norm(model: Model, state: State, large: Large) -> None:
    """scratch.step := M^-1 scratch.residual."""
    scratch = state.scratch
    if model.memory == DISCOUNT:
        room = room_in(state)
        copy(scratch.residual, room.rows[0])
        large.norm_notes[AGE] = 0.0  # for one row at a time a renewal hardly pays for itself
        solve(state.V2, True, large.norm, large.norm_notes, room, 1, FOR_DIRECTIONS)
        copy(room.solutions[0], scratch.step)
    else:
        multiply_large(state.P, scratch.residual, scratch.step)
        for j in range(model.d):
            scratch.step[j] /= state.notes[LEFT]


@internal
def _descend(model: Model, state: State, large: Large, closeness: float) -> None:
    """theta := a minimiser of ||b - g(theta)||_{M^-1} on the sphere, from where it is.

    Newton's steps along the sphere with a stale inverse. A step that does not descend is taken
    back, the inverse made anew, and the step then halved until it does.
    """
    counters, scratch, theta, notes = state.counters, state.scratch, state.theta, large.notes
    u, start, pull, off_sphere = scratch.step, scratch.start, scratch.pull, scratch.point
    best, shorten, last = math.inf, 1.0, math.inf
    steps, renewed, is_back = 0, False, False
    for _ in range(MOST_STEPS):
        reached = _look(model, state, large)
        counters[DESCENT_STEPS] += 1
        if reached > best * (1.0 + 1e-7):
            shorten *= 0.5
            copy(start, theta)
            counters[VALID + FOR_THETA] = 0
            is_back = True
            continue
        shorten = shorten if is_back else 1.0
        best, is_back = min(best, reached), False
        eta, notes[FURTHEST] = sum_along(model, state.rows, counters, theta, u, pull)
        nu = max(dot(pull, theta), 0.0) / (model.S * model.S)
        strength = norm(pull)
        for j in range(model.d):
            pull[j] -= nu * theta[j]
        left = size_of(pull, state.P, state.notes, scratch.other)
        notes[NU], notes[NEAREST] = nu, best
        state.gauges[KKT_RESIDUAL] = norm(pull) / strength if strength > 0.0 else 0.0
        notes[OFF] = left / _curvature_on_sphere(model, state.V, eta, nu)
        if notes[OFF] <= closeness or state.gauges[KKT_RESIDUAL] <= ROUNDING or shorten < 1e-6:
            break
        if notes[MADE + DESCENT] == 0.0 or shorten == 0.5 or left > SLOW * last:
            copy(u, scratch.g)
            renew_descent(model, state, large, scratch.g, nu)
            renewed = True
        last = left
        steps += 1
        copy(theta, start)
        _step_on_sphere(model, large.descent, pull, theta, shorten, off_sphere, scratch.other)
        counters[VALID + FOR_THETA] = 0
    if not renewed:
        charge(model, counters, notes, DESCENT, steps, 2)


@inlined
def _curvature_on_sphere(model: Model, V: Floats, eta: float, nu: float) -> float:
    """h: J V^-1 J - eta J >= c (c - eta) V where eta <= 2 c, and I >= V / (its largest sum)."""
    largest = 0.0
    for i in range(model.d):
        total = 0.0
        for j in range(model.d):
            total += abs(V[i, j])
        largest = max(largest, total)
    bent = model.c * (model.c - eta) if eta <= 2.0 * model.c else -0.25 * eta * eta
    return max(bent + 0.5 * nu / largest, 0.01 * model.c * model.c)


@inlined
def _step_on_sphere(
    model: Model,
    descent: Floats,
    pull: Floats,
    theta: Floats,
    shorten: float,
    along: Floats,
    other: Floats,
) -> None:
    """theta := the point of the sphere beyond a step in its tangent; the last two are scratch."""
    multiply_large(descent, pull, along)
    multiply_large(descent, theta, other)
    ratio = dot(theta, along) / dot(theta, other)
    for j in range(model.d):
        theta[j] += shorten * (along[j] - ratio * other[j])
    scale = model.S / norm(theta)
    for j in range(model.d):
        theta[j] *= scale
