"""The randomised policies against their distributions, each sampled plainly, and propensities.

A distribution is compared through the choices it leads to among directions all round the circle.
Thousands of seeds decide from one and the same state.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import pytest
from scipy import optimize, special, stats

import driftbandits as db
import kinds
from driftbandits import policies
from driftbandits.core.estimator.state import copy_of
from driftbandits.jit import compiled, handle_of
from driftbandits.policies import TABLE_ROWS, sampling
from reference import Played, Reference

pytestmark = pytest.mark.compiled

ROUNDS, SEEDS = 40, 2000
ANGLES = np.linspace(0, 2 * np.pi, 12, endpoint=False) + 0.1
LENGTHS = 0.7 - 0.28 * np.cos(ANGLES + 0.46)  # the better a direction, the shorter
ACTIONS = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]) * LENGTHS[:, None]
SAMPLERS = kinds.both(kinds.randomised, kinds.no(kinds.weighted))
"""Whose draws follow from means and widths."""
GRID_STEP = 0.02


def arguments_of(name: str) -> dict:
    memory = kinds.memory_of(name, window=25, discount=0.95)
    # scales at which several directions are likely
    of_its_own = kinds.scaled(name) or kinds.augmented(name)
    scale = 1.0 if of_its_own else 0.3 if kinds.linear(name) else 0.15
    return {"dim": 2, "bonus_scale": scale, **memory, **centred(name)}


def centred(name: str) -> dict:
    """A linear model has no intercept: 0/1 rewards are around 1/2."""
    return {"centre": 0.5} if kinds.linear(name) else {}


def history() -> list[Played]:
    rng = np.random.default_rng(4)
    rows = rng.uniform(-0.7, 0.7, size=(ROUNDS, 2))
    wins = rng.random(ROUNDS) < special.expit(rows @ [2.0, -1.0])
    return [Played(t + 1, rows[t], float(wins[t])) for t in range(ROUNDS)]


def decisions(name: str, seeds: int, **more) -> tuple[np.ndarray, np.ndarray]:
    """Choice and propensity for each seed, after the history."""
    policy = db.policy(name, **{**arguments_of(name), **more})
    kernels = policies.kernels_of(policies.family_of(policy))
    buffers = policy.new_buffers(2 * ROUNDS)
    for played in history():
        kernels.tick(handle_of(buffers), 1)
        kernels.update(handle_of(buffers), played.action[None, :], 0, played.reward, played.round)
    picks, table = np.empty((seeds, 2, 1)), np.empty((TABLE_ROWS, len(ACTIONS)))
    for seed in range(seeds):
        beside = copy_of(buffers)
        assert kernels.decide(handle_of(beside), seed, 0, ACTIONS, table, picks[seed]) == 0
    return picks[:, 0, 0].astype(int), picks[:, 1, 0]


class Sampler:
    """The sampler of a policy as its source has it."""

    def __init__(self, name: str) -> None:
        self.oracle = Reference(name, **arguments_of(name))
        self.played = history()
        self.theta_hat = self.oracle.theta_hat(ROUNDS, self.played)
        rho = self.oracle.radius(ROUNDS, self.theta_hat)
        self.scale = self.oracle.bonus_scale * rho / self.oracle.k
        self.rng = np.random.default_rng(8)

    def parameter(self) -> np.ndarray:
        if kinds.posterior(self.oracle.name):
            J = self.oracle.curvature(ROUNDS, self.played, self.theta_hat)
            return self.rng.multivariate_normal(self.theta_hat, self.scale**2 * np.linalg.inv(J))
        if kinds.augmented(self.oracle.name):
            place = self.rng.choice(len(self.grid), p=self.density)
            return self.grid[place] + self.rng.uniform(-0.5, 0.5, size=2) * GRID_STEP
        return self.refitted()

    @cached_property
    def grid(self) -> np.ndarray:
        line = np.arange(-8, 8, GRID_STEP)
        return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)

    @cached_property
    def density(self) -> np.ndarray:
        """The posterior by its definition, on the grid."""
        A, x, _ = self.oracle.weighted(ROUNDS, self.played)
        z = self.grid @ A.T
        logs = (x * z - np.logaddexp(0, z)).sum(axis=1)
        logs -= self.oracle.lam / 2 * (self.grid**2).sum(axis=1)
        return special.softmax(logs)

    def refitted(self) -> np.ndarray:
        """A fit to rewards that were really perturbed, one by one, and to a perturbed ridge."""
        o = self.oracle
        A, x, w = o.weighted(ROUNDS, self.played)
        x = x + self.scale * self.rng.standard_normal(len(x))
        prior = self.scale * math.sqrt(o.lam / o.c) * self.rng.standard_normal(2)

        def equation(theta):
            return A.T @ (w * (x - o.mean(A @ theta))) + prior - o.lam * theta

        def jacobian(theta):
            return -(A.T * (w * o.slope(A @ theta))) @ A - o.lam * np.eye(2)

        found = optimize.root(equation, self.theta_hat, jac=jacobian, tol=1e-10)
        assert np.abs(equation(found.x)).max() < 1e-6
        return found.x

    def choices(self, count: int) -> np.ndarray:
        if kinds.scaled(self.oracle.name):
            scores = self.oracle.score(ROUNDS, self.played, ACTIONS)
            scales = np.abs(self.rng.standard_normal(count))
            return (scores.means + scales[:, None] * scores.widths).argmax(axis=1)
        return np.array([(ACTIONS @ self.parameter()).argmax() for _ in range(count)])


def counts_of(choices: np.ndarray) -> np.ndarray:
    return np.bincount(choices, minlength=len(ACTIONS))


@pytest.mark.parametrize("name", kinds.those(SAMPLERS))
def test_choices_have_the_probabilities_of_the_sampler(name):
    ours, plain = counts_of(decisions(name, SEEDS)[0]), counts_of(Sampler(name).choices(SEEDS))
    both = ours + plain
    seen = both > 0
    assert seen.sum() >= 3
    statistic = ((ours - plain)[seen] ** 2 / both[seen]).sum()
    assert statistic < stats.chi2.ppf(0.999, seen.sum() - 1)


@pytest.mark.parametrize("name", kinds.those(kinds.samples_parameters))
def test_propensities_are_shares_of_independent_votes(name):
    """With M votes of probabilities q the chosen share is sum q^2 + (1 - sum q^2)/M on average."""
    votes = db.policy(name, **arguments_of(name)).row.votes
    choices, shares = decisions(name, SEEDS)
    np.testing.assert_allclose(shares * votes, np.rint(shares * votes), atol=1e-9)
    q = counts_of(choices) / SEEDS
    even = (q**2).sum() - (1 - (q**2).sum()) / (SEEDS - 1)  # without the bias of counting
    expected = even + (1 - even) / votes
    error = 4 * (shares.std() + 2 * q.max()) / math.sqrt(SEEDS)
    assert shares.mean() == pytest.approx(expected, abs=error)
    # given the votes, a choice is one of them at random: its frequency is its share
    for i in np.flatnonzero(q * SEEDS > 50):
        weights = (choices == i) / shares
        assert weights.mean() <= 1 + 4 * weights.std() / math.sqrt(SEEDS)


def test_the_propensity_of_a_random_scale_is_exact():
    choices, propensities = decisions("D-RandLinUCB", SEEDS)
    scores = Sampler("D-RandLinUCB").oracle.score(ROUNDS, history(), ACTIONS)
    levels = (np.arange(400_000) + 0.5) / 400_000
    scales = stats.norm.ppf(0.5 + levels / 2)
    winners = (scores.means[:, None] + scales * scores.widths[:, None]).argmax(axis=0)
    exact = counts_of(winners) / len(levels)
    assert (exact > 0).sum() >= 3
    np.testing.assert_allclose(propensities, exact[choices], atol=1e-5)
    error = 4 * np.sqrt(exact * (1 - exact) / SEEDS)
    assert (np.abs(counts_of(choices) / SEEDS - exact) <= error + 1e-12).all()


@pytest.mark.parametrize("name", kinds.those(SAMPLERS))
def test_without_a_bonus_the_best_mean_is_certain(name):
    sampler = Sampler(name)
    choices, propensities = decisions(name, 20, bonus_scale=0.0)
    assert (choices == (ACTIONS @ sampler.theta_hat).argmax()).all()
    assert (propensities == 1).all()


# -- Polya-Gamma numbers, and the posterior that sweeps draw from ----------------------------------

COUNT = 20_000


@compiled
def fill(out, m, z, key):
    for s in range(out.shape[0]):
        out[s] = sampling.polya_gamma(m, z, key, s + 1)


def drawn(z: float, *, m: int = 1, key: int = 7) -> np.ndarray:
    out = np.empty(COUNT)
    fill(out, m, z, key)
    return out


def mean_of(z: float, m: int = 1) -> float:
    return m / 4 if z == 0 else m * math.tanh(z / 2) / (2 * z)


def variance_of(z: float, m: int = 1) -> float:
    if z == 0:
        return m / 24
    return m * (math.sinh(z) - z) / (4 * z**3 * math.cosh(z / 2) ** 2)


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("z", [0.0, -1.5, 3.0, 8.0, -40.0])
def test_moments_are_those_of_the_definition(z, m):
    numbers = drawn(z, m=m)
    mean, variance = mean_of(z, m), variance_of(z, m)
    assert (numbers > 0).all()
    assert numbers.mean() == pytest.approx(mean, abs=4 * math.sqrt(variance / COUNT))
    squares = (numbers - mean) ** 2
    assert squares.mean() == pytest.approx(variance, abs=4 * squares.std() / math.sqrt(COUNT))


def test_very_large_arguments_give_numbers():
    for z in (700.0, 1e4, 1e300):
        numbers = drawn(z)
        assert np.isfinite(numbers).all()
        assert (numbers > 0).all()


def votes_for_the_first(rewards: list[float], link: str, m: float, *, seeds: int) -> float:
    """How often (1,) is preferred to (0,): how likely theta > 0 is, of one feature."""
    share = 0.0
    for seed in range(seeds):
        agent = db.Agent(db.policy("PG-TS", dim=1, link=link, m=m), seed=seed)
        for reward in rewards:
            agent.update(agent.decide([[1.0]]), reward)
        decision = agent.decide([[1.0], [0.0]])
        share += decision.propensity if decision.index == 0 else 1 - decision.propensity
    return share / seeds


@pytest.mark.parametrize(
    ("rewards", "link", "m"), [([1.0, 0.0, 1.0], "logistic", 1.0), ([3.0, 2.0], "binomial", 4.0)]
)
def test_few_rewards_give_the_posterior_by_its_definition(rewards, link, m):
    seeds = 400
    theta = np.linspace(-15, 15, 30_001)
    logs = sum(x * theta - m * np.logaddexp(0, theta) for x in rewards) - theta**2 / 2
    expected = special.softmax(logs)[theta > 0].sum()
    found = votes_for_the_first(rewards, link, m, seeds=seeds)
    assert found == pytest.approx(expected, abs=4 * math.sqrt(0.25 / (8 * seeds)))
