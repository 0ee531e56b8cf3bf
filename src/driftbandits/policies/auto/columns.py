"""Columns as a belief sees them: counted from a reference, and limited to a range that they show.

A column keeps a few of its values that differ from its reference. Their quantile is its size, and
what lies several sizes away is limited, so that no number has more than the leverage of ordinary
ones. A number that comes again and again takes its place among the values that are kept, and is
ordinary then. A column that has never moved says nothing, whatever its value is, and its slope has
no variance. All of this is the same in whatever units a column comes.

Notation
--------
x            number as it is offered
reference    the first value, or the median of the values kept where the first lies far from all
             or where half of them are the same
u            min(max(x, low), high) - reference: what the model is given
moved        how many values differed from the reference
size         quantile of |x - reference| among the values kept
"""

from __future__ import annotations

import numpy as np

from driftbandits.core import Model, State
from driftbandits.core.estimator.model import Floats
from driftbandits.jit import allocating, inlined, internal
from driftbandits.policies.auto.record import KEPT_VALUES, Belief

_SAME = 1e-12  # values nearer than this, relative to their size, are the same
_RECENT = 3.0  # the values kept are of the last third of all
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


@allocating
def new_features(model: Model, actions: Floats) -> Floats:
    """Room for a set of actions as the model is given them, (K, d)."""
    return np.empty((actions.shape[0], model.d))


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
            if y < x:
                below += 1
            elif y == x:
                same += 1
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
    if not has_moved(belief, j):
        return 0.0
    return float(min(max(x, belief.low[j]), belief.high[j]) - belief.reference[j])


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
            if belief.kept[i, j] == median:
                same += 1
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
    for j in range(model.d):
        state.theta_hat[j] = belief.mean[j]
    for j in range(slopes_of(model, belief)):
        state.theta_hat[last] -= belief.reference[j] * belief.mean[j]
    if belief.constant[0]:
        state.theta_hat[last] += base
    for j in range(model.d):
        state.theta[j] = state.theta_hat[j]


@internal
def take_columns(model: Model, belief: Belief, common: Belief) -> None:
    """Let an arm have the columns of all arms, its Gaussians counted from their references."""
    for j in range(slopes_of(model, common)):
        shift = common.reference[j] - belief.reference[j]
        if shift != 0.0:
            _shift_all(model, belief, j, shift)
        belief.reference[j], belief.moved[j] = common.reference[j], common.moved[j]
        belief.low[j], belief.high[j] = common.low[j], common.high[j]
        belief.scale[j], belief.stamps[j] = common.scale[j], common.stamps[j]
        belief.centre[j], belief.variance[j] = common.centre[j], common.variance[j]
