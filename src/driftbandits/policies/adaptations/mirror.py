"""Online mirror descent: a step for each reward, and a state that does not grow.

GLB-OMD (Zhang, Xu, Zhao, Sugiyama 2025, arXiv 2507.11847) is the stationary one. DOMD-GLB (Lee, Oh
2026, arXiv 2605.25590) discounts it. Of the latter only the abstract was found, so its recursion
and radius are derived here: what the proof of GLB-OMD gives where curvature fades and the ridge
does not. With gamma = 1 both are the same. Neither keeps a row, and late rewards are learned in the
order in which they come, with the weight of their age.

Notation
--------
R          bound of |mu''|/mu': 0 for the identity, 1 for the other links
v          variance of a reward over mu': m^2/4 for the identity, where rewards only are in [0, m]
eta        1 + R S L
l          (mu_0(a.theta) - X a.theta) w/v      loss of a row, mu_0' = mu; w = gamma^age
H          (d, d)   lam I + sum of w mu'(a.theta')/v a a', each at the theta' that it led to; V

    theta' = argmin over ||theta|| <= S of
             l'(theta_t) . theta + (||theta - theta_t||^2 in l''(theta_t) + H/eta)/2        eq. 3
    H     := gamma H + (1 - gamma) lam I when the clock goes on, H + l''(theta') after a step

The step is Newton's, eta l' (H + eta l'')^-1, and what leads out of the ball is projected in that
norm. The radius is in core/theory.py. The sources play the largest a . theta + radius ||a||_{H^-1}.
Here a score is a bound of the mean as elsewhere, mu(a . theta) + k radius ||a||_{H^-1}: mu of the
other may round to 1 for every action. In the paper's world both lose the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from driftbandits.core import linalg as la
from driftbandits.core import links, memory, theory
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import FITTED
from driftbandits.jit import inlined, reader_of
from driftbandits.policies.adaptations.online import project, solve
from driftbandits.policies.scoring import OWN_NUMBERS, Opened

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy


class Numbers(NamedTuple):
    """Constants of the source."""

    eta: float
    v: float


_numbers_of = reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy) -> Numbers:
    return Numbers(theory.mirror_step(policy.problem), theory.relative_variance(policy.problem))


@inlined
def estimate(opened: Opened, seed: int, actions: Floats) -> None:
    opened.state.counters[FITTED] = 1  # theta_hat is where the last step led


@inlined
def learn(opened: Opened, reward: float, s: int) -> None:
    numbers, model, scoring, _, state = opened
    r, theta, scratch = _numbers_of(numbers), state.theta_hat, state.scratch
    row, u, H = scratch.row, scratch.noise, scratch.other_matrix
    weight = memory.weight_in(model, state, s) / r.v
    z = la.dot(row, theta)
    slope = weight * (links.mean(model.link, model.m, z) - (reward - scoring.centre))
    bend = r.eta * weight * links.slope(model.link, model.m, z)
    solve(model, state, u)
    la.add_scaled(theta, -r.eta * slope / (1.0 + bend * la.dot(row, u)), u)
    if la.norm(theta) > model.S:
        la.copy_matrix(state.V, H)
        la.add_outer(H, bend, row)
        project(H, model.S, state, theta)
    la.copy(theta, state.theta)
    weight *= links.slope(model.link, model.m, la.dot(row, theta))
    memory.add_to_sums(model, state, 0.0, weight)
