"""The engine that plays `auto`: decide, update and tick, as `engines.Engine` describes them."""

from __future__ import annotations

from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import N
from driftbandits.jit import allocating
from driftbandits.policies import auto
from driftbandits.policies.randomness import choose
from driftbandits.policies.scoring import ACCEPTED, Opened, set_row, validity


@allocating
def decide(
    opened: Opened,
    seed: int,
    number: int,
    actions: Floats,
    table: Floats,
    picks: Floats,
) -> int:
    numbers, model, scoring, _, state = opened
    found = validity(scoring, actions)
    if found != ACCEPTED:
        return found
    features = auto.see(model, scoring, state, actions)
    auto.estimate(model, scoring, numbers, state, seed, features)
    auto.score(model, scoring, state, features, table)
    first = state.counters[N] + 1 if number == 0 else number
    choose(scoring.epsilon, seed, first, table, picks)
    if number == 0:
        auto.advance(model, state, picks.shape[1])
    return ACCEPTED


@allocating
def update(opened: Opened, actions: Floats, index: int, reward: float, s: int) -> None:
    numbers, model, scoring, confidence, state = opened
    set_row(scoring, actions, index, state)
    auto.learn(model, scoring, confidence, numbers, state, reward, s)


@allocating
def tick(opened: Opened, rounds: int) -> None:
    auto.advance(opened.model, opened.state, rounds)
