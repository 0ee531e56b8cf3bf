"""Estimators of a mean reward, with their intervals.

Notation
--------
a, p, r    the logged action of a round, its propensity, its reward
pi         (K,) the probabilities with which the target chooses among the actions of the round
q          (K,) the reward model's guess of each action's mean reward
w          pi(a) / p
IPS        mean of w r                                  unbiased
SNIPS      sum of w r / sum of w                        bias of order 1/n, less spread
DR         mean of pi.q + w (r - q(a))                  unbiased, less spread if q is good
           Dudik, Langford, Li (2011), Doubly Robust Policy Evaluation and Learning
replay     mean of r over the rounds in which a learning target agreed with the log
           Li, Chu, Langford, Wang (2011), Unbiased Offline Evaluation of Contextual-bandit-based
           News Article Recommendation Algorithms; with unequal p rounds are thinned by c / p as in
           Dudik, Erhan, Langford, Li (2012), Sample-efficient Nonstationary Policy Evaluation

n          effective rounds, (sum w)^2 / sum w^2: the number of rounds of equal weight that inform
           as much

Intervals are estimate +- t s.e. The standard error is that of a mean; for SNIPS it is that of a
ratio, every residual divided by 1 - its share of the weights, since a round that weighs much pulls
the estimate to itself. t is a quantile of Student's t with n - 1 degrees of freedom. That is
right for many rounds by the central limit theorem, and a correction that helps for few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent import Agent
from driftbandits.core import estimate
from driftbandits.evaluate.log import Log, with_constant
from driftbandits.experiments import play
from driftbandits.policies import Policy

Floats = NDArray[np.float64]

_FEWEST_ROUNDS = 4.0
"""There is no interval for as few effective rounds."""
_COINS = 0x5E7
"""Added to the seed, so that the coins of a replay are not the draws of a log simulated with it."""


class Value(NamedTuple):
    """A mean reward a round with its interval; NaN where the rounds do not suffice."""

    value: float
    low: float
    high: float
    rounds: float  # effective rounds


def mean_value(values: Floats, *, level: float, rounds: float | None = None) -> Value:
    """Estimate the mean of independent values, in which so many effective rounds inform."""
    count = float(values.size) if rounds is None else rounds
    centre = float(values.mean()) if values.size else math.nan
    if not count > _FEWEST_ROUNDS:
        return Value(centre, math.nan, math.nan, count)
    return _with_interval(centre, float(values.std(ddof=1)) / math.sqrt(values.size), count, level)


def ratio_of_means(values: Floats, weights: Floats, *, level: float) -> Value:
    """Estimate by SNIPS: the weights are divided by their sum."""
    rounds = effective_rounds(weights)
    if not rounds > 0.0:
        return Value(math.nan, math.nan, math.nan, 0.0)
    shares = weights / weights.sum()
    centre = float((shares * values).sum())
    if not rounds > _FEWEST_ROUNDS:
        return Value(centre, math.nan, math.nan, rounds)
    residuals = shares * (values - centre) / (1.0 - shares)
    return _with_interval(centre, math.sqrt(float((residuals**2).sum())), rounds, level)


def _with_interval(centre: float, error: float, rounds: float, level: float) -> Value:
    half = student_quantile(0.5 + level / 2.0, rounds - 1.0) * error
    return Value(centre, centre - half, centre + half, rounds)


def student_quantile(probability: float, freedom: float) -> float:
    """Return a quantile of Student's t by an expansion (Abramowitz, Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**k for k, term in enumerate(terms))


def effective_rounds(weights: Floats) -> float:
    """Return (sum w)^2 / sum w^2, the number of rounds of equal weight that inform as much."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0.0 else 0.0


def replay(log: Log, policy: Policy, *, seed: int) -> tuple[NDArray[np.bool_], float]:
    """Let a policy decide on every logged set and learn where it agrees with the log.

    Returns where it agreed (n,), after thinning, and the share of the rounds in which it does so
    on average if the log gave every action a chance.

    A round is kept by a coin with probability c / p, c the smallest propensity of the log, and
    accepted if the policy then chooses what was logged: with probability c, whatever was offered
    and whatever the policy does. So accepted rounds are a fair sample of the rounds in which the
    policy acts. Every round counts in its clock; its rewards are those of accepted rounds.
    """
    share = float(log.propensity.min())
    coins = np.random.default_rng([seed, _COINS]).random(len(log))
    keep = coins < share / log.propensity
    run = play(policy, log.trace(keep=keep), seed, record=("chosen",))
    return keep & (run.chosen == log.chosen), share


def choice_probabilities(agent: Agent, arms: Sequence[Floats]) -> Floats | None:
    """Return pi of all sets, one after the other, for an agent that does not learn.

    The probabilities of an agent that draws its scores are unknown: None.
    """
    epsilon = agent.policy.epsilon
    pi = []
    for t, actions in enumerate(arms):
        choice = agent.preview(actions, seed=t)
        best = choice.scores == choice.scores.max()
        pi.append((1.0 - epsilon) * best / best.sum() + epsilon / len(best))
        if not math.isclose(pi[-1][choice.index], choice.propensity, rel_tol=1e-9):
            return None
    return np.concatenate(pi)


def reward_model(log: Log, policy: Policy, *, rounds: slice, of: slice) -> Floats:
    """Return q of every action offered in the rounds `of`, learned from `rounds` before them.

    The target's link and memory, with an intercept. Without a reward to learn from it is 0.
    """
    known = np.flatnonzero(log.known[rounds]) + (rounds.start or 0)
    offered = np.concatenate(log.arms[of])
    if known.size == 0:
        return np.zeros(len(offered))
    values = log.reward[known]
    taken = values if policy.reward is None else policy.reward.all_taken(values)
    fitted = estimate(
        with_constant(log.played[known]),
        taken - policy.centre,
        link=policy.link,
        lam=policy.lam,
        window=policy.window,
        discount=policy.discount,
        projection="none",
    )
    means = policy.centre + policy.link.mean(with_constant(offered) @ fitted.theta_hat)
    return means if policy.reward is None else policy.reward.values(means)


class Scored(NamedTuple):
    """The inputs of IPS, SNIPS and DR for the rounds with a known reward."""

    weights: Floats  # w
    rewards: Floats  # r
    robust: Floats  # pi.q + w (r - q(a))


def scored(log: Log, rounds: slice, probabilities: Floats, model: Floats) -> Scored:
    """Score the rounds of a slice by the target's probabilities and the reward model."""
    sizes = log.sizes[rounds]
    starts = np.cumsum(sizes) - sizes
    at = starts + log.chosen[rounds]
    weights = probabilities[at] / log.propensity[rounds]
    rewards = log.reward[rounds]
    robust = np.add.reduceat(probabilities * model, starts) + weights * (rewards - model[at])
    known = log.known[rounds]
    return Scored(weights[known], rewards[known], robust[known])
