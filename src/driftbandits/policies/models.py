"""A pool of linear models, of which the soundest plays: dLinUCB (Wu, Iyer and Wang 2018).

Every model judges every reward. One that lies beyond the model's confidence bound is bad, and
teaches it nothing; any other is learned. The share of bad rewards among the last tau says how
sound a model is:

- the model whose share has the smallest lower confidence bound is the LinUCB that plays;
- a model whose share is surely above delta1 is discarded;
- where the shares of all are surely above delta~1 < delta1, a new and empty model is made. It plays
  at once, since nothing speaks against it.

"Surely" is Hoeffding's bound: while nothing changes, a judgement discards a sound model with
probability delta2 at most. tau is the source's; delta1 = .01, which is `delta`, and delta2 = .1,
which is `false_alarm_rate`, are usual in public code for it; delta~1 = delta1/5 is what Russac et
al. (2019) compared with, and were it delta1 there would never be two models.

The source knows the noise, which is Gaussian. Here its deviation is taken to be sigma = m/2, the
most that rewards in [0, m] can have, so with delta1 < .045 noise alone may carry a reward further
than m. Then hardly anything can be bad, and this is LinUCB. A larger `delta` makes the models
stricter: that suits rewards which vary little about their mean, but not clicks, of which the
models then learn those alone that confirm them.

The source says nothing of the number of models, nor of rewards that come late. Here at most
MOST_MODELS are kept, and the worst makes room. A model judges the rewards of decisions that were
made since it began; those of before the oldest model are late. The width of a model counts its rows
by their squared lengths, since no clock says how many it has learned. Judgement goes by the whole
width, whatever part of it `bonus_scale` leaves to the scores. A discard of the model that plays and
a new model are reported as detections, in whose round the change is put: the source estimates none.

Notation
--------
m          a model, oldest first
A_m        (d, d)   lam I + sum of a a' over the rows that it has learned
C_m        (d, d)   its lower Cholesky factor, see linalg.py
b_m        (d,)     sum of X a
theta_m    (d,)     A_m^-1 b_m
B_m(a)     scalar   rho ||a||_{A_m^-1}, rho the radius of LinUCB for the rows of A_m
bad        |X - a.theta_m| > B_m(a) + surprise
surprise   scalar   sqrt(2) sigma erfinv(1 - delta1), which noise exceeds with probability delta1
n_m        scalar   rewards that it has judged, tau at most
e_m        scalar   share of the last n_m that were bad
d_m        scalar   sqrt(ln(1/delta2) / (2 n_m))
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from driftbandits import theory
from driftbandits.estimator.model import (
    BEGUN,
    COUNTERS,
    FITTED,
    MATRICES,
    POINT,
    ROW,
    STEP,
    VECTORS,
    B,
    Model,
    N,
    State,
    V,
)
from driftbandits.jit import inlined, internal, place
from driftbandits.linalg import add_outer, copy, dot, forward_solve
from driftbandits.policies.adaptation import MODELS, Adaptation
from driftbandits.policies.detection import record_detection

if TYPE_CHECKING:
    from driftbandits.policies.scoring import Scoring

MOST_MODELS = 8
TAU = 200
_SOONER = 0.2  # delta~1 over delta1
_FLAGS_IN_A_WORD = 50
_WORDS = TAU // _FLAGS_IN_A_WORD

# Places beyond the estimator's own.
COUNT = place(COUNTERS)
STARTS = place(COUNTERS + 1)  # of each model: its first round, ...
JUDGED = place(STARTS + MOST_MODELS)  # ... rewards judged, ...
BAD = place(JUDGED + MOST_MODELS)  # ... how many of the last tau were bad, ...
FLAGS = place(BAD + MOST_MODELS)  # ... and which, as bits
SUMS = place(VECTORS)  # b_m
DESIGNS = place(MATRICES)  # A_m
FACTORS = place(MATRICES + MOST_MODELS)  # C_m

MORE = {
    "more_counters": 1 + (3 + _WORDS) * MOST_MODELS,
    "more_vectors": MOST_MODELS,
    "more_matrices": 2 * MOST_MODELS,
}


def pool_of_models(*, sigma: float, delta1: float, delta2: float) -> Adaptation:
    """The numbers of the source."""
    return Adaptation(
        kind=MODELS,
        threshold=delta1,
        surprise=sigma * NormalDist().inv_cdf(1.0 - delta1 / 2.0),
        doubt=-math.log(delta2) / 2.0,
    )


@internal
def judge(
    model: Model, scoring: Scoring, adaptation: Adaptation, state: State, reward: float, s: int
) -> None:
    """Let every model judge the reward of the row in ROW, of round s, and see which remain."""
    counters = state.counters
    if counters[COUNT] == 0:
        _begin_model(model, state, 0)
    playing = _soundest(adaptation, state)
    for m in range(counters[COUNT]):
        if m == 0 or s >= counters[STARTS + m]:
            is_bad = _is_bad(model, scoring, adaptation, state, m, reward)
            _note(state, m, is_bad)
            if not is_bad:
                _learn(model, state, m, reward)
    _sort_out(model, adaptation, state, playing)
    _put_in_play(model, state, _soundest(adaptation, state))


@inlined
def _is_bad(
    model: Model, scoring: Scoring, adaptation: Adaptation, state: State, m: int, reward: float
) -> int:
    """Whether the reward lies beyond the confidence bound of model m."""
    vectors, matrices = state.vectors, state.matrices
    copy(vectors, ROW, STEP)
    forward_solve(matrices, FACTORS + m, vectors, STEP)
    copy(vectors, SUMS + m, POINT)
    forward_solve(matrices, FACTORS + m, vectors, POINT)
    error = abs(reward - dot(vectors, STEP, POINT))
    rows = -model.d * model.lam
    for i in range(model.d):
        rows += matrices[DESIGNS + m, i, i]
    rows = max(rows, 0.0) / (model.L * model.L)
    confidence = -math.log(scoring.delta)
    wide = scoring.radius_offset + theory.deviation(
        rows, confidence, scoring.sigma, float(model.d), scoring.coefficient
    )
    width = wide * math.sqrt(dot(vectors, STEP, STEP))
    return int(error > width + adaptation.surprise)


@inlined
def _note(state: State, m: int, is_bad: int) -> None:
    """Put a flag in the place of the one that is tau older."""
    counters = state.counters
    position = counters[JUDGED + m] % TAU
    word = FLAGS + m * _WORDS + position // _FLAGS_IN_A_WORD
    bit = position % _FLAGS_IN_A_WORD
    before = (counters[word] >> bit) & 1
    counters[word] += (is_bad - before) << bit
    counters[BAD + m] += is_bad - before
    counters[JUDGED + m] += 1


@inlined
def _learn(model: Model, state: State, m: int, reward: float) -> None:
    for i in range(model.d):
        state.vectors[SUMS + m, i] += reward * state.vectors[ROW, i]
    add_outer(state.matrices, DESIGNS + m, 1.0, state.vectors, ROW)
    copy(state.vectors, ROW, STEP)
    _add_to_factor(state, FACTORS + m, STEP)


@inlined
def _add_to_factor(state: State, C: int, x: int) -> None:
    """C := factor of C C' + x x' by rotations, which keep it positive; x is used up."""
    xs, Ms = state.vectors, state.matrices
    for k in range(xs.shape[1]):
        sine = xs[x, k] * Ms[C, k, k]
        cosine = math.sqrt(1.0 + sine * sine)
        Ms[C, k, k] /= cosine
        for i in range(k + 1, xs.shape[1]):
            Ms[C, i, k] = (Ms[C, i, k] + sine * xs[x, i]) / cosine
            xs[x, i] = cosine * xs[x, i] - sine * Ms[C, i, k]


@inlined
def _share_of_bad(state: State, m: int) -> float:
    """e_m."""
    return float(state.counters[BAD + m] / max(min(state.counters[JUDGED + m], TAU), 1))


@inlined
def _margin(adaptation: Adaptation, state: State, m: int) -> float:
    """d_m, which is infinite before the first judgement."""
    judged = min(state.counters[JUDGED + m], TAU)
    return math.sqrt(adaptation.doubt / judged) if judged > 0 else math.inf


@inlined
def _surely_bad(adaptation: Adaptation, state: State, m: int) -> float:
    """The lower confidence bound e_m - d_m."""
    return _share_of_bad(state, m) - _margin(adaptation, state, m)


@inlined
def _soundest(adaptation: Adaptation, state: State) -> int:
    """The model that plays; of equals the oldest."""
    best = 0
    for m in range(1, state.counters[COUNT]):
        if _surely_bad(adaptation, state, m) < _surely_bad(adaptation, state, best):
            best = m
    return best


@inlined
def _sort_out(model: Model, adaptation: Adaptation, state: State, playing: int) -> None:
    """Discard what is bad; make a new model where none is sound; report what changes the play."""
    counters = state.counters
    statistic = _share_of_bad(state, playing)
    threshold = _margin(adaptation, state, playing)
    sound, fallen, kept = False, False, 0
    for m in range(counters[COUNT]):
        bad = _surely_bad(adaptation, state, m)
        sound = sound or bad < _SOONER * adaptation.threshold
        if bad < adaptation.threshold:
            _move_model(model, state, m, kept)
            kept += 1
        elif m == playing:
            fallen = True
    counters[COUNT] = kept
    if not sound:
        if kept == MOST_MODELS:
            _drop_worst(model, adaptation, state)
        _begin_model(model, state, counters[N])
    if fallen or not sound:
        threshold += adaptation.threshold if fallen else _SOONER * adaptation.threshold
        record_detection(state, counters[N], statistic, threshold)
    counters[BEGUN] = max(counters[STARTS] - 1, 0)


@inlined
def _drop_worst(model: Model, adaptation: Adaptation, state: State) -> None:
    worst = 0
    for m in range(1, MOST_MODELS):
        if _surely_bad(adaptation, state, m) > _surely_bad(adaptation, state, worst):
            worst = m
    for m in range(worst + 1, MOST_MODELS):
        _move_model(model, state, m, m - 1)
    state.counters[COUNT] -= 1


@internal
def _begin_model(model: Model, state: State, start: int) -> None:
    counters = state.counters
    m = counters[COUNT]
    counters[STARTS + m] = start
    counters[JUDGED + m] = 0
    counters[BAD + m] = 0
    for word in range(_WORDS):
        counters[FLAGS + m * _WORDS + word] = 0
    for i in range(model.d):
        state.vectors[SUMS + m, i] = 0.0
        for j in range(model.d):
            state.matrices[DESIGNS + m, i, j] = model.lam if i == j else 0.0
            state.matrices[FACTORS + m, i, j] = 1.0 / math.sqrt(model.lam) if i == j else 0.0
    counters[COUNT] += 1


@internal
def _move_model(model: Model, state: State, source: int, target: int) -> None:
    if source == target:
        return
    counters, matrices = state.counters, state.matrices
    for field in (STARTS, JUDGED, BAD):
        counters[field + target] = counters[field + source]
    for word in range(_WORDS):
        counters[FLAGS + target * _WORDS + word] = counters[FLAGS + source * _WORDS + word]
    copy(state.vectors, SUMS + source, SUMS + target)
    for i in range(model.d):
        for j in range(model.d):
            matrices[DESIGNS + target, i, j] = matrices[DESIGNS + source, i, j]
            matrices[FACTORS + target, i, j] = matrices[FACTORS + source, i, j]


@inlined
def _put_in_play(model: Model, state: State, m: int) -> None:
    """V, b := those of model m, from which a decision is made as LinUCB makes it."""
    copy(state.vectors, SUMS + m, B)
    for i in range(model.d):
        for j in range(model.d):
            state.matrices[V, i, j] = state.matrices[DESIGNS + m, i, j]
    state.counters[FITTED] = 0
