"""From an estimate to a choice: scores, a pick, and what then happens to the state.

Notation (beyond estimator/model.py)
--------
A_t        (K, d)   the actions of round t = N + 1; K may differ in every round
rho        scalar   radius of the confidence bound     eq_rho_SW, eq_rho_D
BONUS      (d, d)   matrix of the bonus norm: V^-1, or W^-1 W~ W^-1 for D-LinUCB
table      (4, K)   means = centre + mu(a . theta), widths = bonus_scale rho ||a||, scores = their
                    sum, and the scores again as picks use them up
S, lam     scalars  in a self-concordant radius as they are for actions of length 1: S L, lam/L^2
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftbandits import links, theory
from driftbandits.estimator import Model
from driftbandits.estimator.model import (
    BEGUN,
    BONUS,
    DISCOUNT,
    FACTOR,
    M_INVERSE,
    MODEL_SIZE,
    RADIUS,
    ROW,
    SHIFTED,
    SPAN,
    THETA,
    THETA_HAT,
    V2,
    WINDOW,
    Floats,
    N,
    State,
    V,
)
from driftbandits.jit import allocating, compiled, inlined, internal, place
from driftbandits.linalg import cholesky, inverse, norm, sandwich

UCB, GREEDY, CONSTANT, OPTIMISTIC = 0, 1, 2, 3
"""How a score is made of an estimate; see sampling.py for more."""

DEVIATION, SELF_CONCORDANT, LOCAL = 0, 1, 2
"""The radius: the paper's, that of Russac et al. (2021), that of SCB-WeightUCB."""

ACCEPTED, NOT_FINITE, TOO_LONG = map(place, range(3))
"""What `choose` says of a set of actions."""


class Scoring(NamedTuple):
    """The numbers that turn an estimate into scores."""

    dim: int  # of the actions as they come, without the intercept
    intercept: int
    score: int
    bonus_scale: float
    epsilon: float
    centre: float
    longest: float  # L of the actions as they come
    longest_square: float  # with the tolerance
    rescale: int  # shrink longer actions instead of refusing them
    radius_scale: float
    radius_offset: float
    sigma: float
    coefficient: float
    delta: float
    horizon: float
    sample_lag: int  # 1 where the radius counts the n = t-1 samples seen, 0 where it counts t
    sandwiched: int  # the bonus norm is W^-1 W~ W^-1
    confidence: int
    steepest: float  # k
    flattest_root: float  # sqrt(c)
    one_matrix: int  # W~ is W
    project_in_curvature: int
    period: int  # rounds from restart to restart; 0: none by schedule
    votes: int  # samples of a parameter, see sampling.py
    measured: int  # the rows that count are measured, whatever the clock counts


@inlined
def scoring_of(numbers: Floats) -> Scoring:
    n = numbers[MODEL_SIZE:]
    return Scoring(
        int(n[0]),
        int(n[1]),
        int(n[2]),
        n[3],
        n[4],
        n[5],
        n[6],
        n[7],
        int(n[8]),
        n[9],
        n[10],
        n[11],
        n[12],
        n[13],
        n[14],
        int(n[15]),
        int(n[16]),
        int(n[17]),
        n[18],
        n[19],
        int(n[20]),
        int(n[21]),
        int(n[22]),
        int(n[23]),
        int(n[24]),
    )


@compiled
def radius(model: Model, scoring: Scoring, clock: int) -> float:
    """The confidence radius of round t = clock + 1, of a memory that is not adapted.

    A self-concordant one may be smaller in a round whose theta-hat lies in the ball.
    """
    t = clock + 1.0
    return _radius(model, scoring, t, _counted_rows(model, scoring, t, model.span), False)


@inlined
def _counted_rows(model: Model, scoring: Scoring, t: float, span: int) -> float:
    """How many rows count in round t where every round has one."""
    n = t - scoring.sample_lag
    if model.memory == WINDOW:
        return min(n, float(span))
    return theory.discounted_count(model.gamma, n) if model.memory == DISCOUNT else n


@inlined
def _radius(model: Model, scoring: Scoring, t: float, n: float, inside: bool) -> float:
    """The confidence radius of the t-th decision, made from n rows that count."""
    if scoring.confidence != DEVIATION:
        return _self_concordant_radius(model, scoring, t, n, inside)
    confidence = math.log(1.0 / scoring.delta)
    if model.memory == WINDOW:
        confidence = theory.union_log_confidence(t, scoring.horizon, scoring.delta)
    wide = theory.deviation(n, confidence, scoring.sigma, float(model.d), scoring.coefficient)
    return scoring.radius_scale * (wide + scoring.radius_offset)


@inlined
def bonus_factor(model: Model, scoring: Scoring, state: State, number: int) -> float:
    """What the next decision multiplies a norm with; `number` as in `decide`.

    Where the clock counts no decisions it cannot say how many rows count. Their squared weights
    are then measured: the deviation needs them only to bound a determinant by the trace.
    """
    if scoring.score in (GREEDY, CONSTANT):
        return 0.0
    counters = state.counters
    t = float(number)
    if number == 0 and not scoring.measured:
        t = counters[N] - counters[BEGUN] + 1.0
        n = _counted_rows(model, scoring, t, counters[SPAN])
    else:
        matrix = V2 if model.memory == DISCOUNT else V
        n = -model.d * model.lam / model.c
        for i in range(model.d):
            n += state.matrices[matrix, i, i]
        n = max(n, 0.0) / (model.L * model.L)
    inside = scoring.confidence != DEVIATION and norm(state.vectors, THETA_HAT) <= model.S
    return scoring.bonus_scale * _radius(model, scoring, t, n, inside)


@internal
def _self_concordant_radius(
    model: Model, scoring: Scoring, t: float, n: float, inside: bool
) -> float:
    k, S, lam = scoring.steepest, model.S * model.L, model.lam / (model.L * model.L)
    if scoring.confidence == LOCAL:
        confidence = math.log(1.0 / scoring.delta)
        rho = theory.local_deviation(n, confidence, model.m, float(model.d), k, lam)
        # twice, because the projection is as far from theta-hat as the truth may be
        return 2.0 * theory.inside_radius(rho, k, lam, S, S) / scoring.flattest_root
    T = theory.union_rounds(t, scoring.horizon)
    confidence = math.log(T / scoring.delta)
    reach = S
    if model.memory == DISCOUNT:
        reach = theory.discounted_reach(S, k, model.m, lam, T, model.gamma)
        n = (1.0 - 1.0 / (T * T)) / (1.0 - model.gamma * model.gamma)
    rho = theory.local_deviation(n, confidence, model.m, float(model.d), k, lam)
    wide = theory.anywhere_radius(rho, k, lam, reach)
    if inside:
        wide = min(wide, theory.inside_radius(rho, k, lam, S, reach))
    return wide / scoring.flattest_root


@inlined
def make_bonus_matrix(scoring: Scoring, state: State) -> None:
    cholesky(state.matrices, V, FACTOR)
    if scoring.sandwiched:
        inverse(state.matrices, FACTOR, M_INVERSE)
        sandwich(state.matrices, M_INVERSE, V2, SHIFTED, BONUS)
    else:
        inverse(state.matrices, FACTOR, BONUS)


@inlined
def shrinkage(scoring: Scoring, actions: Floats, i: int) -> float:
    """What action i is multiplied with: 1, or less where longer actions are rescaled.

    Below 0: the verdict on an action that may not be used.
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
def verdict_on(scoring: Scoring, actions: Floats) -> int:
    """Whether a set of actions may be used."""
    for i in range(actions.shape[0]):
        shrink = shrinkage(scoring, actions, i)
        if shrink < 0.0:
            return int(-shrink)
    return ACCEPTED


@inlined
def feature(scoring: Scoring, actions: Floats, i: int, j: int, shrink: float) -> float:
    """Coordinate j of action i as the model sees it."""
    return shrink * float(actions[i, j]) if j < scoring.dim else 1.0


@inlined
def set_row(scoring: Scoring, actions: Floats, i: int, state: State) -> None:
    """ROW := action i as the model sees it."""
    shrink = shrinkage(scoring, actions, i)
    for j in range(state.vectors.shape[1]):
        state.vectors[ROW, j] = feature(scoring, actions, i, j, shrink)


@inlined
def score(
    model: Model, scoring: Scoring, state: State, wide: float, actions: Floats, table: Floats
) -> None:
    """Rows of `table`: means, widths and scores of usable actions, by what `bonus_factor` gave."""
    vectors, matrices = state.vectors, state.matrices
    state.gauges[RADIUS] = wide
    for i in range(actions.shape[0]):
        mean, width = 0.0, 0.0
        if scoring.score != CONSTANT:
            shrink = shrinkage(scoring, actions, i)
            z, square = 0.0, 0.0
            for j in range(model.d):
                a = feature(scoring, actions, i, j, shrink)
                z += a * vectors[THETA, j]
                along = 0.5 * a * matrices[BONUS, j, j]
                for k in range(j):
                    along += feature(scoring, actions, i, k, shrink) * matrices[BONUS, j, k]
                square += 2.0 * a * along
            mean = scoring.centre + links.mean(model.link, model.m, z)
            if scoring.score != OPTIMISTIC:
                width = wide * math.sqrt(max(square, 0.0))
            else:
                best = links.mean(model.link, model.m, z + wide * math.sqrt(max(square, 0.0)))
                width = scoring.centre + best - mean
        table[0, i] = mean
        table[1, i] = width
        table[2, i] = mean + width


@allocating
def features_of(model: Model, scoring: Scoring, actions: Floats) -> Floats:
    """The actions as the model sees them, (K, d)."""
    features = np.empty((actions.shape[0], model.d))
    for i in range(actions.shape[0]):
        shrink = shrinkage(scoring, actions, i)
        for j in range(model.d):
            features[i, j] = feature(scoring, actions, i, j, shrink)
    return features


@internal
def mean_square(model: Model, scoring: Scoring, actions: Floats) -> float:
    """Of the lengths of the actions as the model sees them."""
    total = 0.0
    for i in range(actions.shape[0]):
        shrink = shrinkage(scoring, actions, i)
        for j in range(model.d):
            a = feature(scoring, actions, i, j, shrink)
            total += a * a
    return float(total / max(actions.shape[0], 1))


@compiled
def check_actions(numbers: Floats, actions: Floats) -> int:
    """Whether a set of actions may be used."""
    return verdict_on(scoring_of(numbers), actions)
