"""The pool of memories: against plain NumPy and SciPy, and on worlds it must master."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, optimize, special

import driftbandits as db
from driftbandits.policies.adaptations import pool

MEMORIES = (math.inf, 2000.0, 500.0, 125.0, 30.0)
PRIOR = np.array([[0.95] + [0.05 / 7] * 7, [1 / 8] * 8])
SHARE = (0.001, 0.0002)
TRUST = np.array([0.3, 0.7])
TRUST_SHARE = 0.0001
OPTIMISM = 0.6


def mean(z):
    return special.expit(z)


def slope(z):
    return special.expit(z) * special.expit(-z)


def log_partition(z):
    return np.logaddexp(0.0, z)


class PlainPool:
    """The same pool for 0/1 rewards, as slowly and plainly as it can be said."""

    def __init__(self, d: int, threshold: float, lam: float = 1.0) -> None:
        self.d, self.threshold, self.lam = d, threshold, lam
        self.discounts = np.array([1 - 1 / n for n in MEMORIES])
        self.ridge = None
        self.clock = 0
        self.rows: list[tuple[int, np.ndarray, float]] = []
        self.detections: list[tuple[int, int]] = []

    def begin(self, square: float) -> None:
        if self.ridge is None:
            self.ridge = self.lam * (square or 1.0)
            self.theta = np.zeros((5, self.d))
            self.precision = np.array([np.eye(self.d) * self.ridge] * 5)
            self.weights, self.trust = PRIOR.copy(), TRUST.copy()
            self.lead, self.since = np.zeros(5), np.zeros(5, dtype=int)

    def forecasts(self, five: np.ndarray) -> np.ndarray:
        """Of the five filters, and of the lines through neighbours that forget."""
        lines = [five[j] + (five[j] - five[j - 1]) / 3 for j in (2, 3, 4)]
        return np.concatenate([five, lines])

    def belief(self) -> tuple[np.ndarray, np.ndarray]:
        w = self.trust @ self.weights
        points = self.forecasts(self.theta)
        centre = w @ points
        spread = [np.linalg.inv(p) for p in self.precision]
        spread += [1.5 * spread[j] for j in (2, 3, 4)]
        off = points - centre
        return centre, np.einsum("k,kij->ij", w, spread) + np.einsum("k,ki,kj->ij", w, off, off)

    def scores(self, actions: np.ndarray) -> np.ndarray:
        self.begin(float(np.mean(np.sum(actions**2, axis=1))))
        theta, covariance = self.belief()
        doubt = np.sqrt(np.einsum("ki,ij,kj->k", actions, covariance, actions))
        return mean(actions @ theta + OPTIMISM * doubt)

    def tick(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            self.clock += 1
            for j in range(1, 5):
                g = self.discounts[j]
                self.precision[j] = g * self.precision[j] + (1 - g) * self.ridge * np.eye(self.d)

    def learn(self, j: int, a: np.ndarray, x: float, weight: float) -> None:
        direction = np.linalg.solve(self.precision[j], a)
        t = moved(x, a @ self.theta[j], a @ direction, weight)
        self.theta[j] += t * direction
        self.precision[j] += weight * slope(a @ self.theta[j]) * np.outer(a, a)

    def update(self, a: np.ndarray, x: float, s: int) -> None:
        age = self.clock - s
        z = self.forecasts(self.theta @ a)
        q = np.array([a @ np.linalg.solve(p, a) for p in self.precision])
        q = np.concatenate([q, 1.5 * q[2:]])
        evidence = np.array([evidence_of(x, z[k], q[k]) for k in range(8)])
        for j in range(5):
            self.learn(j, a, x, self.discounts[j] ** age)
        likelihood = np.exp(evidence - evidence.max())
        total = self.weights @ likelihood
        for c in range(2):
            kept = self.weights[c] * likelihood / total[c]
            self.weights[c] = (1 - SHARE[c]) * kept + SHARE[c] * PRIOR[c]
        trust = self.trust * total
        self.trust = (1 - TRUST_SHARE) * trust / trust.sum() + TRUST_SHARE * TRUST
        self.rows.append((s, a, x))
        self.look_for_change(evidence, s)

    def look_for_change(self, evidence: np.ndarray, s: int) -> None:
        for j in range(1, 5):
            self.lead[j] = max(self.lead[j] + evidence[j] - evidence[0], 0.0)
            if self.lead[j] == 0.0:
                self.since[j] = s
        winner = int(np.argmax(self.lead))
        if self.lead[winner] <= self.threshold:
            return
        change = self.since[winner] + 1
        self.detections.append((self.clock, int(change)))
        self.rows = sorted((row for row in self.rows if row[0] >= change), key=lambda row: row[0])
        for j in range(winner + 1):
            self.theta[j] = 0.0
            self.precision[j] = np.eye(self.d) * self.ridge
            for when, a, x in self.rows:
                self.learn(j, a, x, self.discounts[j] ** (self.clock - when))
        self.lead[:] = 0.0
        self.since[:] = self.clock


def moved(x: float, z: float, q: float, weight: float) -> float:
    surprise = weight * (x - mean(z))
    if surprise == 0.0:
        return 0.0
    low, high = sorted((0.0, surprise))
    root = optimize.brentq(
        lambda t: t - weight * (x - mean(z + q * t)), low, high, xtol=1e-15, rtol=1e-14
    )
    return float(root)


def evidence_of(x: float, z: float, q: float) -> float:
    t = moved(x, z, q, 1.0)
    mode = z + q * t
    return float(x * mode - log_partition(mode) - q * t * t / 2 - math.log1p(q * slope(mode)) / 2)


def jumping_world(rounds: int, seed: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Action sets, a number for each round that settles its reward, and a path with one jump."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1.5, 1.5, size=(rounds, 4, 2))
    theta = np.where(np.arange(rounds)[:, None] < rounds // 2, [2.0, 0.5], [-2.0, 0.5])
    return actions, rng.random(rounds), theta


@pytest.mark.parametrize("delay", [0, 7])
def test_a_run_is_the_plain_one(delay):
    rounds = 160
    actions, levels, theta = jumping_world(rounds)
    agent = db.Agent(db.policy("pool", dim=2, false_alarm_rate=math.exp(-3.0)))
    plain = PlainPool(2, threshold=3.0)
    waiting = []
    for t in range(rounds):
        expected = plain.scores(actions[t])
        choice = agent.decide(actions[t])
        np.testing.assert_allclose(choice.scores, expected, rtol=1e-8)
        plain.tick()
        a = actions[t, choice.index]
        waiting.append((choice, a, float(levels[t] < mean(a @ theta[t])), plain.clock))
        while len(waiting) > delay:
            decision, a, x, s = waiting.pop(0)
            if agent.update(decision, x) == "learned":
                plain.update(a, x, s)
    assert len(plain.detections) >= 1
    assert [(d.round, d.change) for d in agent.detections] == plain.detections


def test_time_passes_in_the_plain_one_too():
    agent, plain = db.Agent(db.policy("mixture", dim=2)), PlainPool(2, threshold=math.inf)
    actions = np.array([[1.0, 0.5], [-0.3, 2.0]])
    plain.scores(actions)
    choice = agent.decide(actions)
    plain.tick()
    agent.update(choice, 1.0)
    plain.update(actions[choice.index], 1.0, 1)
    agent.tick(40)
    plain.tick(40)
    np.testing.assert_allclose(agent.decide(actions).scores, plain.scores(actions), rtol=1e-10)


@pytest.mark.parametrize("x", [0.0, 1.0, 0.3])
@pytest.mark.parametrize("z", [-3.0, 0.0, 1.5])
@pytest.mark.parametrize("q", [1e-4, 0.05, 0.6])
def test_evidence_is_nearly_the_integral(x, z, q):
    """Laplace's method against quadrature: the error falls with the doubt."""

    def integrand(u):
        likelihood = math.exp(x * u - log_partition(u))
        return likelihood * math.exp(-((u - z) ** 2) / (2 * q)) / math.sqrt(2 * math.pi * q)

    spread = 12 * math.sqrt(q)
    exact, _ = integrate.quad(integrand, z - spread, z + spread, epsabs=0, epsrel=1e-11)
    assert evidence_of(x, z, q) == pytest.approx(math.log(exact), abs=0.02 * q**1.5 + 1e-9)


def test_the_filter_that_keeps_everything_is_close_to_the_exact_fit():
    """One mode after the other is not the mode of all, but near it when rewards are many."""
    actions, levels, theta = jumping_world(600)
    theta[:] = theta[0]
    agent = db.Agent(db.policy("mixture", dim=2))
    exact = db.Agent(db.policy("greedy", dim=2, S=50.0, L=5.0, lam=1.5))
    rng = np.random.default_rng(0)
    for t in range(600):
        a = actions[t, rng.integers(4)]
        x = float(levels[t] < mean(a @ theta[t]))
        agent.learn([a], [x])
        exact.learn([a], [x])
    held = pool.LAYOUT.in_python(agent._learner.buffers).theta[0]
    np.testing.assert_allclose(held, exact.theta_hat, atol=0.12)
    np.testing.assert_allclose(held, theta[0], atol=0.6)


@pytest.mark.compiled  # thousands of rounds
@pytest.mark.parametrize(("link", "m"), [("binomial", 5.0), ("poisson", 50.0), ("identity", 3.0)])
def test_dispersion_is_learned(link, m):
    """Rewards that vary more or less than their model says are weighed as they vary."""
    rng = np.random.default_rng(5)
    agent = db.Agent(db.policy("pool", dim=1, link=link, m=m))
    for _ in range(3000):
        noise = {"binomial": rng.choice([1.5, 3.5]), "poisson": 2.0 + 0 * rng.random()}.get(
            link, 1.0 + rng.choice([-0.1, 0.1])
        )
        agent.learn([[1.0]], [noise])
    link_used, held = agent.policy.link, pool.LAYOUT.in_python(agent._learner.buffers)
    phi = pool.dispersion(link_used.code, link_used.m, held.spread[0], held.expected_spread[0])
    # the prior of 20 rewards still counts beside the last 1000
    identity = (20 * 1.5**2 + 950 * 0.1**2) / 970
    expected = {"binomial": 1.0 / (5 * 0.25), "poisson": 0.02, "identity": identity}[link]
    assert phi == pytest.approx(expected, rel=0.15)


def test_it_needs_only_the_dimension():
    """Long actions and a long parameter, none of them announced."""
    rng = np.random.default_rng(2)
    agent = db.Agent(db.policy("pool", dim=3))
    theta = np.array([5.0, -3.0, 1.0]) / 100
    regret = []
    for _ in range(600):
        actions = rng.normal(size=(5, 3)) * 100
        choice = agent.decide(actions)
        p = mean(actions @ theta)
        regret.append(p.max() - p[choice.index])
        agent.update(choice, float(rng.random() < p[choice.index]))
    assert np.mean(regret[300:]) < 0.02


@pytest.mark.compiled  # thousands of rounds
def test_a_change_is_found_and_reported():
    result = db.simulate(
        {"pool": db.policy("pool", dim=2)},
        db.environment("abrupt2d"),
        runs=4,
        seed=77,
        record=("regret", "detections"),
    )
    found = [d.round for run in result.detections["pool"] for d in run]
    assert 10 <= len(found) <= 16
    for change in (1001, 2001, 3001):
        assert sum(change <= t <= change + 300 for t in found) >= 3
    assert result.regret["pool"][:, -1].mean() < 110


@pytest.mark.compiled  # thousands of rounds
def test_nothing_is_found_where_nothing_changes():
    result = db.simulate(
        {"pool": db.policy("pool", dim=2)},
        db.environment("stationary", horizon=5000),
        runs=4,
        seed=78,
        record=("regret", "detections"),
    )
    assert sum(map(len, result.detections["pool"])) == 0
    assert result.regret["pool"][:, -1].mean() < 20
