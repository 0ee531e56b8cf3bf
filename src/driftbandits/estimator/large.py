"""theta-hat of large models: passes of two products each, and stale inverses.

A large model keeps no matrix of an expansion, only the sums of g at theta_hat and at theta. A step
multiplies what is left of the equation by the inverse of an earlier curvature, see stale.py. Where
the projection starts from the last one, both go on side by side, and a pass over the rows serves
both. The certificate needs no inverse. With r = b - g(theta_hat) from exact sums and J >= c V,

    ||theta_hat - exact||_V <= ||r||_{V^-1} / c,

so the error of any a.theta_hat is at most that many times ||a||_{V^-1}, which is how widths are
measured. Outside the ball of S the smallest slope of the rows stands for c.

Notation (beyond solve.py)
--------
closeness  scalar   what ||theta - exact||_V may be
"""

from __future__ import annotations

import math
from typing import NamedTuple

from driftbandits.estimator.inverse import is_due, renew
from driftbandits.estimator.model import EXACT, NO_PROJECTION, Model
from driftbandits.estimator.passes import NOTHING_SEEN, Wanted, sweep
from driftbandits.estimator.sphere import (
    BEFORE_DESCENT,
    ROUNDING,
    SLOW,
    descend,
    largest_sum,
    look,
    radial_is_nearer,
    set_radial,
)
from driftbandits.estimator.stale import (
    DESCENT,
    ESTIMATED,
    FADED,
    LEAST,
    MADE,
    NEWTON,
    OFF,
    charge,
    renew_newton,
    set_residual,
    size_of,
)
from driftbandits.estimator.state import (
    DAMPED_STEPS,
    DECREMENT,
    ERROR_BOUND,
    FOR_THETA,
    FOR_THETA_HAT,
    KKT_RESIDUAL,
    LEAK,
    LONGEST,
    NEWTON_STEPS,
    PROJECTED,
    PROJECTIONS,
    VALID,
    Large,
    State,
    large_of,
)
from driftbandits.jit import inlined, internal
from driftbandits.linalg import add_scaled, copy, multiply_large, norm

REACH = 0.5
"""Newton steps that move no a_s.theta further than this contract; longer ones are damped.

|mu''| <= mu' for every model here, so along a step p the curvature changes by at most e^(|a.p|).
"""
_MOST_PASSES = 400


class Newton(NamedTuple):
    """How far theta_hat has come."""

    left: float  # of the equation, before the last step
    off: float  # bound of ||theta_hat - exact||_V
    steps: float
    renewed: float  # 1 where the inverse was made anew on the way


_BEFORE_NEWTON = Newton(math.inf, math.inf, 0.0, 0.0)


@internal
def fit_large(model: Model, state: State, closeness: float) -> None:
    """Bring theta_hat and theta up to date, to within `closeness` in the norm of V."""
    if is_due(state.notes):
        renew(state.V, True, state.P, state.notes, state.scratch.factor)
    large, counters = large_of(state), state.counters
    state.gauges[KKT_RESIDUAL] = 0.0
    from_last = counters[PROJECTED] > 0 and model.projection == EXACT
    off = _approach(model, state, large, closeness, True, from_last)
    if model.projection == NO_PROJECTION or norm(state.theta_hat) <= model.S:
        copy(state.theta_hat, state.theta)
        counters[PROJECTED] = counters[VALID + FOR_THETA] = 0
        state.gauges[KKT_RESIDUAL] = 0.0
        large.notes[MADE + DESCENT] = 0.0
        large.notes[OFF] = off
        large.notes[ESTIMATED] = 0.0
        return
    counters[PROJECTED] = 1
    counters[PROJECTIONS] += 1
    if not from_last or radial_is_nearer(model, state, large):
        set_radial(model, state)
        if model.projection == EXACT:
            _approach(model, state, large, closeness, False, True)
        else:  # the way from theta_hat is no error, and what theta_hat is off does not grow by it
            large.notes[OFF] = off
            large.notes[ESTIMATED] = 1.0


@internal
def _approach(
    model: Model, state: State, large: Large, closeness: float, solving: bool, descending: bool
) -> float:
    """Steps of theta_hat to the root, of theta along the sphere, or both, until certified.

    Returned is the bound for theta_hat. That for theta is noted.
    """
    counters, scratch = state.counters, state.scratch
    newton, descent = _BEFORE_NEWTON, BEFORE_DESCENT
    projecting, has_pull, seen = descending, False, NOTHING_SEEN
    largest = largest_sum(state.V, scratch.noise) if descending else 0.0
    for _ in range(_MOST_PASSES):
        if solving and counters[VALID + FOR_THETA_HAT]:
            newton = _step(model, state, large, closeness, newton)
            solving = not counters[VALID + FOR_THETA_HAT]
            descending = descending and (solving or norm(state.theta_hat) > model.S)
        if has_pull and descending:
            descent = descend(model, state, large, closeness, seen, largest, descent)
            descending = not counters[VALID + FOR_THETA]
        elif descending and counters[VALID + FOR_THETA]:
            descent = look(model, state, large, descent)
        has_pull = descending and counters[VALID + FOR_THETA] > 0
        wanted = Wanted(solving, descending and not has_pull, has_pull)
        if not (solving or descending):
            break
        seen = sweep(model, state, wanted, scratch.g, scratch.pull)
        if wanted.at_theta_hat:
            large.notes[LEAST] = seen.least
            copy(state.theta_hat, state.anchors[FOR_THETA_HAT])
            counters[VALID + FOR_THETA_HAT] = 1
        if wanted.at_theta:
            copy(state.theta, state.anchors[FOR_THETA])
            counters[VALID + FOR_THETA] = 1
    hidden = 2.0 * descent.steps + 1.0 if projecting else 0.0  # passes that are made anyway
    if newton.renewed == 0.0:
        charge(model, counters, large.notes, NEWTON, max(newton.steps - hidden, 0.0), 1)
    if projecting and descent.renewed == 0.0:
        charge(model, counters, large.notes, DESCENT, descent.steps, 2)
    return newton.off


@inlined
def _step(model: Model, state: State, large: Large, closeness: float, before: Newton) -> Newton:
    """Newton's step with a stale inverse, unless theta_hat is near enough."""
    gauges, counters, scratch = state.gauges, state.counters, state.scratch
    notes, residual, step, theta_hat = large.notes, scratch.residual, scratch.step, state.theta_hat
    sums = state.moments[FOR_THETA_HAT]
    to_length = math.sqrt(model.c / model.lam)  # ||x|| <= that times ||x||_V
    set_residual(model.lam, state.b, sums, theta_hat, residual)
    left = size_of(residual, state.P, state.notes, scratch.other) + to_length * gauges[LEAK]
    off = left / min(notes[LEAST], model.c)
    moves = gauges[LONGEST] * to_length * off
    # along the way to the root curvature falls by a factor e^s at most, s <= moves e^s
    off = off * math.exp(1.43 * moves) if moves <= 0.25 else math.inf
    gauges[DECREMENT] = math.sqrt(model.c) * off
    gauges[ERROR_BOUND] = to_length * off
    size = norm(state.b) + norm(sums) + model.lam * norm(theta_hat)
    if off <= closeness or left <= ROUNDING * to_length * size:
        return Newton(left, off, before.steps, before.renewed)
    renewed = before.renewed
    if notes[MADE + NEWTON] == 0.0 or left > SLOW * before.left:
        renew_newton(model, state, large)
        renewed = 1.0
    multiply_large(large.newton, residual, step)
    stretch = 1.0 / notes[FADED]
    length = gauges[LONGEST] * stretch * norm(step)
    damped = math.log1p(length) / length if length > REACH else 1.0
    counters[DAMPED_STEPS] += damped < 1.0
    counters[NEWTON_STEPS] += 1
    add_scaled(theta_hat, stretch * damped, step)
    counters[VALID + FOR_THETA_HAT] = 0
    return Newton(left, off, before.steps + 1.0, renewed)
