"""The filters of a pool: Gaussian beliefs that forget at different speeds.

Each is a recursive Laplace approximation. See pool.py for the notation.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from driftbandits import links
from driftbandits.estimator import Model, State
from driftbandits.estimator.inverse import (
    FOR_DIRECTIONS,
    add_to_inverse,
    begin,
    check,
    room_in,
    settle,
    solve,
    wants_check,
)
from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import (
    LEFT,
    STALE,
    Ints,
    layout_beyond,
)
from driftbandits.jit import Share, inlined, internal
from driftbandits.linalg import (
    add_outer,
    add_scaled,
    backward_solve,
    cholesky,
    copy,
    dot,
    forward_solve,
    multiply_large,
    set_to_identity,
)

MEMORIES = (math.inf, 2000.0, 500.0, 125.0, 30.0)
"""Rounds that the filters remember, each a quarter of the one before."""
KEPT_ROUNDS = 2000
"""How far back a change may be found."""

FILTERS = len(MEMORIES)
FORECASTS = 2 * FILTERS - 2  # the filters, and the lines through neighbours that forget
MIXTURES = 2
DISCOUNTS = np.array([1.0 - 1.0 / n for n in MEMORIES])
_MOST_ROOT_STEPS = 60
_QUICK_ROOT_STEPS = 8
_FARTHEST = 60.0
_ROOT_TOLERANCE = 1e-12


class Pool(NamedTuple):
    """The filters, their weights, and room for what they say of one reward."""

    since: Annotated[Ints, Share("counters", FILTERS)]  # the round before which C_j was last 0
    ridge: Annotated[Floats, Share("gauges")]
    spread: Annotated[Floats, Share("gauges")]
    expected_spread: Annotated[Floats, Share("gauges")]
    weights: Annotated[Floats, Share("gauges", MIXTURES * FORECASTS)]
    trust: Annotated[Floats, Share("gauges", MIXTURES)]
    lead: Annotated[Floats, Share("gauges", FILTERS)]  # C_j
    forecast: Annotated[Floats, Share("gauges", FILTERS)]  # a . theta_j
    doubt: Annotated[Floats, Share("gauges", FILTERS)]  # q of filter j
    evidence: Annotated[Floats, Share("gauges", FORECASTS)]
    theta: Annotated[Floats, Share("vectors", FILTERS)]
    precision: Annotated[Floats, Share("matrices", FILTERS)]  # of large models A, see inverse.py
    # of large models alone
    notes: Annotated[Floats, Share("vectors", FILTERS)]
    inverse: Annotated[Floats, Share("matrices", FILTERS)]


LAYOUT = layout_beyond(Pool)


@internal
def empty(model: Model, pool: Pool, j: int) -> None:
    for i in range(model.d):
        pool.theta[j, i] = 0.0
    set_to_identity(pool.precision[j], pool.ridge[0])
    if model.fast:
        set_to_identity(pool.inverse[j], 1.0 / pool.ridge[0])
        begin(pool.notes[j])


@internal
def settled(model: Model, reward: float, z: float, q: float, weight: float) -> float:
    """The root t of t = weight (X - mu(z + q t)): the reward moves theta_j by t Lambda_j^-1 a.

    Newton's method within the bracket that the monotone mu gives, which is halved now and then
    where it does not get on: where q is large it may go to and fro between the flat ends of mu.
    """
    surprise = weight * (reward - links.mean(model.link, model.m, z))
    low, high = min(surprise, 0.0), max(surprise, 0.0)
    if not model.linear and q > 0.0:  # the mode is no farther out than mu can be told there
        low, high = max(low, (-_FARTHEST - z) / q), min(high, (_FARTHEST - z) / q)
    t: float = surprise / (1.0 + q * weight * links.slope(model.link, model.m, z))
    for step_number in range(_MOST_ROOT_STEPS):
        rise = t - weight * (reward - links.mean(model.link, model.m, z + q * t))
        if rise > 0.0:
            high = t
        else:
            low = t
        step = rise / (1.0 + q * weight * links.slope(model.link, model.m, z + q * t))
        if not math.isfinite(step):  # mu is beyond the range of a double there
            t = 0.5 * (low + high)
            continue
        if abs(step) <= _ROOT_TOLERANCE * model.m:
            break
        t -= step
        is_slow = step_number >= _QUICK_ROOT_STEPS and step_number % 2 == 0
        if is_slow or not low < t < high:
            t = 0.5 * (low + high)
    return t


@internal
def evidence(model: Model, reward: float, z: float, q: float, phi: float) -> float:
    """Log-likelihood of a reward whose a.theta is believed N(z, phi q), by Laplace's method."""
    return evidence_at(model, reward, z, q, phi, settled(model, reward, z, q, 1.0))


@internal
def evidence_at(model: Model, reward: float, z: float, q: float, phi: float, t: float) -> float:
    """The same where the root is known; 0 while nobody knows how rewards are dispersed."""
    if phi == 0.0:
        return 0.0
    mode = z + q * t
    fit: float = reward * mode - links.log_partition(model.link, model.m, mode) - 0.5 * q * t * t
    return fit / phi - 0.5 * math.log1p(q * links.slope(model.link, model.m, mode))


@internal
def predict(model: Model, state: State, pool: Pool, j: int, reward: float, phi: float) -> None:
    """What filter j says of scratch.row, and how well the reward agrees with it.

    scratch.step := Lambda_j^-1 a, along which the reward moves the filter.
    """
    row, step, factor = state.scratch.row, state.scratch.step, state.scratch.factor
    if model.fast:
        room = room_in(state)
        copy(row, room.rows[0])
        solve(pool.precision[j], False, pool.inverse[j], pool.notes[j], room, 1, FOR_DIRECTIONS)
        copy(room.solutions[0], step)
        pool.doubt[j] = room.squares[0]
    else:
        cholesky(pool.precision[j], factor)
        copy(row, step)
        forward_solve(factor, step)
        pool.doubt[j] = dot(step, step)
        backward_solve(factor, step)
    pool.forecast[j] = dot(row, pool.theta[j])
    pool.evidence[j] = evidence(model, reward, pool.forecast[j], pool.doubt[j], phi)


@internal
def update(model: Model, state: State, pool: Pool, j: int, reward: float, weight: float) -> None:
    """Move filter j along scratch.step to the mode, after `predict`."""
    z, q = pool.forecast[j], pool.doubt[j]
    t = settled(model, reward, z, q, weight)
    add_scaled(pool.theta[j], t, state.scratch.step)
    slope = weight * links.slope(model.link, model.m, z + q * t)
    if model.fast:
        _sharpen(state, pool, j, slope)
    else:
        add_outer(pool.precision[j], slope, state.scratch.row)


@inlined
def _sharpen(state: State, pool: Pool, j: int, slope: float) -> None:
    """Lambda_j := Lambda_j + slope a a' for scratch.row, and its inverse, after `predict`."""
    A, notes, row = pool.precision[j], pool.notes[j], state.scratch.row
    u, product = room_in(state).first, state.scratch.start
    if wants_check(notes):
        multiply_large(A, u, product)
        check(notes, row, product)
    add_to_inverse(pool.inverse[j], notes, slope, row, u)
    if notes[STALE] > 0.0:
        settle(A, notes)
    add_outer(A, slope / notes[LEFT], row)
