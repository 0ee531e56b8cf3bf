"""Passes over the rows of a large model: two products each, with the rows where they lie.

Notation (beyond solve.py)
--------
span       rows that stand side by side, taken at once, the newest first
eta        scalar   the largest |mu''/mu' a_s.u|, so that bend <= eta J
"""

from __future__ import annotations

import math

import numpy as np

from driftbandits import links
from driftbandits.estimator.expansion import weight_of_age
from driftbandits.estimator.model import DISCOUNT, Floats, Model
from driftbandits.estimator.state import HEAD, PASSES, TAIL, Ints, N
from driftbandits.jit import LANES, allocating, inlined, internal, place, span_product
from driftbandits.linalg import set_to_identity

_SPAN = 512
_Z, _ALONG, _WEIGHT, _SHARE = map(place, range(4))  # rows of `lanes`
_LANES = 4


@inlined
def _span_width(counters: Ints) -> int:
    rows = int(counters[TAIL] - counters[HEAD])
    return min(_SPAN, (rows + LANES - 1) // LANES * LANES)


@inlined
def _weigh(
    model: Model,
    times: Floats,
    counters: Ints,
    start: int,
    end: int,
    weight: float,
    out: Floats,
) -> float:
    """out := weights of a span of rows, and 0 behind; `weight` is that of row `end`.

    Returned is that of row `start`.
    """
    size = end - start
    newer = times[end] if end < counters[TAIL] else float(counters[N])
    for lane in range(out.shape[0]):
        out[lane] = 1.0 if lane < size else 0.0
    if model.memory == DISCOUNT:
        for lane in range(size - 1, -1, -1):
            weight *= weight_of_age(model, newer - times[start + lane])
            newer = times[start + lane]
            out[lane] = weight
    return weight


@internal
def _multiply_span(rows: Floats, start: int, end: int, point: Floats, out: Floats) -> None:
    """out := a.point for a span of rows, and 0 behind."""
    size, whole = end - start, point.shape[0] - point.shape[0] % 4
    for lane in range(out.shape[0]):
        out[lane] = 0.0
    for j in range(0, whole, 4):
        a, b, c, d = point[j], point[j + 1], point[j + 2], point[j + 3]
        w, x = rows[j, start:end], rows[j + 1, start:end]
        y, z = rows[j + 2, start:end], rows[j + 3, start:end]
        for lane in range(size):
            out[lane] += a * w[lane] + b * x[lane] + c * y[lane] + d * z[lane]
    for j in range(whole, point.shape[0]):
        a, w = point[j], rows[j, start:end]
        for lane in range(size):
            out[lane] += a * w[lane]


@allocating
def sum_means_large(
    model: Model, rows: Floats, counters: Ints, point: Floats, sums: Floats
) -> float:
    """Sums of an expansion of order 0 := sum w mu(a.point) a; returns the smallest slope."""
    head, width = counters[HEAD], _span_width(counters)
    lanes, least = np.empty((_LANES, width)), np.full(width, math.inf)
    slopes, scratch = np.empty((2, width)), np.empty((3, width))
    sums[:] = 0.0
    end, weight = counters[TAIL], 1.0
    while end > head:
        start = max(head, end - width)
        weight = _weigh(model, rows[model.d + 1], counters, start, end, weight, lanes[_WEIGHT])
        _multiply_span(rows, start, end, point, lanes[_Z])
        links.block_derivatives(model.link, model.m, lanes[_Z], width, 1, scratch, slopes)
        for lane in range(width):
            least[lane] = min(least[lane], slopes[1, lane])
            slopes[0, lane] *= lanes[_WEIGHT, lane]
        for j in range(model.d):
            sums[1 + j] += span_product(rows, j, start, slopes, 0)
        end = start
    counters[PASSES] += 1
    return float(least.min()) if width > 0 else math.inf


@allocating
def sum_along(
    model: Model, rows: Floats, counters: Ints, point: Floats, u: Floats, out: Floats
) -> tuple[float, float]:
    """out := J(point) u, penalty included; returns eta, and the largest |a.u|."""
    head, width = counters[HEAD], _span_width(counters)
    lanes, etas, furthest = np.empty((_LANES, width)), np.zeros(width), np.zeros(width)
    slopes, scratch = np.empty((3, width)), np.empty((3, width))
    for j in range(model.d):
        out[j] = model.lam * u[j]
    end, weight = counters[TAIL], 1.0
    while end > head:
        start = max(head, end - width)
        weight = _weigh(model, rows[model.d + 1], counters, start, end, weight, lanes[_WEIGHT])
        _multiply_span(rows, start, end, point, lanes[_Z])
        _multiply_span(rows, start, end, u, lanes[_ALONG])
        links.block_derivatives(model.link, model.m, lanes[_Z], width, 2, scratch, slopes)
        for lane in range(width):
            along = lanes[_ALONG, lane]
            etas[lane] = max(etas[lane], abs(slopes[2, lane] * along) / slopes[1, lane])
            furthest[lane] = max(furthest[lane], abs(along))
            lanes[_SHARE, lane] = lanes[_WEIGHT, lane] * slopes[1, lane] * along
        for j in range(model.d):
            out[j] += span_product(rows, j, start, lanes, _SHARE)
        end = start
    counters[PASSES] += 1
    return float(etas.max()), float(furthest.max())


@allocating
def sum_curvature(
    model: Model,
    rows: Floats,
    counters: Ints,
    point: Floats,
    u: Floats,
    spread: float,
    J: Floats,
) -> None:
    """J := sum w mu' a a', or with a spread sum w (spread mu'^2 - mu'' a.u) a a'; lower.

    Of the second a share is left where mu'' would take it away.
    """
    head, width = counters[HEAD], _span_width(counters)
    lanes, weighted = np.empty((_LANES, width)), np.zeros((1, width))
    slopes, scratch = np.empty((3, width)), np.empty((3, width))
    set_to_identity(J, 0.0)
    end, weight = counters[TAIL], 1.0
    while end > head:
        start = max(head, end - width)
        weight = _weigh(model, rows[model.d + 1], counters, start, end, weight, lanes[_WEIGHT])
        _multiply_span(rows, start, end, point, lanes[_Z])
        _multiply_span(rows, start, end, u, lanes[_ALONG])
        links.block_derivatives(model.link, model.m, lanes[_Z], width, 2, scratch, slopes)
        for lane in range(width):
            steep = slopes[1, lane]
            if spread > 0.0:
                flat = spread * steep * steep
                steep = max(flat - slopes[2, lane] * lanes[_ALONG, lane], 0.1 * flat)
            lanes[_SHARE, lane] = lanes[_WEIGHT, lane] * steep
        for i in range(model.d):
            source = rows[i, start:end]
            for lane in range(end - start):
                weighted[0, lane] = lanes[_SHARE, lane] * source[lane]
            for lane in range(end - start, width):
                weighted[0, lane] = 0.0
            for j in range(i + 1):
                J[i, j] += span_product(rows, j, start, weighted, 0)
        end = start
    counters[PASSES] += 1
