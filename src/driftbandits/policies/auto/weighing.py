"""Posterior probabilities of the hypotheses, the Gaussian of their mixture, and reports of changes.

A change is reported when it is probable enough that some segment began since the last report. Its
odds are those of chains in which changes come against the one in which none comes, so that time
alone makes no change probable: while nothing changes they are a ratio of likelihoods, which
exceeds c times what it began with in at most 1/c of all runs, however long (Ville 1939), as far as
rewards are distributed as the segments before say. They are not quite: a fit is not the truth. The
limit grows like 1 / false_alarm_rate; docs/auto.md has what was measured.

After a report the chain without changes begins again, with the segment that was reported.
"""

from __future__ import annotations

import math

from driftbandits.core import Model, State, add_outer, add_scaled, links, set_to_identity
from driftbandits.core.estimator.memory import load_row
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import HEAD, TAIL
from driftbandits.jit import inlined, internal
from driftbandits.policies.adaptations import record_detection
from driftbandits.policies.auto.columns import limit_row
from driftbandits.policies.auto.drifts import drifts_of
from driftbandits.policies.auto.gaussians import Noise, forecast_of, within_range
from driftbandits.policies.auto.record import (
    CHAINS,
    PRIOR_TRUST,
    ROOM,
    Belief,
)
from driftbandits.policies.auto.segments import hold

_SHARE_OF_DRIFTS = 5e-5  # of the weights of the drifts that is shared evenly in a round
_SHARE_OF_TRUST = 1e-5
_NEGLIGIBLE = 1e-4
_MEMORY = 1000.0  # rewards by which dispersion is measured
_FIRST_REWARDS = 20.0  # as many count the rewards' own variance
_MOST_FREEDOM = 8.0  # however many rewards are known: tails of amounts are heavy
_LEAST_DISPERSION = 1e-8  # of the largest variance that the rewards ever had
_LEAST_OF_A_LINK = 0.02  # over that of the reward model
_LEAST_EVIDENCE = -600.0
_MOST_SEEN = 1000.0  # times what is expected, that one reward may add


@inlined
def _likelihood(evidence: float) -> float:
    """Return the likelihood over that of the best; never 0, so that every chain keeps weight."""
    return math.exp(max(evidence, _LEAST_EVIDENCE))


@internal
def begin_weighing(model: Model, belief: Belief) -> None:
    for which in range(CHAINS + 1):
        belief.trust[which] = PRIOR_TRUST[which]
    for i in range(drifts_of(model)):
        belief.drift_weights[i] = 1.0 / drifts_of(model)


@internal
def weigh(model: Model, belief: Belief, s: int) -> None:
    """Weigh by the evidence of a reward of round s; evidence[ROOM + i] is that of drift i."""
    evidence, n, drifts = belief.evidence, belief.segments[0], drifts_of(model)
    best = -math.inf
    for r in range(n):
        if belief.starts[r] <= s:
            best = max(best, evidence[r])
    for i in range(drifts):
        best = max(best, evidence[ROOM + i])
    if belief.starts[n - 1] > s:
        _fill_evidence(belief, s, best)
    for r in range(n):
        evidence[r] = _likelihood(evidence[r] - best)
    total = 0.0
    for h in range(CHAINS):
        first = h * ROOM
        found = 0.0
        for r in range(n):
            belief.weights[first + r] *= evidence[r]
            found += belief.weights[first + r]
        for r in range(n):
            belief.weights[first + r] /= found
        belief.trust[h] *= found
        total += belief.trust[h]
    found = 0.0
    for i in range(drifts):
        belief.drift_weights[i] *= _likelihood(evidence[ROOM + i] - best)
        found += belief.drift_weights[i]
    for i in range(drifts):
        kept = (1.0 - _SHARE_OF_DRIFTS) * belief.drift_weights[i] / found
        belief.drift_weights[i] = kept + _SHARE_OF_DRIFTS / drifts
    belief.trust[CHAINS] *= found
    total += belief.trust[CHAINS]
    for which in range(CHAINS + 1):
        kept = (1.0 - _SHARE_OF_TRUST) * belief.trust[which] / total
        belief.trust[which] = kept + _SHARE_OF_TRUST * PRIOR_TRUST[which]
    hold(belief)


@inlined
def _fill_evidence(belief: Belief, s: int, best: float) -> None:
    """Give segments that began after round s the evidence that the others have together."""
    weight, found = 0.0, 0.0
    for r in range(belief.segments[0]):
        if belief.starts[r] <= s:
            weight += belief.held[r]
            found += belief.held[r] * _likelihood(belief.evidence[r] - best)
    for r in range(belief.segments[0]):
        if belief.starts[r] > s:
            belief.evidence[r] = best + math.log(found / weight) if found > 0.0 else best


@internal
def make_mean(model: Model, belief: Belief) -> None:
    """belief.mean := mean of the mixture."""
    mean = belief.mean
    for j in range(model.d):
        mean[j] = 0.0
    for r in range(belief.segments[0]):
        add_scaled(mean, belief.held[r], belief.theta[r])
    for i in range(drifts_of(model)):
        add_scaled(mean, belief.trust[CHAINS] * belief.drift_weights[i], belief.drift_means[i])


@inlined
def mean_base(model: Model, belief: Belief) -> float:
    """Mean over the hypotheses of the base that separate arms share."""
    base = 0.0
    for r in range(belief.segments[0]):
        base += belief.held[r] * belief.shared_base[r]
    for i in range(drifts_of(model)):
        base += belief.trust[CHAINS] * belief.drift_weights[i] * belief.shared_base[ROOM + i]
    return base


@internal
def make_mixture(model: Model, state: State, belief: Belief, phi: float) -> None:
    """scratch.bonus := covariance of the mixture, after `make_mean`."""
    bonus = state.scratch.bonus
    set_to_identity(bonus, 0.0)
    for r in range(belief.segments[0]):
        _add_gaussian(model, state, belief, belief.held[r], belief.theta[r], belief.P[r], phi)
    for i in range(drifts_of(model)):
        weight = belief.trust[CHAINS] * belief.drift_weights[i]
        _add_gaussian(model, state, belief, weight, belief.drift_means[i], belief.drift_P[i], phi)


@internal
def _add_gaussian(
    model: Model,
    state: State,
    belief: Belief,
    weight: float,
    theta: Floats,
    P: Floats,
    phi: float,
) -> None:
    if weight <= _NEGLIGIBLE:
        return
    bonus, away = state.scratch.bonus, state.scratch.step
    for j in range(model.d):
        away[j] = theta[j] - belief.mean[j]
        for k in range(model.d):
            bonus[j, k] += weight * phi * P[j, k]
    add_outer(bonus, weight, away)


# -- dispersion ------------------------------------------------------------------------------------


@inlined
def noise_of(model: Model, belief: Belief) -> Noise:
    freedom = min(max(belief.rewarded[0] - 1.0, 1.0), _MOST_FREEDOM)
    return Noise(dispersion(model, belief), freedom)


@internal
def dispersion(model: Model, belief: Belief) -> float:
    """phi: of a linear model the variance of the noise, whatever the unit of rewards.

    Separate arms share it, because the prior is in its units: an arm that has paid the same a few
    times would otherwise be thought to be known.
    """
    seen, expected = belief.spread[0], belief.spread[1]
    if not model.linear:
        found = links.dispersion(model.link, model.m, _FIRST_REWARDS, seen, expected)
        return float(max(found, _LEAST_OF_A_LINK))
    last = model.d - 1
    variance = belief.rewarded[2]
    if belief.constant[0] and belief.low[last] < belief.high[last]:  # what came before they moved
        most = 0.25 * (belief.high[last] - belief.low[last]) ** 2
        variance, seen = min(variance, most), min(seen, most * expected)
    found = (_FIRST_REWARDS * variance + seen) / (_FIRST_REWARDS + expected)
    return float(max(found, _LEAST_DISPERSION * belief.rewarded[3]))


@internal
def measure_dispersion(model: Model, state: State, belief: Belief, reward: float) -> None:
    """Follow a reward of scratch.row, which the belief has not learned so far."""
    row = state.scratch.row
    z = mean_base(model, belief)
    for r in range(belief.segments[0]):
        z += belief.held[r] * forecast_of(model, belief.theta[r], row)
    for i in range(drifts_of(model)):
        weight = belief.trust[CHAINS] * belief.drift_weights[i]
        z += weight * forecast_of(model, belief.drift_means[i], row)
    mean = links.mean(model.link, model.m, within_range(model, z))
    seen, expected = links.spread(model.link, model.m, reward, mean)
    if not model.linear:
        seen = min(seen, _MOST_SEEN * expected)
    decay = 1.0 - 1.0 / _MEMORY
    belief.spread[0] = decay * belief.spread[0] + seen
    belief.spread[1] = decay * belief.spread[1] + expected
    count = decay * belief.rewarded[0] + 1.0
    away = reward - belief.rewarded[1]
    belief.rewarded[0] = count
    belief.rewarded[1] += away / count
    belief.rewarded[2] += (away * away * (1.0 - 1.0 / count) - belief.rewarded[2]) / count
    belief.rewarded[3] = max(belief.rewarded[3], belief.rewarded[2])


# -- changes ---------------------------------------------------------------------------------------

_MEASURED_ROWS = 64
_ODDS = 0.006  # that are asked for, times false_alarm_rate
_IN_NO_CHANGE = float(PRIOR_TRUST[0] / PRIOR_TRUST[:CHAINS].sum())  # of the trust in chains


def least_probability(false_alarm_rate: float) -> float:
    """That a change must have to be reported."""
    odds = _ODDS / false_alarm_rate
    return odds / (1.0 + odds)


@internal
def look_for_change(model: Model, state: State, belief: Belief, threshold: float) -> None:
    """Report a change that is probable enough."""
    since, before = 0.0, 0.0
    latest, likely = -1, -1
    for r in range(belief.segments[0]):
        if belief.starts[r] > belief.reported[0]:
            since += belief.held[r]
            if likely < 0 or belief.held[r] > belief.held[likely]:
                likely = r
        else:
            before += belief.held[r]
            if latest < 0 or belief.held[r] > belief.held[latest]:
                latest = r
    if likely < 0 or since <= threshold * (since + before):
        return
    belief.reported[0] = belief.starts[likely]
    belief.size[0] = _size_of(model, state, belief, max(latest, 0), likely)
    record_detection(state, belief.starts[likely], since / (since + before), threshold)
    _begin_without_changes(belief, likely)


@inlined
def _begin_without_changes(belief: Belief, likely: int) -> None:
    """Let the chain in which nothing changes hold one segment, and be trusted as at first."""
    for r in range(belief.segments[0]):
        belief.weights[r] = 1.0 if r == likely else 0.0
    in_chains = 0.0
    for h in range(CHAINS):
        in_chains += belief.trust[h]
    others = in_chains - belief.trust[0]
    kept = in_chains * (1.0 - _IN_NO_CHANGE) / others if others > 0.0 else 0.0
    belief.trust[0] = in_chains * _IN_NO_CHANGE
    for h in range(1, CHAINS):
        belief.trust[h] *= kept
    hold(belief)


@inlined
def _size_of(model: Model, state: State, belief: Belief, before: int, after: int) -> float:
    """By how much the mean rewards of the last actions differ between two segments."""
    first = max(state.counters[HEAD], state.counters[TAIL] - _MEASURED_ROWS)
    total = 0.0
    was, now_is = belief.shared_base[before], belief.shared_base[after]
    for i in range(first, state.counters[TAIL]):
        load_row(model, state, i)
        limit_row(model, state, belief)
        row = state.scratch.row
        then = links.mean(model.link, model.m, was + forecast_of(model, belief.theta[before], row))
        now = links.mean(model.link, model.m, now_is + forecast_of(model, belief.theta[after], row))
        total += abs(now - then)
    return float(total / max(state.counters[TAIL] - first, 1))
