"""Policies for fixed arms, one-hot actions, against counts and sums written out."""

import math

import numpy as np
import pytest

import driftbandits as db
from driftbandits.core import theory
from reference import divergence

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


@pytest.mark.parametrize("largest", [1.0, 3.0])
def test_rexp3_draws_by_the_weights_of_the_source(largest):
    batch, K = 120, ARMS
    agent = db.Agent(db.policy("REXP3", dim=K, window=batch, m=largest), seed=1)
    gamma = math.sqrt(K * math.log(K) / ((math.e - 1) * batch))
    rng = np.random.default_rng(0)
    for t in range(300):
        if t % batch == 0:
            weights, rewards = np.ones(K), [[] for _ in range(K)]
        chances = (1 - gamma) * weights / weights.sum() + gamma / K
        choice = agent.decide(np.eye(K))
        assert choice.propensity == pytest.approx(chances[choice.index], rel=1e-12)
        means = [np.sum(x) / (len(x) + 1e-3) for x in rewards]
        np.testing.assert_allclose(choice.means, means, rtol=1e-9)
        x = largest * float(rng.random() < RATES[choice.index])
        weights[choice.index] *= math.exp(gamma / K * x / largest / chances[choice.index])
        rewards[choice.index].append(x)
        agent.update(choice, x)


def test_actions_of_one_arm_share_its_chance():
    agent = db.Agent(db.policy("REXP3", dim=3, window=500, epsilon=0.3), seed=0)
    for _ in range(150):
        choice = agent.decide(np.eye(3))
        agent.update(choice, float(choice.index == 2))
    often = np.eye(3)[[2, 0, 2, 1]]
    seen = {}
    for seed in range(400):
        choice = agent.preview(often, seed=seed)
        seen.setdefault(choice.index, []).append(choice.propensity)
    chances = np.array([seen[i][0] for i in range(4)])
    assert chances.sum() == pytest.approx(1.0, rel=1e-12)
    assert chances[0] == chances[2]
    shares = np.array([len(seen[i]) / 400 for i in range(4)])
    assert np.all(np.abs(shares - chances) < 4 * np.sqrt(chances * (1 - chances) / 400))


def test_the_batch_of_rexp3_by_hand():
    policy = db.policy("REXP3", dim=5, horizon=6000, changes=3)
    assert policy.window == math.ceil((5 * math.log(5)) ** (1 / 3) * 2000 ** (2 / 3))
    assert db.policy("REXP3", dim=5, horizon=6000, path_length=1.5).window == math.ceil(
        (5 * math.log(5)) ** (1 / 3) * 4000 ** (2 / 3)
    )
    assert db.policy("REXP3", dim=5, horizon=6000, changes=0).window == 6000
    assert db.policy("REXP3", dim=1, horizon=60).window == 1


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


# -- tests of single arms, followed by lists of rewards --------------------------------------------


def exceeds_sums(x, horizon):
    """CUSUM with M = 100, eps = .1, h = log T."""
    first, up, down = np.mean(x[:100]), 0.0, 0.0
    for value in x[100:]:
        up = max(0.0, up + value - first - 0.1)
        down = max(0.0, down + first - value - 0.1)
    return max(up, down) > math.log(horizon)


def exceeds_halves(x, horizon):
    """M-UCB with w = 200."""
    if len(x) < 200:
        return False
    threshold = math.sqrt(200 * math.log(2 * 3 * horizon**2) / 2)
    return abs(np.sum(x[-100:]) - np.sum(x[-200:-100])) > threshold


def exceeds_ratio(x, horizon):
    """The likelihood ratio over all splits, which are all tested up to 129 rewards."""
    n, whole = len(x), np.mean(x)
    ratios = [
        s * divergence(np.mean(x[:s]), whole) + (n - s) * divergence(np.mean(x[s:]), whole)
        for s in range(1, n)
    ]
    return max(ratios, default=0.0) > math.log(3 * n**1.5 * math.sqrt(horizon))


DETECTORS = {
    "CUSUM-UCB": (exceeds_sums, 1200, False),
    "M-UCB": (exceeds_halves, 1500, True),
    "GLR-klUCB": (exceeds_ratio, 200, False),
}


@pytest.mark.parametrize("name", DETECTORS)
def test_an_arm_is_forgotten_when_its_test_says_so(name):
    exceeds, rounds, forgets_all = DETECTORS[name]
    horizon = 2000
    agent = db.Agent(db.policy(name, dim=3, horizon=horizon, changes=1), seed=3)
    rng = np.random.default_rng(1)
    seen = {k: [] for k in range(3)}
    fired = []
    for t in range(1, rounds + 1):
        choice = agent.decide(np.eye(3))
        rates = [0.2, 0.95, 0.1] if t <= rounds // 2 else [0.2, 0.02, 0.9]
        reward = float(rng.random() < rates[choice.index])
        agent.update(choice, reward)
        own = seen[choice.index]
        own.append(reward)
        if exceeds(np.array(own), horizon):
            fired.append(t)
            seen.update({k: [] for k in (range(3) if forgets_all else [choice.index])})
        means = [np.sum(seen[k]) / (len(seen[k]) + 1e-3) for k in range(3)]
        np.testing.assert_allclose(agent.theta_hat, means, atol=1e-9)
    assert fired  # the change was there to be found
    assert [detection.round for detection in agent.detections] == fired
    assert agent.policy.scoring.epsilon > 0.0


def test_more_splits_than_are_kept_still_find_a_change():
    agent = db.Agent(db.policy("GLR-klUCB", dim=1, horizon=4000, changes=1), seed=0)
    rng = np.random.default_rng(2)
    for t in range(4000):
        choice = agent.decide([[1.0]])
        agent.update(choice, float(rng.random() < (0.5 if t < 2000 else 0.7)))
    rounds = [detection.round for detection in agent.detections]
    assert len(rounds) == 1
    assert 2000 < rounds[0] < 2400


@pytest.mark.parametrize(
    ("name", "alpha"),
    [
        ("CUSUM-UCB", math.sqrt(2 * math.log(500) / 1000)),
        ("GLR-klUCB", math.sqrt(2 * 3 * math.log(1000) / 1000)),
        (
            "M-UCB",
            math.sqrt(2 * 3 * (2 * math.sqrt(100 * math.log(6e6)) + 3 * math.sqrt(200)) / 2000),
        ),
    ],
)
def test_exploration_is_the_rule_of_the_source_unless_given(name, alpha):
    policy = db.policy(name, dim=3, horizon=1000, changes=2)
    assert policy.scoring.epsilon == pytest.approx(alpha)
    assert db.policy(name, dim=3, horizon=1000, epsilon=0.01).scoring.epsilon == 0.01
    choice = db.Agent(policy, seed=0).decide(np.eye(3))
    assert choice.propensity == pytest.approx((1 - alpha) / 3 + alpha / 3)
