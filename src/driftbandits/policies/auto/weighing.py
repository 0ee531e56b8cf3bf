"""Probabilities of the hypotheses, their mixture, its scores, and reports of changes.

Where the action sets vary, what is played teaches about everything, and a belief is best followed
nearly greedily (Bastani, Bayati, Khosravi 2021). Where they do not, an action that is not played is
not learned about. How much less is known of action i than of the best one, relative to what is
offered, is

    rho_i = (q_i / l_i) / (q_* / l_*),

q being variances of a.theta in the belief and l in the prior. With K arms that are all offered
every time it is N_*/N_i, plays of the best arm over those of arm i, and playing arm i while its
mean + sqrt(2 log rho_i) sd is the largest is the rule of IMED (Honda and Takemura 2015; for linear
bandits Bian and Tan 2024). So a score is the mean plus c_i standard deviations,

    c_i^2 = OPTIMISM^2 + 2 EXPLORATION log+(rho_i / UNEVEN).

An action that is not played may have changed, and no reward speaks of it: that what is played
stays as it is makes every hypothesis of a change improbable, also for what is not played. So the
slow Matern-1/2 drift, whose variance grows where nothing was seen for long, bounds scores from
below: where

    v_i = u_i - UNEVEN l_i u_* / l_* > 0,

u being variances of a.theta in it and m means, a score is at least m_i + REVISITS (K-1)^(-1/4)
sqrt(v_i). Where its variance is large it learns quickly, so that a revisit that pays is followed by
another.

With r revisits a round of each of K-1 actions, of which one has improved, they cost (K-1) r and
finding it takes 1/r rounds: the sum is least for r ~ (K-1)^(-1/2). Since v grows evenly with time,
r grows with the square of the factor of its root.

A change is reported when it is probable enough that some segment began since the last report. Its
odds are those of chains in which changes come against the one in which none comes, so that time
alone makes no change probable: while nothing changes they are a ratio of likelihoods, which
exceeds c times what it began with in at most 1/c of all runs, however long (Ville 1939), as far as
rewards are distributed as the segments before say. They are not quite: a fit is not the truth. The
limit grows like 1 / false_alarm_rate; docs/auto.md has what was measured. After a report the chain
without changes begins again, with the segment that was reported.
"""

from __future__ import annotations

import math

from driftbandits.core import Model, State, links
from driftbandits.core import linalg as la
from driftbandits.core.estimator.inverse import BLOCK, room_in
from driftbandits.core.estimator.memory import load_row
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import HEAD, RADIUS, TAIL
from driftbandits.jit import inlined, internal
from driftbandits.policies.adaptations import record_detection
from driftbandits.policies.auto.gaussians import Noise, drifts_of, forecast_of, hold, within_range
from driftbandits.policies.auto.priors import limit_row
from driftbandits.policies.auto.record import CHAINS, PRIOR_TRUST, ROOM, Belief
from driftbandits.policies.scoring import Scoring

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
    mean[:] = 0.0
    for r in range(belief.segments[0]):
        la.add_scaled(mean, belief.held[r], belief.theta[r])
    for i in range(drifts_of(model)):
        la.add_scaled(mean, belief.trust[CHAINS] * belief.drift_weights[i], belief.drift_means[i])


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
    la.set_to_identity(bonus, 0.0)
    for r in range(belief.segments[0]):
        _add_gaussian(model, state, belief, belief.held[r], belief.theta[r], belief.P[r], phi)
    for i in range(drifts_of(model)):
        weight = belief.trust[CHAINS] * belief.drift_weights[i]
        _add_gaussian(model, state, belief, weight, belief.drift_means[i], belief.drift_P[i], phi)


@internal
def _add_gaussian(
    model: Model, state: State, belief: Belief, weight: float, theta: Floats, P: Floats, phi: float
) -> None:
    if weight <= _NEGLIGIBLE:
        return
    bonus, away = state.scratch.bonus, state.scratch.step
    for j in range(model.d):
        away[j] = theta[j] - belief.mean[j]
        for k in range(model.d):
            bonus[j, k] += weight * phi * P[j, k]
    la.add_outer(bonus, weight, away)


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


# -- scores ----------------------------------------------------------------------------------------

OPTIMISM = 0.5
"""Standard deviations that every score adds to its mean."""
EXPLORATION = 1.0
UNEVEN = 4.0
"""Usual unevenness of knowledge where actions are drawn at random."""
REVISITS = 2.5
"""Standard deviations of a change that was not seen, with one action beside the best."""


@internal
def measure(
    model: Model, scoring: Scoring, state: State, belief: Belief, features: Floats, table: Floats
) -> None:
    """Rows of `table`: a . theta; its variances in the prior, the slow drift and the belief; and
    a . theta in the slow drift."""
    state.gauges[RADIUS] = scoring.bonus_scale * OPTIMISM
    phi, base = dispersion(model, belief), mean_base(model, belief)
    for i in range(features.shape[0]):
        table[0, i] = base + forecast_of(model, belief.mean, features[i])
        drift = forecast_of(model, belief.drift_means[0], features[i])
        table[4, i] = belief.shared_base[ROOM] + drift
    _measure(model, state, features, belief.prior_P, table[1])
    _measure(model, state, features, belief.drift_P[0], table[2])
    _measure(model, state, features, state.scratch.bonus, table[3])
    for i in range(features.shape[0]):
        table[2, i] *= phi


@internal
def score(model: Model, scoring: Scoring, offset: float, table: Floats) -> None:
    """Rows 0, 1 and 2 of `table`: means, widths and scores, after `measure`."""
    best, most = 0, -math.inf
    for i in range(table.shape[1]):
        table[0, i] = within_range(model, table[0, i])
        table[3, i] = max(table[3, i], 0.0)
        mean = _mean_of(model, table[0, i], table[3, i])
        if mean > most:
            best, most = i, mean
    even, still = 0.0, math.inf
    if table.shape[1] > 0 and table[1, best] > 0.0:
        even = UNEVEN * table[3, best] / table[1, best]
        still = UNEVEN * table[2, best] / table[1, best]
    many = 1.0 / math.sqrt(max(table.shape[1] - 1.0, 1.0))
    revisits = REVISITS * math.sqrt(many)
    for i in range(table.shape[1]):
        z, prior, square = table[0, i], table[1, i], table[3, i]
        c = OPTIMISM * OPTIMISM
        if even > 0.0 and prior > 0.0 and square > even * prior:
            c += 2.0 * EXPLORATION * math.log(square / (even * prior))
        better = math.sqrt(many * c * square)
        unknown = table[2, i] - still * prior
        if unknown > 0.0:
            better = max(better, table[4, i] + revisits * math.sqrt(unknown) - z)
        mean = _mean_of(model, z, square)
        high = within_range(model, z + scoring.bonus_scale * better)
        up = _mean_of(model, high, square)
        table[0, i] = scoring.centre + offset + mean
        table[1, i] = up - mean
        table[2, i] = table[0, i] + table[1, i]


@inlined
def _mean_of(model: Model, z: float, variance: float) -> float:
    """Mean reward where a . theta is believed to be N(z, variance)."""
    return float(links.mean(model.link, model.m, z / links.blur(model.link, variance)))


@internal
def _measure(model: Model, state: State, features: Floats, A: Floats, out: Floats) -> None:
    """out := a' A a for a symmetric A; of large models a block of actions at a time."""
    if model.fast:
        steps = room_in(state).steps
        for start in range(0, features.shape[0], BLOCK):
            block = features[start : start + BLOCK]
            la.multiply_rows(block, A, steps[: block.shape[0]])
            for i in range(block.shape[0]):
                out[start + i] = la.dot_large(block[i], steps[i])
    else:
        for i in range(features.shape[0]):
            square = 0.0
            for j in range(model.d):
                along = 0.5 * features[i, j] * A[j, j]
                for k in range(j):
                    along += features[i, k] * A[j, k]
                square += 2.0 * features[i, j] * along
            out[i] = square


# -- changes ---------------------------------------------------------------------------------------

_MEASURED_ROWS = 64
_IN_NO_CHANGE = float(PRIOR_TRUST[0] / PRIOR_TRUST[:CHAINS].sum())  # of the trust in chains


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
