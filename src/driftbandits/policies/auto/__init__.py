"""A posterior over a parameter that may stay, jump or drift: what `auto` learns with.

Rewards follow a generalized linear model whose parameter theta_t is one of these, unknown which:

- constant, or constant between jumps that come with one of a few hazards;
- drifting slowly, by a Matern-1/2 or Matern-3/2 process of one of a few speeds.

Each of these hypotheses holds a Gaussian belief about theta_t that every reward moves to the mode
of prior times likelihood (gaussians.py). They are weighed by the evidence of the rewards
(weighing.py). The belief is the mixture of them all: its mean, its covariance, and where a change
probably was. The prior follows the features, whatever their units
(priors.py), and how tight it is, is weighed like all else. A score adds to the mean as many
standard deviations as the action sets leave unexplored (weighing.py). No bound on theta or on the
actions enters, and a round costs O(d^2).

Notation
--------
theta_r, P_r   mean and covariance of segment r; phi P_r is the covariance of theta
start_r        its first round
phi            dispersion: Var(X) over that of the reward model
W[h, r]        weight of segment r in the chain with hazard h; trust (5,) in the chains and drifts
base           a . theta of a typical action; what is left of a belief when taste changes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from driftbandits.core import Model, State
from driftbandits.core import linalg as la
from driftbandits.core.estimator.memory import insert_row
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import FITTED, HEAD, ROW_AT, TAIL, N
from driftbandits.jit import allocating, internal, place, reader_of
from driftbandits.policies.auto import gaussians, priors, weighing
from driftbandits.policies.auto.record import (
    FIRST_OF_ALL,
    IN_COMMON,
    LAYOUT,
    OF_SMALL_MODELS,
    PLACES,
    Hypothesis,
    hypotheses,
    weights_of_ages,
)
from driftbandits.policies.randomness import choose
from driftbandits.policies.scoring import (
    ACCEPTED,
    OWN_NUMBERS,
    Opened,
    Scoring,
    validity,
    write_row,
)

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

__all__ = ["IN_COMMON", "LAYOUT", "Hypothesis", "hypotheses", "weights_of_ages"]

_ODDS = 0.006  # of a change that is reported, times false_alarm_rate
_BEFORE_CHANGES = 7.5  # rewards, before which priors and dispersions are hardly known

_PATIENCE = 4.0  # rewards for each coefficient of each of separate arms


class Numbers(NamedTuple):
    """The test for a change."""

    threshold: float  # probability from which a change is reported
    patience: float  # rewards a coefficient of separate arms that say nothing of the hypotheses


_belief_of, _numbers_of = LAYOUT.of, reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy, arms: int = 0) -> Numbers:
    """Return the numbers of one model, or of that of each of separate arms.

    A model fits as many rewards as it has coefficients, whatever they are. Of those that are chosen
    for what they promise, several times as many say nothing of whether they have changed.
    """
    odds = _ODDS / policy.false_alarm_rate
    return Numbers(threshold=odds / (1.0 + odds), patience=_PATIENCE * arms)


def sizes_for(policy: Policy) -> dict[str, int]:
    sizes = dict(LAYOUT.sizes)
    if policy.fast:
        for store, size in OF_SMALL_MODELS.items():
            sizes[store] -= size
    return sizes


SIZE_OF_CHANGE = place(int(PLACES.size[0]))
"""The gauge that has the size of the last reported change, in the units that the model is given."""


@internal
def _follow(
    model: Model, scoring: Scoring, state: State, actions: Floats, features: Floats
) -> None:
    """Let the prior follow a set of actions; features := what the model is given of them."""
    belief = _belief_of(state.stores)
    belief.constant[0] = model.d - scoring.dim
    priors.observe(model, state, belief, actions, features)
    if belief.segments[0] == 0:
        gaussians.begin(model, state, belief)
        belief.reported[0] = belief.newest[0] = FIRST_OF_ALL


@allocating
def see(model: Model, scoring: Scoring, state: State, actions: Floats) -> Floats:
    """The actions as the model is given them, (K, d), once its prior has followed them."""
    features = np.empty((actions.shape[0], model.d))
    if actions.shape[0] > 0:
        _follow(model, scoring, state, actions, features)
    return features


@internal
def advance(model: Model, state: State, rounds: int) -> None:
    """Let the clock go on."""
    belief = _belief_of(state.stores)
    state.counters[N] += rounds
    if belief.segments[0] > 0:
        gaussians.move(model, belief, rounds)
    state.counters[FITTED] = 0


@internal
def estimate(model: Model, state: State) -> None:
    """theta_hat, theta := mean of the mixture, scratch.bonus := its covariance."""
    belief = _belief_of(state.stores)
    weighing.make_mean(model, belief)
    priors.set_estimates(model, state, belief, weighing.mean_base(model, belief))
    weighing.make_mixture(model, state, belief, weighing.dispersion(model, belief))
    state.counters[FITTED] = 1


# -- the engine, as `engines.Kernels` describes it -------------------------------------------------


@allocating
def decide(
    opened: Opened, seed: int, number: int, actions: Floats, table: Floats, picks: Floats
) -> int:
    _, model, scoring, _, state = opened
    found = validity(scoring, actions)
    if found != ACCEPTED:
        return found
    features, belief = see(model, scoring, state, actions), _belief_of(state.stores)
    estimate(model, state)
    weighing.measure(model, scoring, state, belief, features, table)
    weighing.score(model, scoring, belief.offset[0], table)
    first = state.counters[N] + 1 if number == 0 else number
    choose(scoring.epsilon, seed, first, table, picks)
    if number == 0:
        advance(model, state, picks.shape[1])
    return ACCEPTED


@internal
def update(opened: Opened, actions: Floats, index: int, reward: float, s: int) -> None:
    numbers, model, scoring, _, state = opened
    write_row(scoring, actions, index, state.scratch.row)
    belief, counters = _belief_of(state.stores), state.counters
    if belief.sets[0] == 0:  # data of others is learned before any decision
        rows = state.stores.vectors[ROW_AT : ROW_AT + 2]  # scratch.row, and what is scratch too
        _follow(model, scoring, state, rows[:1], rows[1:])
    outcome = priors.limit_reward(model, belief, reward - scoring.centre)
    if model.linear:
        if belief.rewarded[0] == 0.0 and belief.constant[0]:
            belief.offset[0] = outcome
        outcome -= belief.offset[0]
    noise = weighing.noise_of(model, belief)
    insert_row(model, state, reward - scoring.centre, float(s))  # as it came: limits may move
    if counters[TAIL] - counters[HEAD] > gaussians.MOST_REFITTED:
        counters[HEAD] += 1
    priors.limit_row(model, state, belief)
    weighing.measure_dispersion(model, state, belief, outcome)
    gaussians.learn_by_segments(model, state, belief, outcome, s, noise)
    age = float(counters[N] - s)
    gaussians.learn_by_drifts(model, state, belief, outcome, age, noise)
    belief.learned[0] += 1
    if belief.learned[0] > _numbers_of(numbers).patience * priors.count_seen(model, belief):
        weighing.weigh(model, belief, s)
    gaussians.fit_segments(model, state, belief, s, noise)
    weighing.look_for_change(model, state, belief, _numbers_of(numbers).threshold)
    if s > belief.newest[0]:
        belief.newest[0] = s
        if belief.constant[0]:
            weighing.make_mean(model, belief)
            belief.base[0] = la.dot(belief.centre, belief.mean)
        if belief.rewarded[0] > _BEFORE_CHANGES:
            gaussians.begin_segment(model, state, belief, s + 1)
    counters[FITTED] = 0


@internal
def tick(opened: Opened, rounds: int) -> None:
    advance(opened.model, opened.state, rounds)
