"""Columns of features and the prior of the parameter, the same in whatever units features come.

A column keeps a few of its values that differ from its reference. Their quantile is its size, and
what lies several sizes away is limited, so that no number has more than the leverage of ordinary
ones. A number that comes again and again takes its place among the values that are kept, and is
ordinary then. A column that has never moved says nothing, whatever its value is, and its slope has
no variance.

The prior follows the features that are offered, after Zellner's g-prior: a typical action has
Var(a . theta) = 1/lam. With few features it is made of all their second moments, so that no change
of units, no shift and no rotation changes what is believed. Large models take the variances alone,
about the means, so that units and shifts still change nothing.

Notation
--------
x            number as it is offered
reference    the first value, or the median of the values kept where the first lies far from all
             or where half of them are the same
u            min(max(x, low), high) - reference: what the model is given
moved        how many values differed from the reference
size         quantile of |x - reference| among the values kept
x_bar        (d,) mean of the features, the constant included; about it a base and slopes are apart
n            scalar features that were ever anything but 0
"""

from __future__ import annotations

from driftbandits.core import Model, State
from driftbandits.core import linalg as la
from driftbandits.core.estimator.model import Floats
from driftbandits.jit import inlined, internal
from driftbandits.policies.auto.record import (
    BASE_PRECISION,
    KEPT_VALUES,
    KINDS,
    LONE_BASE_PRECISION,
    MATERN12,
    MATERN32,
    NEW_BASE_PRECISION,
    TIGHTNESS,
    Belief,
)

_SAME = 1e-12  # values nearer than this, relative to their size, are the same
_RECENT = 3.0  # values kept and moments are of the last third of all
_ORDINARY = 0.88  # share of the values that are not larger than the size
_LIMIT = 5.0  # sizes that a number may be away from the reference, ...
_LIMIT_OF_ONE = 80.0  # ... and more while few values are known
_MOSTLY = 0.6  # share of values that differ from a reference which may have been an accident
_FAR = 300.0  # spreads from the median, from which a first reference was one
_OTHER_SIZE = 1000.0  # times its size: a column means something else now


@inlined
def slopes_of(model: Model, belief: Belief) -> int:
    """Number of features, the constant not counted."""
    return int(model.d - belief.constant[0])


@inlined
def has_moved(belief: Belief, j: int) -> bool:
    return bool(belief.moved[j] > 0.0)


@internal
def follow_columns(model: Model, belief: Belief, actions: Floats) -> bool:
    """Let the ranges follow a set of actions; whether a reference or a slope is another."""
    sets, n = belief.sets[0], actions.shape[0]
    is_anew = False
    for j in range(slopes_of(model, belief)):
        if sets == 1 and belief.constant[0]:
            belief.reference[j] = actions[0, j]
        if belief.moved[j] > 0.0:
            x = float(actions[sets % n, j])
            if _differs(x, belief.reference[j]):
                is_anew = _keep(model, belief, j, x) or is_anew
        else:
            for i in range(n):
                if _differs(actions[i, j], belief.reference[j]):
                    is_anew = _keep(model, belief, j, float(actions[i, j])) or is_anew
                    break
    return is_anew


@inlined
def _differs(x: float, reference: float) -> bool:
    return bool(abs(x - reference) > _SAME * max(abs(x), abs(reference)))


@internal
def _keep(model: Model, belief: Belief, j: int, x: float) -> bool:
    """Keep a value that differs from the reference; whether that has changed, or the slope."""
    belief.moved[j] += 1.0
    moved = int(belief.moved[j])
    every = max(1, int(moved / (_RECENT * KEPT_VALUES)))
    if moved % every != 0:
        return False
    belief.kept[(moved // every - 1) % KEPT_VALUES, j] = x
    held = min(moved, KEPT_VALUES)
    before, since = belief.reference[j], belief.sets[0] - belief.since[j]
    if belief.constant[0] and moved > 1 and moved > _MOSTLY * since:
        held = _refer_to_median(model, belief, j, held, moved <= KEPT_VALUES)
    size = 0.0
    if held > 0:
        size = _ranked(belief, j, held, max(1, int(_ORDINARY * held)), belief.reference[j], True)
    belief.scale[j] = size
    away = (_LIMIT + _LIMIT_OF_ONE / max(belief.moved[j], 1.0)) * size
    belief.low[j], belief.high[j] = belief.reference[j] - away, belief.reference[j] + away
    begun = belief.begun_scale[j]
    is_anew = size > _OTHER_SIZE * begun or size * _OTHER_SIZE < begun
    if is_anew:
        belief.begun_scale[j] = size
        belief.stamps[j] = belief.version[0] + 1.0
    if is_anew or belief.reference[j] != before:
        _measure_kept(belief, j, held, not model.fast)
        return True
    return False


@internal
def _ranked(belief: Belief, j: int, held: int, rank: int, about: float, is_distance: bool) -> float:
    """The value of that rank among those kept, or among their distances from `about`."""
    chosen = 0.0
    for i in range(held):
        x = belief.kept[i, j] - about
        x = abs(x) if is_distance else x
        below, same = 0, 0
        for k in range(held):
            y = belief.kept[k, j] - about
            y = abs(y) if is_distance else y
            below += y < x
            same += y == x
        if below < rank <= below + same:
            chosen = x
    return chosen


@internal
def _refer_to_median(model: Model, belief: Belief, j: int, held: int, is_early: bool) -> int:
    """Take the median as the reference if the present one lies far off; how many values differ.

    Later only where half of the values are the same: what a column mostly is.
    """
    low = _ranked(belief, j, held, (held + 1) // 2, 0.0, False)
    median = 0.5 * (low + _ranked(belief, j, held, held // 2 + 1, 0.0, False))
    spread = _ranked(belief, j, held, held // 2 + 1, median, True)
    if abs(belief.reference[j] - median) <= _FAR * spread or (spread > 0.0 and not is_early):
        return held
    _shift_all(model, belief, j, median - belief.reference[j])
    belief.reference[j] = median
    differing = 0
    for i in range(held):
        if _differs(belief.kept[i, j], median):
            belief.kept[differing, j] = belief.kept[i, j]
            differing += 1
    belief.moved[j] = differing
    belief.since[j] = belief.sets[0] - held
    if differing == 0:
        belief.begun_scale[j] = 0.0
    return differing


@inlined
def _measure_kept(belief: Belief, j: int, held: int, has_moments: bool) -> None:
    """Take the moments of a column from the values that are kept of it."""
    total, squares = 0.0, 0.0
    for i in range(held):
        u = belief.kept[i, j] - belief.reference[j]
        u = min(max(u, -belief.scale[j]), belief.scale[j])
        total += u
        squares += u * u
    share = belief.moved[j] / max(belief.sets[0] - belief.since[j], 1.0)
    mean = share * total / max(held, 1)
    belief.centre[j] = mean
    belief.variance[j] = share * squares / max(held, 1) - mean * mean
    if has_moments:
        for k in range(belief.moments.shape[1]):
            product = belief.centre[j] * belief.centre[k]
            belief.moments[0, j, k] = belief.moments[0, k, j] = product
        belief.moments[0, j, j] += belief.variance[j]


@internal
def _shift_all(model: Model, belief: Belief, j: int, shift: float) -> None:
    """Let feature j be counted from a reference that is larger by `shift`, in every Gaussian."""
    last = model.d - 1
    for r in range(belief.segments[0]):
        _shift(belief.theta[r], belief.P[r], j, last, shift)
    for i in range(belief.drift_means.shape[0]):
        _shift(belief.drift_means[i], belief.drift_P[i], j, last, shift)
    _shift(belief.mean, belief.prior_P, j, last, shift)
    if not model.fast:
        for i in range(belief.velocity.shape[0]):
            _shift(belief.velocity[i], belief.velocity_P[i], j, last, shift)
            shift_matrix(belief.cross_P[i], j, last, shift)


@inlined
def _shift(theta: Floats, P: Floats, j: int, last: int, shift: float) -> None:
    theta[last] += shift * theta[j]
    shift_matrix(P, j, last, shift)


@inlined
def shift_matrix(P: Floats, j: int, last: int, shift: float) -> None:
    for k in range(P.shape[0]):
        P[last, k] += shift * P[j, k]
    for k in range(P.shape[0]):
        P[k, last] += shift * P[k, j]


@internal
def limit_actions(model: Model, belief: Belief, actions: Floats, features: Floats) -> None:
    """features := actions as the model is given them; count what was limited."""
    slopes = slopes_of(model, belief)
    for i in range(actions.shape[0]):
        for j in range(slopes):
            x = float(actions[i, j])
            features[i, j] = limited(belief, j, x)
            is_limited = has_moved(belief, j) and not belief.low[j] <= x <= belief.high[j]
            if is_limited and (i == 0 or x != actions[i - 1, j]):
                belief.limited[j] += 1.0
                belief.last_limited[j] = x
                belief.limits[0] += 1
        if belief.constant[0]:
            features[i, slopes] = 1.0


@inlined
def limited(belief: Belief, j: int, x: float) -> float:
    """u."""
    within = min(max(x, belief.low[j]), belief.high[j])
    return float(within - belief.reference[j]) if has_moved(belief, j) else 0.0


@inlined
def limit_row(model: Model, state: State, belief: Belief) -> None:
    """scratch.row := the same of one action that was remembered as it was offered."""
    row = state.scratch.row
    for j in range(slopes_of(model, belief)):
        row[j] = limited(belief, j, row[j])


@internal
def limit_reward(model: Model, belief: Belief, reward: float) -> float:
    """A reward of a linear model, limited to what its rewards have shown.

    The place of the constant, which needs no range, keeps that of the rewards.
    """
    j = model.d - 1
    if not (model.linear and belief.constant[0]):
        return reward
    belief.moved[j] += 1.0
    seen = int(belief.moved[j])
    every = max(1, int(seen / (_RECENT * KEPT_VALUES)))
    if seen % every == 0:
        belief.kept[(seen // every - 1) % KEPT_VALUES, j] = reward
        held = min(seen, KEPT_VALUES)
        median = _ranked(belief, j, held, (held + 1) // 2, 0.0, False)
        same = 0
        for i in range(held):
            same += belief.kept[i, j] == median
        rank = same + max(1, int(_ORDINARY * (held - same)))
        scale = _ranked(belief, j, held, rank, median, True) if held > same else 0.0
        away = (_LIMIT + _LIMIT_OF_ONE / seen) * scale
        belief.low[j], belief.high[j] = median - away, median + away
    limit = limited_reward(model, belief, reward)
    if limit != reward:
        belief.limited[j] += 1.0
        belief.last_limited[j] = reward
    return limit


@inlined
def limited_reward(model: Model, belief: Belief, reward: float) -> float:
    """A reward that was remembered as it came, as the model is given it."""
    j = model.d - 1
    if not (model.linear and belief.constant[0] and belief.low[j] < belief.high[j]):
        return reward
    return float(min(max(reward, belief.low[j]), belief.high[j]))


@inlined
def set_estimates(model: Model, state: State, belief: Belief, base: float) -> None:
    """theta_hat, theta := mean of the belief for features as they are offered, beyond a base."""
    last = model.d - 1
    la.copy(belief.mean, state.theta_hat)
    for j in range(slopes_of(model, belief)):
        state.theta_hat[last] -= belief.reference[j] * belief.mean[j]
    if belief.constant[0]:
        state.theta_hat[last] += base
    la.copy(state.theta_hat, state.theta)


# -- the prior -------------------------------------------------------------------------------------

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
        la.set_to_identity(products, 0.0)
        for i in range(n):
            la.add_outer(products, 1.0 / n, features[i])
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
        la.cholesky(state.scratch.quadratic, state.scratch.factor)
        la.inverse(state.scratch.factor, out)
    else:
        n, lam = count_seen(model, belief), model.lam * TIGHTNESS[kind]
        la.set_to_identity(out, 0.0)
        base = 1.0 / base_precision(belief, kind, is_new, n)
        for j in range(slopes):
            if has_moved(belief, j):
                out[j, j] = 1.0 / _slope_precision(belief, lam, n, j)
            if belief.constant[0]:
                out[d - 1, j] = out[j, d - 1] = -out[j, j] * belief.centre[j]
                base += out[j, j] * belief.centre[j] * belief.centre[j]
        if belief.constant[0]:
            out[d - 1, d - 1] = base
    clear_unseen(model, belief, out)


@inlined
def clear_unseen(model: Model, belief: Belief, P: Floats) -> None:
    for j in range(slopes_of(model, belief)):
        if not has_moved(belief, j):
            for k in range(model.d):
                P[j, k] = P[k, j] = 0.0


@internal
def _begin_slopes(model: Model, belief: Belief, version: int) -> None:
    """Let the slopes of columns that have begun anew since a version be those of the prior."""
    for j in range(slopes_of(model, belief)):
        if belief.stamps[j] > version and has_moved(belief, j):
            _begin_slope(model, belief, j)


@internal
def _begin_slope(model: Model, belief: Belief, j: int) -> None:
    alone = 1.0 / _slope_precision(belief, model.lam, count_seen(model, belief), j)
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
    for j in range(slopes_of(model, common)):
        shift = common.reference[j] - belief.reference[j]
        if shift != 0.0:
            _shift_all(model, belief, j, shift)
        belief.reference[j], belief.moved[j] = common.reference[j], common.moved[j]
        belief.low[j], belief.high[j] = common.low[j], common.high[j]
        belief.scale[j], belief.stamps[j] = common.scale[j], common.stamps[j]
        belief.centre[j], belief.variance[j] = common.centre[j], common.variance[j]
    belief.sets[0], belief.version[0] = common.sets[0], common.version[0]
    belief.constant[0], belief.offered[0] = common.constant[0], common.offered[0]
    la.copy_matrix(common.prior_P, belief.prior_P)
    if not model.fast:
        la.copy_matrix(common.moments[0], belief.moments[0])
    _begin_slopes(model, belief, version)
