"""A memory that is not adapted: what every adaptation is that does not say otherwise."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from driftbandits.core import Model, State, memory
from driftbandits.core import linalg as la
from driftbandits.core.estimator.inverse import share_inverse
from driftbandits.core.estimator.memory import drop_expansions, rebuild
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.solve import fit
from driftbandits.core.estimator.state import BEGUN, FITTED, HEAD, TAIL, N
from driftbandits.jit import inlined, internal
from driftbandits.policies.scoring import Opened, closeness

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy


def own_or_fixed(adaptation: ModuleType, name: str) -> Any:
    """Return the function of that name of an adaptation, or else of this module."""
    return getattr(adaptation, name, globals()[name])


def numbers_for(policy: Policy) -> tuple[float, ...]:
    return ()


def sizes_for(policy: Policy) -> dict[str, int]:
    layout = getattr(policy.adaptation, "LAYOUT", None)
    return {} if layout is None else dict(layout.sizes)


def window_for(policy: Policy) -> int | None:
    return policy.window


def exploration_for(policy: Policy) -> float:
    return 0.0


@inlined
def estimate(opened: Opened, seed: int, actions: Floats) -> None:
    _, model, scoring, confidence, state = opened
    if scoring.period > 0:
        _begin_period(model, state, state.counters[N] // scoring.period * scoring.period)
    if scoring.one_matrix:
        la.copy_matrix(state.V, state.V2)
        if model.fast and model.order == 0:
            share_inverse(state)
    fit(model, state, closeness(model, scoring, confidence, state))


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
def learn(opened: Opened, reward: float, s: int) -> None:
    memory.absorb(opened.model, opened.state, reward - opened.scoring.centre, s)
