"""From an estimate to a choice: scores, a pick, and what then happens to the state.

Notation (beyond estimator/model.py)
--------
A_t        (K, d)   the actions of round t = N + 1; K may differ in every round
rho        scalar   radius of the confidence bound     eq_rho_SW, eq_rho_D
BONUS      (d, d)   matrix of the bonus norm: V^-1, or W^-1 W~ W^-1 for D-LinUCB
table      (4, K)   means = centre + mu(a . theta), widths = bonus_scale rho ||a||, scores = their
                    sum, and the scores again as picks use them up
"""

from __future__ import annotations

import math
from typing import NamedTuple

from driftbandits import links, theory
from driftbandits.estimator import Model, absorb, advance, fit, model_of, state_of
from driftbandits.estimator.model import (
    BONUS,
    DISCOUNT,
    FACTOR,
    M_INVERSE,
    MODEL_SIZE,
    ROW,
    SHIFTED,
    THETA,
    V2,
    WINDOW,
    Floats,
    Ints,
    N,
    Places,
    State,
    V,
)
from driftbandits.jit import compiled, inlined, internal, place
from driftbandits.linalg import cholesky, inverse, sandwich

UCB, GREEDY, CONSTANT = 0, 1, 2

ACCEPTED, NOT_FINITE, TOO_LONG = map(place, range(3))
"""What `choose` says of a set of actions."""

TAKEN = -math.inf
MIXTURE, TIES = map(place, range(2))
"""Streams of random numbers."""


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
    )


@compiled
def radius(model: Model, scoring: Scoring, clock: int) -> float:
    """The confidence radius of round t = clock + 1."""
    t = clock + 1.0
    n = t - scoring.sample_lag
    if model.memory == WINDOW:
        n = min(n, float(model.span))
    elif model.memory == DISCOUNT:
        n = theory.discounted_count(model.gamma, n)
    return _radius(model, scoring, t, n)


@inlined
def _radius(model: Model, scoring: Scoring, t: float, n: float) -> float:
    """The confidence radius of the t-th decision, made from n rows that count."""
    confidence = math.log(1.0 / scoring.delta)
    if model.memory == WINDOW:
        confidence = theory.union_log_confidence(t, scoring.horizon, scoring.delta)
    wide = theory.deviation(n, confidence, scoring.sigma, float(model.d), scoring.coefficient)
    return scoring.radius_scale * (wide + scoring.radius_offset)


@inlined
def radius_of(model: Model, scoring: Scoring, state: State, number: int) -> float:
    """The radius of the next decision; `number` as in `decide`.

    Where the clock counts no decisions it cannot say how many rows count. Their squared weights
    are then measured: the deviation needs them only to bound a determinant by the trace.
    """
    if number == 0:
        return radius(model, scoring, state.counters[N])
    matrix = V2 if model.memory == DISCOUNT else V
    n = -model.d * model.lam / model.c
    for i in range(model.d):
        n += state.matrices[matrix, i, i]
    return _radius(model, scoring, float(number), max(n, 0.0) / (model.L * model.L))


@inlined
def _hash(x: int) -> int:
    """Mix 32 bits; every product fits 63, so that compiled and plain Python agree."""
    x ^= x >> 16
    x = (x * 0x21F0AAAD) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 0x735A2D97) & 0xFFFFFFFF
    return x ^ (x >> 15)


@internal
def uniform(seed: int, t: int, stream: int) -> float:
    """A number in [0, 1) that is a function of (seed, round, stream) alone."""
    h = _hash(0x9E3779B9 ^ (seed & 0xFFFFFFFF))
    h = _hash(h ^ (seed >> 32))
    h = _hash(h ^ (t & 0xFFFFFFFF))
    h = _hash(h ^ (t >> 32))
    h = _hash(h ^ (2 * stream))
    low = _hash(h ^ (2 * stream + 1))
    return ((h >> 5) * 67108864.0 + (low >> 6)) / 9007199254740992.0


@inlined
def _make_bonus_matrix(scoring: Scoring, state: State) -> None:
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
    model: Model, scoring: Scoring, state: State, number: int, actions: Floats, table: Floats
) -> None:
    """Rows of `table`: means, widths and scores of usable actions, under a fitted state."""
    vectors, matrices = state.vectors, state.matrices
    wide = 0.0
    if scoring.score == UCB:
        _make_bonus_matrix(scoring, state)
        wide = scoring.bonus_scale * radius_of(model, scoring, state, number)
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
            if scoring.score == UCB:
                width = wide * math.sqrt(max(square, 0.0))
        table[0, i] = mean
        table[1, i] = width
        table[2, i] = mean + width


@inlined
def pick(epsilon: float, table: Floats, seed: int, t: int) -> tuple[int, float]:
    """The action with the best score in row 3, ties by the seed, mixed with a uniform draw.

    Actions with the score TAKEN are not considered. Returns the index and its probability.
    """
    free, tied = 0, 0
    best = TAKEN
    for i in range(table.shape[1]):
        if table[3, i] > best:
            best = table[3, i]
            tied = 0
        if table[3, i] == best:
            tied += 1
        free += table[3, i] > TAKEN
    explore = epsilon > 0.0 and uniform(seed, t, MIXTURE) < epsilon
    candidates = free if explore else tied
    place = int(uniform(seed, t, TIES) * candidates) if candidates > 1 else 0
    chosen = -1
    for i in range(table.shape[1]):
        if table[3, i] == best or (explore and table[3, i] > TAKEN):
            if place == 0:
                chosen = i
                break
            place -= 1
    share = (1.0 - epsilon) / tied if table[3, chosen] == best else 0.0
    return chosen, share + epsilon / free


@compiled
def decide(
    numbers: Floats,
    rows: Floats,
    counters: Ints,
    gauges: Floats,
    vectors: Floats,
    matrices: Floats,
    moments: Floats,
    ladder: Places,
    seed: int,
    number: int,
    actions: Floats,
    table: Floats,
    picks: Floats,
) -> int:
    """Choose distinct actions, best first, as the decisions of rounds N+1, N+2, ...

    Everything is computed at the clock as it stands, which then counts the decisions; with a
    number above 0 it does not, and the decisions are number, number + 1, ... A set of actions
    that cannot be used changes nothing. table (4, K) receives means, widths and scores,
    and its last row is scratch; picks (2, n) receives indices and propensities.
    """
    model, scoring = model_of(numbers), scoring_of(numbers)
    state = state_of(rows, counters, gauges, vectors, matrices, moments, ladder)
    verdict = verdict_on(scoring, actions)
    if verdict != ACCEPTED:
        return verdict
    fit(model, state)
    score(model, scoring, state, number, actions, table)
    first = counters[N] + 1 if number == 0 else number
    for i in range(actions.shape[0]):
        table[3, i] = table[2, i]
    for rank in range(picks.shape[1]):
        index, propensity = pick(scoring.epsilon, table, seed, first + rank)
        picks[0, rank] = index
        picks[1, rank] = propensity
        table[3, index] = TAKEN
    if number == 0:
        advance(model, state, picks.shape[1])
    return ACCEPTED


@compiled
def update(
    numbers: Floats,
    rows: Floats,
    counters: Ints,
    gauges: Floats,
    vectors: Floats,
    matrices: Floats,
    moments: Floats,
    ladder: Places,
    actions: Floats,
    index: int,
    reward: float,
    s: int,
) -> None:
    """Learn the reward of an action of round s; `rows` must have room and s be young enough."""
    scoring = scoring_of(numbers)
    state = state_of(rows, counters, gauges, vectors, matrices, moments, ladder)
    set_row(scoring, actions, index, state)
    absorb(model_of(numbers), state, reward - scoring.centre, s)


@compiled
def tick(
    numbers: Floats,
    rows: Floats,
    counters: Ints,
    gauges: Floats,
    vectors: Floats,
    matrices: Floats,
    moments: Floats,
    ladder: Places,
    rounds: int,
) -> None:
    """Let time pass without a decision."""
    state = state_of(rows, counters, gauges, vectors, matrices, moments, ladder)
    advance(model_of(numbers), state, rounds)


@compiled
def refit(
    numbers: Floats,
    rows: Floats,
    counters: Ints,
    gauges: Floats,
    vectors: Floats,
    matrices: Floats,
    moments: Floats,
    ladder: Places,
) -> None:
    """Bring the estimate up to date."""
    state = state_of(rows, counters, gauges, vectors, matrices, moments, ladder)
    fit(model_of(numbers), state)


@compiled
def next_radius(
    numbers: Floats,
    rows: Floats,
    counters: Ints,
    gauges: Floats,
    vectors: Floats,
    matrices: Floats,
    moments: Floats,
    ladder: Places,
    number: int,
) -> float:
    """The confidence radius of the next decision; `number` as in `decide`."""
    state = state_of(rows, counters, gauges, vectors, matrices, moments, ladder)
    return radius_of(model_of(numbers), scoring_of(numbers), state, number)


@compiled
def check_actions(numbers: Floats, actions: Floats) -> int:
    """Whether a set of actions may be used."""
    return verdict_on(scoring_of(numbers), actions)
