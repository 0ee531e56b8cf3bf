"""What is believed of a parameter before any reward: the same in whatever units features come.

The prior follows the features that are offered, after Zellner's g-prior: a typical action has
Var(a . theta) = 1/lam. With few features it is made of all their second moments, so that no change
of units, no shift and no rotation changes what is believed. Large models take the variances alone,
about the means, so that units and shifts still change nothing.

Notation
--------
x_bar   (d,)   mean of the features, the constant included; about it a base and slopes are apart
n       scalar features that were ever anything but 0
"""

from __future__ import annotations

from driftbandits.estimator import Model, State
from driftbandits.estimator.model import Floats
from driftbandits.jit import inlined, internal
from driftbandits.linalg import cholesky, inverse, set_to_identity
from driftbandits.policies.adaptations.belief.record import (
    BASE_PRECISION,
    NEW_BASE_PRECISION,
    ROUGH,
    SMOOTH,
    TIGHTNESS,
    Belief,
)
from driftbandits.policies.scoring import Scoring, feature, shrinkage

_RECENT = 3.0  # the moments are those of the last third of all sets
_GROWTH = 1.2  # of the number of sets from one renewal to the next
_RARE = 0.25  # a feature of its peak's size is believed to move a . theta by at most 2/sqrt(lam)
_JITTER = 1e-8
_FEW = 16.0  # power of the number of actions by which it is doubted that a feature is constant
_BACK = 100.0  # times its faded peak: a feature was absent for long, or grew tenfold


@internal
def observe(model: Model, scoring: Scoring, state: State, belief: Belief, actions: Floats) -> None:
    """Let the moments follow a set of actions, and the prior follow the moments."""
    d, n = model.d, actions.shape[0]
    belief.sets[0] += 1
    rate = _RECENT / (belief.sets[0] - 1.0 + _RECENT)
    belief.offered[0] = min(belief.offered[0] + n, n * (belief.sets[0] / _RECENT + 1.0))
    mean, square, faded = state.scratch.point, state.scratch.pull, state.scratch.slope
    for j in range(d):
        mean[j] = square[j] = 0.0
    if not model.fast:
        set_to_identity(belief.moments[1], 0.0)
    for i in range(n):
        _add_action(model, scoring, state, belief, actions, i)
    for j in range(d):
        belief.centre[j] += rate * (mean[j] / n - belief.centre[j])
        belief.squares[j] += rate * (square[j] / n - belief.squares[j])
        belief.peaks[j] *= 1.0 - rate
        faded[j] = belief.peaks[j]
        if not model.fast:
            for k in range(d):
                change = belief.moments[1, j, k] / n - belief.moments[0, j, k]
                belief.moments[0, j, k] += rate * change
    for i in range(n):
        shrink = shrinkage(scoring, actions, i)
        for j in range(d):
            away = feature(scoring, actions, i, j, shrink) - belief.centre[j]
            belief.peaks[j] = max(belief.peaks[j], away * away)
    _awaken(model, state, belief)
    if belief.sets[0] >= belief.renewal[0]:
        belief.renewal[0] = max(belief.sets[0] + 1, int(_GROWTH * belief.sets[0]))
        make_newborn(model, state, belief)


@inlined
def _add_action(
    model: Model, scoring: Scoring, state: State, belief: Belief, actions: Floats, i: int
) -> None:
    """Add action i to the sums of this set: point and pull in scratch, and moments[1]."""
    scratch = state.scratch
    shrink = shrinkage(scoring, actions, i)
    for j in range(model.d):
        a = feature(scoring, actions, i, j, shrink)
        scratch.point[j] += a
        scratch.pull[j] += a * a
        if not model.fast:
            for k in range(model.d):
                belief.moments[1, j, k] += a * feature(scoring, actions, i, k, shrink)


@inlined
def _asleep(belief: Belief, j: int) -> bool:
    """Whether a feature has never been anything but 0."""
    return bool(belief.squares[j] == 0.0)


@inlined
def _slopes(model: Model, belief: Belief) -> int:
    """Features but the constant."""
    return int(model.d - belief.constant[0])


@inlined
def _awake(model: Model, belief: Belief) -> float:
    """n."""
    n = 0
    for j in range(model.d):
        if not _asleep(belief, j):
            n += 1
    return float(max(n, 1))


@inlined
def variance_of_feature(belief: Belief, j: int) -> float:
    """About the mean where there is a constant; of one or two actions that says nothing yet."""
    about = belief.centre[j] * belief.centre[j] if belief.constant[0] else 0.0
    few = max(belief.offered[0], 1.0) ** -_FEW
    return float(max(belief.squares[j] - about, max(_JITTER, few) * belief.squares[j]))


@inlined
def _slope_precision(model: Model, belief: Belief, lam: float, n: float, j: int) -> float:
    """Of one slope by itself. A rare feature is believed in as one of n that share its peak."""
    return float(lam * max(n * variance_of_feature(belief, j), _RARE * belief.peaks[j]))


@inlined
def base_precision(kind: int, is_new: bool) -> float:
    precision = float(BASE_PRECISION[kind])
    return max(precision, NEW_BASE_PRECISION) if is_new else precision


@internal
def make_precision(model: Model, belief: Belief, kind: int, is_new: bool, out: Floats) -> None:
    """out := precision of the prior of a small model; of features that sleep, the identity.

    While few actions were offered their products are chance, and are believed only in part.
    """
    d, slopes, n = model.d, _slopes(model, belief), _awake(model, belief)
    lam = model.lam * TIGHTNESS[kind]
    doubted = min(1.0, (d / max(belief.offered[0], 1.0)) ** 4)
    about = float(belief.constant[0])
    for j in range(slopes):
        for k in range(slopes):
            product = belief.moments[0, j, k] - about * belief.centre[j] * belief.centre[k]
            out[j, k] = lam * n * (1.0 - doubted) * product
        if _asleep(belief, j):
            out[j, j] = 1.0
        else:
            alone = _slope_precision(model, belief, lam, n, j)
            out[j, j] = alone * (1.0 + _JITTER)
    if belief.constant[0]:
        base = base_precision(kind, is_new)
        for j in range(d):
            for k in range(d):
                both = belief.centre[j] * belief.centre[k]
                if j < slopes and k < slopes:
                    out[j, k] += base * both
                else:
                    out[j, k] = base * both


@internal
def make_covariance(
    model: Model, state: State, belief: Belief, kind: int, is_new: bool, out: Floats
) -> None:
    """out := covariance of a prior; 0 for features that sleep."""
    d, slopes = model.d, _slopes(model, belief)
    if not model.fast:
        make_precision(model, belief, kind, is_new, state.scratch.quadratic)
        cholesky(state.scratch.quadratic, state.scratch.factor)
        inverse(state.scratch.factor, out)
    else:
        n, lam = _awake(model, belief), model.lam * TIGHTNESS[kind]
        set_to_identity(out, 0.0)
        base = 1.0 / base_precision(kind, is_new)
        for j in range(slopes):
            if not _asleep(belief, j):
                out[j, j] = 1.0 / _slope_precision(model, belief, lam, n, j)
            if belief.constant[0]:
                out[d - 1, j] = out[j, d - 1] = -out[j, j] * belief.centre[j]
                base += out[j, j] * belief.centre[j] * belief.centre[j]
        if belief.constant[0]:
            out[d - 1, d - 1] = base
    for j in range(slopes):
        if _asleep(belief, j):
            for k in range(d):
                out[j, k] = out[k, j] = 0.0


@internal
def make_newborn(model: Model, state: State, belief: Belief) -> None:
    make_covariance(model, state, belief, belief.kind[0], True, belief.newborn)


@internal
def _awaken(model: Model, state: State, belief: Belief) -> None:
    """Give features that are new, or back after long, the variance of their prior.

    In every Gaussian that has learned nothing of them: the prior of a feature that was absent for
    long has become wide, since what is small is believed to matter more.
    """
    faded = state.scratch.slope
    for j in range(_slopes(model, belief)):
        was = belief.newborn[j, j]
        is_new = was == 0.0 and not _asleep(belief, j)
        if is_new or (belief.sets[0] > 1 and belief.peaks[j] > _BACK * faded[j] > 0.0):
            n, lam = _awake(model, belief), model.lam * TIGHTNESS[belief.kind[0]]
            variance = 1.0 / _slope_precision(model, belief, lam, n, j)
            _set_variance(belief.newborn, j, variance)
            for r in range(belief.segments[0]):
                if _is_unlearned(belief.P[r], j, was, variance):
                    _set_variance(belief.P[r], j, variance)
            for i in range(belief.place_P.shape[0]):
                if _is_unlearned(belief.place_P[i], j, was, variance):
                    _set_variance(belief.place_P[i], j, variance)
                    if not model.fast and i >= ROUGH:
                        for k in range(model.d):
                            belief.cross_P[i - ROUGH, j, k] = 0.0
            if not model.fast:
                for i in range(SMOOTH):
                    if _is_unlearned(belief.velocity_P[i], j, was, variance):
                        _set_variance(belief.velocity_P[i], j, variance)
                        for k in range(model.d):
                            belief.cross_P[i, k, j] = 0.0


@inlined
def _is_unlearned(P: Floats, j: int, was: float, variance: float) -> bool:
    """Whether no reward has said much of a feature, or what did is long past: see `_BACK`."""
    return bool(P[j, j] >= 0.5 * was or P[j, j] > _BACK * variance)


@inlined
def _set_variance(P: Floats, j: int, variance: float) -> None:
    for k in range(P.shape[0]):
        P[j, k] = P[k, j] = 0.0
    P[j, j] = variance
