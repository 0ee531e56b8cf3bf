"""theta-hat and its projection in large models: passes of two products each, and stale inverses.

A large model keeps no matrix of an expansion, only the sums of g at theta_hat and at theta. A step
multiplies what is left of the equation by the inverse of an earlier curvature, which rows are
added to and taken from (Sherman and Morrison). Such an inverse only decides how fast the steps
converge: where it has been slow for so long that a new one would have been cheaper, it is made
anew. The certificate needs none of it. With r = b - g(theta_hat) from exact sums and J >= c V,

    ||theta_hat - exact||_V <= ||r||_{V^-1} / c,

so the error of any a.theta_hat is at most that many times ||a||_{V^-1}, which is how widths are
measured. For the projection, with q the part of `pull` that is not along theta,

    ||theta - exact||_V <= ||q||_{V^-1} / h,      h V <= J M^-1 J - bend + nu I / 2   near theta.

Notation (beyond solve.py)
--------
closeness  scalar   what ||theta - exact||_V may be
newton     (d, d)   near J(theta_hat)^-1
descent    (d, d)   near (J M^-1 J - bend + nu I)^-1
spread     scalar   V over V2, as their rows weigh: J M^-1 J is near spread sum w_s mu'^2 a_s a_s'
least      scalar   the smallest slope of the remembered rows at theta_hat
eta        scalar   the largest |mu''/mu' a_s.u|, so that bend <= eta J
"""

from __future__ import annotations

import math

import numpy as np

from driftbandits import links
from driftbandits.estimator.expansion import sum_means, weight_of_age
from driftbandits.estimator.inverse import add_to_inverse, fade, is_due, renew, room_in, solve
from driftbandits.estimator.model import DISCOUNT, EXACT, NO_PROJECTION, Floats, Model
from driftbandits.estimator.state import (
    AGE,
    DAMPED_STEPS,
    DECREMENT,
    DESCENT_STEPS,
    ERROR_BOUND,
    FOR_THETA,
    FOR_THETA_HAT,
    HEAD,
    KKT_RESIDUAL,
    LEAK,
    LONGEST,
    NEWTON_STEPS,
    PASSES,
    PROJECTED,
    PROJECTIONS,
    STRETCH,
    TAIL,
    VALID,
    Large,
    N,
    State,
    large_of,
)
from driftbandits.jit import LANES, allocating, inlined, internal, place, span_product
from driftbandits.linalg import (
    add_scaled,
    cholesky_large,
    copy,
    copy_matrix,
    dot,
    inverse_large,
    multiply_large,
    norm,
    set_to_identity,
)

REACH = 0.5
"""Newton steps that move no a_s.theta further than this contract; longer ones are damped.

|mu''| <= mu' for every model here, so along a step p the curvature changes by at most e^(|a.p|).
"""
_MOST_STEPS = 200
_SLOW = 0.5  # a step that leaves more than this share of what was left calls for a new inverse
_ROUNDING = 1e-14

# Notes of a large model; the first three are two each: of `newton` and of `descent`.
MADE, FEWEST, DEBT = map(place, range(0, 6, 2))
# A debt is the steps that were made beyond the fewest that a round took since the inverse was new.
NEWTON, DESCENT = map(place, range(2))
LEAST, SPREAD = map(place, range(6, 8))
NU, FURTHEST, NEAREST = map(place, range(8, 11))  # nu, max|a.u| and ||b - g||^2_{M^-1} at theta
OFF = place(11)  # bound of ||theta - exact||_V


# -- passes: spans of rows where they lie, newest first --------------------------------------------

_SPAN = 512
_Z, _ALONG, _WEIGHT, _SHARE = map(place, range(4))  # rows of `lanes`
_LANES = 4


@inlined
def _span_width(state: State) -> int:
    rows = int(state.counters[TAIL] - state.counters[HEAD])
    return min(_SPAN, (rows + LANES - 1) // LANES * LANES)


@inlined
def _weigh(model: Model, state: State, start: int, end: int, weight: float, out: Floats) -> float:
    """out := weights of a span of rows, and 0 behind; `weight` is that of row `end`.

    Returned is that of row `start`.
    """
    size, times = end - start, state.rows[model.d + 1]
    newer = times[end] if end < state.counters[TAIL] else float(state.counters[N])
    for lane in range(out.shape[0]):
        out[lane] = 1.0 if lane < size else 0.0
    if model.memory == DISCOUNT:
        for lane in range(size - 1, -1, -1):
            weight *= weight_of_age(model, newer - times[start + lane])
            newer = times[start + lane]
            out[lane] = weight
    return weight


@internal
def _multiply_span(
    model: Model, state: State, start: int, end: int, point: Floats, out: Floats
) -> None:
    """out := a.point for a span of rows, and 0 behind."""
    rows, size, whole = state.rows, end - start, model.d - model.d % 4
    for lane in range(out.shape[0]):
        out[lane] = 0.0
    for j in range(0, whole, 4):
        a, b, c, d = point[j], point[j + 1], point[j + 2], point[j + 3]
        w, x = rows[j, start:end], rows[j + 1, start:end]
        y, z = rows[j + 2, start:end], rows[j + 3, start:end]
        for lane in range(size):
            out[lane] += a * w[lane] + b * x[lane] + c * y[lane] + d * z[lane]
    for j in range(whole, model.d):
        a, w = point[j], rows[j, start:end]
        for lane in range(size):
            out[lane] += a * w[lane]


@allocating
def _sum_means(model: Model, state: State, which: int, point: Floats) -> float:
    """Sums of an expansion of order 0 := sum w mu(a.point) a; returns the smallest slope."""
    head, width = state.counters[HEAD], _span_width(state)
    lanes, least = np.empty((_LANES, width)), np.full(width, math.inf)
    slopes, scratch = np.empty((2, width)), np.empty((3, width))
    sums = state.moments[which]
    sums[:] = 0.0
    end, weight = state.counters[TAIL], 1.0
    while end > head:
        start = max(head, end - width)
        weight = _weigh(model, state, start, end, weight, lanes[_WEIGHT])
        _multiply_span(model, state, start, end, point, lanes[_Z])
        links.block_derivatives(model.link, model.m, lanes[_Z], width, 1, scratch, slopes)
        for lane in range(width):
            least[lane] = min(least[lane], slopes[1, lane])
            slopes[0, lane] *= lanes[_WEIGHT, lane]
        for j in range(model.d):
            sums[1 + j] += span_product(state.rows, j, start, slopes, 0)
        end = start
    copy(point, state.anchors[which])
    state.counters[VALID + which] = 1
    state.counters[PASSES] += 1
    return float(least.min()) if width > 0 else math.inf


@allocating
def _sum_along(
    model: Model, state: State, point: Floats, u: Floats, out: Floats
) -> tuple[float, float]:
    """out := J(point) u, penalty included; returns eta, and the largest |a.u|."""
    head, width = state.counters[HEAD], _span_width(state)
    lanes, etas, furthest = np.empty((_LANES, width)), np.zeros(width), np.zeros(width)
    slopes, scratch = np.empty((3, width)), np.empty((3, width))
    for j in range(model.d):
        out[j] = model.lam * u[j]
    end, weight = state.counters[TAIL], 1.0
    while end > head:
        start = max(head, end - width)
        weight = _weigh(model, state, start, end, weight, lanes[_WEIGHT])
        _multiply_span(model, state, start, end, point, lanes[_Z])
        _multiply_span(model, state, start, end, u, lanes[_ALONG])
        links.block_derivatives(model.link, model.m, lanes[_Z], width, 2, scratch, slopes)
        for lane in range(width):
            along = lanes[_ALONG, lane]
            etas[lane] = max(etas[lane], abs(slopes[2, lane] * along) / slopes[1, lane])
            furthest[lane] = max(furthest[lane], abs(along))
            lanes[_SHARE, lane] = lanes[_WEIGHT, lane] * slopes[1, lane] * along
        for j in range(model.d):
            out[j] += span_product(state.rows, j, start, lanes, _SHARE)
        end = start
    state.counters[PASSES] += 1
    return float(etas.max()), float(furthest.max())


@allocating
def _sum_curvature(model: Model, state: State, point: Floats, u: Floats, spread: float) -> None:
    """scratch.J := sum w mu' a a', or with a spread sum w (spread mu'^2 - mu'' a.u) a a'; lower.

    Of the second a share is left where mu'' would take it away.
    """
    J, rows = state.scratch.J, state.rows
    head, width = state.counters[HEAD], _span_width(state)
    lanes, weighted = np.empty((_LANES, width)), np.zeros((1, width))
    slopes, scratch = np.empty((3, width)), np.empty((3, width))
    set_to_identity(J, 0.0)
    end, weight = state.counters[TAIL], 1.0
    while end > head:
        start = max(head, end - width)
        weight = _weigh(model, state, start, end, weight, lanes[_WEIGHT])
        _multiply_span(model, state, start, end, point, lanes[_Z])
        _multiply_span(model, state, start, end, u, lanes[_ALONG])
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
    state.counters[PASSES] += 1


# -- inverses that follow the rows -----------------------------------------------------------------


@inlined
def follow_row(model: Model, state: State, weight: float) -> None:
    """Let the inverses know of scratch.row, which was added with this weight."""
    large, row = large_of(state), state.scratch.row
    z = dot(row, state.theta_hat)
    slope = links.slope(model.link, model.m, z)
    large.notes[LEAST] = min(large.notes[LEAST], slope)
    _add_to_inverse(model, state, large, large.newton, NEWTON, weight * slope)
    if state.counters[PROJECTED]:
        slope = links.slope(model.link, model.m, dot(row, state.theta))
        steep = weight * large.notes[SPREAD] * slope * slope
        _add_to_inverse(model, state, large, large.descent, DESCENT, steep)
    if model.memory == DISCOUNT:
        square, scratch = weight * weight, state.scratch
        add_to_inverse(
            state.V2, large.norm, large.norm_notes, square, row, scratch.step, scratch.point
        )


@internal
def _add_to_inverse(
    model: Model, state: State, large: Large, inverse: Floats, which: int, weight: float
) -> None:
    """(A + weight a a')^-1 from A^-1, a in scratch.row; given up where that is not positive."""
    if large.notes[MADE + which] == 0.0:
        return
    row, other = state.scratch.row, state.scratch.other
    multiply_large(inverse, row, other)
    share = 1.0 + weight * dot(row, other)
    if not share > 0.01:
        large.notes[MADE + which] = 0.0
        return
    for i in range(model.d):
        add_scaled(inverse[i], -weight / share * other[i], other)


@inlined
def follow_decay(model: Model, state: State, decay: float, rounds: int) -> None:
    """Let the inverses know that all rows weigh less."""
    large = large_of(state)
    fade(large.norm_notes, decay * decay, model.lam / model.c, rounds)
    for i in range(model.d):
        for j in range(model.d):
            large.newton[i, j] /= decay
            large.descent[i, j] /= decay


@inlined
def share_inverse(state: State) -> None:
    """Note that V2 is V."""
    large = large_of(state)
    copy_matrix(state.P, large.norm)
    copy(state.notes, large.norm_notes)


@inlined
def _charge(model: Model, state: State, large: Large, which: int, steps: int, passes: int) -> None:
    """Note the steps of a round, each of so many passes, and give up an inverse that costs more.

    A new one costs a pass with all products of two features, and a factorisation.
    """
    notes, rows = large.notes, float(state.counters[TAIL] - state.counters[HEAD])
    notes[FEWEST + which] = min(notes[FEWEST + which], max(steps, 1.0))
    notes[DEBT + which] += passes * max(steps - notes[FEWEST + which], 0.0)
    if notes[DEBT + which] * 4.0 * rows > model.d * (rows + 2.0 * model.d):
        notes[MADE + which] = 0.0


@inlined
def _note_new(large: Large, which: int) -> None:
    large.notes[MADE + which] = 1.0
    large.notes[FEWEST + which] = math.inf
    large.notes[DEBT + which] = 0.0


@internal
def _invert(model: Model, state: State, ridge: float, out: Floats) -> None:
    """out := (scratch.J + ridge I)^-1."""
    J = state.scratch.J
    for i in range(model.d):
        J[i, i] += ridge
    cholesky_large(J, state.scratch.factor)
    inverse_large(state.scratch.factor, out)


@internal
def _renew_newton(model: Model, state: State, large: Large) -> None:
    _sum_curvature(model, state, state.theta_hat, state.theta_hat, 0.0)
    _invert(model, state, model.lam, large.newton)
    _note_new(large, NEWTON)


@internal
def _renew_descent(model: Model, state: State, large: Large, u: Floats, nu: float) -> None:
    spread = 1.0
    if model.memory == DISCOUNT:
        ridge = model.lam / model.c
        rows, squared = 0.0, 0.0
        for i in range(model.d):
            rows += state.V[i, i] - ridge
            squared += state.V2[i, i] - ridge
        spread = max(rows / squared, 1.0) if squared > 0.0 else 1.0
    large.notes[SPREAD] = spread
    _sum_curvature(model, state, state.theta, u, spread)
    _invert(model, state, model.lam * model.c + nu, large.descent)
    _note_new(large, DESCENT)


# -- theta-hat -------------------------------------------------------------------------------------


@internal
def fit_large(model: Model, state: State, closeness: float) -> None:
    """Bring theta_hat and theta up to date, to within `closeness` in the norm of V."""
    if is_due(state.notes):
        renew(state.V, state.P, state.notes, state.scratch.factor)
    large = large_of(state)
    off = _solve(model, state, large, closeness)
    _project(model, state, large, closeness, off)


@internal
def _solve(model: Model, state: State, large: Large, closeness: float) -> float:
    """Newton's steps with a stale inverse until theta_hat is certified; returns the bound."""
    gauges, counters, scratch, theta_hat = (
        state.gauges,
        state.counters,
        state.scratch,
        state.theta_hat,
    )
    notes, residual, step = large.notes, scratch.residual, scratch.step
    if not counters[VALID + FOR_THETA_HAT]:
        notes[LEAST] = _sum_means(model, state, FOR_THETA_HAT, theta_hat)
    last, steps, renewed = math.inf, 0, False
    to_length = math.sqrt(model.c / model.lam)  # ||x|| <= that times ||x||_V
    off = math.inf
    for _ in range(_MOST_STEPS):
        _set_residual(model, state, FOR_THETA_HAT, theta_hat)
        left = _size(state, residual) + to_length * gauges[LEAK]
        off = left / min(notes[LEAST], model.c)
        moves = gauges[LONGEST] * to_length * off
        # along the way to the root curvature falls by a factor e^s at most, s <= moves e^s
        off = off * math.exp(1.43 * moves) if moves <= 0.25 else math.inf
        size = norm(state.b) + norm(state.moments[FOR_THETA_HAT]) + model.lam * norm(theta_hat)
        if off <= closeness or left <= _ROUNDING * to_length * size:
            break
        if notes[MADE + NEWTON] == 0.0 or left > _SLOW * last:
            _renew_newton(model, state, large)
            renewed = True
        last = left
        steps += 1
        multiply_large(large.newton, residual, step)
        length = gauges[LONGEST] * norm(step)
        damped = math.log1p(length) / length if length > REACH else 1.0
        counters[DAMPED_STEPS] += damped < 1.0
        counters[NEWTON_STEPS] += 1
        add_scaled(theta_hat, damped, step)
        notes[LEAST] = _sum_means(model, state, FOR_THETA_HAT, theta_hat)
    if not renewed:
        _charge(model, state, large, NEWTON, steps, 1)
    gauges[DECREMENT] = math.sqrt(model.c) * off
    gauges[ERROR_BOUND] = to_length * off
    return off


@inlined
def _size(state: State, x: Floats) -> float:
    """||x||_{V^-1}, or a little more: the inverse that is kept lacks some of the ridge of V."""
    other = state.scratch.other
    multiply_large(state.P, x, other)
    return math.sqrt(max(state.notes[STRETCH] * dot(x, other), 0.0))


@inlined
def _set_residual(model: Model, state: State, which: int, point: Floats) -> None:
    """scratch.residual := b - g(point), at the point of which the sums are."""
    for j in range(model.d):
        sums = state.moments[which, 1 + j]
        state.scratch.residual[j] = state.b[j] - sums - model.lam * point[j]


# -- the projection --------------------------------------------------------------------------------


@internal
def _project(model: Model, state: State, large: Large, closeness: float, off: float) -> None:
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
    if from_last:
        _descend(model, state, large, closeness)
        from_last = not _radial_is_nearer(model, state, large)
    if not from_last:
        _set_radial(model, state)
        if model.projection == EXACT:
            _descend(model, state, large, closeness)


@inlined
def _set_radial(model: Model, state: State) -> None:
    length = norm(state.theta_hat)
    for j in range(model.d):
        state.theta[j] = state.theta_hat[j] * (model.S / length)
    state.counters[VALID + FOR_THETA] = 0


@internal
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


@internal
def _look(model: Model, state: State, large: Large) -> float:
    """||b - g(theta)||^2 in the norm of M^-1; scratch.residual, and scratch.step := u."""
    scratch, theta = state.scratch, state.theta
    if not state.counters[VALID + FOR_THETA]:
        _sum_means(model, state, FOR_THETA, theta)
    _set_residual(model, state, FOR_THETA, theta)
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
        solve(state.V2, large.norm, large.norm_notes, room, 1, False)
        copy(room.solutions[0], scratch.step)
    else:
        multiply_large(state.P, scratch.residual, scratch.step)
        for j in range(model.d):
            scratch.step[j] *= state.notes[STRETCH]


@internal
def _descend(model: Model, state: State, large: Large, closeness: float) -> None:
    """theta := a minimiser of ||b - g(theta)||_{M^-1} on the sphere, from where it is.

    Newton's steps along the sphere with a stale inverse. A step that does not descend is taken
    back, the inverse made anew, and the step then halved until it does.
    """
    counters, scratch, theta, notes = state.counters, state.scratch, state.theta, large.notes
    u, start, pull, off_sphere = scratch.step, scratch.start, scratch.pull, scratch.point
    best, shorten, last, steps, renewed = math.inf, 1.0, math.inf, 0, False
    for _ in range(_MOST_STEPS):
        reached = _look(model, state, large)
        counters[DESCENT_STEPS] += 1
        again = reached > best * (1.0 + 1e-7)
        if again:
            shorten *= 0.5
            copy(start, theta)
            counters[VALID + FOR_THETA] = 0
            _look(model, state, large)
        else:
            best = reached
            shorten = 1.0
        eta, notes[FURTHEST] = _sum_along(model, state, theta, u, pull)
        nu = max(dot(pull, theta), 0.0) / (model.S * model.S)
        strength = norm(pull)
        for j in range(model.d):
            pull[j] -= nu * theta[j]
        left = _size(state, pull)
        notes[NU], notes[NEAREST] = nu, best
        state.gauges[KKT_RESIDUAL] = norm(pull) / strength if strength > 0.0 else 0.0
        notes[OFF] = left / _curvature_on_sphere(model, state, eta, nu)
        if notes[OFF] <= closeness or state.gauges[KKT_RESIDUAL] <= _ROUNDING or shorten < 1e-6:
            break
        if notes[MADE + DESCENT] == 0.0 or shorten == 0.5 or left > _SLOW * last:
            copy(u, scratch.g)
            _renew_descent(model, state, large, scratch.g, nu)
            renewed = True
        last = left
        steps += 1
        copy(theta, start)
        _step_on_sphere(model, state, large, shorten, off_sphere)
        _sum_means(model, state, FOR_THETA, theta)
    if not renewed:
        _charge(model, state, large, DESCENT, steps, 2)


@inlined
def _curvature_on_sphere(model: Model, state: State, eta: float, nu: float) -> float:
    """h: J V^-1 J - eta J >= c (c - eta) V where eta <= 2 c, and I >= V / (its largest sum)."""
    largest = 0.0
    for i in range(model.d):
        total = 0.0
        for j in range(model.d):
            total += abs(state.V[i, j])
        largest = max(largest, total)
    bent = model.c * (model.c - eta) if eta <= 2.0 * model.c else -0.25 * eta * eta
    return max(bent + 0.5 * nu / largest, 0.01 * model.c * model.c)


@inlined
def _step_on_sphere(
    model: Model, state: State, large: Large, shorten: float, along: Floats
) -> None:
    """theta := the point of the sphere beyond a step in its tangent, pulled by scratch.pull."""
    other, theta = state.scratch.other, state.theta
    multiply_large(large.descent, state.scratch.pull, along)
    multiply_large(large.descent, theta, other)
    ratio = dot(theta, along) / dot(theta, other)
    for j in range(model.d):
        theta[j] += shorten * (along[j] - ratio * other[j])
    scale = model.S / norm(theta)
    for j in range(model.d):
        theta[j] *= scale
