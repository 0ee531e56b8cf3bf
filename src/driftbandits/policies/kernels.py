"""What plays a policy: decide, update and tick, for each family of policies.

A kernel that could play every policy would be compiled whole before the first decision of any.
So there is one set of kernels for a family: the same lines, in which branches on what only other
families have are cut off before the compiler sees what they call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from driftbandits.estimator import Model, State, large_model_of, model_of, state_of
from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import NUMBERS, N
from driftbandits.jit import (
    Handle,
    allocating,
    compiled_for,
    floats_of,
    inlined,
    length_of,
    one_of,
    place,
)
from driftbandits.policies.adaptations import ADAPTATIONS, belief, pool
from driftbandits.policies.chance import TAKEN, pick
from driftbandits.policies.curvature import project_in_curvature
from driftbandits.policies.sampling import draw, make_sampling_matrices
from driftbandits.policies.scoring import (
    ACCEPTED,
    CONSTANT,
    GREEDY,
    SAMPLED,
    SCALED,
    WEIGHTED,
    Scoring,
    bonus_factor,
    confidence_of,
    estimate_and_measure,
    features_of,
    make_bonus_matrix,
    measure,
    score,
    score_measured,
    scoring_of,
    set_row,
    verdict_on,
)
from driftbandits.theory import Confidence

if TYPE_CHECKING:
    from driftbandits.policies.configuration import Policy

FAMILIES = PLAIN, POOLED, SPECIAL, BELIEVING = "plain", "pooled", "special", "believing"
"""One memory and a bonus; a pool of memories; all that samples, adapts, or projects otherwise;
a belief."""
LARGE_FAMILY = "large-"
"""Before the name of a family: its large models, see `Policy.fast`."""


ANY = place(0)
"""In place of a dimension: the kernels are for all of them."""


class Opened(NamedTuple):
    """What a handle leads to, by name."""

    numbers: Floats
    model: Model
    scoring: Scoring
    confidence: Confidence
    state: State


class Kernels(NamedTuple):
    """The kernels of a family."""

    label: str
    decide: Callable[..., int]
    update: Callable[..., None]
    tick: Callable[..., None]


class Parts(NamedTuple):
    """What the kernels of a family are made of, for kernels that play many rounds.

    Whoever opens a handle once for all of them spares each round the reading of some sixty numbers.
    """

    label: str
    opened: Callable[[Handle], Opened]
    decide: Callable[..., int]
    update: Callable[..., None]
    tick: Callable[..., None]


def family_of(policy: Policy) -> str:
    """By which kernels a policy is played."""
    family: str = policy.adaptation.FAMILY
    scoring = policy.scoring
    samples = scoring.score >= SCALED
    if family == PLAIN and (samples or scoring.project_in_curvature):
        family = SPECIAL
    return LARGE_FAMILY + family if policy.fast else family


def _of_family(name: str, family: str) -> Callable[..., Any]:
    """A step of the adaptations that a family plays, by the number of the adaptation."""
    played = (PLAIN, SPECIAL) if family == SPECIAL else (family,)
    steps = {
        number: getattr(adaptation, name)
        for number, adaptation in enumerate(ADAPTATIONS.values())
        if adaptation.FAMILY in played
    }
    return inlined(one_of(name, steps))


@cache
def parts_of(family: str, known_d: int = ANY) -> Parts:
    """The parts of one of FAMILIES, or its large models.

    In those of a family itself the compiler knows that no model is large, and drops their code.

    With a known dimension they are for models of that dimension alone. Then every loop over
    coordinates is unrolled, which makes small models faster by a third.
    """
    label = family if known_d == ANY else f"{family}-{known_d}"
    is_large = family.startswith(LARGE_FAMILY)
    is_small = not is_large
    large, read_model = place(is_large), large_model_of if is_large else model_of
    family = family.removeprefix(LARGE_FAMILY)
    pooled, special, believing = family == POOLED, family == SPECIAL, family == BELIEVING
    part = allocating if special else inlined
    advance, estimate, learn = (
        _of_family(name, family) for name in ("advance", "estimate", "learn")
    )

    @inlined
    def opened(handle: Handle) -> Opened:
        """The numbers of a policy and the state among its buffers, by name."""
        numbers = floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))
        d = known_d if known_d > 0 else int(numbers[0])
        return Opened(
            numbers,
            read_model(numbers, d, large),
            scoring_of(numbers),
            confidence_of(numbers),
            state_of(handle, d),
        )

    @part
    def decide(
        opened: Opened,
        seed: int,
        number: int,
        actions: Floats,
        table: Floats,
        picks: Floats,
    ) -> int:
        """Choose distinct actions, best first, as the decisions of rounds N+1, N+2, ...

        Everything is computed at the clock as it stands, which then counts the decisions; with a
        number above 0 it does not, and the decisions are number, number + 1, ... A set of actions
        that cannot be used changes nothing. table (TABLE_ROWS, K) receives means, widths and
        scores, and its last rows are scratch; picks (2, n) receives indices and propensities. With
        no actions and no picks only the estimate and its radius are brought up to date.
        """
        numbers, model, scoring, confidence, state = opened
        verdict = verdict_on(scoring, actions)
        if verdict != ACCEPTED:
            return verdict
        measured = 0
        if not (pooled or believing):
            measured = estimate_and_measure(model, scoring, state, actions, table)
        estimate(scoring.adaptation, model, scoring, numbers, state, seed, actions)
        wide = 0.0
        if pooled:
            wide = scoring.bonus_scale * pool.OPTIMISM
        elif not believing:
            if special and scoring.project_in_curvature:
                project_in_curvature(model, state)
            if special and scoring.score in SAMPLED:
                make_sampling_matrices(model, scoring, state)
            elif is_small and scoring.score not in (GREEDY, CONSTANT, WEIGHTED):
                make_bonus_matrix(scoring, state)
            wide = bonus_factor(model, scoring, confidence, state, number)
        if believing:
            belief.score(model, scoring, state, actions, table)
        elif is_large:
            if scoring.score == CONSTANT:
                score(model, scoring, state, wide, actions, table)
            elif pooled:
                pool.measure(model, scoring, state, actions, table)
                score_measured(model, scoring, state, wide, actions, table)
            else:
                has_matrix = special and scoring.score in SAMPLED
                measure(model, scoring, state, has_matrix, measured, actions, table)
                score_measured(model, scoring, state, wide, actions, table)
        else:
            score(model, scoring, state, wide, actions, table)
        first = state.counters[N] + 1 if number == 0 else number
        for i in range(actions.shape[0]):
            table[3, i] = table[2, i]
        features = actions
        if special and scoring.score >= SCALED:
            features = features_of(model, scoring, actions)
        for rank in range(picks.shape[1]):
            t = first + rank
            if special and scoring.score >= SCALED:
                index, propensity = draw(
                    model, scoring, state, features, table, seed, t, confidence.k
                )
            else:
                index, propensity = pick(scoring.epsilon, table, seed, t)
            picks[0, rank] = index
            picks[1, rank] = propensity
            table[3, index] = TAKEN
        if number == 0:
            advance(scoring.adaptation, model, state, picks.shape[1])
        return ACCEPTED

    @part
    def update(
        opened: Opened,
        actions: Floats,
        index: int,
        reward: float,
        s: int,
    ) -> None:
        """Learn the reward of an action of round s; `rows` must have room and s be young enough."""
        numbers, model, scoring, confidence, state = opened
        set_row(scoring, actions, index, state)
        learn(scoring.adaptation, model, scoring, confidence, numbers, state, reward, s)

    @part
    def tick(opened: Opened, rounds: int) -> None:
        """Let time pass without a decision."""
        advance(opened.scoring.adaptation, opened.model, opened.state, rounds)

    return Parts(label, opened, decide, update, tick)


@cache
def kernels_of(family: str) -> Kernels:
    """The kernels of one of FAMILIES, or its large models. They are compiled when first called."""
    label, opened, decide_opened, update_opened, tick_opened = parts_of(family)
    lets_others_run = family.startswith(LARGE_FAMILY)

    @compiled_for(label, lets_others_run=lets_others_run)
    def decide(
        handle: Handle,
        seed: int,
        number: int,
        actions: Floats,
        table: Floats,
        picks: Floats,
    ) -> int:
        """As `Parts.decide`."""
        return decide_opened(opened(handle), seed, number, actions, table, picks)

    @compiled_for(label, lets_others_run=lets_others_run)
    def update(
        handle: Handle,
        actions: Floats,
        index: int,
        reward: float,
        s: int,
    ) -> None:
        """As `Parts.update`."""
        update_opened(opened(handle), actions, index, reward, s)

    @compiled_for(label, lets_others_run=lets_others_run)
    def tick(
        handle: Handle,
        rounds: int,
    ) -> None:
        """As `Parts.tick`."""
        tick_opened(opened(handle), rounds)

    return Kernels(label, decide, update, tick)
