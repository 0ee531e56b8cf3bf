"""Inverses of earlier curvatures, which follow the rows of a large model.

They only decide how fast steps converge. One that makes steps slow for so long that a new one would
have been cheaper is given up.

Notation (beyond solve.py)
--------
newton     (d, d)   near J(theta_hat)^-1, times what has faded since it was made
descent    (d, d)   near (J M^-1 J - bend + nu I)^-1
least      scalar   the smallest slope of the remembered rows at theta_hat
"""

from __future__ import annotations

import math

from driftbandits import links
from driftbandits.estimator import inverse
from driftbandits.estimator.model import DISCOUNT, Floats, Model
from driftbandits.estimator.passes import sum_curvature, sum_squared_curvature
from driftbandits.estimator.state import (
    HEAD,
    LEFT,
    PROJECTED,
    TAIL,
    Ints,
    Large,
    State,
    large_of,
)
from driftbandits.jit import inlined, internal, place
from driftbandits.linalg import (
    add_outer,
    cholesky_large,
    copy,
    copy_matrix,
    dot,
    inverse_large,
    multiply_large,
    multiply_rows,
)

# Notes of a large model; the first three are two each: of `newton` and of `descent`.
MADE, FEWEST, DEBT = map(place, range(0, 6, 2))
# A debt is the steps that were made beyond the fewest that a round took since the inverse was new.
NEWTON, DESCENT = map(place, range(2))
LEAST = place(6)
NU, FURTHEST, NEAREST = map(place, range(8, 11))  # nu, max|a.u| and ||b - g||^2_{M^-1} at theta
OFF = place(11)  # bound of ||theta - exact||_V
FADED = place(
    12
)  # and 13: what discounting has left of weights since `newton`, `descent` were made
ESTIMATED = place(14)  # 1 where that bound is an estimate and no proof

_FADED_AWAY = 1e-6


@internal
def follow_row(model: Model, state: State, weight: float) -> None:
    """Let the inverses know of scratch.row, which was added with this weight."""
    large, row = large_of(state), state.scratch.row
    z = dot(row, state.theta_hat)
    slope = links.slope(model.link, model.m, z)
    large.notes[LEAST] = min(large.notes[LEAST], slope)
    other = state.scratch.other
    share = weight * slope / large.notes[FADED]
    _add_to_inverse(large.newton, large.notes, NEWTON, share, row, other)
    if state.counters[PROJECTED] and model.memory != DISCOUNT:
        slope = links.slope(model.link, model.m, dot(row, state.theta))
        steep = weight * slope * slope
        _add_to_inverse(large.descent, large.notes, DESCENT, steep, row, other)
    if model.memory == DISCOUNT:
        square, scratch = weight * weight, state.scratch
        inverse.follow_row(
            state.V2, large.norm, large.norm_notes, square, row, scratch.step, scratch.point
        )


@internal
def _add_to_inverse(
    kept: Floats, notes: Floats, which: int, weight: float, row: Floats, product: Floats
) -> None:
    """(A + weight row row')^-1 from A^-1; given up where that is not positive."""
    if notes[MADE + which] == 0.0:
        return
    multiply_large(kept, row, product)
    share = 1.0 + weight * dot(row, product)
    if share > 0.01:
        add_outer(kept, -weight / share, product)
    else:
        notes[MADE + which] = 0.0


@inlined
def follow_decay(model: Model, state: State, decay: float, rounds: int) -> None:
    """Let the inverses know that all rows weigh less."""
    large = large_of(state)
    inverse.fade(large.norm_notes, decay * decay, model.lam / model.c, rounds)
    large.notes[FADED] *= decay
    if large.notes[FADED] < _FADED_AWAY:
        large.notes[MADE + NEWTON] = 0.0


@inlined
def share_inverse(state: State) -> None:
    """Note that V2 is V."""
    large = large_of(state)
    copy_matrix(state.P, large.norm)
    copy(state.notes, large.norm_notes)


@inlined
def charge(
    model: Model, counters: Ints, notes: Floats, which: int, steps: float, passes: int
) -> None:
    """Note the steps of a round, each of so many passes, and give up an inverse that costs more.

    A new one costs a pass with all products of two features, and a factorisation.
    """
    rows = float(counters[TAIL] - counters[HEAD])
    notes[FEWEST + which] = min(notes[FEWEST + which], max(steps, 1.0))
    notes[DEBT + which] += passes * max(steps - notes[FEWEST + which], 0.0)
    if notes[DEBT + which] * 4.0 * rows > model.d * (rows + 2.0 * model.d):
        notes[MADE + which] = 0.0


@inlined
def _note_new(notes: Floats, which: int) -> None:
    notes[MADE + which] = 1.0
    notes[FEWEST + which] = math.inf
    notes[DEBT + which] = 0.0


@internal
def _invert(J: Floats, ridge: float, factor: Floats, out: Floats) -> bool:
    """out := (J + ridge I)^-1, and whether that is positive; J and `factor` are used up."""
    for i in range(J.shape[0]):
        J[i, i] += ridge
    sound = cholesky_large(J, factor)
    if sound:
        inverse_large(factor, out)
    return sound


@inlined
def renew_newton(model: Model, state: State, large: Large) -> None:
    theta_hat, J = state.theta_hat, state.scratch.J
    sum_curvature(model, state.rows, state.counters, theta_hat, theta_hat, 1.0, 0.0, J)
    _invert(J, model.lam, state.scratch.factor, large.newton)
    _note_new(large.notes, NEWTON)
    large.notes[FADED] = 1.0


@inlined
def renew_descent(model: Model, state: State, large: Large, u: Floats, nu: float) -> None:
    if model.memory == DISCOUNT:
        _invert_as_defined(model, state, large, u, nu)
    else:
        J = state.scratch.J
        sum_squared_curvature(model, state.rows, state.counters, state.theta, u, J)
        _invert(J, model.lam * model.c + nu, state.scratch.factor, large.descent)
    _note_new(large.notes, DESCENT)


@internal
def _invert_as_defined(model: Model, state: State, large: Large, u: Floats, nu: float) -> None:
    """descent := (J M^-1 J - bend + nu I)^-1, or without bend where that is not positive.

    Where M is V, J M^-1 J is near sum w mu'^2 a a', to which rows can be added. Where rows are
    discounted it is not, but it hardly changes with a row: both J and M^-1 do.
    """
    rows, counters, scratch, theta = state.rows, state.counters, state.scratch, state.theta
    J, product, H = scratch.J, scratch.curvature, scratch.other_matrix
    sum_curvature(model, rows, counters, theta, u, 1.0, 0.0, J)
    for i in range(model.d):
        J[i, i] += model.lam
        for j in range(i):
            J[j, i] = J[i, j]
    cholesky_large(state.V2, scratch.factor)
    inverse_large(scratch.factor, scratch.inverse)
    multiply_rows(scratch.inverse, J, product)
    multiply_rows(J, product, H)
    bend = J
    sum_curvature(model, rows, counters, theta, u, 0.0, 1.0, bend)
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
    multiply_large(P, x, product)
    return math.sqrt(max(dot(x, product) / notes[LEFT], 0.0))


@inlined
def set_residual(lam: float, b: Floats, sums: Floats, point: Floats, residual: Floats) -> None:
    """residual := b - g(point), from the sums of means there."""
    for j in range(point.shape[0]):
        residual[j] = b[j] - sums[1 + j] - lam * point[j]
