"""The rows an estimator remembers, and how they come and go.

Rewarded rounds lie in order of time. Time belongs to the decision: a reward that comes late is
inserted where its round was, with the weight of its age.
"""

from __future__ import annotations

import numpy as np

from driftbandits import links
from driftbandits.estimator.expansion import add_row, weight_of_age
from driftbandits.estimator.model import (
    DISCOUNT,
    EVERYTHING,
    FITTED,
    HEAD,
    LEAK,
    LONGEST,
    MASS,
    SUBTRACTIONS,
    TAIL,
    VALID,
    WINDOW,
    Floats,
    Ints,
    Model,
    N,
    State,
)
from driftbandits.jit import compiled
from driftbandits.linalg import add_outer, dot, norm


@compiled
def keeps_rows(model: Model) -> bool:
    """A linear model that never takes rows away needs only its sums."""
    return model.link != links.IDENTITY or model.memory == WINDOW


@compiled
def advance(model: Model, ladder: Ints, state: State, rounds: int) -> None:
    """Let the clock go on: older rows weigh less, or leave."""
    state.counters[N] += rounds
    if model.memory == DISCOUNT:
        _decay(model, state, model.gamma**rounds)
    if model.memory != EVERYTHING:
        _forget(model, ladder, state)
        state.counters[FITTED] = 0


@compiled
def _decay(model: Model, state: State, decay: float) -> None:
    ridge = model.lam / model.c
    for i in range(model.d):
        state.b[i] *= decay
        for j in range(model.d):
            state.V[i, j] *= decay
            state.V2[i, j] *= decay * decay
        state.V[i, i] += (1.0 - decay) * ridge
        state.V2[i, i] += (1.0 - decay * decay) * ridge
    for which in range(2):
        if state.counters[VALID + which]:
            moments = state.moments[which]
            for i in range(moments.size):
                moments[i] *= decay
            state.gauges[MASS + which] *= decay
    state.gauges[LEAK] *= decay


@compiled
def _forget(model: Model, ladder: Ints, state: State) -> None:
    """Drop the rows whose age has reached the span."""
    oldest = state.counters[N] - model.span
    a = np.empty(model.d)
    while (
        state.counters[HEAD] < state.counters[TAIL] and state.rounds[state.counters[HEAD]] <= oldest
    ):
        s = state.counters[HEAD]
        for j in range(model.d):
            a[j] = state.rows[j, s]
        if model.memory == WINDOW:
            _add_to_sums(model, ladder, state, a, state.rewards[s], -1.0)
            state.counters[SUBTRACTIONS] += 1
        else:
            w = weight_of_age(model, state.counters[N] - state.rounds[s])
            # b keeps the row for ever, the expansions only until their next anchor
            mean = links.mean(model.link, model.m, dot(a, state.theta_hat))
            state.gauges[LEAK] += w * mean * norm(a)
        state.counters[HEAD] += 1


@compiled
def _add_to_sums(
    model: Model, ladder: Ints, state: State, a: Floats, reward: float, weight: float
) -> None:
    for i in range(model.d):
        state.b[i] += weight * reward * a[i]
    add_outer(state.V, weight, a)
    if model.memory == DISCOUNT:
        add_outer(state.V2, weight * weight, a)
    for which in range(2):
        if state.counters[VALID + which]:
            add_row(model, ladder, state, which, a, weight)


@compiled
def absorb(model: Model, ladder: Ints, state: State, a: Floats, reward: float, s: int) -> None:
    """Learn the reward of a decision made in round s, which must be younger than the span."""
    state.gauges[LONGEST] = max(state.gauges[LONGEST], norm(a))
    weight = weight_of_age(model, float(state.counters[N] - s))
    _add_to_sums(model, ladder, state, a, reward, weight)
    if keeps_rows(model):
        _insert(model, state, a, reward, float(s))
    state.counters[FITTED] = 0


@compiled
def _insert(model: Model, state: State, a: Floats, reward: float, s: float) -> None:
    head, tail = state.counters[HEAD], state.counters[TAIL]
    if tail == state.rewards.size:  # full up to the end: move what lives to the front
        for i in range(head, tail):
            _move(model, state, i, i - head)
        head, tail = 0, tail - head
    place = tail
    while model.memory != EVERYTHING and place > head and state.rounds[place - 1] > s:
        _move(model, state, place - 1, place)
        place -= 1
    for j in range(model.d):
        state.rows[j, place] = a[j]
    state.rewards[place] = reward
    state.rounds[place] = s
    state.counters[HEAD], state.counters[TAIL] = head, tail + 1


@compiled
def _move(model: Model, state: State, source: int, target: int) -> None:
    for j in range(model.d):
        state.rows[j, target] = state.rows[j, source]
    state.rewards[target] = state.rewards[source]
    state.rounds[target] = state.rounds[source]


@compiled
def rebuild(model: Model, state: State) -> None:
    """Recompute b and V from the rows of a window, whose subtractions lose digits."""
    ridge = model.lam / model.c
    for i in range(model.d):
        state.b[i] = 0.0
        for j in range(model.d):
            state.V[i, j] = ridge if i == j else 0.0
    longest = 0.0
    a = np.empty(model.d)
    for s in range(state.counters[HEAD], state.counters[TAIL]):
        for j in range(model.d):
            a[j] = state.rows[j, s]
            state.b[j] += state.rewards[s] * a[j]
        add_outer(state.V, 1.0, a)
        longest = max(longest, norm(a))
    state.gauges[LONGEST] = longest
    state.counters[SUBTRACTIONS] = 0
