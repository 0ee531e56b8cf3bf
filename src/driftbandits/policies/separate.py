"""What models of separate arms have in common, and the kernels that keep it so.

One model of p coefficients for each of K arms is the block-diagonal model of K p coefficients. Its
blocks learn apart. These couple them: the clock, the radius, which is that of all K p coefficients,
the choice, and in a pool what the rewards of every arm say of the memories: the weights of the
forecasts, the dispersion and the test for a change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbandits.estimator import Buffers, model_of, state_of
from driftbandits.estimator.model import FAST, POOL, Floats, as_numbers
from driftbandits.estimator.state import NUMBERS, N
from driftbandits.jit import (
    LINE,
    Handle,
    compiled,
    compiled_for,
    floats_of,
    inlined,
    ints_of,
    length_of,
    place,
)
from driftbandits.policies.adaptations import belief, pool
from driftbandits.policies.adaptations.belief import optimism
from driftbandits.policies.adaptations.belief.segments import align, begin_arm
from driftbandits.policies.chance import TAKEN, pick
from driftbandits.policies.kernels import BELIEVING, LARGE_FAMILY, POOLED, kernels_of
from driftbandits.policies.scoring import TABLE_ROWS, scoring_of

if TYPE_CHECKING:
    from driftbandits.policies.configuration import Policy

_pool_of, _belief_of = pool.LAYOUT.of, belief.LAYOUT.of
_SHARING = {POOLED: pool, BELIEVING: belief}
"""What arms share something of, by family."""
_BUFFERS = len(Buffers._fields)


@cache
def _places_in_common(adaptation: ModuleType) -> dict[str, slice]:
    """Where in their stores that lies which all arms share: from the first to the last of it."""
    sizes = adaptation.LAYOUT.sizes
    places = SimpleNamespace(**{store: np.arange(size) for store, size in sizes.items()})
    fields = adaptation.LAYOUT.in_python(places)
    found = {}
    for store, names in adaptation.IN_COMMON.items():
        taken = np.concatenate([getattr(fields, name) for name in names])
        assert (np.diff(taken) == 1).all(), "what is held in common must lie in a row"
        found[store] = slice(int(taken[0]), int(taken[-1]) + 1)
    return found


def believes(policy: Policy) -> bool:
    """Whether arms share a belief, which they measure apart and score together."""
    return policy.adaptation is belief


def numbers_of_arms(policy: Policy, count: int) -> Floats:
    """The numbers of the model of one of so many arms, which does not look for changes alone."""
    own = policy.adaptation.numbers_for(policy)
    if policy.adaptation is pool:
        own = own._replace(threshold=0.0)
    problem = policy.problem._replace(d=count * policy.model_dim)
    return as_numbers(policy.model, policy.scoring, policy.confidence_for(problem), own)


def change_threshold(policy: Policy) -> float:
    """That of the test between the filters of all arms; 0: there is none."""
    if policy.adaptation is not pool:
        return 0.0
    threshold: float = policy.adaptation.numbers_for(policy).threshold
    return threshold


def held_in_common(policy: Policy, buffers: Buffers) -> list[Any]:
    """The arrays among the buffers of an arm that are to be the same for all arms."""
    if policy.row.memory != POOL:
        return []
    places = _places_in_common(policy.adaptation)
    return [getattr(buffers, store)[place] for store, place in places.items()]


@inlined
def _choose(epsilon: float, seed: int, first: int, table: Floats, picks: Floats) -> None:
    """Pick distinct arms, best first, as the decisions first, first + 1, ...; see `Kernels.decide`.

    table (TABLE_ROWS, K) and picks (2, n) as there; row 3 is scratch.
    """
    for i in range(table.shape[1]):
        table[3, i] = table[2, i]
    for rank in range(picks.shape[1]):
        index, propensity = pick(epsilon, table, seed, first + rank)
        picks[0, rank] = index
        picks[1, rank] = propensity
        table[3, index] = TAKEN


@compiled
def leading_filter(handle: Handle, s: int, threshold: float) -> int:
    """Which filter says that the world has changed, after a reward of round s; 0: none does."""
    d = int(floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))[0])
    return pool.leading_filter(_pool_of(state_of(handle, d).stores), s, threshold)


@compiled
def forget_before_change(handle: Handle, winner: int, threshold: float) -> None:
    """Report the change that a filter has found, and forget what was before it."""
    numbers = floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))
    d, fast = int(numbers[0]), int(numbers[FAST])
    model, state = model_of(numbers, d, fast), state_of(handle, d)
    pool.report_change(model, state, _pool_of(state.stores), winner, threshold)


@compiled
def align_with(handle: Handle, common: Handle) -> None:
    """Let the segments of an arm be those that all arms share, before it takes them over."""
    numbers = floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))
    d, fast = int(numbers[0]), int(numbers[FAST])
    model, state = model_of(numbers, d, fast), state_of(handle, d)
    align(model, state, _belief_of(state.stores), _belief_of(state_of(common, d).stores))


@compiled
def begin_as_new(handle: Handle) -> None:
    """Let an arm know the segments that all arms share, and nothing of its own."""
    numbers = floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))
    d, fast = int(numbers[0]), int(numbers[FAST])
    model, state = model_of(numbers, d, fast), state_of(handle, d)
    begin_arm(model, state, _belief_of(state.stores))


@compiled
def measure_arm(handle: Handle, number: int, row: Floats, table: Floats) -> None:
    """What an arm believes of its row (1, p); its clock goes on as by `decide`."""
    numbers = floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))
    d, fast = int(numbers[0]), int(numbers[FAST])
    model, scoring, state = model_of(numbers, d, fast), scoring_of(numbers), state_of(handle, d)
    belief.estimate(model, scoring, numbers, state, 0, row)
    optimism.measure(model, scoring, state, _belief_of(state.stores), row, table)
    if number == 0:
        belief.advance(model, state, 1)


@inlined
def _score_together(handle: Handle, table: Floats) -> None:
    """Means, widths and scores of arms that share a belief, from what each has measured."""
    numbers = floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))
    d, fast = int(numbers[0]), int(numbers[FAST])
    model, scoring, state = model_of(numbers, d, fast), scoring_of(numbers), state_of(handle, d)
    optimism.score(model, scoring, _belief_of(state.stores).offset[0], table)


@cache
def decider_of(family: str) -> Callable[..., None]:
    """The kernel that decides among arms that have a model each, in one call."""
    label, decide, _, tick = kernels_of(family)
    adaptation = _SHARING.get(family.removeprefix(LARGE_FAMILY))
    believing, sharing = adaptation is belief, adaptation is not None
    places = {} if adaptation is None else _places_in_common(adaptation)
    nothing = slice(0, 0)
    counters, gauges = places.get("counters", nothing), places.get("gauges", nothing)
    first_counter, last_counter = place(counters.start), place(counters.stop)
    first_gauge, last_gauge = place(gauges.start), place(gauges.stop)
    assert places.keys() <= {"counters", "gauges"}

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
        held = state_of(common, d)
        clock = held.counters[N]
        one, alone = np.empty((TABLE_ROWS, 1)), np.empty((2, 1))
        for i in range(rows.shape[0]):
            handle = ints_of(handles, i, (_BUFFERS, LINE))
            state = state_of(handle, d)
            if state.counters[N] < clock:
                tick(handle, clock - state.counters[N])
            if sharing:
                if believing:
                    align_with(handle, common)
                for j in range(first_counter, last_counter):
                    state.counters[j] = held.counters[j]
                for j in range(first_gauge, last_gauge):
                    state.gauges[j] = held.gauges[j]
            row = rows[i : i + 1]
            if believing:
                measure_arm(handle, number, row, one)
            else:
                decide(handle, seed, number, row, one, alone)
            for k in range(TABLE_ROWS):
                table[k, i] = one[k, 0]
            for j in range(d):
                shown[i, 0, j] = state.theta_hat[j]
                shown[i, 1, j] = state.theta[j]
        if believing:
            _score_together(common, table)
        _choose(epsilon, seed, number if number > 0 else clock + 1, table, picks)

    return decide_among
