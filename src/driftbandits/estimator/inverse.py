"""The inverse of a large design matrix, kept up to date as rows come and go.

A row that comes or leaves changes the inverse by a matrix of rank one (Sherman and Morrison 1950).
Discounting does not: it fades the rows but not the ridge, so every round adds a multiple of the
identity. What is kept is the inverse of the matrix without these additions since it was last
renewed. From there conjugate gradients lead to the true matrix: each step costs one product, for
the product of a direction with the matrix follows from the residual, and with a few per cent
of the ridge missing each step gains three digits or more, twice that in a quadratic form.

The inverse is made anew from the sums: when it is used after so many rounds that it has paid for
itself, when rounding may have added up, when a row that comes does not solve its own equation,
and when more than half of the ridge is missing.

Notation
--------
A          (d, d)   the design matrix
eps        scalar   the ridge that is missing, notes[MISSING]
P          (d, d)   stretch P = (A - eps I)^-1, stretch in notes[STRETCH]
notes      (d,)     what is known of P; d is large enough
"""

from __future__ import annotations

from typing import NamedTuple

from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import (
    AGE,
    BLUR,
    LEFT,
    MISSING,
    STALE,
    STRETCH,
    UPDATES,
    State,
)
from driftbandits.jit import inlined, internal
from driftbandits.linalg import (
    add_outer,
    add_scaled,
    cholesky_large,
    dot_large,
    inverse_large,
    multiply_large,
    multiply_rows,
)

BLOCK = 16
"""Rows that are solved at once; a matrix has at least so many."""

_ROUNDS_A_RENEWAL_PAYS_FOR = 16  # over the dimension: a renewal costs d products or so
_FEWEST_UPDATES = 200
_LEAST_LEFT = 0.5
_MOST_BLUR = 1e-12
_LARGEST_RESIDUAL = 1e-10
_MOST_SURE = 1e4  # by how much a row may sharpen: the digits of that are lost
_LEAST_SURE = 1e-2
_ROUNDING = 1e-16
_MOST_STEPS = 40
_FOR_SOLUTIONS = 1e-22
_FOR_SQUARES = 1e-12


@internal
def renew(A: Floats, P: Floats, notes: Floats, factor: Floats) -> bool:
    """P := A^-1; False when A is not numerically positive definite. `factor` is scratch."""
    sound = cholesky_large(A, factor)
    inverse_large(factor, P)
    begin(notes)
    return sound


@inlined
def begin(notes: Floats) -> None:
    """Note that P is the inverse."""
    for i in range(notes.shape[0]):
        notes[i] = 0.0
    notes[STRETCH] = 1.0
    notes[LEFT] = 1.0


@inlined
def fade(notes: Floats, decay: float, ridge: float, rounds: int) -> None:
    """Follow A := decay A + (1 - decay) ridge I."""
    notes[LEFT] *= decay
    notes[AGE] += rounds
    if notes[LEFT] < _LEAST_LEFT:
        notes[STALE] = 1.0
    else:
        notes[STRETCH] /= decay
        notes[MISSING] = decay * notes[MISSING] + (1.0 - decay) * ridge


@internal
def add_to_inverse(
    A: Floats, P: Floats, notes: Floats, weight: float, row: Floats, u: Floats, product: Floats
) -> None:
    """Follow A := A + weight row row', which is still to come. `u` and `product` are scratch."""
    if notes[STALE]:
        return
    stretch = notes[STRETCH]
    multiply_large(P, row, u)
    multiply_large(A, u, product)
    off, largest = 0.0, 0.0
    for j in range(row.shape[0]):
        off = max(off, abs(stretch * (product[j] - notes[MISSING] * u[j]) - row[j]))
        largest = max(largest, abs(row[j]))
    sharper = 1.0 + weight * stretch * dot_large(row, u)
    sound = off <= _LARGEST_RESIDUAL * largest and _LEAST_SURE < sharper < _MOST_SURE
    if not sound:
        notes[STALE] = 1.0
        return
    add_outer(P, -weight * stretch / sharper, u)
    notes[UPDATES] += 1.0
    notes[BLUR] += _ROUNDING * max(sharper, 1.0 / sharper)


@inlined
def is_due(notes: Floats) -> bool:
    """Whether P is to be made anew before it is used."""
    d = notes.shape[0]
    faded = notes[MISSING] > 0.0 and notes[AGE] * _ROUNDS_A_RENEWAL_PAYS_FOR >= d
    worn = notes[UPDATES] >= max(d, _FEWEST_UPDATES) or notes[BLUR] > _MOST_BLUR
    return bool(notes[STALE] > 0.0 or faded or worn)


class Room(NamedTuple):
    """What a block of rows is solved in."""

    rows: Floats  # what is solved for; each (BLOCK or more, d)
    solutions: Floats
    residuals: Floats
    steps: Floats
    directions: Floats
    images: Floats  # A times the directions
    squares: Floats  # row A^-1 row', one for each row
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
def solve(A: Floats, P: Floats, notes: Floats, room: Room, n: int, exactly: bool) -> bool:
    """room.squares, and exactly: room.solutions, of the first n of room.rows.

    False when P was to be made anew and A is not numerically positive definite.
    """
    sound = True
    if is_due(notes):
        sound = renew(A, P, notes, room.factor)
    if not _descend(P, notes, room, n, exactly):
        sound = renew(A, P, notes, room.factor)
        _descend(P, notes, room, n, exactly)
    return sound


@internal
def _descend(P: Floats, notes: Floats, room: Room, n: int, exactly: bool) -> bool:
    """Conjugate gradients, preconditioned with P; says whether they came to an end.

    For a direction p = z + beta p_before with z = P r, A p = r + eps z + beta A p_before.
    """
    d = notes.shape[0]
    residuals, steps, gains, missing = room.residuals, room.steps, room.gains, notes[MISSING]
    enough = _FOR_SOLUTIONS if exactly else _FOR_SQUARES
    for i in range(n):
        room.squares[i] = gains[i] = 0.0
        for j in range(d):
            residuals[i, j] = room.rows[i, j]
            room.solutions[i, j] = room.directions[i, j] = room.images[i, j] = 0.0
    for _ in range(_MOST_STEPS):
        multiply_rows(residuals[:n], P, steps[:n])
        done = True
        for i in range(n):
            gain = notes[STRETCH] * dot_large(residuals[i], steps[i])
            again = gain / gains[i] if gains[i] > 0.0 else 0.0
            gains[i] = gain
            _turn(room, i, notes[STRETCH], missing, again)
            against = dot_large(room.directions[i], room.images[i])
            if gain > 0.0 and against > 0.0:
                length = gain / against
                room.squares[i] += length * gain
                add_scaled(room.solutions[i], length, room.directions[i])
                add_scaled(residuals[i], -length, room.images[i])
                done = done and length * gain <= enough * room.squares[i]
        if done or missing == 0.0:
            return True
    return False


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
def solve_design(state: State, n: int, exactly: bool) -> bool:
    """As `solve`, with V of an estimator."""
    return solve(state.V, state.P, state.notes, room_in(state), n, exactly)
