"""Policies for fixed arms, one-hot actions, against counts and sums written out."""

import math

import numpy as np
import pytest

import driftbandits as db
from driftbandits import theory

ARMS = 4
RATES = np.array([0.3, 0.5, 0.45, 0.7])
MEMORY = {"UCB1": {}, "SW-UCB": {"window": 60}, "D-UCB": {"discount": 0.98}}


def weights(name, ages):
    """What a reward of this age counts."""
    if name == "SW-UCB":
        return (ages < 60).astype(float)
    return 0.98**ages if name == "D-UCB" else np.ones(len(ages))


def indices(name, arms, rewards):
    """The index of each arm after these rounds, as the sources have it: no penalty, no prior."""
    counted = weights(name, np.arange(len(arms))[::-1])
    number = np.array([counted[arms == k].sum() for k in range(ARMS)])
    total = np.array([(counted * rewards)[arms == k].sum() for k in range(ARMS)])
    log_n = math.log(number.sum())
    padding = {"UCB1": 2 * log_n, "SW-UCB": 0.6 * log_n, "D-UCB": 4 * 0.5 * log_n}[name]
    return total / number + np.sqrt(padding / number), number


@pytest.mark.parametrize("name", MEMORY)
def test_scores_are_the_indices_of_the_source(name):
    agent = db.Agent(db.policy(name, dim=ARMS, **MEMORY[name]), seed=1)
    rng = np.random.default_rng(0)
    arms, rewards = [], []
    for t in range(300):
        choice = agent.decide(np.eye(ARMS))
        if t >= ARMS:
            expected, number = indices(name, np.array(arms), np.array(rewards))
            often = number > 2
            np.testing.assert_allclose(choice.scores[often], expected[often], rtol=2e-3)
        arms.append(choice.index)
        rewards.append(float(rng.random() < RATES[choice.index]))
        agent.update(choice, rewards[-1])
    assert sorted(arms[:ARMS]) == list(range(ARMS))  # every arm once, before any twice


def test_an_arm_that_left_the_window_is_played_again():
    agent = db.Agent(db.policy("SW-UCB", dim=2, window=10), seed=0)
    played = []
    for _ in range(60):
        choice = agent.decide(np.eye(2))
        agent.update(choice, float(choice.index == 0))
        played.append(choice.index)
    assert all(1 in played[start : start + 11] for start in range(2, 49))


def test_tuning_rules_are_those_of_the_source():
    assert db.policy("SW-UCB", dim=3, horizon=5000, changes=4).window == math.floor(
        2 * math.sqrt(5000 * math.log(5000) / 4)
    )
    discounted = db.policy("D-UCB", dim=3, horizon=5000, changes=4)
    assert discounted.discount == pytest.approx(1 - math.sqrt(4 / 5000) / 4)
    assert theory.fixed_arms_window(horizon=500, changes=0) == 500
    assert theory.fixed_arms_window(horizon=1) == 1
    assert theory.fixed_arms_discount(horizon=500, changes=0) == pytest.approx(1 - 1 / 2000)
    with pytest.raises(ValueError, match=r"SW-UCB needs window=..., or horizon=..."):
        db.policy("SW-UCB", dim=3)


def test_the_radius_of_ucb_glm_by_hand():
    """(sigma/kappa) sqrt(d/2 log(1 + 2t/d) + log(1/delta)), kappa the least slope."""
    policy = db.policy("UCB-GLM", dim=2, S=1.0, L=1.0, delta=0.05)
    kappa = math.exp(-1) / (1 + math.exp(-1)) ** 2
    expected = 0.5 / kappa * math.sqrt(math.log(1 + 2 * 7 / 2) + math.log(20))
    assert theory.radius(policy.confidence, 7.0) == pytest.approx(expected, rel=1e-12)


def test_the_radius_of_logucb_by_hand():
    """2 sqrt(1+2S) k/sqrt(c) gamma_t of Faury et al. (2020), with lam = d log T."""
    policy = db.policy("LogUCB", dim=2, S=1.0, horizon=100, delta=0.05)
    lam = 2 * math.log(100)
    c = math.exp(-1) / (1 + math.exp(-1)) ** 2
    gamma = math.sqrt(lam) * (1 + 0.5) + 2 / math.sqrt(lam) * math.log(
        2**2 / 0.05 * (1 + 0.25 * 7 / (2 * lam)) ** (2 / 2)
    )
    expected = 2 * math.sqrt(3) * 0.25 / math.sqrt(c) * gamma
    assert policy.lam == pytest.approx(lam)
    assert theory.radius(policy.confidence, 7.0) == pytest.approx(expected, rel=1e-12)
