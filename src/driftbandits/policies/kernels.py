"""What plays a policy: decide, update and tick, for each family of policies.

A kernel that could play every policy would be compiled whole before the first decision of any.
So there is one set of kernels for a family: the same lines, in which branches on what only other
families have are cut off before the compiler sees what they call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from driftbandits.estimator import absorb, advance, fit, model_of, state_of
from driftbandits.estimator.model import NUMBERS, POOL, Floats, N, floats_of
from driftbandits.jit import Handle, compiled_for, place
from driftbandits.policies import models, pool, restarts, windows
from driftbandits.policies.adaptation import MODELS, NO_ADAPTATION, RESTARTS, WINDOWS, adaptation_of
from driftbandits.policies.chance import TAKEN, WINDOW_DRAW, pick, uniform
from driftbandits.policies.estimating import prepare, project_in_curvature
from driftbandits.policies.sampling import POSTERIOR, SCALED, draw, make_sampling_matrices
from driftbandits.policies.scoring import (
    ACCEPTED,
    CONSTANT,
    GREEDY,
    bonus_factor,
    features_of,
    make_bonus_matrix,
    mean_square,
    score,
    scoring_of,
    set_row,
    verdict_on,
)

if TYPE_CHECKING:
    from driftbandits.policies.rows import Policy

FAMILIES = PLAIN, POOLED, SPECIAL = "plain", "pooled", "special"
"""One memory and a bonus; a pool of memories; all that samples, detects, or projects otherwise."""


ANY = place(0)
"""In place of a dimension: the kernels are for all of them."""


class Kernels(NamedTuple):
    """The kernels of a family."""

    label: str
    decide: Callable[..., int]
    update: Callable[..., None]
    tick: Callable[..., None]


def family_of(policy: Policy) -> str:
    """By which kernels a policy is played."""
    if policy.model.memory == POOL:
        return POOLED
    scoring = policy.scoring
    adapted = policy.adaptation.kind != NO_ADAPTATION
    return SPECIAL if adapted or scoring.score >= SCALED or scoring.project_in_curvature else PLAIN


@cache
def kernels_of(family: str, known_d: int = ANY) -> Kernels:
    """The kernels of one of FAMILIES. They are compiled when they are first called.

    With a known dimension they are for models of that dimension alone. Then every loop over
    coordinates is unrolled, which makes small models faster by a third.
    """
    pooled, special = family == POOLED, family == SPECIAL
    label = family if known_d == ANY else f"{family}-{known_d}"

    @compiled_for(label)
    def decide(
        handle: Handle,
        seed: int,
        number: int,
        actions: Floats,
        table: Floats,
        picks: Floats,
    ) -> int:
        """Choose distinct actions, best first, as the decisions of rounds N+1, N+2, ...

        Everything is computed at the clock as it stands, which then counts the decisions; with a
        number above 0 it does not, and the decisions are number, number + 1, ... A set of actions
        that cannot be used changes nothing. table (4, K) receives means, widths and scores,
        and its last row is scratch; picks (2, n) receives indices and propensities. With no
        actions and no picks only the estimate and its radius are brought up to date.
        """
        numbers = floats_of(handle, NUMBERS)
        d = known_d if known_d > 0 else int(numbers[0])
        model, scoring = model_of(numbers, d), scoring_of(numbers)
        state = state_of(handle, d)
        counters = state.counters
        verdict = verdict_on(scoring, actions)
        if verdict != ACCEPTED:
            return verdict
        adaptation = adaptation_of(numbers)
        if pooled:
            pool.prepare(model, state, mean_square(model, scoring, actions))
            pool.fit(model, state)
            wide = scoring.bonus_scale * pool.OPTIMISM
        else:
            if special and adaptation.kind == WINDOWS and windows.is_over(adaptation, state):
                window_draw = uniform(seed, counters[N] // adaptation.block, WINDOW_DRAW)
                windows.begin_block(model, adaptation, state, window_draw)
            prepare(model, scoring.period, scoring.one_matrix, state)
            fit(model, state)
            if special and scoring.project_in_curvature:
                project_in_curvature(model, state)
            if special and adaptation.kind == RESTARTS:
                restarts.follow(model, state)
            if special and scoring.score >= POSTERIOR:
                make_sampling_matrices(model, scoring, state)
            elif scoring.score not in (GREEDY, CONSTANT):
                make_bonus_matrix(scoring, state)
            wide = bonus_factor(model, scoring, state, number)
        score(model, scoring, state, wide, actions, table)
        first = counters[N] + 1 if number == 0 else number
        for i in range(actions.shape[0]):
            table[3, i] = table[2, i]
        features = actions
        if special and scoring.score >= SCALED:
            features = features_of(model, scoring, actions)
        for rank in range(picks.shape[1]):
            t = first + rank
            if special and scoring.score >= SCALED:
                index, propensity = draw(model, scoring, state, features, table, seed, t)
            else:
                index, propensity = pick(scoring.epsilon, table, seed, t)
            picks[0, rank] = index
            picks[1, rank] = propensity
            table[3, index] = TAKEN
        if number == 0:
            if pooled:
                pool.advance(model, state, picks.shape[1])
            else:
                advance(model, state, picks.shape[1])
        return ACCEPTED

    @compiled_for(label)
    def update(
        handle: Handle,
        actions: Floats,
        index: int,
        reward: float,
        s: int,
    ) -> None:
        """Learn the reward of an action of round s; `rows` must have room and s be young enough."""
        numbers = floats_of(handle, NUMBERS)
        d = known_d if known_d > 0 else int(numbers[0])
        model, scoring = model_of(numbers, d), scoring_of(numbers)
        adaptation = adaptation_of(numbers)
        state = state_of(handle, d)
        set_row(scoring, actions, index, state)
        outcome = reward - scoring.centre
        if pooled:
            pool.absorb(model, state, outcome, s, adaptation.threshold)
            return
        if special and adaptation.kind == MODELS:
            models.judge(model, scoring, adaptation, state, outcome, s)
            return
        absorb(model, state, outcome, s)
        if special and adaptation.kind == RESTARTS:
            restarts.watch(model, adaptation, state, outcome, s)
        elif special and adaptation.kind == WINDOWS:
            windows.credit(adaptation, state, reward)

    @compiled_for(label)
    def tick(
        handle: Handle,
        rounds: int,
    ) -> None:
        """Let time pass without a decision."""
        numbers = floats_of(handle, NUMBERS)
        d = known_d if known_d > 0 else int(numbers[0])
        model = model_of(numbers, d)
        state = state_of(handle, d)
        if pooled:
            pool.advance(model, state, rounds)
        else:
            advance(model, state, rounds)

    return Kernels(label, decide, update, tick)
