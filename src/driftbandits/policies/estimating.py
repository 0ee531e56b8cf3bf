"""What a row may ask of the estimator beyond `fit`: a restart, or another projection.

Notation (beyond estimator/solve.py)
--------
r          (d,)     b - g(theta)
H          (d, d)   J(theta), where it is the norm of the projection
u          (d,)     J^-1 r
BEND       (d, d)   derivative of J along u, sum w_s mu''(a_s.theta) (a_s.u) a_s a_s'
TWIST      (d, d)   second derivative of J along u, sum w_s mu'''(a_s.theta) (a_s.u)^2 a_s a_s'
pull       (d,)     r + BEND u / 2, minus half the gradient of ||b - g(theta)||^2_{H^-1}
"""

from __future__ import annotations

import math

import numpy as np

from driftbandits import links
from driftbandits.estimator import Model
from driftbandits.estimator.expansion import weight_of_age
from driftbandits.estimator.memory import rebuild
from driftbandits.estimator.model import (
    BEGUN,
    BEND,
    CURVATURE,
    DESCENT_STEPS,
    FACTOR,
    FITTED,
    HEAD,
    KKT_RESIDUAL,
    M_INVERSE,
    MODEL,
    PASSES,
    POINT,
    PROJECTED,
    PROJECTIONS,
    PULL,
    ROW,
    SHIFTED,
    START,
    STEP,
    TAIL,
    THETA,
    THETA_HAT,
    V2,
    VALID,
    B,
    G,
    J,
    N,
    State,
    V,
)
from driftbandits.estimator.solve import KKT_TOLERANCE
from driftbandits.jit import allocating, inlined, internal
from driftbandits.linalg import (
    add_outer,
    cholesky,
    copy,
    distance,
    dot,
    inverse,
    minimise_in_ball,
    multiply,
    norm,
    sandwich,
)

_MOST_STEPS = 100
_TWIST = CURVATURE
_SPHERE_TOLERANCE = 1e-13


@inlined
def prepare(model: Model, period: int, one_matrix: int, state: State) -> None:
    """What some rows need before `fit`: a restart by schedule, and W for W~ as the norm."""
    if period > 0 and state.counters[N] // period * period > state.counters[BEGUN]:
        _restart(model, state, state.counters[N] // period * period)
    if one_matrix:
        for i in range(model.d):
            for j in range(model.d):
                state.matrices[V2, i, j] = state.matrices[V, i, j]


@internal
def _restart(model: Model, state: State, begin: int) -> None:
    """Forget every round up to `begin`."""
    rows, counters = state.rows, state.counters
    counters[BEGUN] = begin
    while counters[HEAD] < counters[TAIL] and rows[model.d + 1, counters[HEAD]] <= begin:
        counters[HEAD] += 1
    rebuild(model, state)
    counters[VALID] = counters[VALID + 1] = 0
    counters[FITTED] = 0


@internal
def sum_at(model: Model, state: State, point: int) -> None:
    """G := g(point) and J := J(point), penalty included, by an exact pass over the memory."""
    vectors, matrices, rows, d = state.vectors, state.matrices, state.rows, model.d
    for i in range(d):
        vectors[G, i] = model.lam * vectors[point, i]
        for j in range(d):
            matrices[J, i, j] = model.lam if i == j else 0.0
    for s in range(state.counters[HEAD], state.counters[TAIL]):
        z = 0.0
        for j in range(d):
            vectors[ROW, j] = rows[j, s]
            z += rows[j, s] * vectors[point, j]
        weight = weight_of_age(model, state.counters[N] - rows[d + 1, s])
        mean = weight * links.mean(model.link, model.m, z)
        for j in range(d):
            vectors[G, j] += mean * rows[j, s]
        add_outer(matrices, J, weight * links.slope(model.link, model.m, z), vectors, ROW)
    state.counters[PASSES] += 1


@internal
def project_in_curvature(model: Model, state: State) -> None:
    """theta := a minimiser of ||b - g(theta)||_{H(theta)^-1} over the ball, from the radial one.

    Newton over the ball: half the Hessian is J + BEND + BEND J^-1 BEND - TWIST/2, and positive
    without its last term, which is left out where it spoils that. A step is shortened until
    the distance falls. Every step pays for two exact passes over the memory.
    """
    d, S = model.d, model.S
    vectors, matrices, counters = state.vectors, state.matrices, state.counters
    length = norm(vectors, THETA_HAT)
    if length <= S or counters[PROJECTED]:
        return
    counters[PROJECTED] = 1
    counters[PROJECTIONS] += 1
    for j in range(d):
        vectors[THETA, j] = vectors[THETA_HAT, j] * (S / length)
    shorten = 1.0
    best = math.inf
    for _ in range(_MOST_STEPS):
        sum_at(model, state, THETA)
        cholesky(matrices, J, FACTOR)
        for j in range(d):
            vectors[G, j] = vectors[B, j] - vectors[G, j]
        inverse(matrices, FACTOR, M_INVERSE)
        multiply(matrices, M_INVERSE, vectors, G, STEP)
        reached = dot(vectors, G, STEP)
        counters[DESCENT_STEPS] += 1
        if reached > best * (1.0 + 1e-10) and shorten > 1e-6:
            shorten *= 0.5
            for j in range(d):
                way = vectors[POINT, j] - vectors[START, j]
                vectors[THETA, j] = vectors[START, j] + shorten * way
            continue
        best = reached
        _sum_along(model, state)
        multiply(matrices, BEND, vectors, STEP, PULL)
        for j in range(d):
            vectors[PULL, j] = vectors[G, j] + 0.5 * vectors[PULL, j]
        nu = max(dot(vectors, PULL, THETA), 0.0) / (S * S)
        off = 0.0
        for j in range(d):
            difference = vectors[PULL, j] - nu * vectors[THETA, j]
            off += difference * difference
        strength = norm(vectors, PULL)
        state.gauges[KKT_RESIDUAL] = math.sqrt(off) / strength if strength > 0.0 else 0.0
        if state.gauges[KKT_RESIDUAL] <= KKT_TOLERANCE:
            break
        sandwich(matrices, BEND, M_INVERSE, SHIFTED, MODEL)
        copy(vectors, THETA, START)
        twisted = 1.0
        while twisted >= 0.0:
            for i in range(d):
                vectors[STEP, i] = vectors[PULL, i]
                for j in range(d):
                    if twisted > 0.0:
                        matrices[MODEL, i, j] += matrices[J, i, j] + matrices[BEND, i, j]
                        matrices[MODEL, i, j] -= 0.5 * matrices[_TWIST, i, j]
                    else:
                        matrices[MODEL, i, j] += 0.5 * matrices[_TWIST, i, j]
                    vectors[STEP, i] += matrices[MODEL, i, j] * vectors[THETA, j]
            if minimise_in_ball(
                matrices, MODEL, SHIFTED, FACTOR, vectors, STEP, S, POINT, G, nu, _SPHERE_TOLERANCE
            ):
                break
            twisted -= 1.0
        if distance(vectors, POINT, THETA) <= 1e-14 * S:
            break
        copy(vectors, POINT, THETA)
        shorten = 1.0


@allocating
def _sum_along(model: Model, state: State) -> None:
    """BEND and TWIST at theta, along the u in STEP."""
    vectors, matrices, rows, d = state.vectors, state.matrices, state.rows, model.d
    derivatives = np.empty((1, 4))
    for i in range(d):
        for j in range(d):
            matrices[BEND, i, j] = 0.0
            matrices[_TWIST, i, j] = 0.0
    for s in range(state.counters[HEAD], state.counters[TAIL]):
        z, along = 0.0, 0.0
        for j in range(d):
            vectors[ROW, j] = rows[j, s]
            z += rows[j, s] * vectors[THETA, j]
            along += rows[j, s] * vectors[STEP, j]
        weight = along * weight_of_age(model, state.counters[N] - rows[d + 1, s])
        links.derivatives(model.link, model.m, z, 3, derivatives, 0)
        add_outer(matrices, BEND, weight * derivatives[0, 2], vectors, ROW)
        add_outer(matrices, _TWIST, weight * along * derivatives[0, 3], vectors, ROW)
    state.counters[PASSES] += 1
