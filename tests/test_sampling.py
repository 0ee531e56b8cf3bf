"""The randomised policies against their laws, each sampled plainly, and propensities against both.

A law is compared through the choices it leads to among directions all round the circle. Thousands
of seeds decide from one and the same state.
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
from driftbandits.estimator.state import copy_of
from driftbandits.jit import handle_of
from driftbandits.policies.scoring import TABLE_ROWS
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


class Law:
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
def test_choices_follow_the_law_of_the_sampler(name):
    ours, plain = counts_of(decisions(name, SEEDS)[0]), counts_of(Law(name).choices(SEEDS))
    both = ours + plain
    seen = both > 0
    assert seen.sum() >= 3
    statistic = ((ours - plain)[seen] ** 2 / both[seen]).sum()
    assert statistic < stats.chi2.ppf(0.999, seen.sum() - 1)


@pytest.mark.parametrize("name", kinds.those(kinds.samples_parameters))
def test_propensities_are_shares_of_independent_votes(name):
    """With M votes of law q the chosen share is sum q^2 + (1 - sum q^2)/M on average."""
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
    scores = Law("D-RandLinUCB").oracle.score(ROUNDS, history(), ACTIONS)
    levels = (np.arange(400_000) + 0.5) / 400_000
    scales = stats.norm.ppf(0.5 + levels / 2)
    winners = (scores.means[:, None] + scales * scores.widths[:, None]).argmax(axis=0)
    exact = counts_of(winners) / len(levels)
    assert (exact > 0).sum() >= 3
    np.testing.assert_allclose(propensities, exact[choices], atol=1e-5)
    error = 4 * np.sqrt(exact * (1 - exact) / SEEDS)
    assert (np.abs(counts_of(choices) / SEEDS - exact) <= error + 1e-12).all()


def test_exploring_mixes_with_the_law():
    epsilon = 0.4
    plain = decisions("D-RandLinUCB", 4000)  # enough to meet every action that may be chosen
    mixed = decisions("D-RandLinUCB", 400, epsilon=epsilon)
    known = dict(zip(*plain, strict=True))
    for choice, propensity in zip(*mixed, strict=True):
        expected = (1 - epsilon) * known.get(choice, 0.0) + epsilon / len(ACTIONS)
        assert propensity == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", kinds.those(SAMPLERS))
def test_without_a_bonus_the_best_mean_is_certain(name):
    law = Law(name)
    choices, propensities = decisions(name, 20, bonus_scale=0.0)
    assert (choices == (ACTIONS @ law.theta_hat).argmax()).all()
    assert (propensities == 1).all()


@pytest.mark.parametrize("name", kinds.those(SAMPLERS))
def test_regret_is_sane(name):
    """A tenth of the theory's scale learns: on average far better than choosing blindly."""
    tuned = {"dim": 2, "horizon": 1500, "changes": 3, **centred(name)}
    players = {
        "it": db.policy(name, **tuned, bonus_scale=0.1),
        "random": db.policy("random", dim=2),
    }
    result = db.simulate(players, db.environment("abrupt2d", horizon=1500), runs=3, seed=1)
    assert result.regret["it"][:, -1].mean() < 0.75 * result.regret["random"][:, -1].mean()
