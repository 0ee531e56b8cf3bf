"""One fit from a table of rounds, for those who want the estimator without a policy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from driftbandits.estimator.memory import absorb, advance
from driftbandits.estimator.model import (
    DECREMENT,
    DISCOUNT,
    ERROR_BOUND,
    EVERYTHING,
    EXACT,
    KKT_RESIDUAL,
    NO_PROJECTION,
    NUMBERS,
    RADIAL,
    ROW,
    THETA,
    THETA_HAT,
    TRUNCATION_TOLERANCE,
    V2,
    WINDOW,
    Floats,
    Model,
    V,
    as_numbers,
    expansion_order,
    floats_of,
    model_of,
    new_buffers,
    state_of,
    truncation_span,
)
from driftbandits.estimator.solve import fit
from driftbandits.jit import Handle, compiled, handle_of
from driftbandits.links import IDENTITY, Link

PROJECTIONS = {"none": NO_PROJECTION, "radial": RADIAL, "exact": EXACT}


class Estimate(NamedTuple):
    """A fit with its certificates."""

    theta_hat: Floats
    theta: Floats
    design: Floats  # V or W
    squared_design: Floats  # W~ for discounting, else the same as design
    newton_decrement: float
    error_bound: float  # of ||theta_hat - exact||
    kkt_residual: float  # 0 where nothing was projected


def estimator_model(
    link: Link,
    *,
    dim: int,
    lam: float,
    S: float,
    L: float,
    window: int | None = None,
    discount: float | None = None,
    projection: str = "exact",
) -> Model:
    """The numbers of an estimator: all rounds, or the last `window`, or discounted ones."""
    if window is not None and discount is not None:
        raise ValueError(f"give window or discount, not both; got {window!r} and {discount!r}")
    if window is not None and not (window == int(window) and window >= 1):
        raise ValueError(f"window must be a whole number of at least 1; got {window!r}")
    if discount is not None and not 0.0 < discount < 1.0:
        raise ValueError(f"discount must lie strictly between 0 and 1; got {discount!r}")
    if projection not in PROJECTIONS:
        raise ValueError(f"projection must be one of {', '.join(PROJECTIONS)}; got {projection!r}")
    for name, value in (("lam", lam), ("S", S), ("L", L)):
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"{name} must be positive and finite; got {value!r}")
    memory = WINDOW if window is not None else DISCOUNT if discount is not None else EVERYTHING
    span = 0
    if window is not None:
        span = int(window)
    elif discount is not None:
        span = truncation_span(discount, m=link.m, L=L, lam=lam, tolerance=TRUNCATION_TOLERANCE)
    return Model(
        d=dim,
        link=link.code,
        m=link.m,
        lam=lam,
        memory=memory,
        span=span,
        gamma=1.0 if discount is None else discount,
        S=S,
        L=L,
        c=link.c_mu(L=L, S=S),
        projection=PROJECTIONS[projection],
        order=expansion_order(dim, link.code == IDENTITY),
    )


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
    if link.code != IDENTITY and outside.any():
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
    return Estimate(
        theta_hat=buffers.vectors[THETA_HAT].copy(),
        theta=buffers.vectors[THETA].copy(),
        design=buffers.matrices[V].copy(),
        squared_design=buffers.matrices[V if discount is None else V2].copy(),
        newton_decrement=float(buffers.gauges[DECREMENT]),
        error_bound=float(buffers.gauges[ERROR_BOUND]),
        kkt_residual=float(buffers.gauges[KKT_RESIDUAL]),
    )


@compiled
def _absorb_all(
    handle: Handle,
    actions: Floats,
    rewards: Floats,
) -> None:
    numbers = floats_of(handle, NUMBERS)
    d = int(numbers[0])
    model, state = model_of(numbers, d), state_of(handle, d)
    for s in range(rewards.size):
        advance(model, state, 1)
        for j in range(model.d):
            state.vectors[ROW, j] = actions[s, j]
        absorb(model, state, rewards[s], s + 1)
    fit(model, state)
