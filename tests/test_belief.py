"""What `auto` believes: against plain NumPy and SciPy, and in whatever units the world comes."""

from __future__ import annotations

import numpy as np
import pytest

import driftbandits as db
from driftbandits.policies.adaptations import belief
from plain_belief import PlainAmounts, PlainBelief
from test_pool import jumping_world, mean


@pytest.mark.parametrize("reward", ["click", "amount"])
@pytest.mark.parametrize("delay", [0, 7])
def test_a_run_is_the_plain_one(delay, reward):
    rounds = 160
    actions, levels, theta = jumping_world(rounds)
    agent = db.Agent(db.policy("auto", dim=2, false_alarm_rate=0.01, reward=reward))
    make = PlainBelief if reward == "click" else PlainAmounts
    plain = make(2, threshold=belief.numbers_for(agent.policy).threshold)
    waiting = []
    for t in range(rounds):
        expected = plain.scores(actions[t])
        choice = agent.decide(actions[t])
        np.testing.assert_allclose(
            choice.scores, expected, rtol=1e-5
        )  # P is that of one step before
        plain.tick()
        if t % 40 == 11:
            agent.tick(3)
            plain.tick(3)
        a = actions[t, choice.index]
        z = a @ theta[t]
        x = float(levels[t] < mean(z)) if reward == "click" else float(40 + z + levels[t])
        waiting.append((choice, a, x, choice.round))
        while len(waiting) > delay:
            decision, a, x, s = waiting.pop(0)
            if agent.update(decision, x) == "learned":
                plain.update(a, x, s)
    assert len(plain.detections) >= 1
    assert [(d.round, d.change) for d in agent.detections] == plain.detections
    np.testing.assert_allclose(agent.theta_hat, plain.theta(), rtol=1e-5, atol=1e-7)


SCALES = np.array([1e3, 1e-3, 1.0])


def choices(agent, actions, levels, theta, *, scales=1.0, shift=0.0):
    """What is chosen in a world that is told in other units."""
    made = []
    for t, offered in enumerate(actions):
        choice = agent.decide(scales * offered + shift)
        z = offered[choice.index] @ theta[t]
        agent.update(choice, agent_reward(agent, levels[t], z))
        made.append(choice.index)
    return made


def agent_reward(agent, level, z):
    link = agent.policy.link
    if link.name == "identity":
        return float(np.clip(0.5 + 0.2 * z + 0.1 * (level - 0.5), 0.0, 1.0))
    if link.name == "poisson":
        return float(np.floor(2 * level * np.exp(0.5 * z)))
    return float(np.floor((link.m + 1) * level * mean(z))) if link.m > 1 else float(level < mean(z))


def three_features(rounds=250, seed=3):
    rng = np.random.default_rng(seed)
    theta = np.where(np.arange(rounds)[:, None] < rounds // 2, [1.5, -1.0, 0.5], [-1.0, 0.5, 1.5])
    return rng.uniform(-1.0, 1.0, (rounds, 5, 3)), rng.random(rounds), theta


@pytest.mark.parametrize("link", ["logistic", "binomial", "poisson", "identity"])
@pytest.mark.parametrize("units", [{"scales": SCALES}, {"shift": np.array([10.0, 0.0, -300.0])}])
def test_units_of_features_change_no_choice(link, units):
    world = three_features()
    m = {"binomial": {"m": 4}, "poisson": {"m": 50}}.get(link, {})
    plain, other = (db.Agent(db.policy("auto", dim=3, link=link, **m)) for _ in range(2))
    same = np.array(choices(plain, *world)) == choices(other, *world, **units)
    assert same.mean() > 0.95  # rounding may turn one, from which on the two learn other things


def test_collinear_features_matter_little():
    """Products of features are believed as actions are offered: other choices at first."""
    actions, levels, theta = three_features(400)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0] * [1.0, 0.03, 0.001]
    plain, other = db.Agent(db.policy("auto", dim=3)), db.Agent(db.policy("auto", dim=3))
    one = np.array(choices(plain, actions, levels, theta))
    two = []
    for t, offered in enumerate(actions):
        choice = other.decide(offered @ turn)
        other.update(choice, agent_reward(other, levels[t], offered[choice.index] @ theta[t]))
        two.append(choice.index)
    assert (one == two)[50:].mean() > 0.8


@pytest.mark.parametrize("dim", [3, 20])
def test_large_models_do_not_care_about_units_either(dim):
    rng = np.random.default_rng(5)
    actions, levels = rng.normal(size=(120, 4, dim)), rng.random(120)
    theta = np.tile(rng.normal(size=dim), (120, 1))
    scales, shift = np.geomspace(1e-3, 1e3, dim), rng.normal(size=dim) * 10
    plain, other = (db.Agent(db.policy("auto", dim=dim)) for _ in range(2))
    one = choices(plain, actions, levels, theta)
    assert one == choices(other, actions, levels, theta, scales=scales, shift=shift * scales)


@pytest.mark.parametrize(("factor", "more"), [(1000.0, 0.0), (1e-3, 0.0), (1.0, 50.0), (-1.0, 0.0)])
def test_units_of_rewards_change_no_choice(factor, more):
    """Of amounts without a range; a cost is an amount that counts the other way."""
    actions, levels, theta = three_features()
    kind = "cost" if factor < 0 else "amount"
    plain, other = db.policy("auto", dim=3, reward="amount"), db.policy("auto", dim=3, reward=kind)
    one, two = db.Agent(plain), db.Agent(other)
    for t, offered in enumerate(actions):
        choice, same = one.decide(offered), two.decide(offered)
        assert choice.index == same.index
        z = float(offered[choice.index] @ theta[t] + levels[t] - 0.5)
        one.update(choice, z)
        two.update(same, factor * z + more)


@pytest.mark.parametrize("first", [100.0, 0.01, 0.0])
def test_a_strange_first_set_is_forgotten(first):
    actions, levels, theta = three_features(400)
    strange = actions.copy()
    strange[0] *= first
    found = []
    for sets in (actions, strange):
        agent = db.Agent(db.policy("auto", dim=3))
        made = choices(agent, sets, levels, theta)
        gains = np.einsum("tkd,td->tk", actions, theta)
        found.append((gains.max(axis=1) - gains[np.arange(400), made])[50:].mean())
    assert found[1] < 1.3 * found[0]


@pytest.mark.parametrize("dim", [2, 20])
def test_what_is_believed_can_be_seen(dim):
    agent, rng = db.Agent(db.policy("auto", dim=dim), seed=1), np.random.default_rng(2)
    assert agent.beliefs == []
    theta = np.zeros(dim)
    theta[0] = 3.0
    while not agent.detections:
        offered = rng.uniform(-1.0, 1.0, (4, dim))
        choice = agent.decide(offered)
        way = 1.0 if agent.clock < 300 else -1.0
        agent.update(choice, float(rng.random() < mean(way * offered[choice.index] @ theta)))
        assert agent.clock < 600
    found = agent.detections[-1]
    assert 280 <= found.change <= found.round
    assert found.threshold < found.statistic <= 1.0
    assert 0.1 < found.size < 1.0  # rates near 0 and 1 have changed places
    beliefs = agent.beliefs
    assert sum(one.probability for one in beliefs) == pytest.approx(1.0)
    assert {one.path for one in beliefs} == {"constant", "wandering"} | (
        {"turning"} if dim < 16 else set()
    )
    again = db.Agent.from_bytes(agent.to_bytes())
    assert (again.beliefs, again.detections) == (beliefs, agent.detections)


def test_fixed_arms_do_not_get_stuck():
    rng = np.random.default_rng(11)
    wrong = 0
    for run in range(12):
        agent, rates = db.Agent(db.policy("auto", dim=4), seed=run), np.array([0.6, 0.5, 0.5, 0.5])
        played = np.zeros(4)
        for t in range(2500):
            choice = agent.decide(np.eye(4))
            agent.update(choice, float(rng.random() < rates[choice.index]))
            played[choice.index] += t >= 2000
        wrong += played.argmax() != 0
    assert wrong <= 2  # of twelve; the pool had four in the mean


def test_arms_that_come_late_know_the_common_segments():
    agent, rng = (
        db.Agent(db.policy("auto", dim=2, arms="separate"), seed=0),
        np.random.default_rng(1),
    )
    rates = {"a": 0.2, "b": 0.5, "c": 0.9}
    for t in range(400):
        arms = ["a", "b"] if t < 150 else ["a", "b", "c"]
        choice = agent.decide(rng.normal(size=2), arms=arms)
        agent.update(choice, float(rng.random() < rates[choice.arm]))
    context = rng.normal(size=2)
    copy = db.Agent.from_bytes(agent.to_bytes())
    one, other = (
        agent.decide(context, arms=["a", "b", "c"]),
        copy.decide(context, arms=["a", "b", "c"]),
    )
    assert one.arm == "c"
    np.testing.assert_array_equal(one.table, other.table)


# -- surprises -----------------------------------------------------------------------------------


def is_sound(agent, choice) -> bool:
    weights = [one.probability for one in agent.beliefs]
    return choice.index >= 0 and np.isfinite(choice.table[:3]).all() and np.isfinite(weights).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_reward_that_nobody_expected_leaves_a_belief(seed):
    agent, rng = (
        db.Agent(db.policy("auto", dim=2, reward="amount"), seed=seed),
        np.random.default_rng(seed),
    )
    for t in range(300):
        choice = agent.decide(np.eye(2))
        assert is_sound(agent, choice)
        surprise = 300.0 if t in (150, 290) else 0.0
        agent.update(choice, choice.index + 0.1 * rng.normal() + surprise)


def test_amounts_that_are_all_the_same_and_then_are_not():
    agent = db.Agent(db.policy("auto", dim=2, reward="amount"))
    for t in range(3000):
        choice = agent.decide(np.eye(2))
        assert choice.index >= 0
        agent.update(choice, 50.0 if t in (20, 2900) else 0.0)
    assert is_sound(agent, choice)


def test_shares_instead_of_clicks_may_change():
    """Rewards between 0 and 1 are less dispersed than clicks, until they change."""
    agent = db.Agent(db.policy("auto", dim=1))
    for t in range(2600):
        agent.update(agent.decide(np.eye(1)), 0.999 if t < 2000 else 0.5)
    assert agent.decide(np.eye(1)).means[0] == pytest.approx(0.5, abs=0.05)
    assert 2000 <= agent.detections[0].change <= 2050


def test_without_a_constant_rewards_count_from_zero():
    agent = db.Agent(db.policy("auto", dim=2, link="identity", m=10.0, intercept=False))
    rng = np.random.default_rng(0)
    for t in range(300):
        offered = rng.uniform(0.2, 1.0, (3, 2)) * (5.0 if t == 0 else 1.0)
        choice = agent.decide(offered)
        agent.update(choice, float(np.clip(offered[choice.index] @ [3.0, 1.0], 0.0, 10.0)))
    np.testing.assert_allclose(agent.theta_hat, [3.0, 1.0], atol=0.2)


@pytest.mark.parametrize("dim", [3, 17])
@pytest.mark.parametrize("awakes", [230, 231, 232, 233, 234, 235, 240])
def test_a_feature_that_appears_has_a_variance_at_once(dim, awakes):
    agent, rng = db.Agent(db.policy("auto", dim=dim)), np.random.default_rng(0)
    for _ in range(awakes):
        offered = rng.uniform(-1.0, 1.0, (4, dim))
        offered[:, 0] = 0.0
        choice = agent.decide(offered)
        agent.update(choice, float(rng.random() < mean(2.0 * offered[choice.index, 1])))
    one = np.zeros((2, dim))
    one[0, 0] = 1.0
    known, new = agent.decide(one).widths[::-1]
    assert new > 1.2 * known


def test_a_feature_that_comes_back_is_believed_in_as_before():
    agent, rng = db.Agent(db.policy("auto", dim=2)), np.random.default_rng(0)
    for t in range(3000):
        offered = rng.uniform(-1.0, 1.0, (4, 2))
        offered[:, 1] *= t < 20
        choice = agent.decide(offered)
        agent.update(choice, float(rng.random() < 0.5))
    agent.decide(rng.uniform(-1.0, 1.0, (4, 2)))
    held = belief.LAYOUT.in_python(agent._learner.buffers)
    assert held.newborn[1, 1] < 100.0
    assert (held.P[: held.segments[0], 1, 1] < 100.0).all()


def test_a_list_is_one_set_of_offers():
    agent, rng = db.Agent(db.policy("auto", dim=2)), np.random.default_rng(0)
    for _ in range(30):
        for choice in agent.decide(rng.normal(size=(5, 2)), n=3):
            agent.update(choice, 1.0)
    held = belief.LAYOUT.in_python(agent._learner.buffers)
    assert held.sets[0] == 30
    agent.learn(rng.normal(size=(4, 2)), np.ones(4))
    assert held.sets[0] == 34


@pytest.mark.parametrize("dim", [2, 5, 20])
@pytest.mark.parametrize("length", [30.0, 300.0])
def test_counts_of_very_long_actions_leave_a_belief(dim, length):
    """A feature that grows a hundredfold, and means that are exponentials of it."""
    for seed in range(4):
        agent, rng = (
            db.Agent(db.policy("auto", dim=dim, reward="count:1000"), seed=seed),
            np.random.default_rng(seed),
        )
        theta = 0.35 * rng.normal(size=dim)
        for t in range(250):
            offered = rng.normal(size=(4, dim))
            if 100 <= t < 110 or t % 37 == 5:
                offered[rng.integers(4)] *= length
            choice = agent.decide(offered)
            assert is_sound(agent, choice)
            rate = np.exp(min(offered[choice.index] @ theta, 6.5))
            agent.update(choice, float(min(rng.poisson(rate), 1000)))
        held = belief.LAYOUT.in_python(agent._learner.buffers)
        for P in [*held.P[: held.segments[0]], *held.place_P[: 2 if dim > 15 else 6]]:
            assert np.linalg.eigvalsh(P).min() > 0.0


def test_two_arms_do_not_stand_for_one_another():
    """That one arm is good does not say that the other is bad, although their mean is guessed."""
    agent = db.Agent(db.policy("auto", dim=2), seed=0)
    for t in range(26):
        agent.learn(np.eye(2), np.array([float(t % 20 < 13), float(t % 2)]))
    for t in range(1000):
        agent.learn(np.eye(2)[:1], np.array([float(t % 20 < 13)]))
    choice = agent.decide(np.eye(2))
    assert choice.means[1] > 0.43  # .41 if the two were believed to have a mean of .5
    assert choice.scores[1] > 0.6


def test_what_is_forgotten_is_forgotten_for_all_arms():
    agent, rng = db.Agent(db.policy("auto", dim=1, arms="separate")), np.random.default_rng(0)
    first = agent.decide([1.0], arms=["a", "b"])
    for t in range(900):
        choice = agent.decide([1.0], arms=["a"])
        agent.update(choice, float(rng.random() < (0.95 if t < 450 else 0.05)))
    agent.decide([1.0], arms=["b", "a"])
    assert agent.update(first, 1.0) == "late"
