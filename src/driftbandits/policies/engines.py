"""The two engines that play policies: decide, update and tick.

The estimator's engine is here: a fit over a memory, a radius, a score. The other is that of `auto`,
in auto/__init__.py. The memory of a row says once which of them plays it, and neither asks.

A kernel that could play every policy would be compiled whole before the first decision of any. So
rows that one set of kernels plays form a family, and `parts_of` puts the steps of an engine
together for one family: what only others need is not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from driftbandits.core import Model, State, large_model_of, memory, model_of, state_of
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import NUMBERS, N
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
from driftbandits.policies import auto
from driftbandits.policies import scoring as scores
from driftbandits.policies.adaptations.fixed import own_or_fixed
from driftbandits.policies.catalogue import ADAPTATIONS
from driftbandits.policies.curvature import project_in_curvature
from driftbandits.policies.randomness import TAKEN, choose
from driftbandits.policies.sampling import draw, make_sampling_matrices
from driftbandits.policies.scoring import Opened, Scoring

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

FAMILIES = PLAIN, SPECIAL, BELIEVING = "plain", "special", "believing"
"""One memory and a bonus; all that samples, adapts, or projects otherwise; `auto`."""
LARGE_FAMILY = "large-"
"""Before the name of a family: its large models, see `Policy.fast`."""
ANY = place(0)
"""In place of a dimension: the kernels are for all of them."""


class Kernels(NamedTuple):
    """The functions of a family: kernels for a handle, or their parts for an opened one."""

    label: str
    decide: Callable[..., int]
    """Choose distinct actions, best first, as the decisions of rounds N+1, N+2, ...

    decide(handle, seed, number, actions, table, picks) computes everything at the clock as it
    stands, which then counts the decisions; with a number above 0 it does not, and the decisions
    are number, number + 1, ... A set of actions that cannot be used changes nothing, and the answer
    says why. table (TABLE_ROWS, K) receives means, widths and scores, and its last rows are
    scratch; picks (2, n) receives indices and propensities. With no actions and no picks only the
    estimate and its radius are brought up to date.
    """
    update: Callable[..., None]
    """Learn the reward of an action of round s: update(handle, actions, index, reward, s).

    `rows` must have room and s be young enough.
    """
    tick: Callable[..., None]
    """Let time pass without a decision: tick(handle, rounds)."""


def family_of(policy: Policy) -> str:
    """The name of the kernels that play a policy."""
    if policy.row.believes:
        family = BELIEVING
    elif policy.row.adaptation != "none" or policy.scoring.score >= scores.SCALED:
        family = SPECIAL
    else:
        family = SPECIAL if policy.scoring.project_in_curvature else PLAIN
    return LARGE_FAMILY + family if policy.fast else family


# -- the estimator's engine ------------------------------------------------------------------------


@inlined
def _prepare(model: Model, scoring: Scoring, state: State) -> None:
    if scoring.score not in (scores.GREEDY, scores.CONSTANT, scores.WEIGHTED):
        scores.make_bonus_matrix(model, scoring, state)


@inlined
def _prepare_special(model: Model, scoring: Scoring, state: State) -> None:
    if scoring.project_in_curvature:
        project_in_curvature(model, state)
    if scoring.score in scores.SAMPLED:
        make_sampling_matrices(model, scoring, state)
    else:
        _prepare(model, scoring, state)


@inlined
def _choose(
    opened: Opened, seed: int, first: int, actions: Floats, table: Floats, picks: Floats
) -> None:
    choose(opened.scoring.epsilon, seed, first, table, picks)


@allocating
def _choose_special(
    opened: Opened, seed: int, first: int, actions: Floats, table: Floats, picks: Floats
) -> None:
    """Choose as `choose` does, or draw where the score of a row is random."""
    _, model, scoring, confidence, state = opened
    if scoring.score < scores.SCALED:
        choose(scoring.epsilon, seed, first, table, picks)
        return
    for i in range(table.shape[1]):
        table[3, i] = table[2, i]
    features = np.empty((actions.shape[0], model.d))
    for i in range(actions.shape[0]):
        scores.write_row(scoring, actions, i, features[i])
    for rank in range(picks.shape[1]):
        index, propensity = draw(
            model, scoring, state, features, table, seed, first + rank, confidence.k
        )
        picks[0, rank] = index
        picks[1, rank] = propensity
        table[3, index] = TAKEN


def _step(name: str, family: str) -> Callable[..., Any]:
    """A step of the adaptations that a family plays, by the number of the adaptation."""
    steps = {
        number: own_or_fixed(adaptation, name)
        for number, (label, adaptation) in enumerate(ADAPTATIONS.items())
        if label == "none" or (family == SPECIAL and adaptation is not auto)
    }
    return inlined(one_of(name, steps))


def _estimator_engine(family: str) -> tuple[Callable[..., Any], ...]:
    """The engine of one memory and a bonus, or that of all which does more than this."""
    estimate, learn = _step("estimate", family), _step("learn", family)
    special = family == SPECIAL
    part = allocating if special else inlined
    prepare = _prepare_special if special else _prepare
    choose_actions = _choose_special if special else _choose

    @part
    def decide(
        opened: Opened, seed: int, number: int, actions: Floats, table: Floats, picks: Floats
    ) -> int:
        _, model, scoring, confidence, state = opened
        found = scores.validity(scoring, actions)
        if found != scores.ACCEPTED:
            return found
        measured = scores.estimate_and_measure(model, scoring, state, actions, table)
        estimate(scoring.adaptation, opened, seed, actions)
        prepare(model, scoring, state)
        scores.set_radius(model, scoring, confidence, state, number)
        scores.score(model, scoring, state, measured, actions, table)
        first = state.counters[N] + 1 if number == 0 else number
        choose_actions(opened, seed, first, actions, table, picks)
        if number == 0:
            memory.advance(model, state, picks.shape[1])
        return scores.ACCEPTED

    @part
    def update(opened: Opened, actions: Floats, index: int, reward: float, s: int) -> None:
        scores.write_row(opened.scoring, actions, index, opened.state.scratch.row)
        learn(opened.scoring.adaptation, opened, reward, s)

    @part
    def tick(opened: Opened, rounds: int) -> None:
        memory.advance(opened.model, opened.state, rounds)

    return decide, update, tick


# -- families --------------------------------------------------------------------------------------


@cache
def parts_of(family: str, known_d: int = ANY) -> tuple[Callable[[Handle], Opened], Kernels]:
    """Return the opener of handles, and the parts of one of FAMILIES, or of its large models.

    A loop that opens a handle once spares each round the reading of some sixty numbers.

    In those of a family itself the compiler knows that no model is large, and drops their code.

    With a known dimension they are for models of that dimension alone. Then every loop over
    coordinates is unrolled, which makes small models faster by a third.
    """
    label = family if known_d == ANY else f"{family}-{known_d}"
    is_large = family.startswith(LARGE_FAMILY)
    large, read_model = place(is_large), large_model_of if is_large else model_of
    family = family.removeprefix(LARGE_FAMILY)

    @inlined
    def opened(handle: Handle) -> Opened:
        """The numbers of a policy and the state among its buffers, by name."""
        numbers = floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))
        d = known_d if known_d > 0 else int(numbers[0])
        return Opened(
            numbers,
            read_model(numbers, d, large),
            scores.scoring_of(numbers),
            scores.confidence_of(numbers),
            state_of(handle, d),
        )

    if family == BELIEVING:
        return opened, Kernels(label, auto.decide, auto.update, auto.tick)
    return opened, Kernels(label, *_estimator_engine(family))


@cache
def kernels_of(family: str) -> Kernels:
    """The kernels of one of FAMILIES, or its large models. They are compiled when first called."""
    opened, (label, decide_opened, update_opened, tick_opened) = parts_of(family)
    lets_others_run = family.startswith(LARGE_FAMILY)

    @compiled_for(label, lets_others_run=lets_others_run)
    def decide(
        handle: Handle, seed: int, number: int, actions: Floats, table: Floats, picks: Floats
    ) -> int:
        return decide_opened(opened(handle), seed, number, actions, table, picks)

    @compiled_for(label, lets_others_run=lets_others_run)
    def update(handle: Handle, actions: Floats, index: int, reward: float, s: int) -> None:
        update_opened(opened(handle), actions, index, reward, s)

    @compiled_for(label, lets_others_run=lets_others_run)
    def tick(handle: Handle, rounds: int) -> None:
        tick_opened(opened(handle), rounds)

    return Kernels(label, decide, update, tick)
