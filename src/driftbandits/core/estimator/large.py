"""theta-hat of large models and its projection: passes of two products each, and stale inverses.

A large model keeps no matrix of an expansion, only the sums of g at theta_hat and at theta. A step
multiplies what is left of the equation by the inverse of an earlier curvature, see inverse.py.
Where the projection starts from the last one, both go on side by side, and a pass over the rows
serves both. The certificate needs no inverse. With r = b - g(theta_hat) from exact sums and
J >= c V,

    ||theta_hat - exact||_V <= ||r||_{V^-1} / c,

so the error of any a.theta_hat is at most that many times ||a||_{V^-1}, which is how widths are
measured. Outside the ball of S the smallest slope of the rows stands for c.

The projection takes Newton's steps along the sphere. With q the part of `pull` that is not along
theta,

    ||theta - exact||_V <= ||q||_{V^-1} / h,      h V <= J M^-1 J - bend + nu I / 2   near theta.

For with F = ||b - g||^2_{M^-1} / 2, whose gradient is -pull, and `exact` a minimiser of F on the
sphere, the gradient of F + nu ||.||^2 / 2 is -q at theta and (nu - nu*) exact at `exact`, where
nu* >= 0 is its multiplier. For D = theta - exact that makes

    D.(h V + nu I / 2) D  <=  -q.D - (nu - nu*) exact.D  <=  ||q||_{V^-1} ||D||_V + nu ||D||^2 / 2,

since exact.D = -||D||^2 / 2 on the sphere. There is such a point, and one only, as near as the
bound says, if the curvature holds as far as that: F has a minimiser among the points of the sphere
that are no further, and it is not at their border. Where the curvature cannot be bounded so,
what is noted is an estimate. The bound that is used is sharper where nu I weighs more than V: see
`_sharper_bound`.

Notation (beyond solve.py, passes.py and inverse.py)
--------
closeness  scalar   what ||theta - exact||_V may be
"""

from __future__ import annotations

import math
from typing import NamedTuple

from driftbandits.core import linalg as la
from driftbandits.core import links
from driftbandits.core.estimator import state as at
from driftbandits.core.estimator.expansion import sum_means
from driftbandits.core.estimator.inverse import (
    FOR_DIRECTIONS,
    charge,
    is_due,
    renew,
    renew_descent,
    renew_newton,
    room_in,
    set_residual,
    size_of,
    solve,
)
from driftbandits.core.estimator.model import DISCOUNT, EXACT, NO_PROJECTION, Floats, Model
from driftbandits.core.estimator.passes import NOTHING_SEEN, Seen, Wanted, sweep
from driftbandits.core.estimator.state import FOR_THETA, FOR_THETA_HAT, Large, State, large_of
from driftbandits.jit import inlined, internal

SLOW = 0.5
"""A step that leaves more than this share of what was left calls for a new inverse."""
ROUNDING = 1e-14
_LEAST_CURVATURE = 0.01  # over c^2
_ENOUGH = 0.1  # likewise, where the sharper of two proofs is wanted
_STEPS_TO_BOUND = 3


@inlined
def set_radial(model: Model, state: State, length: float) -> None:
    """theta := theta_hat, which has this length, shortened to S."""
    for j in range(model.d):
        state.theta[j] = state.theta_hat[j] * (model.S / length)


@inlined
def radial_is_nearer(model: Model, state: State, large: Large) -> bool:
    """Return whether the radial projection has a smaller ||b - g||_{M^-1} than theta.

    With D the way from theta to the radial point, nu ||D||^2 >= sup|mu''| max|a.u| ||D||^2_V rules
    it out, since then u.(g(radial) - g(theta)) <= 0. Else a pass tells.
    """
    scratch, notes = state.scratch, large.notes
    radial, way, product = scratch.start, scratch.point, scratch.other
    scale = model.S / la.norm(state.theta_hat)
    for j in range(model.d):
        radial[j] = scale * state.theta_hat[j]
        way[j] = radial[j] - state.theta[j]
    la.multiply_large(state.V, way, product)
    bent = links.derivative_bound(model.link, model.m, 2, model.S * state.gauges[at.LONGEST])
    if bent * notes[at.FURTHEST] * la.dot(way, product) <= notes[at.NU] * la.dot(way, way):
        return False
    sum_means(model, state, radial)
    for j in range(model.d):
        scratch.residual[j] = state.b[j] - scratch.g[j]
    _solve_in_norm(model, state, large)
    return bool(la.dot(scratch.residual, scratch.step) < notes[at.NEAREST])


@internal
def _solve_in_norm(model: Model, state: State, large: Large) -> None:
    """scratch.step := M^-1 scratch.residual."""
    scratch = state.scratch
    if model.memory == DISCOUNT:
        room = room_in(state)
        la.copy(scratch.residual, room.rows[0])
        large.norm_notes[at.AGE] = 0.0  # for one row at a time a renewal hardly pays for itself
        solve(state.V2, large.norm, large.norm_notes, room, 1, FOR_DIRECTIONS, FOR_DIRECTIONS)
        la.copy(room.solutions[0], scratch.step)
    else:
        la.multiply_large(state.P, scratch.residual, scratch.step)
        for j in range(model.d):
            scratch.step[j] /= state.notes[at.LEFT]


class Descent(NamedTuple):
    """Progress of theta along the sphere."""

    best: float  # ||b - g||^2_{M^-1}
    shorten: float  # what a step is multiplied with
    is_back: float  # 1 where the last step was taken back
    left: float  # of the equation, before the last step
    steps: float
    renewed: float  # 1 where the inverse was made anew on the way


BEFORE_DESCENT = Descent(math.inf, 1.0, 0.0, math.inf, 0.0, 0.0)


@internal
def look(model: Model, state: State, large: Large, before: Descent) -> Descent:
    """Set scratch.g := u. A step that did not descend is taken back, and the next one is half."""
    scratch, counters, theta = state.scratch, state.counters, state.theta
    set_residual(model.lam, state.b, state.moments[FOR_THETA], theta, scratch.residual)
    _solve_in_norm(model, state, large)
    la.copy(scratch.step, scratch.g)
    reached = la.dot(scratch.residual, scratch.step)
    counters[at.DESCENT_STEPS] += 1
    if reached > before.best * (1.0 + 1e-7):
        la.copy(scratch.start, theta)
        counters[at.VALID + FOR_THETA] = 0
        return Descent(
            before.best, 0.5 * before.shorten, 1.0, before.left, before.steps, before.renewed
        )
    shorten = before.shorten if before.is_back > 0.0 else 1.0
    best = min(before.best, reached)
    return Descent(best, shorten, 0.0, before.left, before.steps, before.renewed)


@internal
def descend(
    model: Model,
    state: State,
    large: Large,
    closeness: float,
    seen: Seen,
    largest: float,
    before: Descent,
) -> Descent:
    """Newton's step along the sphere with a stale inverse, unless theta is near enough.

    After `look`, and with J u in scratch.pull. Where a step has not descended the inverse is made
    anew, and the step then halved until it does.
    """
    scratch, theta, notes, gauges = state.scratch, state.theta, large.notes, state.gauges
    pull, shorten = scratch.pull, before.shorten
    nu = max(la.dot(pull, theta), 0.0) / (model.S * model.S)
    strength = la.norm(pull)
    for j in range(model.d):
        pull[j] -= nu * theta[j]
    left = size_of(pull, state.P, state.notes, scratch.other)
    notes[at.NU], notes[at.NEAREST], notes[at.FURTHEST] = nu, before.best, seen.furthest
    gauges[at.KKT_RESIDUAL] = la.norm(pull) / strength if strength > 0.0 else 0.0
    eta = _eta_nearby(model, state, seen, largest, closeness)
    # J >= c V in the ball and M <= V, so that times V is below J M^-1 J - eta J
    bent = model.c * (model.c - eta) if eta <= 2.0 * model.c else -0.25 * eta * eta
    least = _LEAST_CURVATURE * model.c * model.c
    proved = bent + 0.5 * nu / largest
    h = max(proved, least)
    notes[at.OFF] = left / h
    if bent > 0.0 and notes[at.OFF] > closeness:
        notes[at.OFF] = min(notes[at.OFF], _sharper_bound(model, state, bent, 0.5 * nu, h))
    # ||M^-1 e||_V at most, where e is what the sums lack of rows that were dropped
    leak = math.sqrt(largest) * model.c / model.lam * float(gauges[at.LEAK])
    leak = _steepest(model, state) * leak
    notes[at.OFF] += leak / h
    notes[at.ESTIMATED] = 0.0
    if proved < least and not (
        notes[at.OFF] <= closeness and _is_proved(model, state, seen, 0.5 * nu, left + leak)
    ):
        notes[at.ESTIMATED] = 1.0
    if notes[at.OFF] <= closeness or gauges[at.KKT_RESIDUAL] <= ROUNDING or shorten < 1e-6:
        return Descent(before.best, shorten, 0.0, left, before.steps, before.renewed)
    renewed = before.renewed
    if notes[at.MADE + at.DESCENT] == 0.0 or shorten == 0.5 or left > SLOW * before.left:
        renew_descent(model, state, large, scratch.g, nu)
        renewed = 1.0
    la.copy(theta, scratch.start)
    _step_on_sphere(model, state, large, shorten)
    state.counters[at.VALID + FOR_THETA] = 0
    return Descent(before.best, shorten, 0.0, left, before.steps + 1.0, renewed)


@inlined
def largest_sum(V: Floats, sums: Floats) -> float:
    """The largest sum of |V_ij| over a row, which is at least ||V||; `sums` is scratch."""
    for j in range(V.shape[0]):
        sums[j] = 0.0
    for i in range(V.shape[0]):
        row = V[i]
        for j in range(V.shape[0]):
            sums[j] += abs(row[j])
    largest = 0.0
    for j in range(V.shape[0]):
        largest = max(largest, float(sums[j]))
    return largest


@inlined
def _steepest(model: Model, state: State) -> float:
    """The largest slope in the ball."""
    return float(links.derivative_bound(model.link, model.m, 1, model.S * state.gauges[at.LONGEST]))


@inlined
def _moves(model: Model, state: State, off: float) -> float:
    """Bound the change of any a.theta where theta moves by `off` in the norm of V."""
    return float(state.gauges[at.LONGEST] * math.sqrt(model.c / model.lam) * off)


@inlined
def _eta_nearby(model: Model, state: State, seen: Seen, largest: float, off: float) -> float:
    """eta at points of the ball that are at most `off` from theta.

    By how much it is larger there follows from |mu''| <= mu' and the same of the next derivative,
    by which mu''/mu' changes by at most 2 |a.x| along x, and from the change of u.
    """
    reach = state.gauges[at.LONGEST] * math.sqrt(largest) * model.c / model.lam
    turns = reach * _steepest(model, state) * off  # of any a.u
    return float(seen.eta + 2.0 * _moves(model, state, off) * seen.furthest + turns)


@internal
def _is_proved(model: Model, state: State, seen: Seen, nu: float, left: float) -> bool:
    """Return whether the curvature is _ENOUGH as far as theta is off if it is."""
    scratch, enough = state.scratch, _ENOUGH * model.c * model.c
    off = left / enough
    largest = largest_eigenvalue(state.V, scratch.noise, scratch.slope)
    eta = _eta_nearby(model, state, seen, largest, off)
    slope = max(model.c, seen.flattest * math.exp(-_moves(model, state, off)))
    return least_curvature(model.lam, model.c, slope, eta, nu, largest) >= enough


@inlined
def largest_eigenvalue(V: Floats, sums: Floats, images: Floats) -> float:
    """At most, after Collatz and Wielandt: the largest (|V| x)_i / x_i for any x > 0.

    x is the sums of rows here, which brings it nearer than they are; the last two are scratch.
    """
    largest_sum(V, sums)
    for j in range(V.shape[0]):
        images[j] = 0.0
    for i in range(V.shape[0]):
        row, share = V[i], sums[i]
        for j in range(V.shape[0]):
            images[j] += share * abs(row[j])
    largest = 0.0
    for j in range(V.shape[0]):
        largest = max(largest, float(images[j] / sums[j]))
    return largest


@inlined
def least_curvature(
    lam: float, c: float, slope: float, eta: float, nu: float, largest: float
) -> float:
    """Return a multiple of V below J M^-1 J - bend + nu I, if no row is flatter than `slope`.

    With V = lam/c I + W, J = lam I + Y, Y >= slope W, bend <= eta Y and M <= V it is, for every
    tau >= eta/2, at least

        2 tau J - tau^2 V - eta Y + nu I
          >= ((2 tau - eta) slope - tau^2) W + (2 tau lam - tau^2 lam/c + nu) I,

    and that over V is least where W is 0 or largest. Rows tend to be steeper than the flattest of
    the ball: this is why it is sharper than J >= c V.
    """
    widest = largest - lam / c
    tau = max(0.5 * eta, (slope * widest + lam) / largest)
    of_identity = 2.0 * tau * lam - tau * tau * lam / c + nu
    of_rows = (2.0 * tau - eta) * slope - tau * tau
    return min(of_identity * c / lam, (of_rows * widest + of_identity) / largest)


@internal
def _sharper_bound(model: Model, state: State, bent: float, nu: float, h: float) -> float:
    """Bound ||theta - exact||_V by G = bent V + nu I in place of h V, for q in scratch.pull.

    From D.G D <= q.D follows ||D||_V <= (||G^-1 q||_V + ||q||_{G^-1} / sqrt(h)) / 2. A few steps of
    conjugate gradients give x near G^-1 q; what they leave over, e = q - G x, counts in full:
    G >= (bent lam/c + nu) I.
    """
    scratch, d, q = state.scratch, model.d, state.scratch.pull
    x, e, direction = scratch.noise, scratch.residual, scratch.step
    image, Vx = scratch.slope, scratch.point
    for j in range(d):
        x[j] = Vx[j] = 0.0
        e[j] = direction[j] = q[j]
    square = la.dot(e, e)
    for _ in range(_STEPS_TO_BOUND):
        la.multiply_large(state.V, direction, image)
        against = bent * la.dot(direction, image) + nu * la.dot(direction, direction)
        length = square / against if against > 0.0 else 0.0
        for j in range(d):
            x[j] += length * direction[j]
            Vx[j] += length * image[j]
            e[j] -= length * (bent * image[j] + nu * direction[j])
        last, square = square, la.dot(e, e)
        again = square / last if last > 0.0 else 0.0
        for j in range(d):
            direction[j] = e[j] + again * direction[j]
    over = square / (bent * model.lam / model.c + nu)
    total = math.sqrt(max(la.dot(x, q) + la.dot(x, e) + over, 0.0) / h)
    return 0.5 * (math.sqrt(max(la.dot(x, Vx), 0.0)) + math.sqrt(over / h) + total)


@inlined
def _step_on_sphere(model: Model, state: State, large: Large, shorten: float) -> None:
    """theta := the point of the sphere beyond a step in its tangent, by the pull there."""
    scratch, theta, along, other = (
        state.scratch,
        state.theta,
        state.scratch.point,
        state.scratch.other,
    )
    la.multiply_large(large.descent, scratch.pull, along)
    la.multiply_large(large.descent, theta, other)
    ratio = la.dot(theta, along) / la.dot(theta, other)
    for j in range(model.d):
        theta[j] += shorten * (along[j] - ratio * other[j])
    scale = model.S / la.norm(theta)
    for j in range(model.d):
        theta[j] *= scale


# -- theta-hat, and both together ------------------------------------------------------------------

REACH = 0.5
"""Newton steps that move no a_s.theta further than this contract; longer ones are damped.

|mu''| <= mu' for every model here, so along a step p the curvature changes by at most e^(|a.p|).
"""
_MOST_PASSES = 400


class Newton(NamedTuple):
    """Progress of theta_hat."""

    left: float  # of the equation, before the last step
    off: float  # bound of ||theta_hat - exact||_V
    steps: float
    renewed: float  # 1 where the inverse was made anew on the way


_BEFORE_NEWTON = Newton(math.inf, math.inf, 0.0, 0.0)


@internal
def fit_large(model: Model, state: State, closeness: float) -> None:
    """Bring theta_hat and theta up to date, to within `closeness` in the norm of V."""
    if is_due(state.notes):
        renew(state.V, state.P, state.notes, state.scratch.factor)
    large, counters = large_of(state), state.counters
    state.gauges[at.KKT_RESIDUAL] = 0.0
    from_last = counters[at.PROJECTED] > 0 and model.projection == EXACT
    off = _approach(model, state, large, closeness, True, from_last)
    if model.projection == NO_PROJECTION or la.norm(state.theta_hat) <= model.S:
        la.copy(state.theta_hat, state.theta)
        counters[at.PROJECTED] = counters[at.VALID + FOR_THETA] = 0
        state.gauges[at.KKT_RESIDUAL] = 0.0
        large.notes[at.MADE + at.DESCENT] = 0.0
        large.notes[at.OFF] = off
        large.notes[at.ESTIMATED] = 0.0
        return
    counters[at.PROJECTED] = 1
    counters[at.PROJECTIONS] += 1
    if not from_last or radial_is_nearer(model, state, large):
        set_radial(model, state, la.norm(state.theta_hat))
        counters[at.VALID + FOR_THETA] = 0
        if model.projection == EXACT:
            _approach(model, state, large, closeness, False, True)
        else:  # the way from theta_hat is no error, and what theta_hat is off does not grow by it
            large.notes[at.OFF] = off
            large.notes[at.ESTIMATED] = 1.0


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
        if solving and counters[at.VALID + FOR_THETA_HAT]:
            newton = _step(model, state, large, closeness, newton)
            solving = not counters[at.VALID + FOR_THETA_HAT]
            descending = descending and (solving or la.norm(state.theta_hat) > model.S)
        if has_pull and descending:
            descent = descend(model, state, large, closeness, seen, largest, descent)
            descending = not counters[at.VALID + FOR_THETA]
        elif descending and counters[at.VALID + FOR_THETA]:
            descent = look(model, state, large, descent)
        has_pull = descending and counters[at.VALID + FOR_THETA] > 0
        wanted = Wanted(solving, descending and not has_pull, has_pull)
        if not (solving or descending):
            break
        seen = sweep(model, state, wanted, scratch.g, scratch.pull)
        if wanted.at_theta_hat:
            large.notes[at.LEAST] = seen.least
            la.copy(state.theta_hat, state.anchors[FOR_THETA_HAT])
            counters[at.VALID + FOR_THETA_HAT] = 1
        if wanted.at_theta:
            la.copy(state.theta, state.anchors[FOR_THETA])
            counters[at.VALID + FOR_THETA] = 1
    hidden = 2.0 * descent.steps + 1.0 if projecting else 0.0  # passes that are made anyway
    if newton.renewed == 0.0:
        charge(model, counters, large.notes, at.NEWTON, max(newton.steps - hidden, 0.0), 1)
    if projecting and descent.renewed == 0.0:
        charge(model, counters, large.notes, at.DESCENT, descent.steps, 2)
    return newton.off


@inlined
def _step(model: Model, state: State, large: Large, closeness: float, before: Newton) -> Newton:
    """Newton's step with a stale inverse, unless theta_hat is near enough."""
    gauges, counters, scratch = state.gauges, state.counters, state.scratch
    notes, residual, step, theta_hat = large.notes, scratch.residual, scratch.step, state.theta_hat
    sums = state.moments[FOR_THETA_HAT]
    to_length = math.sqrt(model.c / model.lam)  # ||x|| <= that times ||x||_V
    set_residual(model.lam, state.b, sums, theta_hat, residual)
    left = size_of(residual, state.P, state.notes, scratch.other) + to_length * gauges[at.LEAK]
    off = left / min(notes[at.LEAST], model.c)
    moves = gauges[at.LONGEST] * to_length * off
    # along the way to the root curvature falls by a factor e^s at most, s <= moves e^s
    off = off * math.exp(1.43 * moves) if moves <= 0.25 else math.inf
    gauges[at.DECREMENT] = math.sqrt(model.c) * off
    gauges[at.ERROR_BOUND] = to_length * off
    size = la.norm(state.b) + la.norm(sums) + model.lam * la.norm(theta_hat)
    if off <= closeness or left <= ROUNDING * to_length * size:
        return Newton(left, off, before.steps, before.renewed)
    renewed = before.renewed
    if notes[at.MADE + at.NEWTON] == 0.0 or left > SLOW * before.left:
        renew_newton(model, state, large)
        renewed = 1.0
    la.multiply_large(large.newton, residual, step)
    stretch = 1.0 / notes[at.FADED]
    length = gauges[at.LONGEST] * stretch * la.norm(step)
    damped = math.log1p(length) / length if length > REACH else 1.0
    counters[at.DAMPED_STEPS] += damped < 1.0
    counters[at.NEWTON_STEPS] += 1
    la.add_scaled(theta_hat, stretch * damped, step)
    counters[at.VALID + FOR_THETA_HAT] = 0
    return Newton(left, off, before.steps + 1.0, renewed)
