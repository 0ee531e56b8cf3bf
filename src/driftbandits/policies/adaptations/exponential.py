"""Exponential weights that begin anew after every batch, for fixed arms: REXP3.

Besbes, Gur, Zeevi (2014), Stochastic Multi-Armed-Bandit Problem with Non-stationary Rewards: Exp3
of Auer, Cesa-Bianchi, Freund, Schapire (2002) in batches of Delta rounds, after each of which its
weights are forgotten. The batch is the window of a row that forgets by schedule, and the share of
rounds in which an arm is drawn uniformly is epsilon. Means are those of the rewards since the last
restart, as UCB1 has them; the choice does not depend on them.

Notation
--------
K, T, V    arms; rounds; how much the means may change in all, sum over t of max over k |change|
Delta      ceil((K log K)^(1/3) (T/V)^(2/3)), see core/theory.py                    Theorem 2
gamma      min(1, sqrt(K log K / ((e - 1) Delta)))                                    Theorem 2
p          (K,)  (1 - gamma) w / sum w + gamma/K, with which an arm is drawn
log w      (K,)  += gamma/K X/(m p) for the arm that was drawn, `log_weights`

An action is taken for the arm of its largest coordinate, so a one-hot action is its arm. p of a
reward is taken when it comes: that of its decision, unless other rewards came in between.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple

from driftbandits.core import State
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import BEGUN, Ints, layout_beyond
from driftbandits.jit import Share, inlined, internal
from driftbandits.policies.adaptations import fixed
from driftbandits.policies.randomness import ARM_DRAWS, TAKEN, TIES, uniform
from driftbandits.policies.scoring import Opened, Scoring, arm_of

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy


class Own(NamedTuple):
    """Weights of the present batch."""

    begun: Annotated[Ints, Share("counters")]  # as BEGUN, when the weights were last forgotten
    log_weights: Annotated[Floats, Share("vectors")]


LAYOUT = layout_beyond(Own)
_own_of = LAYOUT.of


def exploration_for(policy: Policy) -> float:
    """gamma."""
    assert policy.window is not None  # which is tuned where a policy is made
    K = policy.dim
    return min(1.0, math.sqrt(K * math.log(K) / ((math.e - 1.0) * policy.window)))


@inlined
def estimate(opened: Opened, seed: int, actions: Floats) -> None:
    fixed.estimate(opened, seed, actions)
    state = opened.state
    own = _own_of(state.stores)
    if own.begun[0] != state.counters[BEGUN]:
        own.begun[0] = state.counters[BEGUN]
        own.log_weights[:] = 0.0


@inlined
def learn(opened: Opened, reward: float, s: int) -> None:
    fixed.learn(opened, reward, s)
    _, model, scoring, _, state = opened
    log_weights, K = _own_of(state.stores).log_weights, scoring.dim
    k = arm_of(state.scratch.row, K)
    largest, total = -math.inf, 0.0
    for j in range(K):
        largest = max(largest, log_weights[j])
    for j in range(K):
        total += math.exp(log_weights[j] - largest)
    p = (1.0 - scoring.epsilon) * math.exp(log_weights[k] - largest) / total + scoring.epsilon / K
    gain = (reward - scoring.centre) / model.m
    log_weights[k] += scoring.epsilon / K * gain / p


@internal
def draw_arm(
    scoring: Scoring, state: State, features: Floats, table: Floats, seed: int, t: int, chosen: int
) -> tuple[int, float]:
    """An action drawn by the weights, unless one is given, and its probability by the weights.

    The largest log w + Gumbel is distributed as w is (Gumbel 1954). One number for each arm, so
    that the order of the actions does not matter. Actions of the same arm share its probability.
    """
    log_weights, K = _own_of(state.stores).log_weights, scoring.dim
    largest, best, tied = -math.inf, -math.inf, 0
    for i in range(table.shape[1]):
        if table[3, i] > TAKEN:
            k = arm_of(features[i], K)
            largest = max(largest, log_weights[k])
            noise = -math.log(-math.log1p(-uniform(seed, t, ARM_DRAWS + k)))
            value = log_weights[k] + noise
            if value > best:
                best, tied = value, 0
            tied += value == best
            table[3, i] = value
    place = int(uniform(seed, t, TIES) * tied)
    for i in range(table.shape[1]):
        if chosen < 0 and table[3, i] == best:
            if place == 0:
                chosen = i
            place -= 1
    k, same, total = arm_of(features[chosen], K), 0, 0.0
    for j in range(K):
        offered = 0
        for i in range(table.shape[1]):
            offered += table[3, i] > TAKEN and arm_of(features[i], K) == j
        if offered > 0:
            total += math.exp(log_weights[j] - largest)
        if j == k:
            same = offered
    return chosen, math.exp(log_weights[k] - largest) / total / same
