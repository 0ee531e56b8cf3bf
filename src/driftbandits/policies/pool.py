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
theta_j    (d,)     mean of filter j                       vectors[FILTER + j]
Lambda_j   (d, d)   its precision, in units of 1/phi       matrices[FILTER_PRECISION + j]
ridge      scalar   precision to which a filter forgets: actions like the first ones then
                    have Var(a . theta) = 1/lam
phi        scalar   dispersion: Var(X) over that of the reward model
q          scalar   a' Lambda_j^-1 a
weights    (2, 8)   of the forecasts in either mixture; trust (2,) of the mixtures
C_j        scalar   evidence of filter j over filter 0 since it was last below 0
"""

from __future__ import annotations

import math

import numpy as np

from driftbandits import links
from driftbandits.estimator.memory import insert_row
from driftbandits.estimator.model import (
    BEGUN,
    BONUS,
    COUNTERS,
    FACTOR,
    FITTED,
    GAUGES,
    HEAD,
    M_INVERSE,
    MATRICES,
    ROW,
    STEP,
    TAIL,
    THETA,
    THETA_HAT,
    VECTORS,
    Buffers,
    Floats,
    Model,
    N,
    State,
)
from driftbandits.jit import inlined, internal, leaf, place
from driftbandits.linalg import (
    add_outer,
    backward_solve,
    cholesky,
    copy,
    dot,
    forward_solve,
    inverse,
)
from driftbandits.policies.detection import record_detection

MEMORIES = (math.inf, 2000.0, 500.0, 125.0, 30.0)
"""Rounds that the filters remember, each a quarter of the one before."""
KEPT_ROUNDS = 2000
"""How far back a change may be found."""

_FILTERS = len(MEMORIES)
_FORECASTS = 2 * _FILTERS - 2  # the filters, and the lines through neighbours that forget
_MIXTURES = 2
_DISCOUNTS = np.array([1.0 - 1.0 / n for n in MEMORIES])
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
_MOST_ROOT_STEPS = 60
_ROOT_TOLERANCE = 1e-12
OPTIMISM = 0.6
"""Standard deviations of a.theta that a score adds to its mean."""

FILTER, PRECISION = place(VECTORS), place(MATRICES)
SINCE = place(COUNTERS)  # and on: the round before which C_j was last 0
RIDGE, SPREAD, EXPECTED_SPREAD = (place(GAUGES + i) for i in range(3))
WEIGHT = place(GAUGES + 3)
TRUST = place(GAUGES + 3 + _MIXTURES * _FORECASTS)
LEAD_OF = place(TRUST + _MIXTURES)  # C_j
FORECAST = place(LEAD_OF + _FILTERS)  # scratch: a . theta_j
DOUBT = place(FORECAST + _FILTERS)  # scratch: q of filter j
EVIDENCE = place(DOUBT + _FILTERS)  # scratch: of forecast k
MORE = {
    "more_counters": _FILTERS,
    "more_gauges": int(EVIDENCE) + _FORECASTS - GAUGES,
    "more_vectors": _FILTERS,
    "more_matrices": _FILTERS,
}
"""What the state of a pool has beyond that of an estimator."""


@inlined
def prepare(model: Model, state: State, square: float) -> None:
    """Set the filters up, once, by the squared length of a typical action."""
    gauges = state.gauges
    if gauges[RIDGE] > 0.0:
        return
    gauges[RIDGE] = model.lam * (square if square > 0.0 else 1.0)
    for j in range(_FILTERS):
        _empty(model, state, j)
    for c in range(_MIXTURES):
        gauges[TRUST + c] = _TRUST[c]
        for k in range(_FORECASTS):
            gauges[WEIGHT + c * _FORECASTS + k] = _PRIOR[c, k]


@internal
def _empty(model: Model, state: State, j: int) -> None:
    for i in range(model.d):
        state.vectors[FILTER + j, i] = 0.0
        for k in range(model.d):
            state.matrices[PRECISION + j, i, k] = state.gauges[RIDGE] if i == k else 0.0


@inlined
def advance(model: Model, state: State, rounds: int) -> None:
    """Let the clock go on: the filters that forget become less sure."""
    counters, gauges, matrices = state.counters, state.gauges, state.matrices
    counters[N] += rounds
    if gauges[RIDGE] > 0.0:
        for j in range(1, _FILTERS):
            decay = _DISCOUNTS[j] if rounds == 1 else _DISCOUNTS[j] ** rounds
            for i in range(model.d):
                for k in range(model.d):
                    matrices[PRECISION + j, i, k] *= decay
                matrices[PRECISION + j, i, i] += (1.0 - decay) * gauges[RIDGE]
    oldest = counters[N] - KEPT_ROUNDS
    while counters[HEAD] < counters[TAIL] and state.rows[model.d + 1, counters[HEAD]] <= oldest:
        counters[HEAD] += 1
    counters[FITTED] = 0


@internal
def absorb(model: Model, state: State, reward: float, s: int, threshold: float) -> None:
    """Learn the reward of the action in ROW, chosen in round s."""
    prepare(model, state, dot(state.vectors, ROW, ROW))
    phi = _present_dispersion(model, state)
    age = float(state.counters[N] - s)
    for j in range(_FILTERS):
        _predict(model, state, j, reward, phi)
        _learn(model, state, j, reward, _DISCOUNTS[j] ** age)
    for k in range(_FILTERS, _FORECASTS):
        near = _near(k)
        z = _on_line(state.gauges[FORECAST + near], state.gauges[FORECAST + near - 1])
        q = _LEAD_VARIANCE * state.gauges[DOUBT + near]
        state.gauges[EVIDENCE + k] = evidence(model, reward, z, q, phi)
    _measure_dispersion(model, state, reward)
    _reweigh(state)
    if age < KEPT_ROUNDS:
        insert_row(model, state, reward, float(s))
    if threshold > 0.0:
        _look_for_change(model, state, s, threshold)
    state.counters[FITTED] = 0


@inlined
def _near(k: int) -> int:
    """The filter at the nearer end of line k; the other end is the filter before it."""
    return k - _FILTERS + 2


@inlined
def _on_line(near: float, far: float) -> float:
    return near + _LEAD * (near - far)


@internal
def settled(model: Model, reward: float, z: float, q: float, weight: float) -> float:
    """The root t of t = weight (X - mu(z + q t)): the reward moves theta_j by t Lambda_j^-1 a.

    Newton's method within the bracket that the monotone mu gives.
    """
    surprise = weight * (reward - links.mean(model.link, model.m, z))
    low, high = min(surprise, 0.0), max(surprise, 0.0)
    t = surprise / (1.0 + q * weight * links.slope(model.link, model.m, z))
    for _ in range(_MOST_ROOT_STEPS):
        rise = t - weight * (reward - links.mean(model.link, model.m, z + q * t))
        if rise > 0.0:
            high = t
        else:
            low = t
        step = rise / (1.0 + q * weight * links.slope(model.link, model.m, z + q * t))
        if abs(step) <= _ROOT_TOLERANCE * model.m:
            break
        t -= step
        if not low < t < high:
            t = 0.5 * (low + high)
    return t


@internal
def evidence(model: Model, reward: float, z: float, q: float, phi: float) -> float:
    """Log-likelihood of a reward whose a.theta is believed N(z, phi q), by Laplace's method."""
    t = settled(model, reward, z, q, 1.0)
    mode = z + q * t
    fit = reward * mode - links.log_partition(model.link, model.m, mode) - 0.5 * q * t * t
    return fit / phi - 0.5 * math.log1p(q * links.slope(model.link, model.m, mode))


@internal
def _predict(model: Model, state: State, j: int, reward: float, phi: float) -> None:
    """What filter j says of the action in ROW, and how well the reward agrees with it.

    STEP := Lambda_j^-1 a, along which the reward moves the filter.
    """
    vectors, gauges = state.vectors, state.gauges
    cholesky(state.matrices, PRECISION + j, FACTOR)
    copy(vectors, ROW, STEP)
    forward_solve(state.matrices, FACTOR, vectors, STEP)
    gauges[DOUBT + j] = dot(vectors, STEP, STEP)
    backward_solve(state.matrices, FACTOR, vectors, STEP)
    gauges[FORECAST + j] = dot(vectors, ROW, FILTER + j)
    z, q = gauges[FORECAST + j], gauges[DOUBT + j]
    gauges[EVIDENCE + j] = evidence(model, reward, z, q, phi)


@internal
def _learn(model: Model, state: State, j: int, reward: float, weight: float) -> None:
    """Move filter j along STEP to the mode, after `_predict`."""
    z, q = state.gauges[FORECAST + j], state.gauges[DOUBT + j]
    t = settled(model, reward, z, q, weight)
    for i in range(model.d):
        state.vectors[FILTER + j, i] += t * state.vectors[STEP, i]
    slope = weight * links.slope(model.link, model.m, z + q * t)
    add_outer(state.matrices, PRECISION + j, slope, state.vectors, ROW)


@inlined
def weight_of(state: State, k: int) -> float:
    """The weight of forecast k over both mixtures."""
    gauges = state.gauges
    total = 0.0
    for c in range(_MIXTURES):
        total += gauges[TRUST + c] * gauges[WEIGHT + c * _FORECASTS + k]
    return total


@leaf
def dispersion(link: int, m: float, seen: float, expected: float) -> float:
    """Variance of the rewards over what the reward model says; 1 where they are 0 or m = 1.

    For a share Y in [0, 1] with mean p, Var(Y) = p(1-p) - E[Y(1-Y)].
    """
    prior = _DISPERSION_PRIOR
    if link == links.LOGISTIC:
        inner = prior * (1.0 - 1.0 / m) + seen
        return max(m * (1.0 - inner / (prior + expected)), _SMALLEST_DISPERSION)
    guess = 0.25 * m * m if link == links.IDENTITY else 1.0
    return max((prior * guess + seen) / (prior + expected), _SMALLEST_DISPERSION)


@inlined
def _present_dispersion(model: Model, state: State) -> float:
    gauges = state.gauges
    return dispersion(model.link, model.m, gauges[SPREAD], gauges[EXPECTED_SPREAD])


@inlined
def _measure_dispersion(model: Model, state: State, reward: float) -> None:
    gauges = state.gauges
    z = 0.0
    for k in range(_FORECASTS):
        near = k if k < _FILTERS else _near(k)
        forecast = gauges[FORECAST + near]
        if k >= _FILTERS:
            forecast = _on_line(forecast, gauges[FORECAST + near - 1])
        z += weight_of(state, k) * forecast
    mean = links.mean(model.link, model.m, z)
    if model.link == links.LOGISTIC:
        y, p = reward / model.m, mean / model.m
        seen, expected = 4.0 * y * (1.0 - y), 4.0 * p * (1.0 - p)
    else:
        seen, expected = (reward - mean) ** 2, 1.0 if model.link == links.IDENTITY else mean
    decay = 1.0 - 1.0 / _DISPERSION_MEMORY
    gauges[SPREAD] = decay * gauges[SPREAD] + seen
    gauges[EXPECTED_SPREAD] = decay * gauges[EXPECTED_SPREAD] + expected


@inlined
def _reweigh(state: State) -> None:
    gauges = state.gauges
    best = gauges[EVIDENCE]
    for k in range(1, _FORECASTS):
        best = max(best, gauges[EVIDENCE + k])
    trust = 0.0
    for c in range(_MIXTURES):
        first = WEIGHT + c * _FORECASTS
        total = 0.0
        for k in range(_FORECASTS):
            gauges[first + k] *= math.exp(gauges[EVIDENCE + k] - best)
            total += gauges[first + k]
        for k in range(_FORECASTS):
            kept = (1.0 - _SHARE[c]) * gauges[first + k] / total
            gauges[first + k] = kept + _SHARE[c] * _PRIOR[c, k]
        gauges[TRUST + c] *= total
        trust += gauges[TRUST + c]
    for c in range(_MIXTURES):
        kept = (1.0 - _TRUST_SHARE) * gauges[TRUST + c] / trust
        gauges[TRUST + c] = kept + _TRUST_SHARE * _TRUST[c]


@inlined
def _look_for_change(model: Model, state: State, s: int, threshold: float) -> None:
    counters, gauges = state.counters, state.gauges
    winner = 0
    for j in range(1, _FILTERS):
        gauges[LEAD_OF + j] += gauges[EVIDENCE + j] - gauges[EVIDENCE]
        if gauges[LEAD_OF + j] <= 0.0:
            gauges[LEAD_OF + j] = 0.0
            counters[SINCE + j] = s
        if gauges[LEAD_OF + j] > max(threshold, gauges[LEAD_OF + winner]):
            winner = j
    if winner > 0:
        record_detection(state, counters[SINCE + winner] + 1, gauges[LEAD_OF + winner], threshold)
        _forget_before(model, state, counters[SINCE + winner] + 1, winner)


@internal
def _forget_before(model: Model, state: State, change: int, winner: int) -> None:
    """Let the filters that remember at least as far as the winner learn again from a change on."""
    counters, rows, d = state.counters, state.rows, model.d
    while counters[HEAD] < counters[TAIL] and rows[d + 1, counters[HEAD]] < change:
        counters[HEAD] += 1
    counters[BEGUN] = change - 1
    for j in range(winner + 1):
        _empty(model, state, j)
        for i in range(counters[HEAD], counters[TAIL]):
            for k in range(d):
                state.vectors[ROW, k] = rows[k, i]
            _predict(model, state, j, rows[d, i], 1.0)
            _learn(model, state, j, rows[d, i], _DISCOUNTS[j] ** (counters[N] - rows[d + 1, i]))
    for j in range(_FILTERS):
        state.gauges[LEAD_OF + j] = 0.0
        counters[SINCE + j] = counters[N]


@internal
def fit(model: Model, state: State) -> None:
    """theta_hat, theta := mean of the mixture, BONUS := its covariance."""
    d = model.d
    vectors, matrices = state.vectors, state.matrices
    for i in range(d):
        vectors[THETA_HAT, i] = 0.0
        for j in range(d):
            matrices[BONUS, i, j] = 0.0
    for k in range(_FORECASTS):
        weight = weight_of(state, k)
        for i in range(d):
            vectors[THETA_HAT, i] += weight * _coordinate(state, k, i)
    copy(vectors, THETA_HAT, THETA)
    phi = _present_dispersion(model, state)
    for j in range(_FILTERS):
        own = weight_of(state, j)
        if j >= 2:
            own += _LEAD_VARIANCE * weight_of(state, _FILTERS + j - 2)
        if own > _NEGLIGIBLE:
            cholesky(matrices, PRECISION + j, FACTOR)
            inverse(matrices, FACTOR, M_INVERSE)
            for i in range(d):
                for k in range(d):
                    matrices[BONUS, i, k] += phi * own * matrices[M_INVERSE, i, k]
    for k in range(_FORECASTS):
        weight = weight_of(state, k)
        if weight > _NEGLIGIBLE:
            for i in range(d):
                vectors[STEP, i] = _coordinate(state, k, i) - vectors[THETA_HAT, i]
            add_outer(matrices, BONUS, weight, vectors, STEP)
    state.counters[FITTED] = 1


@inlined
def _coordinate(state: State, k: int, i: int) -> float:
    """Coordinate i of the parameter that forecast k believes in."""
    if k < _FILTERS:
        return float(state.vectors[FILTER + k, i])
    near = _near(k)
    return _on_line(state.vectors[FILTER + near, i], state.vectors[FILTER + near - 1, i])


def weights_of_ages(buffers: Buffers, ages: Floats) -> Floats:
    """What rows of these ages weigh in the pool: the mean over its forecasts."""
    gauges = buffers.gauges
    weights = np.zeros_like(ages)
    for c in range(_MIXTURES):
        for k in range(_FORECASTS):
            weight = gauges[TRUST + c] * gauges[WEIGHT + c * _FORECASTS + k]
            weights += weight * _DISCOUNTS[k if k < _FILTERS else k - _FILTERS + 2] ** ages
    return weights
