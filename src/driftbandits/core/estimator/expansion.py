"""Taylor expansions of g about an anchor, kept exact from round to round.

The penalised likelihood needs Phi(theta) = sum_s w_s b(a_s . theta). About an anchor theta_0,

    Phi(theta_0 + delta) = sum_i M_i delta^i / i!,     M_i = sum_s w_s b^(|i|)(a_s . theta_0) a_s^i,

over multi-indices i. Its gradient is g(theta) - lam theta and its Hessian is J(theta) - lam I. Each
moment M_i is a weighted sum over rows, so forgetting scales it and a new row adds to it: no pass
over the memory is needed while theta stays near the anchor. What the expansion leaves out of
g is at most

    MASS (L ||delta||)^(P+1) / (P+1)!,       MASS = sum_s w_s sup|mu^(P+1)| ||a_s||,

which is the certificate that lets `fit` trust it, or pay for a new anchor. Near the anchor a lower
order than P keeps the same promise with fewer moments: each evaluation takes the lowest that does.

Notation
--------
P          order of the expansion of g (degree P+1 of Phi)
delta      (d,)  theta - theta_0
powers     (monomials,)  delta^i / i!
which      0 or 1: the expansion for theta_hat, or for its projection
reach      L ||delta||, which bounds every |a_s . delta|
run        monomials that differ in their powers of the last two variables alone, in a row
"""

from __future__ import annotations

import math

import numpy as np

from driftbandits.core import linalg as la
from driftbandits.core import links
from driftbandits.core.estimator import state as at
from driftbandits.core.estimator.model import DISCOUNT, Floats, Model
from driftbandits.core.estimator.state import State
from driftbandits.jit import LANES, allocating, inlined, place, row_product

_BLOCK = 128  # rows that a pass takes at once
_ONE = np.uint64(1)  # indices that are unsigned need no look-out for negative ones
_RECIPROCAL = np.array([0.0, *(1.0 / n for n in range(1, links.HIGHEST_DERIVATIVE + 3))])


@inlined
def weight_of_age(model: Model, age: float) -> float:
    if model.memory != DISCOUNT or age == 0.0:
        return 1.0
    return model.gamma if age == 1.0 else model.gamma**age


@inlined
def add_row(model: Model, state: State, which: int, row: Floats, weight: float) -> None:
    """Add a row to the sums of an expansion; a negative weight takes it away."""
    ladder, moments = state.ladder, state.moments
    derivatives, powers = state.scratch.derivatives, state.scratch.powers
    z = la.dot(row, state.anchors[which])
    links.derivatives(model.link, model.m, z, model.order, derivatives)
    for n in range(model.order + 1):
        derivatives[n] *= weight
    M = np.uint64(which)
    powers[0] = 1.0
    last = row[model.d - 1]
    i = _ONE
    while i < ladder.shape[0]:  # run by run: all but its head are multiples of the last variable
        derivative = derivatives[ladder[i, 2] - 1]
        power = powers[ladder[i, 0]] * row[ladder[i, 1]]
        powers[i] = power
        moments[M, i] += derivative * power
        end = i + np.uint64(ladder[i, 3])
        i += _ONE
        if i < end:
            parent = np.uint64(ladder[i, 0])
            for k in range(end - i):
                power = powers[parent + k] * last
                powers[i + k] = power
                moments[M, i + k] += derivative * power
        i = end
    bound = links.derivative_bound(model.link, model.m, model.order + 1, z)
    state.gauges[at.MASS + which] += weight * bound * la.norm(row)


# -- passes: rows in blocks, one lane each ---------------------------------------------------------

_Z, _LENGTH, _WEIGHT, _SHARE = map(place, range(4))  # rows of `lanes`


@inlined
def block_width(state: State) -> int:
    """Lanes of a block: as many as there are rows, rounded up, or a full block."""
    rows = int(state.counters[at.TAIL] - state.counters[at.HEAD])
    return min(_BLOCK, (rows + LANES - 1) // LANES * LANES)


@inlined
def weigh(
    model: Model, state: State, start: int, end: int, weight: float, weights: Floats
) -> float:
    """weights := those of some rows, and 0 behind. `weight` is that of row `end`.

    Returned is that of row `start`.
    """
    counters, times, size = state.counters, state.rows[model.d + 1], end - start
    for lane in range(weights.shape[0]):
        weights[lane] = 1.0 if lane < size else 0.0
    if model.memory == DISCOUNT:
        newer = times[end] if end < counters[at.TAIL] else float(counters[at.N])
        for lane in range(size - 1, -1, -1):
            weight *= weight_of_age(model, newer - times[start + lane])
            newer = times[start + lane]
            weights[lane] = weight
    return weight


@inlined
def load_block(
    model: Model, state: State, point: Floats, end: int, weight: float, block: Floats, lanes: Floats
) -> float:
    """The rows before `end`, as many as fit: coordinates to `block`; z, ||a|| and w to `lanes`.

    `weight` is that of row `end`; returned is that of the oldest row loaded. Lanes without a row
    are zero, and so is what they add to a sum.
    """
    width = block.shape[1]
    start = max(state.counters[at.HEAD], end - width)
    size = end - start
    weight = weigh(model, state, start, end, weight, lanes[_WEIGHT])
    for lane in range(width):
        lanes[_Z, lane] = 0.0
        lanes[_LENGTH, lane] = 0.0
    for j in range(model.d):
        coordinate = point[j]
        source = state.rows[j, start:end]  # a slice has no negative places to look out for
        for lane in range(size):
            block[j, lane] = source[lane]
        for lane in range(size, width):
            block[j, lane] = 0.0
        for lane in range(width):
            lanes[_Z, lane] += block[j, lane] * coordinate
            lanes[_LENGTH, lane] += block[j, lane] * block[j, lane]
    for lane in range(width):
        lanes[_LENGTH, lane] = math.sqrt(lanes[_LENGTH, lane])
    return weight


@allocating
def anchor(model: Model, state: State, which: int, point: Floats) -> None:
    """Make a point the anchor of an expansion: one exact pass over the memory.

    Powers are made degree by degree from one table into another: a loop that reads the table it
    writes would not be vectorised.
    """
    d, P = model.d, model.order
    ladder, moments, head = state.ladder, state.moments, state.counters[at.HEAD]
    count = ladder.shape[0]
    moments[which] = 0.0
    most = 1  # monomials of degree P, the highest whose powers are needed
    for i in range(count):
        most += ladder[i, 2] == P
    width = block_width(state)
    lower, powers = np.ones((most, width)), np.empty((most, width))
    slopes, scratch = np.empty((P + 1, width)), np.empty((3, width))
    block, lanes = np.empty((d, width)), np.empty((4, width))
    mass, weight = 0.0, 1.0
    end = state.counters[at.TAIL]
    while end > head:
        weight = load_block(model, state, point, end, weight, block, lanes)
        links.block_derivatives(model.link, model.m, lanes[_Z], width, P, scratch, slopes)
        for n in range(P + 1):
            for lane in range(width):
                slopes[n, lane] *= lanes[_WEIGHT, lane]
        for lane in range(width):
            bound = links.derivative_bound(model.link, model.m, P + 1, lanes[_Z, lane])
            lanes[_SHARE, lane] = lanes[_WEIGHT, lane] * bound
        mass += row_product(lanes, _LENGTH, lanes, _SHARE)
        for lane in range(width):
            lower[0, lane] = 1.0
        below, first = 0, 1  # where the degrees begin that are read and made
        for degree in range(1, P + 1):
            last = first
            while ladder[last, 2] == degree:
                parent, variable = ladder[last, 0] - below, ladder[last, 1]
                for lane in range(width):
                    powers[last - first, lane] = lower[parent, lane] * block[variable, lane]
                last += 1
            for i in range(first, last):
                moments[which, i] += row_product(powers, i - first, slopes, degree - 1)
            below, first = first, last
            lower, powers = powers, lower
        for k in range(first - below):
            for lane in range(width):
                powers[k, lane] = lower[k, lane] * slopes[P, lane]
        for i in range(first, count):
            moments[which, i] += row_product(powers, ladder[i, 0] - below, block, ladder[i, 1])
        end -= width
    la.copy(point, state.anchors[which])
    state.gauges[at.MASS + which] = mass
    state.counters[at.VALID + which] = 1
    state.counters[at.PASSES] += 1
    state.counters[at.ANCHORS] += 1


@allocating
def sum_means(model: Model, state: State, point: Floats) -> None:
    """scratch.g := g(point), penalty included, by an exact pass that keeps nothing else."""
    g = state.scratch.g
    width = block_width(state)
    means, scratch = np.empty((1, width)), np.empty((3, width))
    block, lanes = np.empty((model.d, width)), np.empty((4, width))
    weight = 1.0
    for j in range(model.d):
        g[j] = model.lam * point[j]
    end = state.counters[at.TAIL]
    while end > state.counters[at.HEAD]:
        weight = load_block(model, state, point, end, weight, block, lanes)
        links.block_derivatives(model.link, model.m, lanes[_Z], width, 0, scratch, means)
        for lane in range(width):
            means[0, lane] *= lanes[_WEIGHT, lane]
        for j in range(model.d):
            g[j] += row_product(block, j, means, 0)
        end -= width
    state.counters[at.PASSES] += 1


# -- using an expansion ----------------------------------------------------------------------------


@inlined
def evaluate(model: Model, state: State, which: int, point: Floats, order: int) -> None:
    """scratch.g := g(point) and scratch.J := J(point), by the expansion up to an order.

    The penalty is included. Horner's rule on tensors: with S_n = M_n + S_{n+1} delta / n the
    gradient of Phi is S_1, and with C_n = M_n + C_{n+1} delta / (n-1) its Hessian is C_2; n is the
    degree, M_n the moments of that degree, and a product with delta lowers it by one.
    """
    d = model.d
    ladder, moments, scratch = state.ladder, state.moments, state.scratch
    g, J = scratch.g, scratch.J
    if model.linear:  # c = 1, so V is J, and g is linear
        for j in range(d):
            g[j] = 0.0
            for k in range(d):
                J[j, k] = state.V[j, k]
                g[j] += state.V[j, k] * point[k]
        return
    M, S, C, origin = np.uint64(which), scratch.slopes, scratch.curvatures, state.anchors[which]
    i = np.uint64(ladder.shape[0]) - _ONE
    while ladder[i, 2] > order + 1:
        i -= np.uint64(ladder[i, 3])
    while ladder[i, 2] > order:
        S[i] = moments[M, i]
        C[i] = moments[M, i]
        i -= _ONE
    others = max(d - 2, 0)  # variables that are the same all along a run
    second = _ONE if d > 1 else np.uint64(0)
    along = point[others] - origin[others]
    across = point[d - 1] - origin[d - 1] if d > 1 else 0.0
    while ladder[i, 2] > 1:
        n = ladder[i, 2]
        length = np.uint64(ladder[i, 3])
        start = i + _ONE - length
        up = np.uint64(ladder[start, 4 + others])
        for_slope, for_curvature = _RECIPROCAL[n], _RECIPROCAL[n - 1]
        sx, sy, cx, cy = (
            along * for_slope,
            across * for_slope,
            along * for_curvature,
            across * for_curvature,
        )
        for k in range(length):
            m = moments[M, start + k]
            slope = S[up + k] * sx + S[up + k + second] * sy
            curvature = C[up + k] * cx + C[up + k + second] * cy
            for j in range(others):
                delta = point[j] - origin[j]
                higher = np.uint64(ladder[start, 4 + j]) + k
                slope += S[higher] * delta * for_slope
                curvature += C[higher] * delta * for_curvature
            S[start + k] = m + slope
            C[start + k] = m + curvature
        i = start - _ONE
    for j in range(d):
        g[j] = model.lam * point[j] + moments[which, 1 + j]
        for k in range(d):
            second_degree = ladder[1 + j, 4 + k]
            g[j] += S[second_degree] * (point[k] - origin[k])
            J[j, k] = C[second_degree]
        J[j, j] += model.lam


@inlined
def reach_of(state: State, which: int, point: Floats) -> float:
    """Return the largest change of a_s.theta between an anchor and a point."""
    return float(state.gauges[at.LONGEST]) * la.distance(point, state.anchors[which])


@inlined
def _mass(model: Model, state: State, which: int, reach: float) -> float:
    """MASS without the derivative that it was summed with: that of order P + 1."""
    highest = links.derivative_bound(model.link, model.m, model.order + 1, 0.0)
    mass: float = state.gauges[at.MASS + which] / highest * links.growth(model.link, reach)
    return mass


@inlined
def remainder(model: Model, state: State, which: int, reach: float, order: int) -> float:
    """Bound of what the expansion up to an order leaves out of g at a reach."""
    if model.linear:
        return 0.0
    steepness = links.derivative_bound(model.link, model.m, order + 1, 0.0)
    bound: float = _mass(model, state, which, reach) * steepness
    for n in range(1, order + 2):
        bound *= reach * float(_RECIPROCAL[n])
    return bound


@inlined
def order_within(model: Model, state: State, which: int, reach: float, tolerance: float) -> int:
    """The lowest order that leaves out of g no more than a tolerance; 0 where none does."""
    if model.linear:
        return 1
    term = _mass(model, state, which, reach) * reach
    for order in range(1, model.order + 1):
        term *= reach * _RECIPROCAL[order + 1]
        if term * links.derivative_bound(model.link, model.m, order + 1, 0.0) <= tolerance:
            return order
    return 0
