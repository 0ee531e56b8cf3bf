"""Linear policies in many dimensions: against plain NumPy, and without drift."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import pytest

import driftbandits as db
from driftbandits.core.estimator.state import STALE, named
from policy_checks import CHECKS, Case
from test_simulation import EVERYTHING, assert_same_bits, draw_trace, online, play

LINEAR = {
    "LinUCB": {},
    "SW-LinUCB": {"window": 150},
    "D-LinUCB": {"discount": 0.99},
    "LB-WeightUCB": {"discount": 0.95},
    "D-RandLinUCB": {"discount": 0.999},
}
linear = pytest.mark.parametrize("name", LINEAR)
BESIDE = {**LINEAR, "D-LinTS": {"discount": 0.99}, "dLinUCB": {}, "CD-LinUCB": {}}


@dataclass
class PlainRidge:
    """theta-hat and the squared norms of actions, each round by NumPy's solver from the sums."""

    policy: db.Policy
    clock: int = 0
    rows: list = field(default_factory=list)

    def __post_init__(self) -> None:
        d, lam = self.policy.model_dim, self.policy.lam
        self.V, self.V2, self.b = np.eye(d) * lam, np.eye(d) * lam, np.zeros(d)

    def tick(self, rounds: int = 1) -> None:
        self.clock += rounds
        decay = (self.policy.discount or 1.0) ** rounds
        ridge = self.policy.lam * np.eye(len(self.b))
        self.V = decay * self.V + (1 - decay) * ridge
        self.V2 = decay**2 * self.V2 + (1 - decay**2) * ridge
        self.b *= decay
        self.slide()

    def slide(self) -> None:
        """Sum a window anew."""
        if self.policy.window is not None:
            self.rows = [row for row in self.rows if row[2] > self.clock - self.policy.window]
            self.__post_init__()
            if self.rows:
                A, x = np.array([row[0] for row in self.rows]), [row[1] for row in self.rows]
                self.V += A.T @ A
                self.b += x @ A

    def learn(self, a: np.ndarray, x: float, s: int) -> None:
        weight = (self.policy.discount or 1.0) ** (self.clock - s)
        self.V += weight * np.outer(a, a)
        self.V2 += weight**2 * np.outer(a, a)
        self.b += weight * x * a
        self.rows.append((a, x, s))
        self.slide()

    def theta_hat(self) -> np.ndarray:
        return np.linalg.solve(self.V, self.b)

    def lengths(self, actions: np.ndarray) -> np.ndarray:
        solved = np.linalg.solve(self.V, actions.T).T
        sandwiched = self.policy.scoring.sandwiched
        return np.sqrt(np.sum(solved * (solved @ self.V2 if sandwiched else actions), axis=1))


class Sets:
    """Action sets of K rows, no longer than 1, and the parameter that rewards follow."""

    def __init__(self, d: int, K: int = 5, seed: int = 0) -> None:
        self.rng, self.d, self.K = np.random.default_rng([seed, d]), d, K
        self.theta = self.rng.normal(size=d) / math.sqrt(d)

    def __iter__(self):
        while True:
            points = self.rng.normal(size=(self.K, self.d)) + 0.3
            lengths = self.rng.uniform(0.5, 1.0, size=(self.K, 1))
            yield lengths * points / np.linalg.norm(points, axis=1, keepdims=True)

    def reward(self, a: np.ndarray) -> float:
        return float(self.rng.random() < 1.0 / (1.0 + math.exp(-3.0 * a @ self.theta)))


class NearlyCollinear(Sets):
    def __iter__(self):
        three = self.rng.normal(size=(3, self.d)) / (2 * math.sqrt(self.d))
        while True:
            nearby = 1e-5 * self.rng.normal(size=(self.K, self.d))
            yield three[self.rng.integers(3, size=self.K)] + nearby


class Repeated(Sets):
    def __iter__(self):
        return itertools.repeat(next(super().__iter__()))


class Scaled(Sets):
    def __iter__(self):
        scales = np.geomspace(1e-3, 1e3, self.d) / 2e3
        for actions in super().__iter__():
            yield actions * scales


def follow(policy: db.Policy, sets: Sets, rounds: int, rtol: float = 1e-9) -> None:
    """Hold an agent to the plain one, with rewards that come late and rounds without a decision."""
    agent, plain, waiting = db.Agent(policy, seed=5), PlainRidge(policy), []
    constant = np.ones((sets.K, int(policy.intercept)))
    for t, offered in zip(range(rounds), sets, strict=False):
        choice, actions = agent.decide(offered), np.hstack([offered, constant])
        np.testing.assert_allclose(
            choice.widths, agent.explain(choice).radius * plain.lengths(actions), rtol=rtol
        )
        theta_hat = plain.theta_hat()
        np.testing.assert_allclose(
            agent.theta_hat, theta_hat, rtol=0, atol=rtol * np.linalg.norm(theta_hat)
        )
        plain.tick()
        waiting.append((choice, actions[choice.index], plain.clock))
        if t % 7 == 3:
            agent.tick(2)
            plain.tick(2)
        while t % 3 and waiting:
            decision, a, s = waiting.pop(0)
            x = sets.reward(a[: sets.d])
            if agent.update(decision, x) == "learned":
                plain.learn(a, x, s)


@pytest.mark.parametrize(
    ("d", "rounds", "intercept"), [(16, 400, False), (100, 150, False), (30, 200, True)]
)
@linear
def test_estimates_and_widths_are_the_plain_ones(name, d, rounds, intercept):
    follow(db.policy(name, dim=d, intercept=intercept, **LINEAR[name]), Sets(d), rounds)


@pytest.mark.parametrize("world", [NearlyCollinear, Repeated, Scaled])
@linear
def test_difficult_features_lose_no_digits(name, world):
    follow(db.policy(name, dim=24, **LINEAR[name]), world(24), 800)


@pytest.mark.parametrize("name", BESIDE)
def test_the_ways_for_large_models_decide_as_those_for_small_ones(name):
    given = {"dim": 40, **BESIDE[name]}
    large, small = (db.Agent(db.policy(name, exact=exact, **given)) for exact in (False, True))
    sets = Sets(40, K=23)  # more than a block of actions
    for _, actions in zip(range(300), sets, strict=False):
        choice, expected = large.decide(actions), small.decide(actions)
        assert choice.index == expected.index
        np.testing.assert_allclose(choice.widths, expected.widths, rtol=1e-8)
        x = sets.reward(actions[choice.index])
        large.update(choice, x)
        small.update(expected, x)


def precise_lengths(policy: db.Policy, agent: db.Agent, actions: np.ndarray) -> np.ndarray:
    state = named(agent._learner.model.buffers)
    plain = PlainRidge(policy)
    plain.V, plain.V2 = state.V, state.V2
    return plain.lengths(actions)


@pytest.mark.parametrize("rounds", [8_000, pytest.param(50_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["LinUCB", "SW-LinUCB", "D-LinUCB"])
def test_nothing_drifts_in_many_rounds(name, rounds):
    policy = db.policy(name, dim=20, **LINEAR[name])
    agent, sets = db.Agent(policy), Sets(20)
    for t, actions in zip(range(rounds), sets, strict=False):
        lengths = precise_lengths(policy, agent, actions) if t % 997 == 0 else None
        choice = agent.decide(actions)
        if lengths is not None:
            np.testing.assert_allclose(
                choice.widths, agent.explain(choice).radius * lengths, rtol=1e-10
            )
        agent.update(choice, sets.reward(actions[choice.index]))


@linear
def test_the_policy_checks_hold_in_many_dimensions(name, tmp_path):
    for check in CHECKS:
        check(Case(name, {"dim": 18, **LINEAR[name]}, "large"), tmp_path)


IN_HALF_A_MINUTE = ("D-RandLinUCB", "auto")  # their loops take as long to compile


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in LINEAR if name not in IN_HALF_A_MINUTE),
        *(pytest.param(name, marks=pytest.mark.slow) for name in IN_HALF_A_MINUTE),
    ],
)
def test_simulation_has_the_bits_of_the_loop_over_an_agent(name):
    trace = draw_trace(db.environment("abrupt", dim=20, horizon=120, changes=1), 1, 0)
    policy = db.policy(name, dim=20, **LINEAR.get(name, {}))
    assert_same_bits(play(policy, trace, 5, EVERYTHING), online(policy, trace, seed=5))


def test_an_inverse_that_went_wrong_is_found_and_made_anew():
    agent, sets = db.Agent(db.policy("LinUCB", dim=20)), Sets(20)
    policy = agent.policy
    for _, actions in zip(range(56), sets, strict=False):  # the next row is a check
        agent.update(agent.decide(actions), 1.0)
    state = named(agent._learner.model.buffers)
    state.P[:] *= 1.0 + 1e-8
    agent.update(agent.decide(actions), 1.0)
    assert state.notes[STALE]
    lengths = precise_lengths(policy, agent, actions)
    choice = agent.decide(actions)
    np.testing.assert_allclose(choice.widths, agent.explain(choice).radius * lengths, rtol=1e-12)
