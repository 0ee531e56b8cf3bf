"""Policies that learn in one pass, against their sources written out.

GLOC: online Newton steps, and a regression on what they predict. GLB-OMD and DOMD-GLB: each step is
the minimum that its source asks for, as SciPy finds it.
"""

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
    ("d", "rounds", "link", "S"),
    [
        *((3, 250, link, 1.5) for link in LINKS),
        *((1, 60, "logistic", 1.5), (20, 250, "binomial", 1.5), (3, 100, "logistic", 0.3)),
    ],
)
def test_a_run_is_that_of_the_source(d, rounds, link, S):
    given = {"S": S, "L": 1.2, "lam": 2.0, "delta": 0.05, "bonus_scale": 0.2, **LINKS[link]}

    def same(plain, agent, choice, actions):
        centre, radius = plain.centre(), plain.k * plain.radius()
        size = 1e-9 * (1e-3 + np.linalg.norm(centre))
        np.testing.assert_allclose(agent.theta_hat, centre, rtol=0, atol=size)
        assert agent.explain(choice).radius == pytest.approx(radius, rel=1e-9)
        solved = np.linalg.solve(plain.V, actions.T).T
        norms = np.sqrt(np.einsum("ij,ij->i", actions, solved))
        np.testing.assert_allclose(choice.widths, radius * norms, rtol=1e-9)
        np.testing.assert_allclose(choice.means, plain.mean(actions @ centre), rtol=1e-9, atol=1e-9)
        projected.append(math.isclose(np.linalg.norm(plain.theta), plain.S))

    projected = []
    play(db.policy("GLOC", dim=d, **given), rounds, same)
    assert any(projected) or S > 1.0


@pytest.mark.parametrize("dim", [3, 20])
@pytest.mark.parametrize("name", ["GLOC", "GLB-OMD", "DOMD-GLB"])
def test_no_row_is_kept(name, dim):
    policy = db.policy(name, dim=dim, **({"discount": 0.99} if name == "DOMD-GLB" else {}))
    agent, _, _ = play(policy, 20)
    before = [array.nbytes for array in agent._learner.model.buffers]
    longer, _, _ = play(policy, 400)
    assert [array.nbytes for array in longer._learner.model.buffers] == before
    assert longer._learner.model.buffers.counters[TAIL] == 0


# -- online mirror descent -------------------------------------------------------------------------


class Mirror(Plain):
    """Each step by SciPy, from the loss and the metric of its source."""

    def __init__(self, policy: db.Policy) -> None:
        super().__init__(policy)
        self.gamma, self.L, self.d = policy.discount or 1.0, policy.model_L, policy.model_dim
        R = 0.0 if self.link == "identity" else 1.0
        self.v = self.m**2 / 4 if self.link == "identity" else 1.0
        self.eta = 1 + R * self.S * self.L
        self.ridge = self.V  # H at the start
        self.weights = 0.0

    def slope(self, z: float) -> float:
        mu = self.mean(z)
        return {"identity": 1.0, "poisson": mu}.get(self.link, mu * (1 - mu / self.m))

    def tick(self) -> None:
        self.V = self.gamma * self.V + (1 - self.gamma) * self.ridge
        self.weights *= self.gamma

    def learn(self, a: np.ndarray, x: float, age: int = 0) -> None:
        w, old = self.gamma**age / self.v, self.theta
        z = a @ old
        metric = w * self.slope(z) * np.outer(a, a) + self.V / self.eta
        pull = w * (self.mean(z) - x) * a
        found = optimize.minimize(
            lambda theta: pull @ (theta - old) + (theta - old) @ metric @ (theta - old) / 2,
            old,
            jac=lambda theta: pull + metric @ (theta - old),
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda theta: self.S**2 - theta @ theta,
                "jac": lambda theta: -2 * theta,
            },
            options={"ftol": 1e-15, "maxiter": 500},
        )
        self.theta = found.x
        self.V = self.V + w * self.slope(a @ self.theta) * np.outer(a, a)
        self.weights += self.gamma**age

    def centre(self) -> np.ndarray:
        return self.theta

    def radius(self, rounds: float) -> float:
        """`rounds`: the sum of the weights that as many rewards at once would have."""
        slope = self.k * self.L**2 / self.v
        constant = 4 * self.S**2 * self.lam
        if self.gamma < 1.0:
            D = math.log(1 / (1 - self.gamma)) / (1 - self.gamma)
            constant += 4 * self.S**2 * slope * self.gamma**D / (1 - self.gamma)
        log_det = self.d * math.log(1 + slope * rounds / (self.d * self.lam))
        noise = 2 * math.log(1 / self.delta) + (6 * self.eta + 1) * log_det
        return self.scale * self.k * math.sqrt(constant + self.eta * noise)


def mirrored(link: str = "logistic", discount: float | None = None, **given) -> db.Policy:
    name = "GLB-OMD" if discount is None else "DOMD-GLB"
    memory = {} if discount is None else {"discount": discount}
    return db.policy(name, **{"dim": 3, "delta": 0.05, **memory, **LINKS[link], **given})


@pytest.mark.parametrize("discount", [None, 0.9])
@pytest.mark.parametrize(
    ("link", "given"),
    [
        *((link, {"S": 1.5, "L": 1.2, "lam": 2.0, "bonus_scale": 0.2}) for link in LINKS),
        ("logistic", {"S": 0.2, "lam": 0.5}),  # most steps are projected
        ("binomial", {"dim": 20, "lam": 2.0}),
        ("logistic", {"dim": 20, "S": 0.1, "lam": 0.5}),
    ],
)
def test_a_step_is_the_minimum_that_its_source_asks_for(link, given, discount):
    """Delayed rewards, and rounds that only tick, included."""
    policy = mirrored(link, discount, **given)
    agent, plain, rng = db.Agent(policy, seed=2), Mirror(policy), np.random.default_rng(7)
    waiting, clock, projected = [], 0, 0
    for t in range(60):
        actions = rng.normal(size=(4, policy.dim))
        actions *= policy.L / np.linalg.norm(actions, axis=1, keepdims=True)
        choice = agent.decide(actions)
        np.testing.assert_allclose(agent.theta_hat, plain.theta, rtol=0, atol=2e-7)
        np.testing.assert_array_equal(agent.theta, agent.theta_hat)
        gamma = plain.gamma
        rounds = clock if gamma == 1.0 else (1 - gamma**clock) / (1 - gamma)
        radius = plain.radius(rounds)
        assert agent.explain(choice).radius == pytest.approx(radius, rel=1e-12)
        norms = np.sqrt(np.einsum("ij,ij->i", actions, np.linalg.solve(plain.V, actions.T).T))
        best = plain.mean(actions @ plain.theta) + radius * norms
        np.testing.assert_allclose(choice.scores, best, rtol=1e-5)
        clock += 1
        plain.tick()
        waiting.append((clock, choice, actions[choice.index]))
        if t % 5 == 4:
            agent.tick(2)
            clock += 2
            plain.tick()
            plain.tick()
        while waiting and (t % 7 or len(waiting) > 3):
            s, made, a = waiting.pop(0)
            x = float(rng.integers(0, int(policy.link.m) + 1))
            agent.update(made, x)
            plain.learn(a, x, clock - s)
            # SciPy's error must not add up
            np.testing.assert_allclose(agent.theta_hat, plain.theta, rtol=0, atol=2e-7)
            projected += math.isclose(np.linalg.norm(plain.theta), plain.S, rel_tol=1e-7)
    assert projected or given["lam"] > 0.5


def test_the_sources_step_and_penalty():
    policy = db.policy("GLB-OMD", dim=3, S=2.0)
    assert policy.lam == 14 * 3 * 3  # 14 d eta R^2 with eta = 1 + R S
    assert db.policy("GLB-OMD", dim=1, S=8.0, link="binomial", m=4.0).lam == 6 * 9 * 8 * 1
    assert db.policy("GLB-OMD", dim=3, link="identity").lam == 1.0
    known = db.policy("DOMD-GLB", dim=2, horizon=6000, changes=3)
    like = db.policy("SC-D-GLUCB", dim=2, horizon=6000, changes=3)
    assert known.discount == like.discount  # (sqrt(c) Gamma/(dT))^(2/3), from the rate
    drifting = db.policy("DOMD-GLB", dim=2, horizon=6000, path_length=3.0)
    assert drifting.discount == pytest.approx(1 - math.sqrt(3.0 / 12000))


@pytest.mark.parametrize("link", ["logistic", "poisson", "identity"])
@pytest.mark.parametrize("discount", [None, 0.98])
def test_the_truth_lies_in_the_set_of_mirror_descent(link, discount):
    outside = 0
    for seed in range(20):
        policy = mirrored(link, discount, dim=2, S=1.0 + seed / 40)
        agent, rng = db.Agent(policy, seed=seed), np.random.default_rng(seed)
        truth = rng.normal(size=2)
        truth *= 0.4 * policy.S / np.linalg.norm(truth)
        for _ in range(150):
            actions = np.abs(rng.normal(size=(4, 2))) * np.sign(truth)  # means of at least 0
            actions /= np.linalg.norm(actions, axis=1, keepdims=True)
            choice = agent.decide(actions)
            means = policy.link.mean(actions @ truth)
            outside += bool((means > choice.scores + 1e-12).any())
            (x,) = policy.link.draw(rng, actions[[choice.index]] @ truth)
            agent.update(choice, float(x))
    assert outside == 0  # the set is wide: 1 run in 20 is what is allowed
