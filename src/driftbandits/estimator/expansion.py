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
"""

from __future__ import annotations

import math

import numpy as np

from driftbandits import links
from driftbandits.estimator.model import (
    ANCHORS,
    DISCOUNT,
    HEAD,
    LONGEST,
    MASS,
    PASSES,
    TAIL,
    VALID,
    Floats,
    Ints,
    Model,
    N,
    State,
)
from driftbandits.jit import compiled
from driftbandits.linalg import dot, norm

_BLOCK = 32
_DERIVATIVES = links.HIGHEST_DERIVATIVE + 1


@compiled
def remainder_scale(link: int, m: float, z: float, order: int) -> float:
    """sup|mu^(order)|, or for Poisson its value at z: `remainder` adds the factor e^(L delta)."""
    return links.derivative_bound(link, m, order, z)


@compiled
def weight_of_age(model: Model, age: float) -> float:
    return model.gamma**age if model.memory == DISCOUNT else 1.0


@compiled
def monomials_of(a: Floats, ladder: Ints, count: int, out: Floats) -> None:
    """out[i] = a^i for the first `count` monomials."""
    out[0] = 1.0
    for i in range(1, count):
        out[i] = out[ladder[i, 0]] * a[ladder[i, 1]]


@compiled
def add_row(model: Model, ladder: Ints, state: State, which: int, a: Floats, weight: float) -> None:
    """Add a row to the sums of an expansion; a negative weight takes it away."""
    count = ladder.shape[0]
    powers = np.empty(count)
    monomials_of(a, ladder, count, powers)
    z = dot(a, state.anchors[which])
    derivatives = np.empty(_DERIVATIVES)
    links.derivatives(model.link, model.m, z, model.order, derivatives)
    moments = state.moments[which]
    for i in range(1, count):
        moments[i] += weight * derivatives[ladder[i, 2] - 1] * powers[i]
    scale = remainder_scale(model.link, model.m, z, model.order + 1)
    state.gauges[MASS + which] += weight * scale * norm(a)


@compiled
def anchor(model: Model, ladder: Ints, state: State, which: int, point: Floats) -> None:
    """Make `point` the anchor of an expansion: one exact pass over the memory.

    Rows are taken in blocks, newest first, and every sum is kept once per lane of the block, so
    that the loops vectorise without being allowed to reorder a sum.
    """
    d, P, count = model.d, model.order, ladder.shape[0]
    lower = 0
    while lower < count and ladder[lower, 2] <= P:
        lower += 1
    sums = np.zeros((count, _BLOCK))
    mono = np.ones((lower, _BLOCK))
    weighted = np.zeros((P + 1, _BLOCK))
    z = np.empty(_BLOCK)
    derivatives = np.empty(_DERIVATIVES)
    head, tail = state.counters[HEAD], state.counters[TAIL]
    mass = 0.0
    newer = float(state.counters[N])
    w = 1.0
    end = tail
    while end > head:
        start = max(head, end - _BLOCK)
        size = end - start
        z[:] = 0.0
        for j in range(d):
            coordinate = state.rows[j, start:end]
            for lane in range(size):
                z[lane] += coordinate[lane] * point[j]
        for lane in range(size - 1, -1, -1):
            s = start + lane
            w *= weight_of_age(model, newer - state.rounds[s])
            newer = state.rounds[s]
            links.derivatives(model.link, model.m, z[lane], P, derivatives)
            for n in range(P + 1):
                weighted[n, lane] = w * derivatives[n]
            length = 0.0
            for j in range(d):
                length += state.rows[j, s] * state.rows[j, s]
            mass += w * remainder_scale(model.link, model.m, z[lane], P + 1) * math.sqrt(length)
        for i in range(1, count):
            parent = mono[ladder[i, 0]]
            coordinate = state.rows[ladder[i, 1], start:end]
            factor = weighted[ladder[i, 2] - 1]
            total = sums[i]
            if i < lower:
                own = mono[i]
                for lane in range(size):
                    own[lane] = parent[lane] * coordinate[lane]
                    total[lane] += own[lane] * factor[lane]
            else:
                for lane in range(size):
                    total[lane] += parent[lane] * coordinate[lane] * factor[lane]
        end = start
    moments = state.moments[which]
    for i in range(1, count):
        total = 0.0
        for lane in range(_BLOCK):
            total += sums[i, lane]
        moments[i] = total
    state.anchors[which, :] = point
    state.gauges[MASS + which] = mass
    state.counters[VALID + which] = 1
    state.counters[PASSES] += 1
    state.counters[ANCHORS] += 1


@compiled
def evaluate(
    model: Model,
    ladder: Ints,
    state: State,
    which: int,
    point: Floats,
    g: Floats,
    J: Floats,
    powers: Floats,
) -> None:
    """g := g(point) and J := J(point), penalty included, by the expansion."""
    d, P, count = model.d, model.order, ladder.shape[0]
    moments, theta_0 = state.moments[which], state.anchors[which]
    for j in range(d):
        g[j] = model.lam * point[j]
        for k in range(j + 1):
            J[j, k] = model.lam if j == k else 0.0
    powers[0] = 1.0
    for i in range(count):
        degree = ladder[i, 2]
        if degree > P:
            break
        if i > 0:
            j = ladder[i, 1]
            powers[i] = powers[ladder[i, 0]] * (point[j] - theta_0[j]) / ladder[i, 3]
        power = powers[i]
        if power == 0.0:
            continue
        for j in range(d):
            up = ladder[i, 4 + j]
            g[j] += power * moments[up]
            if degree < P:
                for k in range(j + 1):
                    J[j, k] += power * moments[ladder[up, 4 + k]]
    for j in range(d):
        for k in range(j):
            J[k, j] = J[j, k]


@compiled
def remainder(model: Model, state: State, which: int, point: Floats) -> float:
    """Bound of what the expansion leaves out of g(point)."""
    if model.link == links.IDENTITY:
        return 0.0
    total = 0.0
    for j in range(model.d):
        delta = point[j] - state.anchors[which, j]
        total += delta * delta
    reach = state.gauges[LONGEST] * math.sqrt(total)
    bound = float(state.gauges[MASS + which])
    for n in range(1, model.order + 2):
        bound *= reach / n
    return bound * math.exp(reach) if model.link == links.POISSON else bound
