"""One belief about a parameter that may stay, jump or drift: what `auto` learns with.

Rewards follow a generalized linear model whose parameter theta_t is, nobody knows which,

- constant, or constant between jumps that come with one of a few hazards (segments.py);
- on a path that wanders, or that turns smoothly, at one of a few speeds (drifts.py).

Each of these hypotheses holds a Gaussian belief about theta_t that every reward moves to the mode
of prior times likelihood (gaussians.py). They are weighed by the evidence of the rewards that they
foretold (weighing.py). The belief is the mixture of them all: its mean, its covariance, and where
a change probably was (changes.py). The prior follows the features, whatever their units
(priors.py), and how tight it is, is weighed like all else. A score adds to the mean as many
standard deviations as the action sets leave unexplored (optimism.py). No bound on theta or on the
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

from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from driftbandits.estimator import Model, State
from driftbandits.estimator.memory import insert_row
from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import FITTED, HEAD, ROW_AT, TAIL, Buffers, N, beyond
from driftbandits.jit import inlined, internal, place, reader_of
from driftbandits.linalg import dot
from driftbandits.policies.adaptations.belief import optimism
from driftbandits.policies.adaptations.belief.changes import least_probability, look_for_change
from driftbandits.policies.adaptations.belief.drifts import learn_by_drifts, move
from driftbandits.policies.adaptations.belief.gaussians import MOST_REFITTED
from driftbandits.policies.adaptations.belief.hypotheses import Hypothesis, hypotheses_in
from driftbandits.policies.adaptations.belief.priors import observe
from driftbandits.policies.adaptations.belief.record import (
    CHAINS,
    FIRST_OF_ALL,
    IN_COMMON,
    LAYOUT,
    OF_SMALL_MODELS,
    ROOM,
    ROUGH_SPEED,
    SMOOTH_SCALE,
    Belief,
)
from driftbandits.policies.adaptations.belief.segments import (
    begin,
    fit_segments,
    give_birth,
    learn_by_segments,
)
from driftbandits.policies.adaptations.belief.weighing import (
    begin_weighing,
    dispersion,
    make_mean,
    make_mixture,
    measure_dispersion,
    noise_of,
    weigh,
)
from driftbandits.policies.adaptations.fixed import window_for
from driftbandits.policies.scoring import OWN_NUMBERS, Scoring
from driftbandits.theory import Confidence

if TYPE_CHECKING:
    from driftbandits.policies.carrying import Move
    from driftbandits.policies.configuration import Policy

__all__ = ["IN_COMMON", "LAYOUT", "Hypothesis", "window_for"]

FAMILY = "believing"
_BEFORE_CHANGES = 7.5  # rewards, before which priors and dispersions are hardly known


class Numbers(NamedTuple):
    """The test for a change."""

    threshold: float  # probability from which a change is reported; 0: none is looked for


_belief_of, _numbers_of = LAYOUT.of, reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy) -> Numbers:
    looks = policy.row.false_alarm_rate > 0.0
    return Numbers(threshold=least_probability(policy.false_alarm_rate) if looks else 0.0)


def sizes_for(policy: Policy) -> dict[str, int]:
    sizes = dict(LAYOUT.sizes)
    if policy.fast:
        for store, size in OF_SMALL_MODELS.items():
            sizes[store] -= size
    return sizes


def weights_of_ages(policy: Policy, buffers: Buffers, ages: Floats) -> Floats:
    """The probability that what was true then is true now."""
    belief: Belief = LAYOUT.in_python(buffers)
    weights = np.zeros_like(ages)
    for r in range(belief.segments[0]):
        held = belief.trust[:CHAINS] @ belief.weights[r::ROOM][:CHAINS]
        weights += held * (buffers.counters[N] - ages >= belief.starts[r])
    fading = [(1.0 - speed) ** (ages / 2.0) for speed in ROUGH_SPEED]
    if not policy.fast:
        ways = [np.sqrt(3.0) * ages / scale for scale in SMOOTH_SCALE]
        fading += [(1.0 + way) * np.exp(-way) for way in ways]
    for weight, faded in zip(belief.drifting, fading, strict=False):
        weights += belief.trust[CHAINS] * weight * faded
    return weights


def hypotheses(policy: Policy, buffers: Buffers) -> list[Hypothesis]:
    """What may be true, the most probable first."""
    return hypotheses_in(buffers, fast=policy.fast)


_gauges = np.arange(LAYOUT.sizes["gauges"])
_places: Belief = LAYOUT.in_python(SimpleNamespace(**dict.fromkeys(LAYOUT.sizes, _gauges)))
SIZE_OF_CHANGE = place(int(_places.size[0]))
"""The gauge that has the size of the last reported change, in the units that the model is given."""


def size_of_change(buffers: Buffers) -> float:
    return float(buffers.gauges[SIZE_OF_CHANGE])


def carry_over(policy: Policy, old: Buffers, new: Buffers, move: Move) -> None:
    """The Gaussians in other coordinates; new features sleep, as if they had always been 0."""
    (vectors, matrices), (new_vectors, new_matrices) = beyond(old), beyond(new)
    for target, vector in zip(new_vectors, vectors, strict=False):
        target[:] = move.moved(vector, policy.model_dim)
    there, here = np.ix_(move.targets, move.targets), np.ix_(move.sources, move.sources)
    for target, matrix in zip(new_matrices, matrices, strict=False):
        target[there] = matrix[here]


@internal
def _prepare(model: Model, scoring: Scoring, state: State, belief: Belief) -> None:
    """Once, when the first features are known."""
    begin_weighing(model, belief)
    begin(model, state, belief)
    belief.reported[0] = belief.newest[0] = FIRST_OF_ALL


@inlined
def _observe(model: Model, scoring: Scoring, state: State, belief: Belief, actions: Floats) -> None:
    belief.constant[0] = model.d - scoring.dim
    observe(model, scoring, state, belief, actions)
    if belief.segments[0] == 0:
        _prepare(model, scoring, state, belief)


@internal
def advance(model: Model, state: State, rounds: int) -> None:
    """Let the clock go on."""
    belief = _belief_of(state.stores)
    state.counters[N] += rounds
    if belief.segments[0] > 0:
        move(model, belief, rounds)
    state.counters[FITTED] = 0


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
    belief, counters = _belief_of(state.stores), state.counters
    if belief.sets[0] == 0:  # whoever learns foreign data shows it first
        _observe(model, scoring, state, belief, state.stores.vectors[ROW_AT : ROW_AT + 1])
    outcome = reward - scoring.centre
    if model.linear:
        if belief.rewarded[0] == 0.0 and belief.constant[0]:
            belief.offset[0] = outcome
        outcome -= belief.offset[0]
    noise = noise_of(model, belief)
    measure_dispersion(model, state, belief, outcome)
    learn_by_segments(model, state, belief, outcome, s, noise)
    age = float(counters[N] - s)
    learn_by_drifts(model, state, belief, outcome, age, noise, ROOM)
    weigh(model, belief, s)
    insert_row(model, state, outcome, float(s))
    if counters[TAIL] - counters[HEAD] > MOST_REFITTED:
        counters[HEAD] += 1
    fit_segments(model, state, belief, s, noise)
    threshold = _numbers_of(numbers).threshold
    if threshold > 0.0:
        look_for_change(model, state, belief, threshold)
    if s > belief.newest[0]:
        belief.newest[0] = s
        _find_base(model, state, belief)
        if belief.rewarded[0] > _BEFORE_CHANGES:
            give_birth(model, state, belief, s + 1)
    counters[FITTED] = 0


@inlined
def _find_base(model: Model, state: State, belief: Belief) -> None:
    if belief.constant[0]:
        make_mean(model, state, belief)
        belief.base[0] = dot(belief.centre, state.theta_hat)


@internal
def estimate(
    model: Model, scoring: Scoring, numbers: Floats, state: State, seed: int, actions: Floats
) -> None:
    """theta_hat, theta := mean of the mixture, scratch.bonus := its covariance."""
    belief = _belief_of(state.stores)
    if actions.shape[0] > 0:
        _observe(model, scoring, state, belief, actions)
    make_mean(model, state, belief)
    make_mixture(model, state, belief, dispersion(model, belief))
    state.counters[FITTED] = 1


@inlined
def score(model: Model, scoring: Scoring, state: State, actions: Floats, table: Floats) -> None:
    """Rows of `table`: means, widths and scores, after `estimate`."""
    belief = _belief_of(state.stores)
    optimism.measure(model, scoring, state, belief, actions, table)
    optimism.score(model, scoring, belief.offset[0], table)
