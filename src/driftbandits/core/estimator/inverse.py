"""Inverses that a large model keeps: of its design matrix, and of earlier curvatures.

A row that comes or leaves changes the inverse by a matrix of rank one (Sherman and Morrison 1950).
Discounting does not: it fades the rows but not the ridge, so every round adds a multiple of the
identity. What is kept is the inverse of the matrix without these additions since it was last
renewed. From there conjugate gradients lead to the true matrix: each step costs one product, for
the product of a direction with the matrix follows from the residual, and with a few per cent
of the ridge missing each step gains two digits or more, twice that in a quadratic form.

The inverse is made anew from the sums: when enough rounds and enough of the ridge are gone, when
rounding may have added up, when a row that comes does not solve its own equation, and when more
than half of the ridge is missing (docs/decisions/04).

Inverses of earlier curvatures follow the rows as well. They only decide how fast steps converge.
One that makes steps slow for so long that a new one would have been cheaper is given up.

Notation
--------
V          (d, d)   the design matrix: V = left A + eps I
left       scalar   what discounting has left of weights since the renewal, notes[LEFT]
eps        scalar   the ridge that came in since then, notes[MISSING]
P          (d, d)   A^-1
notes      (d,)     what is known of P; d is large enough
newton     (d, d)   near J(theta_hat)^-1, times what has faded since it was made
descent    (d, d)   near (J M^-1 J - bend + nu I)^-1
least      scalar   the smallest slope of the remembered rows at theta_hat
"""

from __future__ import annotations

import math
from typing import NamedTuple

from driftbandits.core import linalg as la
from driftbandits.core import links
from driftbandits.core.estimator import state as at
from driftbandits.core.estimator.model import DISCOUNT, Floats, Model
from driftbandits.core.estimator.passes import BENDS, BENT_SQUARES, SLOPES, sum_curvature
from driftbandits.core.estimator.state import Ints, Large, State, large_of
from driftbandits.jit import inlined, internal

BLOCK = 16
"""Rows that are solved at once; a matrix has at least so many."""

_ROUNDS_A_RENEWAL_PAYS_FOR = 16  # over the dimension: a renewal costs d products or so
_MUCH_LEFT = 0.95
_LEAST_LEFT = 0.5
_FEWEST_UPDATES = 200
_UPDATES_A_CHECK = 8
_LARGEST_RESIDUAL = 1e-10
_MOST_SHARPER, _LEAST_SHARPER = 1e4, 1e-2  # a row that changes P by more costs too many digits
_MOST_BLUR = 1e-12
_ROUNDING = 1e-16
_MOST_STEPS = 40
FOR_SQUARES, FOR_DIRECTIONS, FOR_SOLUTIONS = 1e-10, 1e-20, 1e-24
"""Largest share of a square that a further step may add; solutions need twice the digits."""


@inlined
def _fade(notes: Floats, decay: float, ridge: float, rounds: int) -> None:
    """Follow V := decay V + (1 - decay) ridge I."""
    notes[at.LEFT] *= decay
    notes[at.MISSING] = decay * notes[at.MISSING] + (1.0 - decay) * ridge
    notes[at.AGE] += rounds
    if notes[at.LEFT] < _LEAST_LEFT:
        notes[at.STALE] = 1.0


@internal
def _follow_row_in(
    V: Floats, P: Floats, notes: Floats, weight: float, row: Floats, u: Floats, product: Floats
) -> None:
    """Follow V := V + weight row row', which is still to come. `u` and `product` are scratch."""
    if notes[at.STALE] > 0.0:
        return
    la.multiply_large(P, row, u)
    if notes[at.UPDATES] % _UPDATES_A_CHECK == 0.0:  # is A P row still the row?
        la.multiply_large(V, u, product)
        off, largest = 0.0, 0.0
        for j in range(row.shape[0]):
            image = (product[j] - notes[at.MISSING] * u[j]) / notes[at.LEFT]
            off = max(off, abs(image - row[j]))
            largest = max(largest, abs(row[j]))
        if not off <= _LARGEST_RESIDUAL * largest:
            notes[at.STALE] = 1.0
            return
    share = weight / notes[at.LEFT]
    sharper = 1.0 + share * la.dot_large(row, u)
    if not _LEAST_SHARPER < sharper < _MOST_SHARPER:
        notes[at.STALE] = 1.0
        return
    la.add_outer(P, -share / sharper, u)
    notes[at.UPDATES] += 1.0
    notes[at.BLUR] += _ROUNDING * max(sharper, 1.0 / sharper)


@inlined
def is_due(notes: Floats) -> bool:
    """Return whether P has to be made anew before it is used."""
    d = notes.shape[0]
    faded = notes[at.LEFT] < _MUCH_LEFT and notes[at.AGE] * _ROUNDS_A_RENEWAL_PAYS_FOR >= d
    worn = notes[at.UPDATES] >= max(d, _FEWEST_UPDATES) or notes[at.BLUR] > _MOST_BLUR
    return bool(notes[at.STALE] > 0.0 or faded or worn)


@inlined
def renew(V: Floats, P: Floats, notes: Floats, factor: Floats) -> bool:
    """P := V^-1; False when V is not numerically positive definite. `factor` is scratch."""
    sound = la.cholesky_large(V, factor)
    la.inverse_large(factor, P)
    for i in range(notes.shape[0]):
        notes[i] = 0.0
    notes[at.LEFT] = 1.0
    return sound


class Room(NamedTuple):
    """Arrays in which a block of rows is solved."""

    rows: Floats  # what is solved for; each (BLOCK or more, d)
    solutions: Floats
    residuals: Floats
    steps: Floats
    directions: Floats
    images: Floats  # V times the directions
    squares: Floats  # row V^-1 row', one for each row
    gains: Floats
    factor: Floats  # (d, d)


@inlined
def room_in(state: State) -> Room:
    """Room among what is scratch after a fit and before scores."""
    scratch = state.scratch
    return Room(
        scratch.quadratic,
        scratch.bonus,
        scratch.curvature,
        scratch.bend,
        scratch.other_matrix,
        scratch.inverse,
        scratch.slope,
        scratch.pull,
        scratch.factor,
    )


@internal
def solve(
    V: Floats, P: Floats, notes: Floats, room: Room, n: int, enough: float, enough_at_last: float
) -> bool:
    """room.squares and room.solutions of the first n of room.rows, as exact as `enough` says.

    The last row may have another exactness. False when P was to be made anew and V is not
    numerically positive definite.
    """
    sound = True
    if is_due(notes):
        sound = renew(V, P, notes, room.factor)
    if not _descend(P, notes, room, n, enough, enough_at_last):
        sound = renew(V, P, notes, room.factor)
        _descend(P, notes, room, n, enough, enough_at_last)
    return sound


@internal
def _descend(
    P: Floats, notes: Floats, room: Room, n: int, enough: float, enough_at_last: float
) -> bool:
    """Conjugate gradients, preconditioned with P; says whether they came to an end.

    For a direction p = z + beta p_before with left z = P r, V p = r + eps z + beta V p_before.
    """
    residuals, steps, gains = room.residuals, room.steps, room.gains
    stretch, missing = 1.0 / notes[at.LEFT], notes[at.MISSING]
    for i in range(n):
        room.squares[i] = 0.0
        gains[i] = math.inf
        for j in range(notes.shape[0]):
            residuals[i, j] = room.rows[i, j]
            room.solutions[i, j] = room.directions[i, j] = room.images[i, j] = 0.0
    for _ in range(_MOST_STEPS):
        la.multiply_rows(residuals[:n], P, steps[:n])
        going = False
        for i in range(n):
            if gains[i] > 0.0:  # each row stops on its own, whatever its neighbours
                share = enough if i < n - 1 else enough_at_last
                gains[i] = _step(room, i, stretch, missing, share)
                going = going or gains[i] > 0.0
        if not going:
            return True
    return False


@inlined
def _step(room: Room, i: int, stretch: float, missing: float, enough: float) -> float:
    """Take the next step of a row; returns its gain, or 0 where another would change too little.

    The gain of the next step is judged by the last two: gains fall at least geometrically.
    """
    directions, images, residuals = room.directions[i], room.images[i], room.residuals[i]
    before = room.gains[i]
    gain = stretch * la.dot_large(residuals, room.steps[i])
    again = gain / before
    for j in range(directions.shape[0]):
        step = stretch * room.steps[i, j]
        directions[j] = step + again * directions[j]
        images[j] = residuals[j] + missing * step + again * images[j]
    against = la.dot_large(directions, images)
    if not (gain > 0.0 and against > 0.0):
        return 0.0
    length = gain / against
    room.squares[i] += length * gain
    la.add_scaled(room.solutions[i], length, directions)
    la.add_scaled(residuals, -length, images)
    fall = gain / before if before < math.inf else 1.0
    is_last = missing == 0.0 or gain * fall <= enough * room.squares[i]
    return 0.0 if is_last else gain


@inlined
def solve_design(state: State, n: int, enough: float) -> bool:
    """Solve a block of rows with V of an estimator."""
    return solve_design_and_last(state, n, enough, enough)


@inlined
def solve_design_and_last(state: State, n: int, enough: float, enough_at_last: float) -> bool:
    """Solve a block of rows with V; the last row has another exactness."""
    return solve(state.V, state.P, state.notes, room_in(state), n, enough, enough_at_last)


# -- inverses of earlier curvatures ----------------------------------------------------------------

_FADED_AWAY = 1e-6


@internal
def follow_row(model: Model, state: State, weight: float) -> None:
    """Let the inverses know of scratch.row, which is about to be added with this weight."""
    scratch, row = state.scratch, state.scratch.row
    _follow_row_in(state.V, state.P, state.notes, weight, row, scratch.step, scratch.point)
    if model.order > 0:  # of a linear model that is all
        return
    large = large_of(state)
    slope = links.slope(model.link, model.m, la.dot(row, state.theta_hat))
    large.notes[at.LEAST] = min(large.notes[at.LEAST], slope)
    share = weight * slope / large.notes[at.FADED]
    _add_to_inverse(large.newton, large.notes, at.NEWTON, share, row, scratch.other)
    if state.counters[at.PROJECTED] and model.memory != DISCOUNT:
        slope = links.slope(model.link, model.m, la.dot(row, state.theta))
        steep = weight * slope * slope
        _add_to_inverse(large.descent, large.notes, at.DESCENT, steep, row, scratch.other)
    if model.memory == DISCOUNT:
        norm, notes, square = large.norm, large.norm_notes, weight * weight
        _follow_row_in(state.V2, norm, notes, square, row, scratch.step, scratch.point)


@internal
def _add_to_inverse(
    kept: Floats, notes: Floats, which: int, weight: float, row: Floats, product: Floats
) -> None:
    """(A + weight row row')^-1 from A^-1; given up where that is not positive."""
    if notes[at.MADE + which] == 0.0:
        return
    la.multiply_large(kept, row, product)
    share = 1.0 + weight * la.dot(row, product)
    if share > 0.01:
        la.add_outer(kept, -weight / share, product)
    else:
        notes[at.MADE + which] = 0.0


@inlined
def follow_decay(model: Model, state: State, decay: float, rounds: int) -> None:
    """Let the inverses know that all rows weigh less."""
    ridge = model.lam / model.c
    _fade(state.notes, decay, ridge, rounds)
    if model.order == 0:
        large = large_of(state)
        _fade(large.norm_notes, decay * decay, ridge, rounds)
        large.notes[at.FADED] *= decay
        if large.notes[at.FADED] < _FADED_AWAY:
            large.notes[at.MADE + at.NEWTON] = 0.0


@inlined
def share_inverse(state: State) -> None:
    """Note that V2 is V."""
    large = large_of(state)
    la.copy_matrix(state.P, large.norm)
    la.copy(state.notes, large.norm_notes)


@inlined
def charge(
    model: Model, counters: Ints, notes: Floats, which: int, steps: float, passes: int
) -> None:
    """Note the steps of a round, each of so many passes, and give up an inverse that costs more.

    A new one costs a pass with all products of two features, and a factorisation.
    """
    rows = float(counters[at.TAIL] - counters[at.HEAD])
    notes[at.FEWEST + which] = min(notes[at.FEWEST + which], max(steps, 1.0))
    notes[at.DEBT + which] += passes * max(steps - notes[at.FEWEST + which], 0.0)
    if notes[at.DEBT + which] * 4.0 * rows > model.d * (rows + 2.0 * model.d):
        notes[at.MADE + which] = 0.0


@inlined
def _note_new(notes: Floats, which: int) -> None:
    notes[at.MADE + which] = 1.0
    notes[at.FEWEST + which] = math.inf
    notes[at.DEBT + which] = 0.0


@internal
def _invert(J: Floats, ridge: float, factor: Floats, out: Floats) -> bool:
    """out := (J + ridge I)^-1, and whether that is positive; J and `factor` are used up."""
    for i in range(J.shape[0]):
        J[i, i] += ridge
    sound = la.cholesky_large(J, factor)
    if sound:
        la.inverse_large(factor, out)
    return sound


@inlined
def renew_newton(model: Model, state: State, large: Large) -> None:
    theta_hat, J = state.theta_hat, state.scratch.J
    sum_curvature(model, state, theta_hat, theta_hat, SLOPES, J)
    _invert(J, model.lam, state.scratch.factor, large.newton)
    _note_new(large.notes, at.NEWTON)
    large.notes[at.FADED] = 1.0


@inlined
def renew_descent(model: Model, state: State, large: Large, u: Floats, nu: float) -> None:
    if model.memory == DISCOUNT:
        _invert_as_defined(model, state, large, u, nu)
    else:
        J = state.scratch.J
        sum_curvature(model, state, state.theta, u, BENT_SQUARES, J)
        _invert(J, model.lam * model.c + nu, state.scratch.factor, large.descent)
    _note_new(large.notes, at.DESCENT)


@internal
def _invert_as_defined(model: Model, state: State, large: Large, u: Floats, nu: float) -> None:
    """descent := (J M^-1 J - bend + nu I)^-1, or without bend where that is not positive.

    Where M is V, J M^-1 J is near sum w mu'^2 a a', to which rows can be added. Where rows are
    discounted it is not, but it hardly changes with a row: both J and M^-1 do.
    """
    scratch, theta = state.scratch, state.theta
    J, product, H = scratch.J, scratch.curvature, scratch.other_matrix
    sum_curvature(model, state, theta, u, SLOPES, J)
    for i in range(model.d):
        J[i, i] += model.lam
        for j in range(i):
            J[j, i] = J[i, j]
    la.cholesky_large(state.V2, scratch.factor)
    la.inverse_large(scratch.factor, scratch.inverse)
    la.multiply_rows(scratch.inverse, J, product)
    la.multiply_rows(J, product, H)
    bend = J
    sum_curvature(model, state, theta, u, BENDS, bend)
    for i in range(model.d):
        for j in range(i + 1):
            H[i, j] -= bend[i, j]
    if not _invert(H, nu, scratch.factor, large.descent):
        for i in range(model.d):
            for j in range(i + 1):
                H[i, j] += bend[i, j]
        _invert(H, 0.0, scratch.factor, large.descent)


@inlined
def size_of(x: Floats, P: Floats, notes: Floats, product: Floats) -> float:
    """||x||_{V^-1}, or a little more: the inverse that is kept lacks some of the ridge of V."""
    la.multiply_large(P, x, product)
    return math.sqrt(max(la.dot(x, product) / notes[at.LEFT], 0.0))


@inlined
def set_residual(lam: float, b: Floats, sums: Floats, point: Floats, residual: Floats) -> None:
    """residual := b - g(point), from the sums of means there."""
    for j in range(point.shape[0]):
        residual[j] = b[j] - sums[1 + j] - lam * point[j]
