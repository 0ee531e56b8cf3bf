"""Make scores from an estimate: actions as the model sees them, their means and widths.

Notation (beyond estimator/state.py)
--------
A_t        (K, d)   the actions of round t = N + 1; K may differ in every round
rho        scalar   radius of the confidence bound     eq_rho_SW, eq_rho_D
bonus      (d, d)   matrix of the bonus norm: V^-1, or W^-1 W~ W^-1 for D-LinUCB
table      (TABLE_ROWS, K)   means = centre + mu(a . theta), widths = bonus_scale rho ||a||, scores
                    = their sum, the scores again as picks use them up, and one for a belief
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from driftbandits.core import (
    Confidence,
    Model,
    bonus_radius,
    depends_on_inside,
    links,
    rows_that_count,
)
from driftbandits.core import linalg as la
from driftbandits.core.estimator.inverse import (
    BLOCK,
    FOR_DIRECTIONS,
    FOR_SOLUTIONS,
    FOR_SQUARES,
    room_in,
    solve_design,
    solve_design_and_last,
)
from driftbandits.core.estimator.model import DISCOUNT, MODEL_SIZE, Floats, for_large
from driftbandits.core.estimator.solve import take_ridge
from driftbandits.core.estimator.state import BEGUN, FITTED, RADIUS, SPAN, N, State
from driftbandits.jit import compiled, inlined, internal, place, reader_of

R = TypeVar("R")

UCB, GREEDY, CONSTANT, OPTIMISTIC = 0, 1, 2, 3
SCALED, POSTERIOR, PERTURBED, WEIGHTED, AUGMENTED = 4, 5, 6, 7, 8
SCORES = (UCB, GREEDY, CONSTANT, OPTIMISTIC, SCALED, POSTERIOR, PERTURBED, WEIGHTED, AUGMENTED)
"""Ways to make a score of an estimate. From SCALED on they draw at random, see sampling.py."""
SAMPLED = (POSTERIOR, PERTURBED, AUGMENTED)
"""The scores that draw a parameter."""

ACCEPTED, NOT_FINITE, TOO_LONG = map(place, range(3))
"""Answers to whether a set of actions may be used."""

TABLE_ROWS = 5
_NONE = 0  # of ADAPTATIONS
CLOSE = 1e-4
"""Largest error of a score of a large model, as a share of its width."""


class Scoring(NamedTuple):
    """The numbers that turn an estimate into scores."""

    dim: int  # of the actions as they come, without the intercept
    adaptation: int  # what changes the memory, see policies/adaptations
    score: int
    bonus_scale: float
    epsilon: float
    centre: float
    longest: float  # L of the actions as they come
    longest_square: float  # with the tolerance
    rescale: int  # factor longer actions instead of refusing them
    sandwiched: int  # the bonus norm is W^-1 W~ W^-1
    one_matrix: int  # W~ is W
    project_in_curvature: int
    period: int  # rounds after which everything is forgotten; 0: never
    votes: int  # samples of a parameter, see sampling.py
    measured: int  # the rows that count are measured, whatever the clock counts
    kl: int  # the width is that of a mean of rewards in [0, m], by their divergence
    radius_given: int  # by the adaptation, in the gauge RADIUS


def by_size(large: Callable[..., R], small: Callable[..., R]) -> Callable[..., R]:
    """Make a kernel of a model and arguments, which it hands to one of two by the model's size."""

    @inlined
    def either(model: Model, *arguments: Any) -> R:
        return large(*arguments) if model.fast else small(*arguments)

    return either


class Opened(NamedTuple):
    """The numbers and arrays behind a handle, by name."""

    numbers: Floats
    model: Model
    scoring: Scoring
    confidence: Confidence
    state: State


scoring_of = reader_of(Scoring, first=MODEL_SIZE)
_BEFORE_CONFIDENCE = MODEL_SIZE + len(Scoring._fields)
confidence_of = reader_of(Confidence, first=_BEFORE_CONFIDENCE)
OWN_NUMBERS = _BEFORE_CONFIDENCE + len(Confidence._fields)
"""The place of the first number of what adapts the memory."""


@inlined
def set_radius(
    model: Model, scoring: Scoring, confidence: Confidence, state: State, number: int
) -> None:
    """Set the factor of the norm in the next decision's widths; `number` as in `decide`.

    Where the clock counts no decisions it cannot say how many rows count. Their squared weights
    are then measured: the deviation needs them only to bound a determinant by the trace.
    """
    state.gauges[RADIUS] = scoring.bonus_scale * _radius(model, scoring, confidence, state, number)


@inlined
def _radius(
    model: Model, scoring: Scoring, confidence: Confidence, state: State, number: int
) -> float:
    if scoring.score in (GREEDY, CONSTANT, WEIGHTED):
        return 0.0
    if scoring.radius_given:
        return float(state.gauges[RADIUS])
    counters = state.counters
    t = float(number)
    if number == 0 and not scoring.measured:
        t = counters[N] - counters[BEGUN] + 1.0
        n = rows_that_count(confidence, t, counters[SPAN])
    else:
        n = measured_rows(model, confidence, state.V2 if model.memory == DISCOUNT else state.V)
    inside = depends_on_inside(confidence) and la.norm(state.theta_hat) <= model.S
    return bonus_radius(confidence, t, n, inside)


@inlined
def _of_large(model: Model, scoring: Scoring, confidence: Confidence, state: State) -> float:
    """Return how far theta may be from the exact one in the norm of V, for scores as near.

    A mean is off by at most k ||a||_{V^-1} ||theta - exact||_V. The radius is bounded from below:
    a reward counts as much as its action is long. Without a bonus it counts as 1. Widths of samples
    are measured by J <= k V.
    """
    if model.linear:
        return 0.0
    wide = scoring.bonus_scale
    if scoring.score in (GREEDY, CONSTANT) or wide == 0.0:
        wide = 1.0
    else:
        t = state.counters[N] - state.counters[BEGUN] + 1.0
        n = measured_rows(model, confidence, state.V2 if model.memory == DISCOUNT else state.V)
        wide *= bonus_radius(confidence, t, n, True)
    if scoring.score in SAMPLED:
        wide /= max(confidence.k, 1.0)
    return CLOSE * wide / confidence.k


@inlined
def _of_small(model: Model, scoring: Scoring, confidence: Confidence, state: State) -> float:
    return 0.0  # they have a tolerance of their own


closeness = for_large(_of_large, _of_small)


@inlined
def measured_rows(model: Model, confidence: Confidence, design: Floats) -> float:
    """Squared weights of the rows in a design matrix, as if all were as long as L."""
    n = -model.d * model.lam / model.c
    for i in range(model.d):
        n += design[i, i]
    return max(n, 0.0) / (confidence.L * confidence.L)


@inlined
def _no_bonus_matrix(model: Model, scoring: Scoring, state: State) -> None:
    pass  # norms are measured by the inverse that is kept


@inlined
def _make_bonus_matrix(model: Model, scoring: Scoring, state: State) -> None:
    scratch = state.scratch
    la.cholesky(state.V, scratch.factor)
    if scoring.sandwiched:
        la.inverse(scratch.factor, scratch.inverse)
        la.sandwich(scratch.inverse, state.V2, scratch.other_matrix, scratch.bonus)
    else:
        la.inverse(scratch.factor, scratch.bonus)


make_bonus_matrix = for_large(_no_bonus_matrix, _make_bonus_matrix)


@inlined
def scale_factor(scoring: Scoring, actions: Floats, i: int) -> float:
    """Return the factor of action i: 1, or less where longer actions are rescaled.

    Below 0: why an action may not be used.
    """
    total = 0.0
    for j in range(scoring.dim):
        total += actions[i, j] * actions[i, j]
    if total <= scoring.longest_square:
        return 1.0
    largest = 0.0  # by which coordinates are divided, since their squares may overflow
    for j in range(scoring.dim):
        if not math.isfinite(actions[i, j]):
            return -float(NOT_FINITE)
        largest = max(largest, abs(actions[i, j]))
    if not scoring.rescale:
        return -float(TOO_LONG)
    total = 0.0
    for j in range(scoring.dim):
        total += (actions[i, j] / largest) ** 2
    return scoring.longest / (largest * math.sqrt(total))


@inlined
def validity(scoring: Scoring, actions: Floats) -> int:
    """ACCEPTED, or why a set of actions may not be used."""
    for i in range(actions.shape[0]):
        factor = scale_factor(scoring, actions, i)
        if factor < 0.0:
            return int(-factor)
    return ACCEPTED


@inlined
def feature(scoring: Scoring, actions: Floats, i: int, j: int, factor: float) -> float:
    """Coordinate j of action i as the model sees it."""
    return factor * float(actions[i, j]) if j < scoring.dim else 1.0


@inlined
def write_row(scoring: Scoring, actions: Floats, i: int, row: Floats) -> None:
    """row := action i as the model sees it."""
    factor = scale_factor(scoring, actions, i)
    for j in range(row.shape[0]):
        row[j] = feature(scoring, actions, i, j, factor)


@inlined
def _estimate_and_measure(
    model: Model, scoring: Scoring, state: State, actions: Floats, table: Floats
) -> int:
    """theta_hat, and row 3 of `table` for the first actions; says how many, 0 where it is not done.

    Both are solved for by conjugate gradients where a linear model discounts: together they read
    the inverse half as often.
    """
    together = model.linear and model.memory == DISCOUNT and not state.counters[FITTED]
    # what adapts the memory, begins a period or has no V2 of its own changes V or V2 before a fit
    settled = scoring.adaptation == _NONE and scoring.period == 0 and not scoring.one_matrix
    if not (together and settled and scoring.score in (UCB, SCALED)):
        return 0
    room = room_in(state)
    n = _load_block(scoring, actions[: BLOCK - 1], 0, room.rows)
    la.copy(state.b, room.rows[n])
    solve_design_and_last(state, n + 1, _enough_for(scoring), FOR_SOLUTIONS)
    take_ridge(model, state, room.solutions[n])
    _set_squares(scoring, state, 0, n, table)
    return n


@inlined
def _measure_nothing(
    model: Model, scoring: Scoring, state: State, actions: Floats, table: Floats
) -> int:
    return 0


estimate_and_measure = for_large(_estimate_and_measure, _measure_nothing)


@internal
def _measure(
    model: Model, scoring: Scoring, state: State, first: int, actions: Floats, table: Floats
) -> None:
    """Row 3 of `table`: squared norms of the actions of a large model from one on, in blocks.

    By the matrix in scratch.bonus where samples have made one, else by the inverse that is kept.
    """
    room = room_in(state)
    for start in range(first, actions.shape[0], BLOCK):
        n = _load_block(scoring, actions, start, room.rows)
        if scoring.score in SAMPLED:
            la.multiply_rows(room.rows[:n], state.scratch.bonus, room.steps[:n])
            for i in range(n):
                table[3, start + i] = la.dot_large(room.rows[i], room.steps[i])
        elif scoring.score in (GREEDY, WEIGHTED):
            for i in range(n):
                table[3, start + i] = 0.0
        else:
            solve_design(state, n, _enough_for(scoring))
            _set_squares(scoring, state, start, n, table)


@inlined
def _enough_for(scoring: Scoring) -> float:
    return FOR_DIRECTIONS if scoring.sandwiched else FOR_SQUARES


@inlined
def _set_squares(scoring: Scoring, state: State, start: int, n: int, table: Floats) -> None:
    """Row 3 of `table` from `start` on: squared norms of the n actions that were solved for."""
    room = room_in(state)
    if scoring.sandwiched:
        la.multiply_rows(room.solutions[:n], state.V2, room.steps[:n])
    for i in range(n):
        square = room.squares[i]
        if scoring.sandwiched:
            square = la.dot_large(room.solutions[i], room.steps[i])
        table[3, start + i] = square


@inlined
def _load_block(scoring: Scoring, actions: Floats, start: int, rows: Floats) -> int:
    """rows := the next actions as the model sees them; says how many."""
    n = int(min(BLOCK, actions.shape[0] - start))
    for i in range(n):
        write_row(scoring, actions, start + i, rows[i])
    return n


@inlined
def _score_small(
    model: Model, scoring: Scoring, state: State, measured: int, actions: Floats, table: Floats
) -> None:
    """Rows of `table`: means, widths and scores of usable actions, after `set_radius`."""
    theta, bonus = state.theta, state.scratch.bonus
    for i in range(actions.shape[0]):
        if scoring.score == CONSTANT:
            table[0, i] = table[1, i] = table[2, i] = 0.0
        else:
            factor = scale_factor(scoring, actions, i)
            z, square = 0.0, 0.0
            for j in range(model.d):
                a = feature(scoring, actions, i, j, factor)
                z += a * theta[j]
                along = 0.5 * a * bonus[j, j]
                for k in range(j):
                    along += feature(scoring, actions, i, k, factor) * bonus[j, k]
                square += 2.0 * a * along
            _set_score(model, scoring, state, z, square, table, i)


@inlined
def _score_large(
    model: Model, scoring: Scoring, state: State, measured: int, actions: Floats, table: Floats
) -> None:
    """The same, where norms of so many actions are measured already."""
    if scoring.score == CONSTANT:
        table[:3] = 0.0
    else:
        _measure(model, scoring, state, measured, actions, table)
        for i in range(actions.shape[0]):
            factor = scale_factor(scoring, actions, i)
            z = 0.0
            for j in range(model.d):
                z += feature(scoring, actions, i, j, factor) * state.theta[j]
            _set_score(model, scoring, state, z, table[3, i], table, i)


score = for_large(_score_large, _score_small)


@inlined
def _set_score(
    model: Model, scoring: Scoring, state: State, z: float, square: float, table: Floats, i: int
) -> None:
    """The mean, width and score of action i, from a . theta and its squared norm."""
    mean, wide = scoring.centre + links.mean(model.link, model.m, z), state.gauges[RADIUS]
    if scoring.kl:
        width = divergence_width(mean / model.m, 0.5 * (wide / model.m) ** 2 * square) * model.m
    elif scoring.score != OPTIMISTIC:
        width = wide * math.sqrt(max(square, 0.0))
    else:
        best = links.mean(model.link, model.m, z + wide * math.sqrt(max(square, 0.0)))
        width = scoring.centre + best - mean
    table[0, i] = mean
    table[1, i] = width
    table[2, i] = mean + width


_LEAST, _HALVINGS = 1e-15, 40


@inlined
def bernoulli_divergence(p: float, q: float) -> float:
    """kl(p, q) of two probabilities."""
    p, q = min(max(p, _LEAST), 1.0 - _LEAST), min(max(q, _LEAST), 1.0 - _LEAST)
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))


@internal
def divergence_width(p: float, level: float) -> float:
    """Return how far above p a probability lies whose divergence from p is `level`.

    By halving; Pinsker's inequality says where to begin.
    """
    p = min(max(p, 0.0), 1.0)
    low, high = p, min(1.0, p + math.sqrt(0.5 * level))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if bernoulli_divergence(p, middle) > level:
            high = middle
        else:
            low = middle
    return high - p


@inlined
def arm_of(row: Floats, arms: int) -> int:
    """The coordinate by which an action is longest: of a one-hot action its arm."""
    k = 0
    for j in range(1, arms):
        if abs(row[j]) > abs(row[k]):
            k = j
    return k


@compiled
def check_actions(numbers: Floats, actions: Floats) -> int:
    """ACCEPTED, or why a set of actions may not be used."""
    return validity(scoring_of(numbers), actions)
