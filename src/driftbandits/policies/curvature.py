"""Projection in the norm of the curvature, as SCB-WeightUCB asks for.

Notation (beyond estimator/solve.py)
--------
r          (d,)     b - g(theta), in scratch.residual
H          (d, d)   J(theta), where it is the norm of the projection
u          (d,)     J^-1 r, in scratch.step
bend       (d, d)   derivative of J along u, sum w_s mu''(a_s.theta) (a_s.u) a_s a_s'
twist      (d, d)   second derivative of J along u, sum w_s mu'''(a_s.theta) (a_s.u)^2 a_s a_s'
pull       (d,)     r + bend u / 2, minus half the gradient of ||b - g(theta)||^2_{H^-1}
"""

from __future__ import annotations

import math

import numpy as np

from driftbandits.core import Model, State, links
from driftbandits.core import linalg as la
from driftbandits.core.estimator.expansion import weight_of_age
from driftbandits.core.estimator.memory import load_row
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.solve import (
    KKT_TOLERANCE,
    measure_pull,
    minimise_quadratic,
    step_back,
)
from driftbandits.core.estimator.state import (
    DESCENT_STEPS,
    HEAD,
    KKT_RESIDUAL,
    PASSES,
    PROJECTED,
    PROJECTIONS,
    TAIL,
    N,
)
from driftbandits.jit import allocating, inlined, internal

_MOST_STEPS = 100
_SPHERE_TOLERANCE = 1e-13


@internal
def sum_at(model: Model, state: State, point: Floats) -> None:
    """scratch.g := g(point), scratch.J := J(point), penalty included, by an exact pass."""
    rows, d = state.rows, model.d
    g, J, row = state.scratch.g, state.scratch.J, state.scratch.row
    for i in range(d):
        g[i] = model.lam * point[i]
    la.set_to_identity(J, model.lam)
    for s in range(state.counters[HEAD], state.counters[TAIL]):
        load_row(model, state, s)
        z = la.dot(row, point)
        weight = weight_of_age(model, state.counters[N] - rows[d + 1, s])
        la.add_scaled(g, weight * links.mean(model.link, model.m, z), row)
        la.add_outer(J, weight * links.slope(model.link, model.m, z), row)
    state.counters[PASSES] += 1


@internal
def project_in_curvature(model: Model, state: State) -> None:
    """theta := a minimiser of ||b - g(theta)||_{H(theta)^-1} over the ball, from the radial one.

    Newton over the ball: half the Hessian is J + bend + bend J^-1 bend - twist/2, and positive
    without its last term, which is left out where it spoils that. A step is shortened until
    the distance falls. Every step pays for two exact passes over the memory.
    """
    counters, scratch, theta = state.counters, state.scratch, state.theta
    length = la.norm(state.theta_hat)
    if length <= model.S or counters[PROJECTED]:
        return
    counters[PROJECTED] = 1
    counters[PROJECTIONS] += 1
    for j in range(model.d):
        theta[j] = state.theta_hat[j] * (model.S / length)
    shorten = 1.0
    best = math.inf
    for _ in range(_MOST_STEPS):
        sum_at(model, state, theta)
        la.cholesky(scratch.J, scratch.factor)
        for j in range(model.d):
            scratch.residual[j] = state.b[j] - scratch.g[j]
        la.inverse(scratch.factor, scratch.inverse)
        la.multiply(scratch.inverse, scratch.residual, scratch.step)
        reached = la.dot(scratch.residual, scratch.step)  # ||b - g(theta)||^2 in the norm of H^-1
        counters[DESCENT_STEPS] += 1
        if reached > best * (1.0 + 1e-10) and shorten > 1e-6:
            shorten *= 0.5
            step_back(state, shorten)
            continue
        best = reached
        _sum_along(model, state)
        la.multiply(scratch.bend, scratch.step, scratch.pull)
        for j in range(model.d):
            scratch.pull[j] = scratch.residual[j] + 0.5 * scratch.pull[j]
        nu, residual = measure_pull(model, state)
        state.gauges[KKT_RESIDUAL] = residual
        if residual <= KKT_TOLERANCE:
            break
        _step_in_ball(model, state, nu)
        if la.distance(scratch.point, theta) <= 1e-14 * model.S:
            break
        la.copy(theta, scratch.start)
        la.copy(scratch.point, theta)
        shorten = 1.0


@inlined
def _step_in_ball(model: Model, state: State, nu: float) -> None:
    """scratch.point := the minimiser over the ball of Newton's model, twisted where it may be."""
    scratch = state.scratch
    quadratic, twist = scratch.quadratic, scratch.curvature
    la.sandwich(scratch.bend, scratch.inverse, scratch.other_matrix, quadratic)
    twisted = 1.0
    while twisted >= 0.0:
        for i in range(model.d):
            scratch.slope[i] = scratch.pull[i]
            for j in range(model.d):
                if twisted > 0.0:
                    quadratic[i, j] += scratch.J[i, j] + scratch.bend[i, j]
                    quadratic[i, j] -= 0.5 * twist[i, j]
                else:
                    quadratic[i, j] += 0.5 * twist[i, j]
                scratch.slope[i] += quadratic[i, j] * state.theta[j]
        if minimise_quadratic(model, state, nu, _SPHERE_TOLERANCE):
            break
        twisted -= 1.0


@allocating
def _sum_along(model: Model, state: State) -> None:
    """scratch.bend and, in scratch.curvature, twist at theta, along the u in scratch.step."""
    rows, row, d = state.rows, state.scratch.row, model.d
    bend, twist, u = state.scratch.bend, state.scratch.curvature, state.scratch.step
    derivatives = np.empty(4)
    la.set_to_identity(bend, 0.0)
    la.set_to_identity(twist, 0.0)
    for s in range(state.counters[HEAD], state.counters[TAIL]):
        load_row(model, state, s)
        z, along = la.dot(row, state.theta), la.dot(row, u)
        weight = along * weight_of_age(model, state.counters[N] - rows[d + 1, s])
        links.derivatives(model.link, model.m, z, 3, derivatives)
        la.add_outer(bend, weight * derivatives[2], row)
        la.add_outer(twist, weight * along * derivatives[3], row)
    state.counters[PASSES] += 1
