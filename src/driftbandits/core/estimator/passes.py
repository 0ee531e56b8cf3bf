"""Passes over the rows of a large model: two products each, with the rows where they lie.

Notation (beyond solve.py)
--------
span       rows that stand side by side, taken at once, the newest first
eta        scalar   the largest |mu''/mu' a_s.u|, so that bend <= eta J
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftbandits.core import linalg as la
from driftbandits.core import links
from driftbandits.core.estimator import state as at
from driftbandits.core.estimator.expansion import weigh
from driftbandits.core.estimator.model import Floats, Model
from driftbandits.core.estimator.state import FOR_THETA, FOR_THETA_HAT, Ints, State
from driftbandits.jit import (
    LANES,
    add_four_multiples,
    add_four_span_products,
    add_multiple,
    add_span_product,
    allocating,
    inlined,
    internal,
)

_SPAN = 512


@inlined
def _span_width(counters: Ints) -> int:
    rows = int(counters[at.TAIL] - counters[at.HEAD])
    return min(_SPAN, (rows + LANES - 1) // LANES * LANES)


@internal
def _multiply_span(rows: Floats, start: int, end: int, points: Floats, out: Floats) -> None:
    """out := a.point for a span of rows and one to three points, and 0 behind."""
    count, d = points.shape
    for i in range(count):
        for lane in range(out.shape[1]):
            out[i, lane] = 0.0
    for j in range(0, d - 3, 4):
        add_four_multiples(rows, j, start, points, out)
    for j in range(d - d % 4, d):
        add_multiple(rows, j, start, points, out)
    for i in range(count):
        for lane in range(end - start, out.shape[1]):
            out[i, lane] = 0.0


@internal
def _add_span(
    rows: Floats, start: int, shares: Floats, columns: int, sums: Floats, first: int
) -> None:
    """Add sum shares_i a over a span of rows to sums[first + i], in so many columns."""
    for j in range(0, columns - 3, 4):
        add_four_span_products(rows, j, start, shares, sums, first)
    for j in range(columns - columns % 4, columns):
        add_span_product(rows, j, start, shares, sums, first)


class Wanted(NamedTuple):
    """Sums that a pass is asked for."""

    at_theta_hat: bool  # the means there
    at_theta: bool  # the means there
    along: bool  # J(theta) u


class Seen(NamedTuple):
    """Extremes over single rows that a pass has seen."""

    least: float  # slope at theta_hat
    flattest: float  # slope at theta
    eta: float
    furthest: float  # the largest |a.u|


NOTHING_SEEN = Seen(math.inf, math.inf, 0.0, 0.0)


@allocating
def sweep(model: Model, state: State, wanted: Wanted, u: Floats, pull: Floats) -> Seen:
    """One pass for theta_hat and theta together: what it costs is to fetch the rows.

    The sums of expansions of order 0 := sum w mu(a.point) a, and pull := J(theta) u with the
    penalty.
    """
    rows, counters, d = state.rows, state.counters, model.d
    head, width = counters[at.HEAD], _span_width(counters)
    points, products = np.empty((3, d)), np.empty((3, width))
    shares, weights, sums = np.empty((2, width)), np.empty(width), np.zeros((2, d))
    slopes, scratch = np.empty((3, width)), np.empty((3, width))
    least, flattest = np.full(width, math.inf), np.full(width, math.inf)
    etas, furthest = np.zeros(width), np.zeros(width)
    about = int(wanted.at_theta_hat)  # where theta stands among the points, and u behind it
    points[0] = state.theta_hat
    points[about] = state.theta
    points[about + 1] = u
    if wanted.along:
        for j in range(d):
            sums[about, j] = model.lam * u[j]
    made = about + int(wanted.at_theta or wanted.along)  # so many sums
    count = made + int(wanted.along)
    end, weight = counters[at.TAIL], 1.0
    while end > head:
        start = max(head, end - width)
        weight = weigh(model, state, start, end, weight, weights)
        _multiply_span(rows, start, end, points[:count], products)
        if wanted.at_theta_hat:
            links.quick_derivatives(model.link, model.m, products[0], width, 1, scratch, slopes)
            for lane in range(width):
                least[lane] = min(least[lane], slopes[1, lane])
                shares[0, lane] = weights[lane] * slopes[0, lane]
        if wanted.at_theta:
            links.quick_derivatives(model.link, model.m, products[about], width, 0, scratch, slopes)
            for lane in range(width):
                shares[about, lane] = weights[lane] * slopes[0, lane]
        if wanted.along:
            links.quick_derivatives(model.link, model.m, products[about], width, 2, scratch, slopes)
            way = products[about + 1]
            for lane in range(width):
                flattest[lane] = min(flattest[lane], slopes[1, lane])
                etas[lane] = max(etas[lane], abs(slopes[2, lane] * way[lane]) / slopes[1, lane])
                furthest[lane] = max(furthest[lane], abs(way[lane]))
                shares[about, lane] = weights[lane] * slopes[1, lane] * way[lane]
        _add_span(rows, start, shares[:made], d, sums, 0)
        end = start
    counters[at.PASSES] += 1
    if wanted.at_theta_hat:
        state.moments[FOR_THETA_HAT, 1:] = sums[0]
    if wanted.at_theta:
        state.moments[FOR_THETA, 1:] = sums[about]
    if wanted.along:
        la.copy(sums[about], pull)
    if width == 0:
        return NOTHING_SEEN
    return Seen(float(least.min()), float(flattest.min()), float(etas.max()), float(furthest.max()))


SLOPES, BENDS, BENT_SQUARES = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, -1.0, 1.0)


@allocating
def sum_curvature(
    model: Model,
    state: State,
    point: Floats,
    u: Floats,
    shares: tuple[float, float, float],
    J: Floats,
) -> None:
    """J := the sum of w a a', lower, times shares of mu', mu'' a.u and mu'^2; without a penalty.

    Of the last at least a tenth is left.
    """
    steep, bent, squared = shares
    rows, counters = state.rows, state.counters
    head, width = counters[at.HEAD], _span_width(counters)
    points, products = np.empty((2, model.d)), np.empty((2, width))
    weighted, weights = np.zeros((2, width)), np.empty(width)
    slopes, scratch = np.empty((3, width)), np.empty((3, width))
    points[0] = point
    points[1] = u
    la.set_to_identity(J, 0.0)
    end, weight = counters[at.TAIL], 1.0
    while end > head:
        start = max(head, end - width)
        weight = weigh(model, state, start, end, weight, weights)
        weighted[:, end - start :] = 0.0
        _multiply_span(rows, start, end, points, products)
        links.quick_derivatives(model.link, model.m, products[0], width, 2, scratch, slopes)
        for lane in range(width):
            slope = slopes[1, lane]
            square = squared * slope * slope
            share = steep * slope + bent * slopes[2, lane] * products[1, lane] + square
            weights[lane] *= max(share, 0.1 * square) if squared > 0.0 else share
        for i in range(0, model.d, 2):  # two at a time: what one has read serves for the other
            count = min(2, model.d - i)
            for n in range(count):
                source = rows[i + n, start:end]
                for lane in range(end - start):
                    weighted[n, lane] = weights[lane] * source[lane]
            _add_span(rows, start, weighted[:count], i + count, J, i)
        end = start
    counters[at.PASSES] += 1
