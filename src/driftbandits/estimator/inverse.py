"""The inverse of a large design matrix, kept up to date as rows come and go.

A row that comes or leaves changes the inverse by a matrix of rank one (Sherman and Morrison 1950).
Discounting does not: it fades the rows but not the ridge, so every round adds a multiple of the
identity. What is kept is the inverse of the matrix without these additions since it was last
renewed. From there conjugate gradients lead to the true matrix: each step costs one product, for
the product of a direction with the matrix follows from the residual, and with a few per cent
of the ridge missing each step gains two digits or more, twice that in a quadratic form.

The inverse is made anew from the sums: when enough rounds and enough of the ridge are gone, when
rounding may have added up, when a row that comes does not solve its own equation, and when more
than half of the ridge is missing (docs/decisions/0016).

Notation
--------
V          (d, d)   the design matrix: V = left A + eps I
left       scalar   what discounting has left of weights since the renewal, notes[LEFT]
eps        scalar   the ridge that came in since then, notes[MISSING]
P          (d, d)   A^-1
notes      (d,)     what is known of P; d is large enough
"""

from __future__ import annotations

import math
from typing import NamedTuple

from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import (
    AGE,
    BLUR,
    LEFT,
    MISSING,
    STALE,
    UPDATES,
    State,
)
from driftbandits.jit import inlined, internal
from driftbandits.linalg import (
    add_outer,
    add_scaled,
    cholesky_large,
    copy,
    dot_large,
    inverse_large,
    multiply_large,
    multiply_rows,
)

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
"""Which share of a square a further step may add: twice the digits for what is solved itself."""


@inlined
def begin(notes: Floats) -> None:
    """Note that P is the inverse."""
    for i in range(notes.shape[0]):
        notes[i] = 0.0
    notes[LEFT] = 1.0


@inlined
def fade(notes: Floats, decay: float, ridge: float, rounds: int) -> None:
    """Follow V := decay V + (1 - decay) ridge I."""
    notes[LEFT] *= decay
    notes[MISSING] = decay * notes[MISSING] + (1.0 - decay) * ridge
    notes[AGE] += rounds
    if notes[LEFT] < _LEAST_LEFT:
        notes[STALE] = 1.0


@inlined
def settle(A: Floats, notes: Floats) -> None:
    """A := left A + eps I, where A is stored instead of V; P is then out of date."""
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            A[i, j] *= notes[LEFT]
        A[i, i] += notes[MISSING]
    notes[LEFT] = 1.0
    notes[MISSING] = 0.0
    notes[STALE] = 1.0


@inlined
def wants_check(notes: Floats) -> bool:
    """Whether the next row is to be solved for as a test of P."""
    return bool(notes[UPDATES] % _UPDATES_A_CHECK == 0.0)


@inlined
def check(notes: Floats, row: Floats, product: Floats) -> None:
    """Give P up if A P row, in `product`, is not the row."""
    off, largest = 0.0, 0.0
    for j in range(row.shape[0]):
        off = max(off, abs(product[j] - row[j]))
        largest = max(largest, abs(row[j]))
    if not off <= _LARGEST_RESIDUAL * largest:
        notes[STALE] = 1.0


@inlined
def add_to_inverse(P: Floats, notes: Floats, weight: float, row: Floats, u: Floats) -> None:
    """Follow V := V + weight row row', where u = P row."""
    share = weight / notes[LEFT]
    sharper = 1.0 + share * dot_large(row, u)
    if notes[STALE] > 0.0 or not _LEAST_SHARPER < sharper < _MOST_SHARPER:
        notes[STALE] = 1.0
        return
    add_outer(P, -share / sharper, u)
    notes[UPDATES] += 1.0
    notes[BLUR] += _ROUNDING * max(sharper, 1.0 / sharper)


@internal
def follow_row(
    V: Floats, P: Floats, notes: Floats, weight: float, row: Floats, u: Floats, product: Floats
) -> None:
    """Follow V := V + weight row row', which is still to come. `u` and `product` are scratch."""
    if notes[STALE] > 0.0:
        return
    multiply_large(P, row, u)
    if wants_check(notes):
        multiply_large(V, u, product)
        for j in range(row.shape[0]):
            product[j] = (product[j] - notes[MISSING] * u[j]) / notes[LEFT]
        check(notes, row, product)
    add_to_inverse(P, notes, weight, row, u)


@inlined
def add_to_design_inverse(state: State, weight: float) -> None:
    """Follow V of an estimator, to which scratch.row is still to be added."""
    scratch = state.scratch
    follow_row(state.V, state.P, state.notes, weight, scratch.row, scratch.step, scratch.point)


@inlined
def is_due(notes: Floats) -> bool:
    """Whether P is to be made anew before it is used."""
    d = notes.shape[0]
    faded = notes[LEFT] < _MUCH_LEFT and notes[AGE] * _ROUNDS_A_RENEWAL_PAYS_FOR >= d
    worn = notes[UPDATES] >= max(d, _FEWEST_UPDATES) or notes[BLUR] > _MOST_BLUR
    return bool(notes[STALE] > 0.0 or faded or worn)


@inlined
def renew(A: Floats, is_V: bool, P: Floats, notes: Floats, factor: Floats) -> bool:
    """P := V^-1; False when V is not numerically positive definite. `factor` is scratch."""
    if not is_V:
        settle(A, notes)
    sound = cholesky_large(A, factor)
    inverse_large(factor, P)
    begin(notes)
    return sound


class Room(NamedTuple):
    """What a block of rows is solved in."""

    rows: Floats  # what is solved for; each (BLOCK or more, d)
    solutions: Floats
    residuals: Floats
    steps: Floats
    directions: Floats
    images: Floats  # V times the directions
    squares: Floats  # row V^-1 row', one for each row
    gains: Floats
    first: Floats  # P times the first row
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
        scratch.point,
        scratch.factor,
    )


@inlined
def solve(
    A: Floats, is_V: bool, P: Floats, notes: Floats, room: Room, n: int, enough: float
) -> bool:
    """room.squares and room.solutions of the first n of room.rows, as exact as `enough` says.

    By A, or V in its place. False when P was to be made anew and V is not numerically positive
    definite.
    """
    return _solve(A, is_V, P, notes, room, n, enough, enough)


@internal
def _solve(
    A: Floats,
    is_V: bool,
    P: Floats,
    notes: Floats,
    room: Room,
    n: int,
    enough: float,
    enough_at_last: float,
) -> bool:
    """As `solve`; the last of the rows may be asked for another exactness."""
    sound = True
    if is_due(notes):
        sound = renew(A, is_V, P, notes, room.factor)
    if not _descend(P, notes, room, n, enough, enough_at_last):
        sound = renew(A, is_V, P, notes, room.factor)
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
    stretch, missing = 1.0 / notes[LEFT], notes[MISSING]
    for i in range(n):
        room.squares[i] = 0.0
        gains[i] = math.inf
        for j in range(notes.shape[0]):
            residuals[i, j] = room.rows[i, j]
            room.solutions[i, j] = room.directions[i, j] = room.images[i, j] = 0.0
    first = True
    for _ in range(_MOST_STEPS):
        multiply_rows(residuals[:n], P, steps[:n])
        if first:
            copy(steps[0], room.first)
            first = False
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
    gain = stretch * dot_large(residuals, room.steps[i])
    _turn(room, i, stretch, missing, gain / before)
    against = dot_large(directions, images)
    if not (gain > 0.0 and against > 0.0):
        return 0.0
    length = gain / against
    room.squares[i] += length * gain
    add_scaled(room.solutions[i], length, directions)
    add_scaled(residuals, -length, images)
    fall = gain / before if before < math.inf else 1.0
    is_last = missing == 0.0 or gain * fall <= enough * room.squares[i]
    return 0.0 if is_last else gain


@inlined
def _turn(room: Room, i: int, stretch: float, missing: float, again: float) -> None:
    """The next direction of a row, and its image."""
    steps, directions, images = room.steps[i], room.directions[i], room.images[i]
    residuals = room.residuals[i]
    for j in range(steps.shape[0]):
        step = stretch * steps[j]
        directions[j] = step + again * directions[j]
        images[j] = residuals[j] + missing * step + again * images[j]


@inlined
def solve_design(state: State, n: int, enough: float) -> bool:
    """As `solve`, with V of an estimator."""
    return solve(state.V, True, state.P, state.notes, room_in(state), n, enough)


@inlined
def solve_design_and_last(state: State, n: int, enough: float, enough_at_last: float) -> bool:
    """As `solve_design`; the last of the rows is asked for another exactness."""
    room = room_in(state)
    return _solve(state.V, True, state.P, state.notes, room, n, enough, enough_at_last)
