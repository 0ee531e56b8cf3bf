"""A memory that is not adapted: the steps of every policy whose module does not say otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from driftbandits.core import Confidence, Model, State, copy_matrix, memory
from driftbandits.core.estimator.inverse import share_inverse
from driftbandits.core.estimator.memory import drop_expansions, rebuild
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.solve import fit
from driftbandits.core.estimator.state import BEGUN, FITTED, HEAD, TAIL, Buffers, N
from driftbandits.jit import inlined, internal
from driftbandits.policies.scoring import Scoring, closeness, confidence_of

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

FAMILY = "plain"


class Numbers(NamedTuple):
    """None."""


def numbers_for(policy: Policy) -> Numbers:
    return Numbers()


def sizes_for(policy: Policy) -> dict[str, int]:
    return {}


def window_for(policy: Policy) -> int | None:
    return policy.window


def weights_of_ages(policy: Policy, buffers: Buffers, ages: Floats) -> Floats:
    weights: Floats = (policy.discount or 1.0) ** ages
    return weights


@inlined
def advance(model: Model, state: State, rounds: int) -> None:
    memory.advance(model, state, rounds)


@inlined
def estimate(
    model: Model, scoring: Scoring, numbers: Floats, state: State, seed: int, actions: Floats
) -> None:
    if scoring.period > 0:
        _begin_period(model, state, state.counters[N] // scoring.period * scoring.period)
    if scoring.one_matrix:
        copy_matrix(state.V, state.V2)
        if model.fast and model.order == 0:
            share_inverse(state)
    fit(model, state, closeness(model, scoring, confidence_of(numbers), state))


@internal
def _begin_period(model: Model, state: State, begin: int) -> None:
    """Forget every round up to `begin`, unless that was done."""
    rows, counters = state.rows, state.counters
    if begin <= counters[BEGUN]:
        return
    counters[BEGUN] = begin
    while counters[HEAD] < counters[TAIL] and rows[model.d + 1, counters[HEAD]] <= begin:
        counters[HEAD] += 1
    rebuild(model, state)
    drop_expansions(state)
    counters[FITTED] = 0


@inlined
def learn(
    model: Model,
    scoring: Scoring,
    confidence: Confidence,
    numbers: Floats,
    state: State,
    reward: float,
    s: int,
) -> None:
    memory.absorb(model, state, reward - scoring.centre, s)
