"""One pass over the rewards, for memory that does not grow: GLOC.

A row that comes is learned and not kept (Jun, Bhargava, Nowak, Willett 2017, Scalable Generalized
Linear Bandits: Online Computation and Hashing). An online learner, Newton's step of Hazan, Agarwal,
Kale (2007), predicts each z = a . theta before it sees the reward. The regret of such a learner is
bounded, so its predictions are near those of the truth, and a ridge regression on the predictions,
not on the rewards, is the centre of a confidence set. That regression is the estimator of LinUCB.
Rewards that come late are learned in the order in which they come.

Notation
--------
kappa      the smallest slope, c; R = m/2 bounds the noise
theta      (d,)  the online learner's parameter, `point`; it starts at 0
V, b       lam I + sum a a', sum z a: what LinUCB has, with z for the rewards
theta_hat  V^-1 b, the centre

    g        = mu(z) - X                                         slope of the loss at z
    theta'   = theta - (g/kappa) V^-1 a, projected on the ball of S in the norm of V
    B        = sum g^2 ||a||^2_{V^-1} / (2 kappa) + 2 kappa S^2 lam      Theorem 3
    beta     = 1 + 4 B/kappa
               + 8 R^2/kappa^2 log(2/delta sqrt(1 + 2 B/kappa + 4 R^4/(kappa^4 delta^2)))
    radius^2 = beta + lam S^2 - (sum z^2 - theta_hat . b)                Theorem 1

V contains the row that is learned. The last line is what completing the square gives: Theorem 1
bounds sum (z - a . truth)^2 by beta. The source plays the largest a . theta_hat + radius ||a||.
Here a score is a bound of the mean as elsewhere, mu(a . theta_hat) + k radius ||a||: the radius of
the theory is so large that mu of the other would round to 1 for every action.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple

from driftbandits.core import Model, State, links, memory
from driftbandits.core import linalg as la
from driftbandits.core.estimator.inverse import FOR_SOLUTIONS, room_in, solve_design
from driftbandits.core.estimator.model import Floats, for_large
from driftbandits.core.estimator.state import RADIUS, layout_beyond
from driftbandits.jit import Share, inlined, internal, reader_of
from driftbandits.policies.adaptations import fixed
from driftbandits.policies.scoring import OWN_NUMBERS, Opened

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy

_ROUNDING = 1e-12


class Numbers(NamedTuple):
    """Constants of the source."""

    kappa: float


class Own(NamedTuple):
    """The online learner, and what its regret is bounded by."""

    point: Annotated[Floats, Share("vectors")]
    regret: Annotated[Floats, Share("gauges")]  # B without its first term
    square: Annotated[Floats, Share("gauges")]  # sum z^2


LAYOUT = layout_beyond(Own)
_own_of, _numbers_of = LAYOUT.of, reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy) -> Numbers:
    return Numbers(kappa=policy.problem.c)


@inlined
def estimate(opened: Opened, seed: int, actions: Floats) -> None:
    fixed.estimate(opened, seed, actions)
    numbers, model, _, confidence, state = opened
    own, r = _own_of(state.stores), _numbers_of(numbers)
    B = own.regret[0] + 2.0 * r.kappa * model.S * model.S * model.lam
    noise = (confidence.m / 2.0 / r.kappa) ** 2
    inside = 1.0 + 2.0 * B / r.kappa + 4.0 * (noise / confidence.delta) ** 2
    beta = (
        1.0
        + 4.0 * B / r.kappa
        + 8.0 * noise * (math.log(2.0 / confidence.delta) + 0.5 * math.log(inside))
    )
    left = own.square[0] - la.dot(state.theta_hat, state.b)
    square = beta + model.lam * model.S * model.S - left
    state.gauges[RADIUS] = confidence.k * math.sqrt(max(square, 0.0))


@inlined
def _solve_small(model: Model, state: State, u: Floats) -> None:
    la.copy(state.scratch.row, u)
    la.cholesky(state.V, state.scratch.factor)
    la.forward_solve(state.scratch.factor, u)
    la.backward_solve(state.scratch.factor, u)


@inlined
def _solve_large(model: Model, state: State, u: Floats) -> None:
    room = room_in(state)
    la.copy(state.scratch.row, room.rows[0])
    solve_design(state, 1, FOR_SOLUTIONS)
    la.copy(room.solutions[0], u)


solve = for_large(_solve_large, _solve_small)
"""u := V^-1 row."""


@internal
def project(A: Floats, S: float, state: State, point: Floats) -> None:
    """The nearest point of the ball in the norm of A."""
    scratch = state.scratch
    la.multiply(A, point, scratch.pull)
    la.minimise_in_ball(
        A, scratch.pull, S, 0.0, _ROUNDING, point, scratch.quadratic, scratch.factor, scratch.slope
    )


@inlined
def learn(opened: Opened, reward: float, s: int) -> None:
    numbers, model, scoring, _, state = opened
    own, r = _own_of(state.stores), _numbers_of(numbers)
    point, row, u = own.point, state.scratch.row, state.scratch.noise
    z = la.dot(row, point)
    g = links.mean(model.link, model.m, z) - (reward - scoring.centre)
    memory.absorb(model, state, z, s)
    solve(model, state, u)
    own.regret[0] += g * g * la.dot(row, u) / (2.0 * r.kappa)
    own.square[0] += z * z
    la.add_scaled(point, -g / r.kappa, u)
    if la.norm(point) > model.S:
        project(state.V, model.S, state, point)
