"""`auto` against plain NumPy and SciPy, and in other units."""

from __future__ import annotations

import numpy as np
import pytest

import driftbandits as db
from driftbandits.policies import auto as belief
from plain_belief import PlainAmounts, PlainBelief, mean

LIMITED = pytest.mark.filterwarnings("ignore::UserWarning")  # that a number was


def jumping_world(rounds: int, seed: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Action sets, a number for each round that settles its reward, and a path with one jump."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1.5, 1.5, size=(rounds, 4, 2))
    theta = np.where(np.arange(rounds)[:, None] < rounds // 2, [2.0, 0.5], [-2.0, 0.5])
    return actions, rng.random(rounds), theta


def strange_world(rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every column has something that real tables have, and that a model must not stumble over."""
    actions, levels, theta = jumping_world(rounds)
    rng = np.random.default_rng(8)
    actions = np.concatenate([actions, rng.uniform(-1.0, 1.0, (rounds, 4, 4))], axis=2)
    actions[:, :, 1] += 1000.0
    actions[0, :, 1] = -99.0  # not available, or so
    actions[::13, 2, 1] = 1e9
    actions[:30, :, 2] = 7.0  # before somebody began to write it down
    actions[70:, :, 3] *= 1e6  # metres, and then micrometres
    actions[:, :, 4] = rng.random((rounds, 4)) < 0.05
    actions[:, :, 5] = 3.0
    theta = np.column_stack([theta, np.tile([0.5, 0.01, 1.0, 5.0], (rounds, 1))])
    return actions, levels, theta


def useful(actions: np.ndarray) -> np.ndarray:
    """Of actions in a strange world, what moves rewards."""
    return np.clip(actions - ([0.0, 1000.0, 7.0, 0.0, 0.0, 3.0][: actions.shape[-1]]), -2.0, 2.0)


@pytest.mark.parametrize(
    ("make_world", "delay", "reward"),
    [
        (jumping_world, 0, "click"),
        (jumping_world, 7, "amount"),
        (strange_world, 7, "click"),
        (strange_world, 0, "amount"),
    ],
)
@LIMITED
def test_a_run_is_the_plain_one(make_world, delay, reward):
    rounds = 160
    actions, levels, theta = make_world(rounds)
    dim = actions.shape[2]
    agent = db.Agent(db.policy("auto", dim=dim, false_alarm_rate=0.01, reward=reward))
    make = PlainBelief if reward == "click" else PlainAmounts
    plain = make(dim, threshold=belief.numbers_for(agent.policy).threshold)
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
        z = (a if make_world is jumping_world else useful(a)) @ theta[t]
        x = float(levels[t] < mean(z)) if reward == "click" else float(40 + z + levels[t])
        if make_world is strange_world and reward == "amount" and t % 50 == 20:
            x = 1e5  # somebody has typed it
        waiting.append((choice, a, x, choice.round))
        while len(waiting) > delay:
            decision, a, x, s = waiting.pop(0)
            if agent.update(decision, x) == "learned":
                plain.update(a, x, s)
    assert len(plain.detections) >= 1
    assert [(d.round, d.change) for d in agent.detections] == plain.detections
    np.testing.assert_allclose(agent.theta_hat, plain.told(), rtol=1e-5, atol=1e-7)


@LIMITED
def test_an_absurd_amount_before_there_are_limits_is_weighed_as_by_the_plain_one():
    rng = np.random.default_rng(0)
    agent = db.Agent(db.policy("auto", dim=2, reward="amount"))
    plain = PlainAmounts(2, threshold=belief.numbers_for(agent.policy).threshold)
    for t in range(60):
        offered = rng.uniform(-1.0, 1.0, (4, 2))
        expected = plain.scores(offered)
        choice = agent.decide(offered)
        np.testing.assert_allclose(choice.scores, expected, rtol=1e-5)
        plain.tick()
        a = offered[choice.index]
        x = float(a @ [1.0, -1.0] + 0.1 * rng.normal()) + (1e5 if t == 1 else 0.0)
        agent.update(choice, x)
        plain.update(a, x, choice.round)


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


LINKS = {"logistic": {}, "binomial": {"m": 4}, "poisson": {"m": 50}, "identity": {}}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("dim", [3, 20])
def test_powers_of_two_change_no_digit(link, dim):
    """What is counted from a reference, and relative to a size, is the same number then."""
    rng = np.random.default_rng(5)
    actions = np.round(rng.uniform(-1.0, 1.0, (60, 4, dim)) * 2**20) / 2**20
    scales, shift = 2.0 ** (np.arange(dim) % 21 - 10), rng.integers(-99, 99, dim)
    plain, other = (
        db.Agent(db.policy("auto", dim=dim, link=link, **LINKS[link])) for _ in range(2)
    )
    for t, offered in enumerate(actions):
        choice, same = plain.decide(offered), other.decide(scales * (offered + shift))
        np.testing.assert_array_equal(choice.table, same.table)
        reward = agent_reward(plain, rng.random(), 2.0 * offered[choice.index, t // 30])
        plain.update(choice, reward)
        other.update(same, reward)


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
    assert 0.1 < found.size < 1.0  # rates near 0 and 1 have changed drift_means
    beliefs = agent.beliefs
    assert sum(one.probability for one in beliefs) == pytest.approx(1.0)
    assert {one.path for one in beliefs} == {"constant", "wandering"} | (
        {"turning"} if dim < 16 else set()
    )
    again = db.Agent.from_bytes(agent.to_bytes())
    assert (again.beliefs, again.detections) == (beliefs, agent.detections)


# -- columns -------------------------------------------------------------------------------------


def shown(column, *, dim=2, reward=None):
    """An agent that has been shown numbers in column 0, (T,), beside others; and its belief."""
    agent, rng = db.Agent(db.policy("auto", dim=dim)), np.random.default_rng(4)
    for x in column:
        offered = rng.uniform(-1.0, 1.0, (3, dim))
        offered[:, 0] = x
        choice = agent.decide(offered)
        assert is_sound(agent, choice)
        if reward is not None:
            agent.update(choice, reward(offered[choice.index]))
    return agent, belief.LAYOUT.in_python(agent._learner.model.buffers)


@pytest.mark.parametrize("dim", [2, 20])
@pytest.mark.parametrize("level", [0.0, 1e6])
def test_a_column_may_be_constant_and_then_move(dim, level):
    rng = np.random.default_rng(0)
    quiet = np.full(40, level)
    _, held = shown(quiet, dim=dim, reward=lambda a: float(rng.random() < 0.5))
    assert (held.moved[0], held.prior_P[0, 0], held.P[: held.segments[0], 0].any()) == (0, 0, False)
    moving = np.append(quiet, level + rng.normal(size=60))
    agent, held = shown(moving, dim=dim, reward=lambda a: float(a[0] > level))
    assert held.moved[0] == 60
    assert 0.3 < held.scale[0] < 4.0
    means = agent.decide(np.column_stack([level + np.array([-1.0, 1.0]), np.zeros((2, dim - 1))]))
    assert means.means[0] + 0.3 < means.means[1]


@LIMITED
@pytest.mark.parametrize("dim", [2, 20])
@pytest.mark.parametrize("absurd", [-99.0, 1e12])
def test_an_absurd_first_value_is_no_reference_for_long(dim, absurd):
    rng = np.random.default_rng(0)
    usual = 5.0 + 0.1 * rng.random(30)
    _, held = shown([absurd, *usual[:2]], dim=dim)
    assert usual.min() <= held.reference[0] <= usual.max()
    _, held = shown([absurd, *usual], dim=dim, reward=lambda a: float(rng.random() < 0.5))
    assert held.scale[0] <= 0.1
    assert held.low[0] > 0.0
    assert held.prior_P[0, 0] < 1e4  # a slope of some 1 / .03, and not of 1e-12


@LIMITED
@pytest.mark.parametrize("dim", [2, 20])
def test_a_number_beyond_the_limits_is_limited_and_counted(dim):
    rng = np.random.default_rng(0)
    usual = rng.normal(size=50)
    agent, held = shown(usual, dim=dim, reward=lambda a: float(rng.random() < 0.5))
    assert not held.limits[0]
    rows = np.zeros((3, dim))
    rows[:, 0] = [0.0, 1e8, 1e9]
    choice = agent.decide(rows)
    assert (held.limits[0], held.limited[0], held.last_limited[0]) == (2, 2.0, 1e9)
    assert not held.limited[1:].any()
    np.testing.assert_array_equal(choice.table[:, 1], choice.table[:, 2])


@LIMITED
def test_a_number_that_comes_again_and_again_is_ordinary():
    rng = np.random.default_rng(0)
    some = np.where(np.arange(200) % 4 == 0, 1e4, rng.normal(size=200))
    _, held = shown(some, reward=lambda a: float(rng.random() < 0.5))
    assert held.low[0] < 1e4 < held.high[0]
    counted = held.limited[0]
    assert 0 < counted < 40
    _, held = shown(np.append(some, np.full(20, 1e4)))
    assert held.limited[0] <= counted


@LIMITED
@pytest.mark.parametrize("dim", [2, 20])
def test_another_reference_is_another_way_to_say_the_same(dim):
    """What every segment says of an action is the same before and after, but for rounding."""
    rng = np.random.default_rng(0)
    agent, held = shown([-99.0, 5.0], dim=dim, reward=lambda a: float(rng.random() < 0.5))
    action = np.append(5.4, rng.uniform(-1.0, 1.0, dim - 1))

    def said():
        row = np.append(action - held.reference[:dim], 1.0)
        pairs = zip(held.theta[:3], held.P[:3], strict=True)
        return [(row @ theta, row @ P @ row) for theta, P in pairs]

    before, begun = said(), held.begun_scale[0]
    assert held.reference[0] == -99.0
    agent.decide(np.tile(action, (3, 1)))
    assert held.reference[0] == pytest.approx(5.2)
    assert held.begun_scale[0] == begun  # the slope goes on
    np.testing.assert_allclose(said(), before, rtol=1e-9)


@LIMITED
def test_separate_arms_count_from_the_same_reference():
    """Also where the prior is not made again at the moment when the reference changes."""
    agent, rng = db.Agent(db.policy("auto", dim=2, arms="separate")), np.random.default_rng(0)
    references = set()
    for x in [-99.0] * 7 + [5.0, 5.4, 5.1, 5.3] * 4:
        choice = agent.decide([rng.uniform(-1.0, 1.0), x], arms=["a", "b"])
        agent.update(choice, float(rng.random() < 0.5))
        common = belief.LAYOUT.in_python(agent._learner.model.buffers)
        for arm in agent._learner.arms.values():
            own = belief.LAYOUT.in_python(arm.buffers)
            np.testing.assert_array_equal(own.reference, common.reference)
        references.add(float(common.reference[1]))
    assert min(references) == -99.0
    assert 5.0 <= max(references) <= 5.4


# -- surprises -----------------------------------------------------------------------------------


def is_sound(agent, choice) -> bool:
    weights = [one.probability for one in agent.beliefs]
    return choice.index >= 0 and np.isfinite(choice.table[:3]).all() and np.isfinite(weights).all()


def test_a_reward_that_nobody_expected_leaves_a_belief():
    agent, rng = db.Agent(db.policy("auto", dim=2, reward="amount")), np.random.default_rng(0)
    for t in range(300):
        choice = agent.decide(np.eye(2))
        assert is_sound(agent, choice)
        surprise = 300.0 if t in (150, 290) else 0.0
        agent.update(choice, choice.index + 0.1 * rng.normal() + surprise)


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


@pytest.mark.parametrize(("dim", "quiet"), [(3, 230), (3, 233), (17, 240)])
def test_a_feature_that_appears_has_a_variance_at_once(dim, quiet):
    agent, rng = db.Agent(db.policy("auto", dim=dim)), np.random.default_rng(0)
    for _ in range(quiet):
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
    held = belief.LAYOUT.in_python(agent._learner.model.buffers)
    assert held.prior_P[1, 1] < 100.0
    assert (held.P[: held.segments[0], 1, 1] < 100.0).all()


def test_a_list_is_one_set_of_offers():
    agent, rng = db.Agent(db.policy("auto", dim=2)), np.random.default_rng(0)
    for _ in range(30):
        for choice in agent.decide(rng.normal(size=(5, 2)), n=3):
            agent.update(choice, 1.0)
    held = belief.LAYOUT.in_python(agent._learner.model.buffers)
    assert held.sets[0] == 30
    agent.learn(rng.normal(size=(4, 2)), np.ones(4))
    assert held.sets[0] == 34


@LIMITED
@pytest.mark.parametrize(("dim", "length"), [(2, 300.0), (5, 30.0), (20, 300.0)])
def test_counts_of_very_long_actions_leave_a_belief(dim, length):
    """A feature that grows a hundredfold, and means that are exponentials of it."""
    for seed in range(2):
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
        held = belief.LAYOUT.in_python(agent._learner.model.buffers)
        for P in [*held.P[: held.segments[0]], *held.drift_P[: 2 if dim > 15 else 6]]:
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
