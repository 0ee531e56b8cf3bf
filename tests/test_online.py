"""GLOC against its source written out: online Newton steps, a regression on what they predict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, special

import driftbandits as db
from driftbandits.core.estimator.state import TAIL

LINKS = {
    "logistic": {"link": "logistic"},
    "binomial": {"link": "binomial", "m": 3.0},
    "poisson": {"link": "poisson", "m": 8.0},
    "identity": {"link": "identity"},
}


class Plain:
    """Everything by NumPy, from the sums."""

    def __init__(self, policy: db.Policy) -> None:
        self.link, self.m, self.S, self.lam = policy.link.name, policy.link.m, policy.S, policy.lam
        self.delta, self.scale = policy.delta, policy.bonus_scale
        d = policy.model_dim
        self.V, self.theta = self.lam * np.eye(d), np.zeros(d)
        self.predicted, self.rows, self.losses = [], [], 0.0
        reach = policy.model_L * self.S
        slope = {"identity": 1.0, "poisson": math.exp(-reach)}
        self.kappa = slope.get(self.link, self.m * special.expit(reach) * special.expit(-reach))
        self.k = {"identity": 1.0, "poisson": math.exp(reach)}.get(self.link, self.m / 4)

    def mean(self, z):
        if self.link == "identity":
            return z
        return np.exp(z) if self.link == "poisson" else self.m * special.expit(z)

    def learn(self, a: np.ndarray, x: float) -> None:
        z = a @ self.theta
        g = self.mean(z) - x
        self.V = self.V + np.outer(a, a)
        self.losses += g**2 * (a @ np.linalg.solve(self.V, a)) / (2 * self.kappa)
        self.predicted.append(z)
        self.rows.append(a)
        self.theta = self.in_ball(self.theta - g / self.kappa * np.linalg.solve(self.V, a))

    def in_ball(self, theta: np.ndarray) -> np.ndarray:
        """The nearest point of the ball in the norm of V."""
        if np.linalg.norm(theta) <= self.S:
            return theta
        values, Q = np.linalg.eigh(self.V)
        along = values * (Q.T @ theta)
        nu = optimize.brentq(
            lambda nu: np.linalg.norm(along / (values + nu)) - self.S, 0.0, 1e6, xtol=1e-13
        )
        return Q @ (along / (values + nu))

    def centre(self) -> np.ndarray:
        return np.linalg.solve(self.V, self.products())

    def products(self) -> np.ndarray:
        return sum((z * a for z, a in zip(self.predicted, self.rows, strict=True)), 0 * self.theta)

    def radius(self) -> float:
        kappa, R = self.kappa, self.m / 2
        B = self.losses + 2 * kappa * self.S**2 * self.lam
        root = math.sqrt(1 + 2 * B / kappa + 4 * R**4 / (kappa**4 * self.delta**2))
        beta = 1 + 4 / kappa * B + 8 * R**2 / kappa**2 * math.log(2 / self.delta * root)
        left = np.square(self.predicted).sum() - self.centre() @ self.products()
        return self.scale * math.sqrt(beta + self.lam * self.S**2 - left)


def play(policy: db.Policy, rounds: int, follow=None):
    """An agent and the plain one beside it; `follow` sees both after every decision."""
    agent, rng = db.Agent(policy, seed=2), np.random.default_rng(policy.dim)
    truth = rng.normal(size=policy.dim)
    truth *= 0.9 * policy.S / np.linalg.norm(truth)
    plain = Plain(policy)
    for _ in range(rounds):
        actions = rng.normal(size=(4, policy.dim))
        actions *= policy.L / np.linalg.norm(actions, axis=1, keepdims=True)
        choice = agent.decide(actions)
        if follow is not None:
            follow(plain, agent, choice, actions)
        expected = plain.mean(actions[choice.index] @ truth)
        if policy.link.name == "poisson":
            x = float(min(rng.poisson(expected), policy.link.m))
        elif policy.link.name == "identity":
            x = float(np.clip(expected + 0.3 * rng.normal(), 0.0, 1.0))
        else:
            x = float(rng.binomial(int(policy.link.m), expected / policy.link.m))
        agent.update(choice, x)
        plain.learn(actions[choice.index], x)
    return agent, plain, truth


@pytest.mark.parametrize(
    ("d", "rounds", "link"),
    [(1, 60, "logistic"), *((3, 250, link) for link in LINKS), (20, 250, "binomial")],
)
def test_a_run_is_that_of_the_source(d, rounds, link):
    given = {"S": 1.5, "L": 1.2, "lam": 2.0, "delta": 0.05, "bonus_scale": 0.2, **LINKS[link]}

    def same(plain, agent, choice, actions):
        centre, radius = plain.centre(), plain.k * plain.radius()
        size = 1e-9 * (1e-3 + np.linalg.norm(centre))
        np.testing.assert_allclose(agent.theta_hat, centre, rtol=0, atol=size)
        assert agent.explain(choice).radius == pytest.approx(radius, rel=1e-9)
        solved = np.linalg.solve(plain.V, actions.T).T
        norms = np.sqrt(np.einsum("ij,ij->i", actions, solved))
        np.testing.assert_allclose(choice.widths, radius * norms, rtol=1e-9)
        np.testing.assert_allclose(choice.means, plain.mean(actions @ centre), rtol=1e-9, atol=1e-9)

    play(db.policy("GLOC", dim=d, **given), rounds, same)


def test_the_projection_is_met_on_the_way():
    met = []

    def look(plain, agent, choice, actions):
        met.append(math.isclose(np.linalg.norm(plain.theta), 0.3))

    play(db.policy("GLOC", dim=3, S=0.3), 100, look)
    assert any(met)


@pytest.mark.parametrize("dim", [3, 20])
def test_no_row_is_kept(dim):
    agent, _, _ = play(db.policy("GLOC", dim=dim), 20)
    before = [array.nbytes for array in agent._learner._model.buffers]
    longer, _, _ = play(db.policy("GLOC", dim=dim), 400)
    assert [array.nbytes for array in longer._learner._model.buffers] == before
    assert longer._learner._model.buffers.counters[TAIL] == 0


def test_the_truth_lies_in_the_confidence_set():
    outside = []
    for seed in range(20):
        policy = db.policy("GLOC", dim=2, S=1.0 + seed / 40, delta=0.05)
        _, plain, truth = play(policy, 300)
        off = truth - plain.centre()
        outside.append(math.sqrt(off @ plain.V @ off) > plain.radius())
    assert sum(outside) == 0  # the set is wide: 1 in 20 is what is allowed
