"""The rows an estimator remembers, and how they come and go.

Rewarded rounds lie in order of time. Time belongs to the decision: a reward that comes late is
inserted where its round was, with the weight of its age.
"""

from __future__ import annotations

from driftbandits.core import linalg as la
from driftbandits.core import links
from driftbandits.core.estimator import state as at
from driftbandits.core.estimator.expansion import add_row, weight_of_age
from driftbandits.core.estimator.inverse import follow_decay, follow_row
from driftbandits.core.estimator.model import (
    BELIEF,
    DISCOUNT,
    EVERYTHING,
    SINCE_RESTART,
    WINDOW,
    Model,
    for_large,
)
from driftbandits.core.estimator.state import FOR_THETA, FOR_THETA_HAT, State
from driftbandits.jit import compiled, inlined, internal


@compiled
def keeps_rows(model: Model) -> bool:
    """A linear model that never takes rows away needs only its sums."""
    return not model.linear or model.memory in (WINDOW, SINCE_RESTART, BELIEF)


@inlined
def _do_nothing(model: Model, state: State, *details: float) -> None:
    """Small models keep no inverses."""


_let_inverses_fade = for_large(follow_decay, _do_nothing)
_let_inverses_follow = for_large(follow_row, _do_nothing)


@inlined
def advance(model: Model, state: State, rounds: int) -> None:
    """Let the clock go on: older rows weigh less, or leave."""
    state.counters[at.N] += rounds
    if model.memory == DISCOUNT:
        decay = model.gamma if rounds == 1 else model.gamma**rounds
        ridge = model.lam / model.c  # which does not fade: eq_Design_matrix_D, eq_Design_matrix_D2
        for i in range(model.d):
            state.b[i] *= decay
            for j in range(model.d):
                state.V[i, j] *= decay
                state.V2[i, j] *= decay * decay
            state.V[i, i] += (1.0 - decay) * ridge
            state.V2[i, i] += (1.0 - decay * decay) * ridge
        for which in range(2):
            if state.counters[at.VALID + which]:
                for i in range(state.moments.shape[1]):
                    state.moments[which, i] *= decay
                state.gauges[at.MASS + which] *= decay
        state.gauges[at.LEAK] *= decay
        _let_inverses_fade(model, state, decay, rounds)
    if model.memory in (WINDOW, DISCOUNT):
        if _oldest_has_left(model, state):
            _forget(model, state)
        state.counters[at.FITTED] = 0


@inlined
def _oldest_has_left(model: Model, state: State) -> bool:
    head = state.counters[at.HEAD]
    oldest = state.counters[at.N] - state.counters[at.SPAN]
    return bool(head < state.counters[at.TAIL] and state.rows[model.d + 1, head] <= oldest)


@inlined
def _forget(model: Model, state: State) -> None:
    """Drop the rows whose age has reached the span."""
    rows, counters, d = state.rows, state.counters, model.d
    while _oldest_has_left(model, state):
        s = counters[at.HEAD]
        load_row(model, state, s)
        if model.memory == WINDOW:
            add_to_sums(model, state, rows[d, s], -1.0)
            counters[at.SUBTRACTIONS] += 1
        else:
            # b keeps the row for ever, the expansions only until their next anchor
            row = state.scratch.row
            w = weight_of_age(model, counters[at.N] - rows[d + 1, s])
            mean = links.mean(model.link, model.m, la.dot(row, state.theta_hat))
            state.gauges[at.LEAK] += w * mean * la.norm(row)
        counters[at.HEAD] += 1


@inlined
def load_row(model: Model, state: State, s: int) -> None:
    """scratch.row := the action of a remembered row."""
    for j in range(model.d):
        state.scratch.row[j] = state.rows[j, s]


@inlined
def add_to_sums(model: Model, state: State, reward: float, weight: float) -> None:
    """Add scratch.row to every sum."""
    row = state.scratch.row
    la.add_scaled(state.b, weight * reward, row)
    _let_inverses_follow(model, state, weight)
    la.add_outer(state.V, weight, row)  # eq_Design_matrix_SW, eq_Design_matrix_D
    if model.memory == DISCOUNT:
        la.add_outer(state.V2, weight * weight, row)  # eq_Design_matrix_D2
    for which in range(2):
        if state.counters[at.VALID + which]:
            add_row(model, state, which, row, weight)


@inlined
def weight_in(model: Model, state: State, s: int) -> float:
    """Return the weight of round s as the clock stands."""
    weight: float = weight_of_age(model, float(state.counters[at.N] - s))
    return weight


@inlined
def absorb(model: Model, state: State, reward: float, s: int) -> None:
    """Learn the reward of scratch.row, chosen in round s, which is younger than the span."""
    state.gauges[at.LONGEST] = max(state.gauges[at.LONGEST], la.norm(state.scratch.row))
    add_to_sums(model, state, reward, weight_in(model, state, s))
    if keeps_rows(model):
        insert_row(model, state, reward, float(s))
    state.counters[at.FITTED] = 0


@inlined
def insert_row(model: Model, state: State, reward: float, s: float) -> None:
    rows, counters, d = state.rows, state.counters, model.d
    if counters[at.TAIL] == rows.shape[1]:  # full up to the end: move what lives to the front
        for i in range(counters[at.HEAD], counters[at.TAIL]):
            _move(state, i, i - counters[at.HEAD])
        counters[at.TAIL] -= counters[at.HEAD]
        counters[at.HEAD] = 0
    place = counters[at.TAIL]
    while model.memory != EVERYTHING and place > counters[at.HEAD] and rows[d + 1, place - 1] > s:
        _move(state, place - 1, place)
        place -= 1
    for j in range(d):
        rows[j, place] = state.scratch.row[j]
    rows[d, place] = reward
    rows[d + 1, place] = s
    counters[at.TAIL] += 1


@inlined
def _move(state: State, source: int, target: int) -> None:
    for j in range(state.rows.shape[0]):
        state.rows[j, target] = state.rows[j, source]


@inlined
def drop_expansions(state: State) -> None:
    """Let the next fit sum its expansions anew."""
    state.counters[at.VALID + FOR_THETA_HAT] = state.counters[at.VALID + FOR_THETA] = 0


@internal
def forget_oldest(model: Model, state: State, count: int) -> None:
    """Drop the oldest rows; what remains is summed anew."""
    state.counters[at.HEAD] += count
    rebuild(model, state)
    drop_expansions(state)
    state.counters[at.FITTED] = 0


@internal
def rebuild(model: Model, state: State) -> None:
    """Recompute b and V from the rows of a window, whose subtractions lose digits."""
    row = state.scratch.row
    for i in range(model.d):
        state.b[i] = 0.0
    la.set_to_identity(state.V, model.lam / model.c)
    state.gauges[at.LONGEST] = 0.0
    for s in range(state.counters[at.HEAD], state.counters[at.TAIL]):
        load_row(model, state, s)
        la.add_scaled(state.b, state.rows[model.d, s], row)
        la.add_outer(state.V, 1.0, row)
        state.gauges[at.LONGEST] = max(state.gauges[at.LONGEST], la.norm(row))
    state.counters[at.SUBTRACTIONS] = 0
    if model.fast:
        state.notes[at.STALE] = 1.0
