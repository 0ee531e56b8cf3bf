"""Randomised choices, and the probability of each.

A policy that maximises one random line per action, D-RandLinUCB, has a propensity in closed form:
the share of the random scale for which the action is on the upper envelope.

A policy that samples a parameter draws `votes` samples instead of one, all independent, and every
sample votes for its best action (tied ones share the vote). The first sample decides. So the law
of the choice is the sampler's own. And the samples are exchangeable: given which votes were cast,
though not in which order, the probability of an action is exactly its share of the votes, and
that is the propensity. An action without a vote has probability 0 in that round: whoever weighs
by propensities and needs all actions to be possible gives the policy an epsilon.

Means, widths and scores do not depend on what is drawn: a width is k times the standard deviation
of a . theta, which bounds that of the mean.

Notation
--------
A          scalar   scale of the noise, bonus_scale rho / k
z          (d,)     standard normal
POSTERIOR  theta_hat + A J^-1/2 z: the Laplace approximation of a posterior
PERTURBED  the root of g(theta) = b + A C^1/2 z, where C = sum w_s^2 a_s a_s' + (lam/c) I: noise on
           every reward enters the score equation only through b, so one draw stands for all of
           them. The ridge counts as d more rows sqrt(lam/c) e_j, without which a direction that
           was never played would never be explored.
AUGMENTED  theta_hat + A (theta - theta_hat), where theta is drawn from the posterior, see
           augmentation.py
"""

from __future__ import annotations

import math

from driftbandits.estimator import Model, State
from driftbandits.estimator.expansion import evaluate, reach_of, remainder
from driftbandits.estimator.model import DISCOUNT, Floats
from driftbandits.estimator.solve import ERROR_TOLERANCE, damping
from driftbandits.estimator.state import FOR_THETA_HAT, LONGEST, RADIUS
from driftbandits.jit import inlined, internal
from driftbandits.linalg import (
    add_scaled,
    backward_solve,
    backward_solve_large,
    cholesky,
    cholesky_large,
    copy,
    forward_solve,
    forward_solve_large,
    inverse,
    inverse_large,
    multiply_by_factor,
    multiply_by_factor_large,
    norm,
    sandwich,
)
from driftbandits.policies.adaptations.exponential import draw_arm
from driftbandits.policies.augmentation import sweep
from driftbandits.policies.chance import MIXTURE, TAKEN, TIES, key_of, normal, pick, uniform
from driftbandits.policies.curvature import sum_at
from driftbandits.policies.scoring import AUGMENTED, PERTURBED, SCALED, WEIGHTED, Scoring

_SMALLEST_SHARE = 2.0**-53
_MOST_STEPS = 1000
_LAST_STEP = 1e-5  # the error after a Newton step is at most of the order of its square


@internal
def make_sampling_matrices(model: Model, scoring: Scoring, state: State) -> None:
    """scratch.bonus := covariance of the sampled parameter over A^2, and what samples need."""
    scratch = state.scratch
    if model.order > 0:
        evaluate(model, state, FOR_THETA_HAT, state.theta_hat, model.order)
    else:  # the sums of a large model have no J
        sum_at(model, state, state.theta_hat)
    _factorise(model, scratch.J, scratch.factor)
    if scoring.score != PERTURBED:
        _invert(model, scratch.factor, scratch.bonus)
    else:
        C = state.V2 if model.memory == DISCOUNT else state.V
        _invert(model, scratch.factor, scratch.inverse)
        sandwich(scratch.inverse, C, scratch.other_matrix, scratch.bonus)
        _factorise(model, C, scratch.noise_factor)


@inlined
def _factorise(model: Model, A: Floats, C: Floats) -> None:
    if model.fast:
        cholesky_large(A, C)
    else:
        cholesky(A, C)


@inlined
def _invert(model: Model, C: Floats, out: Floats) -> None:
    if model.fast:
        inverse_large(C, out)
    else:
        inverse(C, out)


@internal
def draw(
    model: Model,
    scoring: Scoring,
    state: State,
    features: Floats,
    table: Floats,
    seed: int,
    t: int,
    steepest: float,
) -> tuple[int, float]:
    """An action of those that are not TAKEN in row 3 of the table, and its probability.

    features (K, d) are the actions as the model sees them, `steepest` is k; row 3 is used as
    scratch.
    """
    free = 0
    for i in range(table.shape[1]):
        free += table[3, i] > TAKEN
    chosen = -1
    if scoring.epsilon > 0.0 and uniform(seed, t, MIXTURE) < scoring.epsilon:
        chosen = _free_action(table, int(uniform(seed, t, TIES) * free))
    if scoring.score == SCALED:
        possible = 0.0
        if chosen < 0:
            _mark_highest_lines(table, abs(normal(seed, t, 0)))
            chosen, _ = pick(0.0, table, seed, t)
            possible = _SMALLEST_SHARE  # whatever rounding says of the share
        share = max(_share_of_line(table, chosen), possible)
    elif scoring.score == WEIGHTED:
        chosen, share = draw_arm(scoring, state, features, table, seed, t, chosen)
    else:
        chosen, share = _vote(model, scoring, state, features, table, seed, t, steepest, chosen)
    return chosen, (1.0 - scoring.epsilon) * share + scoring.epsilon / free


@internal
def _free_action(table: Floats, place: int) -> int:
    i = 0
    while place > 0 or table[3, i] == TAKEN:
        place -= table[3, i] > TAKEN
        i += 1
    return i


@internal
def _mark_highest_lines(table: Floats, scale: float) -> None:
    """Row 3 := 1 where mean + scale width is largest, and 0 elsewhere.

    By differences, as in `_share_of_line`: sums would round lines to ties that differ in it.
    """
    highest = -1
    for i in range(table.shape[1]):
        if table[3, i] > TAKEN:
            ahead = 1.0
            if highest >= 0:
                ahead = table[0, i] - table[0, highest]
                ahead += scale * (table[1, i] - table[1, highest])
            if ahead > 0.0:
                highest = i
    for i in range(table.shape[1]):
        if table[3, i] > TAKEN:
            same = table[0, i] == table[0, highest] and table[1, i] == table[1, highest]
            table[3, i] = 1.0 if same else 0.0


@internal
def _share_of_line(table: Floats, i: int) -> float:
    """Probability that mean + |z| width is largest for action i, z standard normal."""
    low, high = 0.0, math.inf
    same = 0
    for j in range(table.shape[1]):
        if table[3, j] == TAKEN:
            continue
        ahead = table[0, j] - table[0, i]
        wider = table[1, j] - table[1, i]
        if wider < 0.0:
            low = max(low, ahead / -wider)
        elif wider > 0.0:
            high = min(high, -ahead / wider)
        elif ahead > 0.0:
            return 0.0
        elif ahead == 0.0:
            same += 1
    share = math.erfc(low / math.sqrt(2.0)) - math.erfc(high / math.sqrt(2.0))
    return max(share, 0.0) / same


@internal
def _vote(
    model: Model,
    scoring: Scoring,
    state: State,
    features: Floats,
    table: Floats,
    seed: int,
    t: int,
    steepest: float,
    chosen: int,
) -> tuple[int, float]:
    """The choice of the first sample, unless one is given, and its share of all votes."""
    noise, sample = state.scratch.noise, state.scratch.point
    wide = state.gauges[RADIUS] / steepest
    share = 0.0
    for vote in range(scoring.votes):
        for j in range(model.d):
            noise[j] = wide * normal(seed, t, vote * model.d + j)
        _sample(model, scoring.score, state)
        if scoring.score == AUGMENTED:
            sweep(model, state, wide, key_of(seed, t, vote))
        best = TAKEN
        tied = 0
        for i in range(table.shape[1]):
            if table[3, i] == TAKEN:
                continue
            value = 0.0
            for j in range(model.d):
                value += features[i, j] * sample[j]
            table[3, i] = value
            if value > best:
                best = value
                tied = 0
            tied += value == best
        if chosen < 0:
            chosen, _ = pick(0.0, table, seed, t)
        if table[3, chosen] == best:
            share += 1.0 / tied
    return chosen, share / scoring.votes


@inlined
def _sample(model: Model, score: int, state: State) -> None:
    """scratch.point := a sample of the parameter, from A z in scratch.noise, which is used up."""
    scratch = state.scratch
    noise = scratch.noise
    if score == PERTURBED:
        if model.fast:
            multiply_by_factor_large(scratch.noise_factor, noise)
        else:
            multiply_by_factor(scratch.noise_factor, noise)
        if not model.linear:
            _solve_perturbed(model, state)
            return
    if model.fast:
        if score == PERTURBED:
            forward_solve_large(scratch.factor, noise)
        backward_solve_large(scratch.factor, noise)
    else:
        if score == PERTURBED:
            forward_solve(scratch.factor, noise)
        backward_solve(scratch.factor, noise)
    for j in range(model.d):
        scratch.point[j] = state.theta_hat[j] + noise[j]


@internal
def _solve_perturbed(model: Model, state: State) -> None:
    """scratch.point := the root of g(theta) = b + noise, by Newton from theta_hat.

    The expansion of g about theta_hat's anchor is used where it is as exact as `fit` needs it, and
    a pass over the memory where it is not.
    """
    scratch = state.scratch
    point, step = scratch.point, scratch.step
    copy(state.theta_hat, point)
    for _ in range(_MOST_STEPS):
        reach = reach_of(state, FOR_THETA_HAT, point)
        lost = remainder(model, state, FOR_THETA_HAT, reach, model.order)
        if lost <= ERROR_TOLERANCE * model.lam and model.order > 0:
            evaluate(model, state, FOR_THETA_HAT, point, model.order)
        else:
            sum_at(model, state, point)
        cholesky(scratch.J, scratch.factor)
        for j in range(model.d):
            step[j] = state.b[j] + scratch.noise[j] - scratch.g[j]
        forward_solve(scratch.factor, step)
        backward_solve(scratch.factor, step)
        length = state.gauges[LONGEST] * norm(step)
        add_scaled(point, damping(length), step)
        if length <= _LAST_STEP:
            break
