"""Models of separate arms: what they have in common, and the kernels that keep it so.

One model of p coefficients for each of K arms is the block-diagonal model of K p coefficients. Its
blocks learn apart. These couple them: the clock, the radius, which is that of all K p coefficients,
the choice, and in `auto` what the rewards of every arm say of the hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from driftbandits.core import Buffers, Model, State, model_of, state_of
from driftbandits.core.estimator.model import FAST, Floats, as_numbers
from driftbandits.core.estimator.state import NUMBERS, N
from driftbandits.jit import (
    LINE,
    Handle,
    allocating,
    compiled,
    compiled_for,
    floats_of,
    inlined,
    ints_of,
    length_of,
    place,
)
from driftbandits.policies import auto
from driftbandits.policies.adaptations import fixed
from driftbandits.policies.auto import weighing
from driftbandits.policies.auto.gaussians import align, begin_arm, hold
from driftbandits.policies.auto.priors import take_prior
from driftbandits.policies.auto.record import CHAINS, HYPOTHESES, POPULATION, Belief
from driftbandits.policies.engines import BELIEVING, LARGE_FAMILY, kernels_of
from driftbandits.policies.randomness import choose
from driftbandits.policies.scoring import TABLE_ROWS, Scoring, scoring_of

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

_belief_of = auto.LAYOUT.of
_BUFFERS = len(Buffers._fields)


def _limits(store: str) -> tuple[int, int]:
    return place(auto.IN_COMMON[store].start), place(auto.IN_COMMON[store].stop)


_FIRST_COUNTER, _LAST_COUNTER = _limits("counters")
_FIRST_GAUGE, _LAST_GAUGE = _limits("gauges")


def believes(policy: Policy) -> bool:
    """Arms share a belief, which they measure apart and score together."""
    return policy.row.believes


def numbers_of_arms(policy: Policy, count: int) -> Floats:
    """The numbers of the model of one of so many arms."""
    model, own = policy.model, fixed.numbers_for(policy)
    if believes(policy):
        own = auto.numbers_for(policy, arms=count)
        # to be the best of K, a . theta must be able to move by log K
        model = model._replace(lam=model.lam / (1.0 + math.log(count) ** 2))
    problem = policy.problem._replace(d=count * policy.model_dim)
    return as_numbers(model, policy.scoring, policy.confidence_for(problem), own)


def held_in_common(policy: Policy, buffers: Buffers) -> list[Any]:
    """The arrays among the buffers of an arm that are to be the same for all arms."""
    if not believes(policy):
        return []
    return [getattr(buffers, store)[place] for store, place in auto.IN_COMMON.items()]


class _Arm(NamedTuple):
    """The model of an arm of `auto`, by name."""

    model: Model
    scoring: Scoring
    state: State
    belief: Belief


@inlined
def _arm(handle: Handle) -> _Arm:
    numbers = floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))
    d = int(numbers[0])
    model, state = model_of(numbers, d, int(numbers[FAST])), state_of(handle, d)
    return _Arm(model, scoring_of(numbers), state, _belief_of(state.stores))


@compiled
def follow_common(handle: Handle, common: Handle) -> None:
    """Let an arm that believes have what all arms share: columns, prior, segments, population."""
    own, shared = _arm(handle), _arm(common)
    take_prior(own.model, own.belief, shared.belief)
    align(own.model, own.state, own.belief, shared.belief)
    for j in range(_FIRST_COUNTER, _LAST_COUNTER):
        own.state.counters[j] = shared.state.counters[j]
    for j in range(_FIRST_GAUGE, _LAST_GAUGE):
        own.state.gauges[j] = shared.state.gauges[j]


@compiled
def begin_as_new(handle: Handle) -> None:
    """Let an arm know the segments that all arms share, and nothing of its own."""
    arm = _arm(handle)
    begin_arm(arm.model, arm.state, arm.belief)


@compiled
def show_rows(handle: Handle, rows: Floats) -> None:
    """Let the prior that all arms share follow the rows of a decision."""
    common = _arm(handle)
    auto.see(common.model, common.scoring, common.state, rows)
    shared = common.belief
    if shared.base_variance[0] == 0.0:
        for h in range(HYPOTHESES):
            shared.base_variance[h] = POPULATION
        for h in range(1, CHAINS):
            shared.trust[0] += shared.trust[h] * (1.0 - 1.0 / rows.shape[0])
            shared.trust[h] /= rows.shape[0]
        hold(shared)


# The steps of a decision among separate arms: `see` returns the rows as the models are given them,
# `measure` lets one arm write what it knows of its row (1, p) into a column of the table, and
# `score` makes means, widths and scores of what the arms have written.


@allocating
def _see(common: Handle, rows: Floats) -> Floats:
    arm = _arm(common)
    return auto.see(arm.model, arm.scoring, arm.state, rows)


@inlined
def _measure(
    handle: Handle, common: Handle, seed: int, number: int, row: Floats, table: Floats
) -> None:
    follow_common(handle, common)
    arm = _arm(handle)
    auto.estimate(arm.model, arm.state)
    weighing.measure(arm.model, arm.scoring, arm.state, arm.belief, row, table)
    if number == 0:
        auto.advance(arm.model, arm.state, 1)


@inlined
def _score(common: Handle, table: Floats) -> None:
    arm = _arm(common)
    weighing.score(arm.model, arm.scoring, arm.belief.offset[0], table)


def _steps_of_the_estimator(decide: Callable[..., int]) -> tuple[Callable[..., Any], ...]:
    """Every arm decides alone, among its own row."""

    @allocating  # so that the array that is handed back is counted
    def see(common: Handle, rows: Floats) -> Floats:
        return rows

    @allocating
    def measure(
        handle: Handle, common: Handle, seed: int, number: int, row: Floats, table: Floats
    ) -> None:
        decide(handle, seed, number, row, table, np.empty((2, 1)))

    @inlined
    def score(common: Handle, table: Floats) -> None:
        pass

    return see, measure, score


@cache
def decider_of(family: str) -> Callable[..., None]:
    """The kernel that decides among arms that have a model each, in one call."""
    label, decide, _, tick = kernels_of(family)
    is_auto = family.removeprefix(LARGE_FAMILY) == BELIEVING
    steps = (_see, _measure, _score) if is_auto else _steps_of_the_estimator(decide)
    see, measure, score = steps

    @compiled_for(f"arms-{label}", lets_others_run=family.startswith(LARGE_FAMILY))
    def decide_among(
        handles: Handle,
        common: Handle,
        seed: int,
        number: int,
        epsilon: float,
        rows: Floats,
        table: Floats,
        picks: Floats,
        shown: Floats,
    ) -> None:
        """Pick distinct arms at the clock of the common model, which itself stays as it is.

        Row i of rows (K, p) is that of the arm with handle i. `number`, `table` and `picks` are as
        in `Kernels.decide`, and shown (K, 2, p) receives theta_hat and theta.
        """
        d = int(floats_of(common, NUMBERS, (length_of(common, NUMBERS, 0),))[0])
        clock = state_of(common, d).counters[N]
        one = np.empty((TABLE_ROWS, 1))
        features = see(common, rows)
        for i in range(rows.shape[0]):
            handle = ints_of(handles, i, (_BUFFERS, LINE))
            state = state_of(handle, d)
            if state.counters[N] < clock:
                tick(handle, clock - state.counters[N])
            measure(handle, common, seed, number, features[i : i + 1], one)
            for k in range(TABLE_ROWS):
                table[k, i] = one[k, 0]
            for j in range(d):
                shown[i, 0, j] = state.theta_hat[j]
                shown[i, 1, j] = state.theta[j]
        score(common, table)
        choose(epsilon, seed, number if number > 0 else clock + 1, table, picks)

    return decide_among
