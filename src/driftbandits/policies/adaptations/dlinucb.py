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
from typing import TYPE_CHECKING, Annotated, NamedTuple

from driftbandits.core import Model, State, bonus_radius
from driftbandits.core import linalg as la
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import BEGUN, FITTED, STALE, Ints, N, layout_beyond
from driftbandits.jit import Share, inlined, internal, reader_of
from driftbandits.policies.adaptations import record_detection
from driftbandits.policies.scoring import OWN_NUMBERS, Opened, measured_rows

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

MOST_MODELS = 8
TAU = 200
_SOONER = 0.2  # delta~1 over delta1
_FLAGS_IN_A_WORD = 50
_WORDS = TAU // _FLAGS_IN_A_WORD


class Numbers(NamedTuple):
    """Constants of the source."""

    most_bad: float  # delta1
    surprise: float
    half_log: float  # ln(1/delta2) / 2


class Models(NamedTuple):
    """The models, oldest first."""

    number: Annotated[Ints, Share("counters")]
    starts: Annotated[Ints, Share("counters", MOST_MODELS)]  # their first rounds
    judged: Annotated[Ints, Share("counters", MOST_MODELS)]  # rewards
    bad: Annotated[Ints, Share("counters", MOST_MODELS)]  # how many of the last tau
    flags: Annotated[Ints, Share("counters", _WORDS * MOST_MODELS)]  # and which, as bits
    b: Annotated[Floats, Share("vectors", MOST_MODELS)]
    A: Annotated[Floats, Share("matrices", MOST_MODELS)]
    C: Annotated[Floats, Share("matrices", MOST_MODELS)]


LAYOUT = layout_beyond(Models)
_models_of, _numbers_of = LAYOUT.of, reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy) -> Numbers:
    sigma = policy.link.m / 2.0
    return Numbers(
        most_bad=policy.delta,
        surprise=sigma * NormalDist().inv_cdf(1.0 - policy.delta / 2.0),
        half_log=-math.log(policy.false_alarm_rate) / 2.0,
    )


@internal
def learn(opened: Opened, reward: float, s: int) -> None:
    """Let every model judge the reward of scratch.row, of round s, and see which remain."""
    numbers, model, scoring, _, state = opened
    judgement, models = _numbers_of(numbers), _models_of(state.stores)
    outcome = reward - scoring.centre
    if models.number[0] == 0:
        _begin_model(model, models, 0)
    playing = _soundest(judgement, models)
    for m in range(models.number[0]):
        if m == 0 or s >= models.starts[m]:
            is_bad = _is_bad(opened, judgement, models, m, outcome)
            _note(models, m, is_bad)
            if not is_bad:
                la.add_scaled(models.b[m], outcome, state.scratch.row)
                la.add_outer(models.A[m], 1.0, state.scratch.row)
                la.copy(state.scratch.row, state.scratch.step)
                _add_to_factor(models.C[m], state.scratch.step)
    _sort_out(model, judgement, state, models, playing)
    m = _soundest(judgement, models)  # from which a decision is made as LinUCB makes it
    la.copy(models.b[m], state.b)
    la.copy_matrix(models.A[m], state.V)
    if model.fast:
        state.notes[STALE] = 1.0
    state.counters[FITTED] = 0


@inlined
def _is_bad(opened: Opened, judgement: Numbers, models: Models, m: int, reward: float) -> int:
    """1 if the reward of scratch.row lies beyond the confidence bound of model m."""
    _, model, _, confidence, state = opened
    x, y = state.scratch.step, state.scratch.point
    la.copy(state.scratch.row, x)
    la.forward_solve(models.C[m], x)
    la.copy(models.b[m], y)
    la.forward_solve(models.C[m], y)
    error = abs(reward - la.dot(x, y))
    rows = measured_rows(model, confidence, models.A[m])
    width = bonus_radius(confidence, 0.0, rows, False) * math.sqrt(la.dot(x, x))
    return int(error > width + judgement.surprise)


@inlined
def _note(models: Models, m: int, is_bad: int) -> None:
    """Put a flag in the place of the one that is tau older."""
    position = models.judged[m] % TAU
    word = m * _WORDS + position // _FLAGS_IN_A_WORD
    bit = position % _FLAGS_IN_A_WORD
    before = (models.flags[word] >> bit) & 1
    models.flags[word] += (is_bad - before) << bit
    models.bad[m] += is_bad - before
    models.judged[m] += 1


@inlined
def _add_to_factor(C: Floats, x: Floats) -> None:
    """C := factor of C C' + x x' by rotations, which keep it positive; x is used up."""
    d = x.shape[0]
    for k in range(d):
        sine = x[k] * C[k, k]
        cosine = math.sqrt(1.0 + sine * sine)
        C[k, k] /= cosine
        for i in range(k + 1, d):
            C[i, k] = (C[i, k] + sine * x[i]) / cosine
            x[i] = cosine * x[i] - sine * C[i, k]


@inlined
def _share_of_bad(models: Models, m: int) -> float:
    """e_m."""
    return float(models.bad[m] / max(min(models.judged[m], TAU), 1))


@inlined
def _margin(judgement: Numbers, models: Models, m: int) -> float:
    """d_m, which is infinite before the first judgement."""
    judged = min(models.judged[m], TAU)
    return math.sqrt(judgement.half_log / judged) if judged > 0 else math.inf


@inlined
def _surely_bad(judgement: Numbers, models: Models, m: int) -> float:
    """The lower confidence bound e_m - d_m."""
    return _share_of_bad(models, m) - _margin(judgement, models, m)


@inlined
def _soundest(judgement: Numbers, models: Models) -> int:
    """The model that plays; of equals the oldest."""
    best = 0
    for m in range(1, models.number[0]):
        if _surely_bad(judgement, models, m) < _surely_bad(judgement, models, best):
            best = m
    return best


@inlined
def _sort_out(model: Model, judgement: Numbers, state: State, models: Models, playing: int) -> None:
    """Discard what is bad; make a new model where none is sound; report what changes the play."""
    counters = state.counters
    statistic = _share_of_bad(models, playing)
    threshold = _margin(judgement, models, playing)
    sound, fallen, kept = False, False, 0
    for m in range(models.number[0]):
        bad = _surely_bad(judgement, models, m)
        sound = sound or bad < _SOONER * judgement.most_bad
        if bad < judgement.most_bad:
            _move_model(models, m, kept)
            kept += 1
        elif m == playing:
            fallen = True
    models.number[0] = kept
    if not sound:
        if kept == MOST_MODELS:
            worst = 0
            for m in range(1, MOST_MODELS):
                if _surely_bad(judgement, models, m) > _surely_bad(judgement, models, worst):
                    worst = m
            for m in range(worst + 1, MOST_MODELS):
                _move_model(models, m, m - 1)
            models.number[0] -= 1
        _begin_model(model, models, counters[N])
    if fallen or not sound:
        threshold += judgement.most_bad if fallen else _SOONER * judgement.most_bad
        record_detection(state, counters[N], statistic, threshold)
    counters[BEGUN] = max(models.starts[0] - 1, 0)


@internal
def _begin_model(model: Model, models: Models, start: int) -> None:
    m = models.number[0]
    models.starts[m] = start
    models.judged[m] = 0
    models.bad[m] = 0
    for word in range(_WORDS):
        models.flags[m * _WORDS + word] = 0
    for i in range(model.d):
        models.b[m, i] = 0.0
    la.set_to_identity(models.A[m], model.lam)
    la.set_to_identity(models.C[m], 1.0 / math.sqrt(model.lam))
    models.number[0] += 1


@internal
def _move_model(models: Models, source: int, target: int) -> None:
    if source == target:
        return
    models.starts[target] = models.starts[source]
    models.judged[target] = models.judged[source]
    models.bad[target] = models.bad[source]
    for word in range(_WORDS):
        models.flags[target * _WORDS + word] = models.flags[source * _WORDS + word]
    la.copy(models.b[source], models.b[target])
    la.copy_matrix(models.A[source], models.A[target])
    la.copy_matrix(models.C[source], models.C[target])
