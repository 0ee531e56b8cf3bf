"""Taylor expansions of g about an anchor, kept exact from round to round.

The penalised likelihood needs Phi(theta) = sum_s w_s b(a_s . theta). About an anchor theta_0,

    Phi(theta_0 + delta) = sum_i M_i delta^i / i!,     M_i = sum_s w_s b^(|i|)(a_s . theta_0) a_s^i,

over multi-indices i. Its gradient is g(theta) - lam theta and its Hessian is J(theta) - lam I. Each
moment M_i is a weighted sum over rows, so forgetting scales it and a new row adds to it: no pass
over the memory is needed while theta stays near the anchor. What the expansion leaves out of
g is at most

    MASS (L ||delta||)^(P+1) / (P+1)!,       MASS = sum_s w_s sup|mu^(P+1)| ||a_s||,

which is the certificate that lets `fit` trust it, or pay for a new anchor.

Notation
--------
P          order of the expansion of g (degree P+1 of Phi)
delta      (d,)  theta - theta_0
powers     (monomials,)  delta^i / i!
which      0 or 1: the expansion for theta_hat, or for its projection
"""

from __future__ import annotations

import math

import numpy as np

from driftbandits import links
from driftbandits.estimator.model import (
    ANCHOR,
    ANCHORS,
    CURVATURES,
    DERIVATIVES,
    DISCOUNT,
    HEAD,
    LONGEST,
    MASS,
    PASSES,
    POWERS,
    SLOPES,
    TAIL,
    VALID,
    G,
    J,
    Model,
    N,
    State,
    V,
)
from driftbandits.jit import inlined, internal
from driftbandits.linalg import copy, distance, dot, norm

_BLOCK = 32
_RECIPROCAL = np.array([0.0, *(1.0 / n for n in range(1, links.HIGHEST_DERIVATIVE + 3))])


@inlined
def weight_of_age(model: Model, age: float) -> float:
    if model.memory != DISCOUNT or age == 0.0:
        return 1.0
    return model.gamma if age == 1.0 else model.gamma**age


@inlined
def add_row(model: Model, state: State, which: int, row: int, weight: float) -> None:
    """Add the row in a vector to the sums of an expansion; a negative weight takes it away."""
    ladder, moments, vectors = state.ladder, state.moments, state.vectors
    z = dot(vectors, row, ANCHOR + which)
    links.derivatives(model.link, model.m, z, model.order, moments, DERIVATIVES)
    for n in range(model.order + 1):
        moments[DERIVATIVES, n] *= weight
    moments[POWERS, 0] = 1.0
    for i in range(1, ladder.shape[0]):
        power = moments[POWERS, ladder[i, 0]] * vectors[row, ladder[i, 1]]
        moments[POWERS, i] = power
        moments[which, i] += moments[DERIVATIVES, ladder[i, 2] - 1] * power
    bound = links.derivative_bound(model.link, model.m, model.order + 1, z)
    state.gauges[MASS + which] += weight * bound * norm(vectors, row)


@internal
def anchor(model: Model, state: State, which: int, point: int) -> None:
    """Make the point in a vector the anchor of an expansion: one exact pass over the memory.

    Rows are taken in blocks, newest first, and every sum is kept once per lane of the block, so
    that the loops vectorise without being allowed to reorder a sum.
    """
    d, P = model.d, model.order
    ladder, moments, rows = state.ladder, state.moments, state.rows
    count = ladder.shape[0]
    sums = np.zeros((count, _BLOCK))
    powers = np.ones((count, _BLOCK))
    slopes = np.empty((P + 1, _BLOCK))
    scratch = np.empty((3, _BLOCK))
    block = np.empty((d, _BLOCK))
    z, w, lengths = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    mass = 0.0
    weight = 1.0
    newer = float(state.counters[N])
    end = state.counters[TAIL]
    while end > state.counters[HEAD]:
        start = max(state.counters[HEAD], end - _BLOCK)
        size = end - start
        for lane in range(size):
            z[lane] = 0.0
            lengths[lane] = 0.0
        for j in range(d):
            coordinate = state.vectors[point, j]
            source = rows[j, start:end]  # a slice has no negative places to look out for
            for lane in range(size):
                block[j, lane] = source[lane]
                z[lane] += source[lane] * coordinate
                lengths[lane] += source[lane] * source[lane]
        for lane in range(size - 1, -1, -1):
            weight *= weight_of_age(model, newer - rows[d + 1, start + lane])
            newer = rows[d + 1, start + lane]
            w[lane] = weight
            bound = links.derivative_bound(model.link, model.m, P + 1, z[lane])
            mass += weight * bound * math.sqrt(lengths[lane])
        links.block_derivatives(model.link, model.m, z, size, P, scratch, slopes)
        for n in range(P + 1):
            for lane in range(size):
                slopes[n, lane] *= w[lane]
        for i in range(1, count):
            parent, variable, degree = ladder[i, 0], ladder[i, 1], ladder[i, 2]
            if degree <= P:
                for lane in range(size):
                    power = powers[parent, lane] * block[variable, lane]
                    powers[i, lane] = power
                    sums[i, lane] += power * slopes[degree - 1, lane]
            else:
                for lane in range(size):
                    sums[i, lane] += powers[parent, lane] * block[variable, lane] * slopes[P, lane]
        end = start
    for i in range(1, count):
        total = 0.0
        for lane in range(_BLOCK):
            total += sums[i, lane]
        moments[which, i] = total
    copy(state.vectors, point, ANCHOR + which)
    state.gauges[MASS + which] = mass
    state.counters[VALID + which] = 1
    state.counters[PASSES] += 1
    state.counters[ANCHORS] += 1


@inlined
def evaluate(model: Model, state: State, which: int, point: int) -> None:
    """G := g(point) and J := J(point), penalty included, by the expansion.

    Horner's rule on tensors: with S_n = M_n + S_{n+1} delta / n the gradient of Phi is S_1, and
    with C_n = M_n + C_{n+1} delta / (n-1) its Hessian is C_2; n is the degree, M_n the moments of
    that degree, and a product with delta lowers it by one.
    """
    d, P = model.d, model.order
    ladder, moments, vectors = state.ladder, state.moments, state.vectors
    if model.link == links.IDENTITY:  # c = 1, so V is J, and g is linear
        for j in range(d):
            vectors[G, j] = 0.0
            for k in range(d):
                state.matrices[J, j, k] = state.matrices[V, j, k]
                vectors[G, j] += state.matrices[V, j, k] * vectors[point, k]
        return
    i = ladder.shape[0] - 1
    while ladder[i, 2] > P:
        moments[SLOPES, i] = moments[which, i]
        moments[CURVATURES, i] = moments[which, i]
        i -= 1
    while i > 0:
        n = ladder[i, 2]
        slope, curvature = 0.0, 0.0
        for j in range(d):
            delta = vectors[point, j] - vectors[ANCHOR + which, j]
            up = ladder[i, 4 + j]
            slope += moments[SLOPES, up] * delta
            curvature += moments[CURVATURES, up] * delta
        moments[SLOPES, i] = moments[which, i] + slope * _RECIPROCAL[n]
        moments[CURVATURES, i] = moments[which, i] + curvature * _RECIPROCAL[n - 1]
        i -= 1
    for j in range(d):
        first = ladder[0, 4 + j]
        vectors[G, j] = model.lam * vectors[point, j] + moments[SLOPES, first]
        for k in range(j + 1):
            curvature = moments[CURVATURES, ladder[first, 4 + k]]
            state.matrices[J, j, k] = curvature
            state.matrices[J, k, j] = curvature
        state.matrices[J, j, j] += model.lam


@inlined
def remainder(model: Model, state: State, which: int, point: int) -> float:
    """Bound of what the expansion leaves out of g(point)."""
    if model.link == links.IDENTITY:
        return 0.0
    reach = state.gauges[LONGEST] * distance(state.vectors, point, ANCHOR + which)
    bound = float(state.gauges[MASS + which])
    for n in range(1, model.order + 2):
        bound *= reach * _RECIPROCAL[n]
    return bound * math.exp(reach) if model.link == links.POISSON else bound


@inlined
def curvature_remainder(model: Model, state: State, which: int, point: int) -> float:
    """Bound of what the expansion leaves out of J(point): one power less of the distance."""
    reach = state.gauges[LONGEST] * distance(state.vectors, point, ANCHOR + which)
    if reach == 0.0:
        return 0.0
    lost = remainder(model, state, which, point)
    bound: float = state.gauges[LONGEST] * lost * (model.order + 1.0) / reach
    return bound
