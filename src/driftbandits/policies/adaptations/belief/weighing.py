"""How the hypotheses of a belief are weighed, and the one Gaussian that they make together."""

from __future__ import annotations

import math

from driftbandits import links
from driftbandits.estimator import Model, State
from driftbandits.estimator.model import Floats
from driftbandits.jit import inlined, internal
from driftbandits.linalg import add_outer, add_scaled, copy, set_to_identity
from driftbandits.policies.adaptations.belief.drifts import drifts_of
from driftbandits.policies.adaptations.belief.gaussians import Noise, forecast_of, within_range
from driftbandits.policies.adaptations.belief.record import (
    CHAINS,
    PRIOR_TRUST,
    ROOM,
    Belief,
)
from driftbandits.policies.adaptations.belief.segments import hold

_SHARE_OF_DRIFTS = 5e-5  # of the weights of the drifts that is shared evenly in a round
_SHARE_OF_TRUST = 1e-5
_NEGLIGIBLE = 1e-4
_MEMORY = 1000.0  # rewards by which dispersion is measured
_FIRST_REWARDS = 20.0  # as many count the rewards' own variance
_FIRST_OF_AN_ARM = 5.0  # as many count the dispersion of all arms
_MOST_FREEDOM = 8.0  # however many rewards are known: tails of amounts are heavy
_LEAST_DISPERSION = 1e-8  # of the largest variance that the rewards ever had
_LEAST_OF_A_LINK = 0.02  # over that of the reward model
_LEAST_EVIDENCE = -600.0
_MOST_SEEN = 1000.0  # times what is expected, that one reward may add


@inlined
def _likelihood(evidence: float) -> float:
    """Over that of the best; never 0, so that no surprise leaves a chain without a weight."""
    return math.exp(max(evidence, _LEAST_EVIDENCE))


@internal
def begin_weighing(model: Model, belief: Belief) -> None:
    for which in range(CHAINS + 1):
        belief.trust[which] = PRIOR_TRUST[which]
    for i in range(drifts_of(model)):
        belief.drifting[i] = 1.0 / drifts_of(model)


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
        _speak_for_the_young(belief, s, best)
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
        belief.drifting[i] *= _likelihood(evidence[ROOM + i] - best)
        found += belief.drifting[i]
    for i in range(drifts):
        kept = (1.0 - _SHARE_OF_DRIFTS) * belief.drifting[i] / found
        belief.drifting[i] = kept + _SHARE_OF_DRIFTS / drifts
    belief.trust[CHAINS] *= found
    total += belief.trust[CHAINS]
    for which in range(CHAINS + 1):
        kept = (1.0 - _SHARE_OF_TRUST) * belief.trust[which] / total
        belief.trust[which] = kept + _SHARE_OF_TRUST * PRIOR_TRUST[which]
    hold(belief)


@inlined
def _speak_for_the_young(belief: Belief, s: int, best: float) -> None:
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
def make_mean(model: Model, state: State, belief: Belief) -> None:
    """theta_hat, theta := mean of the mixture."""
    theta_hat = state.theta_hat
    for j in range(model.d):
        theta_hat[j] = 0.0
    for r in range(belief.segments[0]):
        add_scaled(theta_hat, belief.held[r], belief.theta[r])
    for i in range(drifts_of(model)):
        add_scaled(theta_hat, belief.trust[CHAINS] * belief.drifting[i], belief.places[i])
    copy(theta_hat, state.theta)


@internal
def make_mixture(model: Model, state: State, belief: Belief, phi: float) -> None:
    """scratch.bonus := covariance of the mixture, after `make_mean`."""
    bonus = state.scratch.bonus
    set_to_identity(bonus, 0.0)
    for r in range(belief.segments[0]):
        _add_gaussian(model, state, belief.held[r], belief.theta[r], belief.P[r], phi)
    for i in range(drifts_of(model)):
        weight = belief.trust[CHAINS] * belief.drifting[i]
        _add_gaussian(model, state, weight, belief.places[i], belief.place_P[i], phi)


@internal
def _add_gaussian(
    model: Model, state: State, weight: float, theta: Floats, P: Floats, phi: float
) -> None:
    if weight <= _NEGLIGIBLE:
        return
    bonus, away = state.scratch.bonus, state.scratch.step
    for j in range(model.d):
        away[j] = theta[j] - state.theta_hat[j]
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

    Each of separate arms has its own, which is like that of all until its rewards say otherwise.
    """
    seen, expected = belief.spread[0], belief.spread[1]
    if not model.linear:
        found = links.dispersion(model.link, model.m, _FIRST_REWARDS, seen, expected)
        return float(max(found, _LEAST_OF_A_LINK))
    variance = belief.rewarded[2]
    found = (_FIRST_REWARDS * variance + seen) / (_FIRST_REWARDS + expected)
    found = (_FIRST_OF_AN_ARM * found + belief.own_spread[0]) / (
        _FIRST_OF_AN_ARM + belief.own_spread[1]
    )
    return float(max(found, _LEAST_DISPERSION * belief.rewarded[3]))


@internal
def measure_dispersion(model: Model, state: State, belief: Belief, reward: float) -> None:
    """Follow a reward of scratch.row, which the belief has not learned so far."""
    row = state.scratch.row
    z = 0.0
    for r in range(belief.segments[0]):
        z += belief.held[r] * forecast_of(model, belief.theta[r], row)
    for i in range(drifts_of(model)):
        weight = belief.trust[CHAINS] * belief.drifting[i]
        z += weight * forecast_of(model, belief.places[i], row)
    mean = links.mean(model.link, model.m, within_range(model, z))
    seen, expected = links.spread(model.link, model.m, reward, mean)
    if not model.linear:
        seen = min(seen, _MOST_SEEN * expected)
    decay = 1.0 - 1.0 / _MEMORY
    belief.spread[0] = decay * belief.spread[0] + seen
    belief.spread[1] = decay * belief.spread[1] + expected
    belief.own_spread[0] = decay * belief.own_spread[0] + seen
    belief.own_spread[1] = decay * belief.own_spread[1] + expected
    count = decay * belief.rewarded[0] + 1.0
    away = reward - belief.rewarded[1]
    belief.rewarded[0] = count
    belief.rewarded[1] += away / count
    belief.rewarded[2] += (away * away * (1.0 - 1.0 / count) - belief.rewarded[2]) / count
    belief.rewarded[3] = max(belief.rewarded[3], belief.rewarded[2])
