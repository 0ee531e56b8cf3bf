"""A pool of memories: estimates that forget at different speeds, trusted as they predict.

No memory is right for a world that nobody knows. Five filters learn every reward, one that keeps
everything and four that forget. Three more forecasts cost nothing: where a parameter moves
steadily, a short memory lags by its length and a longer one by more, so the line through both
points to the present (Brown 1963, double exponential smoothing).

- Each filter is a recursive Laplace approximation: a Gaussian belief that every reward moves to
  the mode of prior times likelihood. One reward informs one direction only, so the mode is
  the root of a scalar equation.
- Forecasts are weighted by the evidence of the rewards they predicted, with a fixed share that
  lets weight come back (Herbster and Warmuth 1998). Two such mixtures run side by side, one of
  them nearly sure that nothing changes; their own evidence decides between them.
- The belief of the pool is one Gaussian with the mean and covariance of the mixture, so doubt
  about the memory widens the bonus as doubt within a filter does. No bound on theta or on the
  actions enters.
- When a filter that forgets has predicted better than the one that keeps everything by more than
  a threshold since some round (Page 1954), a change at that round is reported, and the filters that
  remember further back learn again from the rows since then.

Notation
--------
theta_j    (d,)     mean of filter j
Lambda_j   (d, d)   its precision, in units of 1/phi
ridge      scalar   precision to which a filter forgets: actions like the first ones then
                    have Var(a . theta) = 1/lam
phi        scalar   dispersion: Var(X) over that of the reward model
q          scalar   a' Lambda_j^-1 a
weights    (2, 8)   of the forecasts in either mixture; trust (2,) of the mixtures
C_j        scalar   evidence of filter j over filter 0 since it was last below 0
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from driftbandits import links
from driftbandits.estimator import Model, State
from driftbandits.estimator.inverse import (
    BLOCK,
    FOR_SQUARES,
    fade,
    room_in,
    solve,
)
from driftbandits.estimator.memory import insert_row, load_row
from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import (
    BEGUN,
    FITTED,
    HEAD,
    LEFT,
    MISSING,
    STALE,
    TAIL,
    Buffers,
    N,
)
from driftbandits.jit import inlined, internal, leaf, reader_of
from driftbandits.linalg import (
    add_outer,
    cholesky,
    copy,
    dot,
    dot_large,
    inverse,
    set_to_identity,
)
from driftbandits.policies.adaptations.filters import (
    DISCOUNTS,
    FILTERS,
    FORECASTS,
    KEPT_ROUNDS,
    LAYOUT,
    MIXTURES,
    Pool,
    empty,
    evidence,
    predict,
    update,
)
from driftbandits.policies.adaptations.fixed import window_for
from driftbandits.policies.carrying import Move, carried_precision
from driftbandits.policies.detection import record_detection
from driftbandits.policies.scoring import OWN_NUMBERS, Scoring, load_block, mean_square
from driftbandits.theory import Confidence

if TYPE_CHECKING:
    from driftbandits.policies.configuration import Policy

__all__ = ["LAYOUT", "window_for"]

FAMILY = "pooled"
IN_COMMON = {
    "counters": ("since",),
    "gauges": ("ridge", "spread", "expected_spread", "weights", "trust", "lead"),
}
"""What separate arms share, by store; those of one store lie in a row."""
_LEAD = 1.0 / 3.0  # a line through lags n and 4 n meets lag 0 a third of its length beyond
_LEAD_VARIANCE = 1.5  # of a line over that of its nearer end, which the other end shares in part
_PRIOR = np.array([[0.95] + 7 * [0.05 / 7], 8 * [1 / 8]])
_SHARE = np.array([0.001, 0.0002])
_TRUST = np.array([0.3, 0.7])
_TRUST_SHARE = 0.0001
_DISPERSION_MEMORY = 1000.0
_DISPERSION_PRIOR = 20.0
_SMALLEST_DISPERSION = 0.02
_NEGLIGIBLE = 1e-4
OPTIMISM = 0.6
"""Standard deviations of a.theta that a score adds to its mean."""


class Numbers(NamedTuple):
    """The test for a change."""

    threshold: float  # of C_j; 0: none is looked for


_pool_of, _numbers_of = LAYOUT.of, reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy) -> Numbers:
    looks = policy.row.false_alarm_rate > 0.0
    return Numbers(threshold=-math.log(policy.false_alarm_rate) if looks else 0.0)


def sizes_for(policy: Policy) -> dict[str, int]:
    sizes = dict(LAYOUT.sizes)
    if not policy.fast:
        sizes["vectors"] -= FILTERS
        sizes["matrices"] -= FILTERS
    return sizes


def weights_of_ages(policy: Policy, buffers: Buffers, ages: Floats) -> Floats:
    """The mean over the forecasts."""
    pool: Pool = LAYOUT.in_python(buffers)
    weights = np.zeros_like(ages)
    for c in range(MIXTURES):
        for k in range(FORECASTS):
            weight = pool.trust[c] * pool.weights[c * FORECASTS + k]
            weights += weight * DISCOUNTS[k if k < FILTERS else k - FILTERS + 2] ** ages
    return weights


def carry_over(policy: Policy, old: Buffers, new: Buffers, move: Move) -> None:
    """The filters with other coordinates; new ones have the precision to which filters forget."""
    before: Pool = LAYOUT.in_python(old)
    after: Pool = LAYOUT.in_python(new)
    if not before.ridge[0] > 0.0:
        return
    prior = np.full(policy.model_dim, before.ridge[0])
    for j in range(FILTERS):
        after.theta[j] = move.moved(before.theta[j], policy.model_dim)
        precision = before.precision[j]
        if policy.fast:
            left, missing = before.notes[j, LEFT], before.notes[j, MISSING]
            precision = left * precision + missing * np.eye(len(precision))
            after.notes[j, LEFT] = after.notes[j, STALE] = 1.0  # the inverse is made anew
        after.precision[j] = carried_precision(precision, move, prior)


@inlined
def _prepare(model: Model, pool: Pool, square: float) -> None:
    """Set the filters up, once, by the squared length of a typical action."""
    if pool.ridge[0] > 0.0:
        return
    pool.ridge[0] = model.lam * (square if square > 0.0 else 1.0)
    for j in range(FILTERS):
        empty(model, pool, j)
    for c in range(MIXTURES):
        pool.trust[c] = _TRUST[c]
        for k in range(FORECASTS):
            pool.weights[c * FORECASTS + k] = _PRIOR[c, k]


@inlined
def advance(model: Model, state: State, rounds: int) -> None:
    """Let the clock go on: the filters that forget become less sure."""
    counters, pool = state.counters, _pool_of(state.stores)
    counters[N] += rounds
    if pool.ridge[0] > 0.0:
        for j in range(1, FILTERS):
            decay = DISCOUNTS[j] if rounds == 1 else DISCOUNTS[j] ** rounds
            if model.fast:
                fade(pool.notes[j], decay, pool.ridge[0], rounds)
                continue
            for i in range(model.d):
                for k in range(model.d):
                    pool.precision[j, i, k] *= decay
                pool.precision[j, i, i] += (1.0 - decay) * pool.ridge[0]
    oldest = counters[N] - KEPT_ROUNDS
    while counters[HEAD] < counters[TAIL] and state.rows[model.d + 1, counters[HEAD]] <= oldest:
        counters[HEAD] += 1
    counters[FITTED] = 0


@internal
def learn(
    model: Model,
    scoring: Scoring,
    confidence: Confidence,
    numbers: Floats,
    state: State,
    reward: float,
    s: int,
) -> None:
    pool, row = _pool_of(state.stores), state.scratch.row
    outcome = reward - scoring.centre
    _prepare(model, pool, dot(row, row))
    phi = _present_dispersion(model, pool)
    age = float(state.counters[N] - s)
    for j in range(FILTERS):
        predict(model, state, pool, j, outcome, phi)
        update(model, state, pool, j, outcome, DISCOUNTS[j] ** age)
    for k in range(FILTERS, FORECASTS):
        near = _near(k)
        z = _on_line(pool.forecast[near], pool.forecast[near - 1])
        q = _LEAD_VARIANCE * pool.doubt[near]
        pool.evidence[k] = evidence(model, outcome, z, q, phi)
    _measure_dispersion(model, pool, outcome)
    _reweigh(pool)
    if age < KEPT_ROUNDS:
        insert_row(model, state, outcome, float(s))
    threshold = _numbers_of(numbers).threshold
    if threshold > 0.0:
        _look_for_change(model, state, pool, s, threshold)
    state.counters[FITTED] = 0


@inlined
def _near(k: int) -> int:
    """The filter at the nearer end of line k; the other end is the filter before it."""
    return k - FILTERS + 2


@inlined
def _on_line(near: float, far: float) -> float:
    return near + _LEAD * (near - far)


@inlined
def _weight_of(pool: Pool, k: int) -> float:
    """The weight of forecast k over both mixtures."""
    total = 0.0
    for c in range(MIXTURES):
        total += pool.trust[c] * pool.weights[c * FORECASTS + k]
    return total


@leaf
def dispersion(link: int, m: float, seen: float, expected: float) -> float:
    """Variance of the rewards over what the reward model says."""
    measured: float = links.dispersion(link, m, _DISPERSION_PRIOR, seen, expected)
    return max(measured, _SMALLEST_DISPERSION)


@inlined
def _present_dispersion(model: Model, pool: Pool) -> float:
    return dispersion(model.link, model.m, pool.spread[0], pool.expected_spread[0])


@inlined
def _measure_dispersion(model: Model, pool: Pool, reward: float) -> None:
    z = 0.0
    for k in range(FORECASTS):
        near = k if k < FILTERS else _near(k)
        forecast = pool.forecast[near]
        if k >= FILTERS:
            forecast = _on_line(forecast, pool.forecast[near - 1])
        z += _weight_of(pool, k) * forecast
    mean = links.mean(model.link, model.m, z)
    seen, expected = links.spread(model.link, model.m, reward, mean)
    decay = 1.0 - 1.0 / _DISPERSION_MEMORY
    pool.spread[0] = decay * pool.spread[0] + seen
    pool.expected_spread[0] = decay * pool.expected_spread[0] + expected


@inlined
def _reweigh(pool: Pool) -> None:
    best = pool.evidence[0]
    for k in range(1, FORECASTS):
        best = max(best, pool.evidence[k])
    trust = 0.0
    for c in range(MIXTURES):
        first = c * FORECASTS
        total = 0.0
        for k in range(FORECASTS):
            pool.weights[first + k] *= math.exp(pool.evidence[k] - best)
            total += pool.weights[first + k]
        for k in range(FORECASTS):
            kept = (1.0 - _SHARE[c]) * pool.weights[first + k] / total
            pool.weights[first + k] = kept + _SHARE[c] * _PRIOR[c, k]
        pool.trust[c] *= total
        trust += pool.trust[c]
    for c in range(MIXTURES):
        kept = (1.0 - _TRUST_SHARE) * pool.trust[c] / trust
        pool.trust[c] = kept + _TRUST_SHARE * _TRUST[c]


@inlined
def _look_for_change(model: Model, state: State, pool: Pool, s: int, threshold: float) -> None:
    winner = leading_filter(pool, s, threshold)
    if winner > 0:
        report_change(model, state, pool, winner, threshold)


@inlined
def leading_filter(pool: Pool, s: int, threshold: float) -> int:
    """The filter whose C_j exceeds the threshold by most, after a reward of round s; 0: none."""
    winner = 0
    for j in range(1, FILTERS):
        pool.lead[j] += pool.evidence[j] - pool.evidence[0]
        if pool.lead[j] <= 0.0:
            pool.lead[j] = 0.0
            pool.since[j] = s
        if pool.lead[j] > max(threshold, pool.lead[winner]):
            winner = j
    return winner


@inlined
def report_change(model: Model, state: State, pool: Pool, winner: int, threshold: float) -> None:
    change = pool.since[winner] + 1
    record_detection(state, change, pool.lead[winner], threshold)
    _forget_before(model, state, pool, change, winner)


@internal
def _forget_before(model: Model, state: State, pool: Pool, change: int, winner: int) -> None:
    """Let the filters that remember at least as far as the winner learn again from a change on."""
    counters, rows, d = state.counters, state.rows, model.d
    while counters[HEAD] < counters[TAIL] and rows[d + 1, counters[HEAD]] < change:
        counters[HEAD] += 1
    counters[BEGUN] = change - 1
    for j in range(winner + 1):
        empty(model, pool, j)
        for i in range(counters[HEAD], counters[TAIL]):
            load_row(model, state, i)
            predict(model, state, pool, j, rows[d, i], 1.0)
            weight = DISCOUNTS[j] ** (counters[N] - rows[d + 1, i])
            update(model, state, pool, j, rows[d, i], weight)
    for j in range(FILTERS):
        pool.lead[j] = 0.0
        pool.since[j] = counters[N]


@internal
def estimate(
    model: Model, scoring: Scoring, numbers: Floats, state: State, seed: int, actions: Floats
) -> None:
    """theta_hat, theta := mean of the mixture, scratch.bonus := its covariance."""
    d, pool, theta_hat = model.d, _pool_of(state.stores), state.theta_hat
    _prepare(model, pool, mean_square(model, scoring, actions))
    for i in range(d):
        theta_hat[i] = 0.0
    for k in range(FORECASTS):
        weight = _weight_of(pool, k)
        for i in range(d):
            theta_hat[i] += weight * _coordinate(pool, k, i)
    copy(theta_hat, state.theta)
    if not model.fast:  # large models measure the actions instead
        _make_covariance(model, state, pool)
    state.counters[FITTED] = 1


@inlined
def _share_of_filter(pool: Pool, j: int) -> float:
    """What the covariance of a filter weighs in that of the mixture: its line is its own too."""
    own = _weight_of(pool, j)
    if j >= 2:
        own += _LEAD_VARIANCE * _weight_of(pool, FILTERS + j - 2)
    return own


@inlined
def _make_covariance(model: Model, state: State, pool: Pool) -> None:
    """scratch.bonus := covariance of the mixture."""
    d, scratch, theta_hat = model.d, state.scratch, state.theta_hat
    bonus = scratch.bonus
    set_to_identity(bonus, 0.0)
    phi = _present_dispersion(model, pool)
    for j in range(FILTERS):
        own = _share_of_filter(pool, j)
        if own > _NEGLIGIBLE:
            cholesky(pool.precision[j], scratch.factor)
            inverse(scratch.factor, scratch.inverse)
            for i in range(d):
                for k in range(d):
                    bonus[i, k] += phi * own * scratch.inverse[i, k]
    for k in range(FORECASTS):
        weight = _weight_of(pool, k)
        if weight > _NEGLIGIBLE:
            for i in range(d):
                scratch.step[i] = _coordinate(pool, k, i) - theta_hat[i]
            add_outer(bonus, weight, scratch.step)


@internal
def measure(model: Model, scoring: Scoring, state: State, actions: Floats, table: Floats) -> None:
    """Row 3 of `table`: variances of a . theta in the mixture, a block of actions at a time."""
    pool, room = _pool_of(state.stores), room_in(state)
    phi, theta_hat = _present_dispersion(model, pool), state.theta_hat
    for start in range(0, actions.shape[0], BLOCK):
        n = load_block(scoring, actions, start, room.rows)
        for i in range(n):
            table[3, start + i] = 0.0
        for j in range(FILTERS):
            own = _share_of_filter(pool, j)
            if own > _NEGLIGIBLE:
                solve(
                    pool.precision[j], False, pool.inverse[j], pool.notes[j], room, n, FOR_SQUARES
                )
                for i in range(n):
                    table[3, start + i] += phi * own * room.squares[i]
        for k in range(FORECASTS):
            weight = _weight_of(pool, k)
            if weight > _NEGLIGIBLE:
                step = state.scratch.step
                for i in range(model.d):
                    step[i] = _coordinate(pool, k, i) - theta_hat[i]
                for i in range(n):
                    away = dot_large(room.rows[i], step)
                    table[3, start + i] += weight * away * away


@inlined
def _coordinate(pool: Pool, k: int, i: int) -> float:
    """Coordinate i of the parameter that forecast k believes in."""
    if k < FILTERS:
        return float(pool.theta[k, i])
    near = _near(k)
    return _on_line(pool.theta[near, i], pool.theta[near - 1, i])
