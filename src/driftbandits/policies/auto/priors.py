"""The prior of the parameter, which is the same in whatever units features come.

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

from driftbandits.core import (
    Model,
    State,
    add_outer,
    cholesky,
    copy_matrix,
    inverse,
    set_to_identity,
)
from driftbandits.core.estimator.model import Floats
from driftbandits.jit import inlined, internal
from driftbandits.policies.auto.columns import (
    follow_columns,
    has_moved,
    limit_actions,
    shift_matrix,
    slopes_of,
    take_columns,
)
from driftbandits.policies.auto.record import (
    BASE_PRECISION,
    KINDS,
    LONE_BASE_PRECISION,
    MATERN12,
    MATERN32,
    NEW_BASE_PRECISION,
    TIGHTNESS,
    Belief,
)

_RECENT = 3.0  # the moments are those of the last third of all sets
_GROWTH = 1.2  # of the number of sets from one renewal to the next
_RARE = 0.25  # a feature of its usual size is believed to move a . theta by at most 2/sqrt(lam)
_JITTER = 1e-8


@internal
def observe(model: Model, state: State, belief: Belief, actions: Floats, features: Floats) -> None:
    """Let columns and prior follow a set of actions; features := what the model is given."""
    belief.sets[0] += 1
    is_anew = follow_columns(model, belief, actions)
    limit_actions(model, belief, actions, features)
    _follow_moments(model, state, belief, features[: _different(actions)])
    if is_anew:
        belief.version[0] += 1
        _begin_slopes(model, belief, belief.version[0] - 1)
    if belief.sets[0] >= belief.renewal[0] or belief.kind[0] != belief.prior_kind[0]:
        belief.renewal[0] = max(belief.sets[0] + 1, int(_GROWTH * belief.sets[0]))
        belief.prior_kind[0] = belief.kind[0]
        belief.version[0] += 1
        make_covariance(model, state, belief, belief.kind[0], True, belief.prior_P)


@inlined
def _different(actions: Floats) -> int:
    """1 where all actions are the same, as those of separate arms are, else their number."""
    for i in range(1, actions.shape[0]):
        for j in range(actions.shape[1]):
            if actions[i, j] != actions[0, j]:
                return int(actions.shape[0])
    return 1


@internal
def _follow_moments(model: Model, state: State, belief: Belief, features: Floats) -> None:
    d, n = model.d, features.shape[0]
    rate = _RECENT / (belief.sets[0] - 1.0 + _RECENT)
    belief.offered[0] = min(belief.offered[0] + n, n * (belief.sets[0] / _RECENT + 1.0))
    for j in range(d):
        total, squares, before = 0.0, 0.0, belief.centre[j]
        for i in range(n):
            away = features[i, j] - before
            total += away
            squares += away * away
        step = rate * total / n
        belief.centre[j] = before + step
        squares = rate * (squares / n - belief.variance[j]) - step * step
        belief.variance[j] = max(belief.variance[j] + squares, 0.0)
    if not model.fast:
        products = belief.moments[1]
        set_to_identity(products, 0.0)
        for i in range(n):
            add_outer(products, 1.0 / n, features[i])
        for j in range(d):
            for k in range(d):
                belief.moments[0, j, k] += rate * (products[j, k] - belief.moments[0, j, k])


@inlined
def count_seen(model: Model, belief: Belief) -> float:
    """Count n, the coefficients that features have moved."""
    n = int(belief.constant[0])
    for j in range(slopes_of(model, belief)):
        if has_moved(belief, j):
            n += 1
    return float(max(n, 1))


@inlined
def _slope_precision(belief: Belief, lam: float, n: float, j: int) -> float:
    """Prior precision of one slope by itself; a rare feature counts as one of n of its size."""
    about = belief.centre[j]
    variance, size = belief.variance[j], belief.scale[j]
    if belief.constant[0]:
        size = max(size - abs(about), 0.0)  # about the mean, as far as that is known
    else:
        variance += about * about
    return float(lam * max(n * variance, _RARE * size * size))


@inlined
def base_precision(belief: Belief, kind: int, is_new: bool, n: float) -> float:
    """Precision of the base; that of a later segment, or of one of many arms, is known better.

    Arms without features differ by their bases alone, so the loosest prior lets these differ more.
    """
    precision = float(BASE_PRECISION[kind])
    is_an_arm = belief.base_variance[0] > 0.0
    if is_an_arm and n == 1.0 and kind == KINDS - 1:
        return LONE_BASE_PRECISION
    is_known = is_new or is_an_arm
    return NEW_BASE_PRECISION if is_known and precision < NEW_BASE_PRECISION else precision


@internal
def make_precision(model: Model, belief: Belief, kind: int, is_new: bool, out: Floats) -> None:
    """out := precision of the prior of a small model; of features that never moved, the identity.

    While few actions were offered their products are chance, and are believed only in part.
    """
    d, slopes, n = model.d, slopes_of(model, belief), count_seen(model, belief)
    lam = model.lam * TIGHTNESS[kind]
    shrunk = min(1.0, (n / max(belief.offered[0], 1.0)) ** 4)
    about = float(belief.constant[0])
    for j in range(slopes):
        for k in range(slopes):
            product = belief.moments[0, j, k] - about * belief.centre[j] * belief.centre[k]
            out[j, k] = lam * n * (1.0 - shrunk) * product
        if has_moved(belief, j):
            out[j, j] = _slope_precision(belief, lam, n, j) * (1.0 + _JITTER)
        else:
            out[j, j] = 1.0
    if belief.constant[0]:
        base = base_precision(belief, kind, is_new, n)
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
    """out := covariance of a prior; 0 for features that never moved."""
    d, slopes = model.d, slopes_of(model, belief)
    if not model.fast:
        make_precision(model, belief, kind, is_new, state.scratch.quadratic)
        cholesky(state.scratch.quadratic, state.scratch.factor)
        inverse(state.scratch.factor, out)
    else:
        n, lam = count_seen(model, belief), model.lam * TIGHTNESS[kind]
        set_to_identity(out, 0.0)
        base = 1.0 / base_precision(belief, kind, is_new, n)
        for j in range(slopes):
            if has_moved(belief, j):
                out[j, j] = 1.0 / _slope_precision(belief, lam, n, j)
            if belief.constant[0]:
                out[d - 1, j] = out[j, d - 1] = -out[j, j] * belief.centre[j]
                base += out[j, j] * belief.centre[j] * belief.centre[j]
        if belief.constant[0]:
            out[d - 1, d - 1] = base
    for j in range(slopes):
        if not has_moved(belief, j):
            for k in range(d):
                out[j, k] = out[k, j] = 0.0


@internal
def _begin_slopes(model: Model, belief: Belief, version: int) -> None:
    """Let the slopes of columns that have begun anew since a version be those of the prior."""
    for j in range(slopes_of(model, belief)):
        if belief.stamps[j] > version and has_moved(belief, j):
            _begin_slope(model, belief, j)


@internal
def _begin_slope(model: Model, belief: Belief, j: int) -> None:
    n, precision = count_seen(model, belief), model.lam
    alone = 1.0 / _slope_precision(belief, precision, n, j)
    likely = alone / TIGHTNESS[belief.kind[0]]
    _set_variance(belief, belief.prior_P, j, likely)
    belief.mean[j] = 0.0
    for r in range(belief.segments[0]):
        belief.theta[r, j] = 0.0
        _set_variance(belief, belief.P[r], j, alone / TIGHTNESS[belief.kinds[r]])
    for i in range(belief.drift_P.shape[0]):
        belief.drift_means[i, j] = 0.0
        _set_variance(belief, belief.drift_P[i], j, likely)
        if not model.fast and i >= MATERN12:
            for k in range(model.d):
                belief.cross_P[i - MATERN12, j, k] = belief.cross_P[i - MATERN12, k, j] = 0.0
    if not model.fast:
        for i in range(MATERN32):
            belief.velocity[i, j] = 0.0
            _set_variance(belief, belief.velocity_P[i], j, likely)


@inlined
def _set_variance(belief: Belief, P: Floats, j: int, variance: float) -> None:
    """Let a slope have that variance, and say nothing of an action in the mean."""
    for k in range(P.shape[0]):
        P[j, k] = P[k, j] = 0.0
    P[j, j] = variance
    if belief.constant[0]:
        shift_matrix(P, j, P.shape[0] - 1, -belief.centre[j])


@internal
def take_prior(model: Model, belief: Belief, common: Belief) -> None:
    """Let an arm have the columns and the prior of all arms, where they have changed."""
    version = belief.version[0]
    if version == common.version[0]:
        return
    take_columns(model, belief, common)
    belief.sets[0], belief.version[0] = common.sets[0], common.version[0]
    belief.constant[0], belief.offered[0] = common.constant[0], common.offered[0]
    copy_matrix(common.prior_P, belief.prior_P)
    if not model.fast:
        copy_matrix(common.moments[0], belief.moments[0])
    _begin_slopes(model, belief, version)
