"""From rounds to a value with an interval.

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

n          effective rounds, (sum w)^2 / sum w^2: as many rounds of equal weight tell as much

Intervals are estimate +- t s.e. The standard error is that of a mean; for SNIPS it is that of a
ratio, every residual divided by 1 - its share of the weights, since a round that weighs much pulls
the estimate to itself. t is the quantile of Student's law with n - 1 degrees of freedom. That is
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
from driftbandits.checks import Floats
from driftbandits.estimator import estimate
from driftbandits.evaluate.log import Log
from driftbandits.policies import Policy
from driftbandits.simulation import play

_FEWEST_ROUNDS = 4.0
"""There is no interval for as few effective rounds."""

_CHECKED_SETS = 20
"""So many sets are decided on one by one, to see that scores tell the probabilities."""


class Value(NamedTuple):
    """Mean reward a round with its interval; NaN where the rounds do not tell."""

    value: float
    low: float
    high: float
    rounds: float  # how many rounds of equal weight it is worth


def mean_value(values: Floats, *, level: float) -> Value:
    """The mean of independent values."""
    return _mean_value(values, float(values.size), level)


def weighted_mean(values: Floats, weights: Floats, *, level: float) -> Value:
    """IPS: the mean of weights * values."""
    return _mean_value(weights * values, effective_rounds(weights), level)


def robust_mean(values: Floats, weights: Floats, *, level: float) -> Value:
    """DR: the mean of values that were made with the weights."""
    return _mean_value(values, effective_rounds(weights), level)


def ratio_of_means(values: Floats, weights: Floats, *, level: float) -> Value:
    """SNIPS: the weights sum to one, whatever they are."""
    rounds = effective_rounds(weights)
    if not rounds > 0.0:
        return Value(math.nan, math.nan, math.nan, 0.0)
    shares = weights / weights.sum()
    centre = float((shares * values).sum())
    if not rounds > _FEWEST_ROUNDS:
        return Value(centre, math.nan, math.nan, rounds)
    residuals = shares * (values - centre) / (1.0 - shares)
    error = math.sqrt(float((residuals**2).sum()))
    return _with_interval(centre, error, rounds, level)


def _mean_value(values: Floats, rounds: float, level: float) -> Value:
    centre = float(values.mean()) if values.size else math.nan
    if not rounds > _FEWEST_ROUNDS:
        return Value(centre, math.nan, math.nan, rounds)
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return _with_interval(centre, error, rounds, level)


def _with_interval(centre: float, error: float, rounds: float, level: float) -> Value:
    half = student_quantile(0.5 + level / 2.0, rounds - 1.0) * error
    return Value(centre, centre - half, centre + half, rounds)


def student_quantile(probability: float, freedom: float) -> float:
    """Of Student's law, by its expansion about the normal one (Abramowitz, Stegun, 26.7.5)."""
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
    """(sum w)^2 / sum w^2: how many rounds of equal weight tell as much."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0.0 else 0.0


class Replay(NamedTuple):
    """The rounds of a log that a learning policy could have lived through."""

    accepted: NDArray[np.bool_]  # (n,) where it agreed with the log, after thinning
    share: float  # of the rounds that are accepted if the log gave every action a chance


def replay(log: Log, policy: Policy, *, seed: int) -> Replay:
    """Let a policy decide on every logged set and learn where it agrees with the log.

    A round is kept by a coin with probability c / p, c the smallest propensity of the log, and
    accepted if the policy then chooses what was logged: with probability c, whatever was offered
    and whatever the policy does. So accepted rounds are a fair sample of the rounds in which the
    policy acts. Every round counts in its clock; its rewards are those of accepted rounds.
    """
    share = float(log.propensity.min())
    coins = np.random.default_rng(seed).random(len(log))
    keep = coins < share / log.propensity
    run = play(policy, log.trace(keep=keep), seed, record=("chosen",))
    return Replay(keep & (run.chosen == log.chosen), share)


class UnknownProbabilities(ValueError):
    """A target that does not choose by its scores: it can be replayed and nothing else."""


def choice_probabilities(agent: Agent, arms: Sequence[Floats]) -> Floats:
    """pi of every set, one after the other, for an agent that stays as it is."""
    sizes = np.array([len(actions) for actions in arms])
    # A score depends on its own action alone, so that one set can hold all of them.
    scores = agent.preview(np.concatenate(arms), seed=0).scores
    starts = np.cumsum(sizes) - sizes
    best = scores == np.repeat(np.maximum.reduceat(scores, starts), sizes)
    tied = np.repeat(np.add.reduceat(best.astype(np.int64), starts), sizes)
    epsilon = agent.policy.epsilon
    pi: Floats = (1.0 - epsilon) * best / tied + epsilon / np.repeat(sizes, sizes)
    for t in range(0, len(arms), max(1, len(arms) // _CHECKED_SETS)):
        choice = agent.preview(arms[t], seed=t)
        if not math.isclose(pi[starts[t] + choice.index], choice.propensity, rel_tol=1e-9):
            raise UnknownProbabilities(
                f"{agent.policy.name} draws its scores, so that its probabilities are not known: "
                "only replay can evaluate it"
            )
    return pi


def reward_model(log: Log, policy: Policy, *, rounds: slice, of: slice) -> Floats:
    """q of every action offered in the rounds `of`, learned from `rounds` before them.

    The target's link and memory, with an intercept. Without a reward to learn from it is 0.
    """
    known = np.flatnonzero(log.known[rounds]) + (rounds.start or 0)
    offered = np.concatenate(log.arms[of])
    if known.size == 0:
        return np.zeros(len(offered))
    fitted = estimate(
        _with_constant(log.played[known]),
        _model_rewards(policy, log.reward[known]) - policy.centre,
        link=policy.link,
        lam=policy.lam,
        window=policy.window,
        discount=policy.discount,
        projection="none",
    )
    means = policy.centre + policy.link.mean(_with_constant(offered) @ fitted.theta_hat)
    return means if policy.reward is None else policy.reward.values(means)


def _model_rewards(policy: Policy, values: Floats) -> Floats:
    return values if policy.reward is None else policy.reward.all_taken(values)


def _with_constant(rows: Floats) -> Floats:
    return np.hstack([rows, np.ones((len(rows), 1))])


class Scored(NamedTuple):
    """What IPS, SNIPS and DR need of some rounds, those with a known reward."""

    weights: Floats  # w
    rewards: Floats  # r
    robust: Floats  # pi.q + w (r - q(a))


def scored(log: Log, rounds: slice, probabilities: Floats, model: Floats) -> Scored:
    """The rounds of a slice, under the target's probabilities and the reward model."""
    sizes = log.sizes[rounds]
    starts = np.cumsum(sizes) - sizes
    at = starts + log.chosen[rounds]
    weights = probabilities[at] / log.propensity[rounds]
    rewards = log.reward[rounds]
    robust = np.add.reduceat(probabilities * model, starts) + weights * (rewards - model[at])
    known = log.known[rounds]
    return Scored(weights[known], rewards[known], robust[known])
