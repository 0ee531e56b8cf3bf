"""One fit from a table of rounds, for those who want the estimator without a policy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from driftbandits.estimator.memory import absorb, advance
from driftbandits.estimator.model import Floats, as_numbers, estimator_model, model_of
from driftbandits.estimator.solve import fit
from driftbandits.estimator.state import (
    DECREMENT,
    ERROR_BOUND,
    KKT_RESIDUAL,
    NUMBERS,
    named,
    new_buffers,
    state_of,
)
from driftbandits.jit import Handle, compiled, floats_of, handle_of, length_of
from driftbandits.links import Link


class Estimate(NamedTuple):
    """A fit with its certificates."""

    theta_hat: Floats
    theta: Floats
    design: Floats  # V or W
    squared_design: Floats  # W~ for discounting, else the same as design
    newton_decrement: float
    error_bound: float  # of ||theta_hat - exact||
    kkt_residual: float  # 0 where nothing was projected


def estimate(
    actions: ArrayLike,
    rewards: ArrayLike,
    *,
    link: Link,
    lam: float = 1.0,
    S: float = 1.0,
    window: int | None = None,
    discount: float | None = None,
    projection: str = "exact",
) -> Estimate:
    """Fit theta to the rows of `actions` (n, d), oldest first, and project it on ||theta|| <= S.

    >>> from driftbandits.links import link
    >>> fit = estimate([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0], link=link("logistic"))
    >>> fit.newton_decrement < 1e-6
    True
    """
    rows = np.ascontiguousarray(actions, dtype=np.float64)
    outcomes = np.ascontiguousarray(rewards, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] < 1 or not np.isfinite(rows).all():
        raise ValueError(f"actions must be a finite (n, d) array; got shape {rows.shape}")
    if outcomes.shape != rows.shape[:1] or not np.isfinite(outcomes).all():
        raise ValueError(
            f"rewards must be {rows.shape[0]} finite numbers; got shape {outcomes.shape}"
        )
    low, high = link.reward_range()
    outside = (outcomes < low) | (outcomes > high)
    if not link.linear and outside.any():
        raise ValueError(
            f"rewards must lie in [{low:g}, {high:g}] for the {link.name} model; "
            f"got values from {outcomes.min():g} to {outcomes.max():g}"
        )
    longest = float(np.sqrt((rows**2).sum(axis=1)).max(initial=0.0)) or 1.0
    model = estimator_model(
        link,
        dim=rows.shape[1],
        lam=lam,
        S=S,
        L=longest,
        window=window,
        discount=discount,
        projection=projection,
    )
    buffers = new_buffers(as_numbers(model), len(rows) + 1)
    _absorb_all(handle_of(buffers), rows, outcomes)
    state = named(buffers)
    return Estimate(
        theta_hat=state.theta_hat.copy(),
        theta=state.theta.copy(),
        design=state.V.copy(),
        squared_design=(state.V if discount is None else state.V2).copy(),
        newton_decrement=float(state.gauges[DECREMENT]),
        error_bound=float(state.gauges[ERROR_BOUND]),
        kkt_residual=float(state.gauges[KKT_RESIDUAL]),
    )


@compiled
def _absorb_all(
    handle: Handle,
    actions: Floats,
    rewards: Floats,
) -> None:
    numbers = floats_of(handle, NUMBERS, (length_of(handle, NUMBERS, 0),))
    d = int(numbers[0])
    model, state = model_of(numbers, d, 0), state_of(handle, d)
    for s in range(rewards.size):
        advance(model, state, 1)
        for j in range(model.d):
            state.scratch.row[j] = actions[s, j]
        absorb(model, state, rewards[s], s + 1)
    fit(model, state, 0.0)
