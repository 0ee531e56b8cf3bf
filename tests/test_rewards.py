"""Rewards as people have them: which model, which map, and what happens outside the range."""

from __future__ import annotations

import math

import numpy as np
import pytest

import driftbandits as db
from driftbandits.environments import Logged

ROUNDS = 40


def actions_of(t: int) -> np.ndarray:
    return np.random.default_rng([5, t]).uniform(-0.6, 0.6, size=(4, 2))


def values(seed: int, low: float, high: float) -> list[float]:
    return np.random.default_rng(seed).uniform(low, high, ROUNDS).round().tolist()


def played(policy: db.Policy, rewards: list[float]) -> tuple[db.Agent, list[db.Decision]]:
    agent, made = db.Agent(policy, seed=4), []
    for t, reward in enumerate(rewards):
        made.append(agent.decide(actions_of(t)))
        agent.update(made[-1], reward)
    return agent, made


def choices(made: list[db.Decision]) -> list[int]:
    return [decision.index for decision in made]


@pytest.mark.parametrize(
    ("name", "text", "link", "range_", "taken"),
    [
        ("auto", "click", ("logistic", 1.0), (0, 1), {0: 0, 1: 1, 0.25: 0.25}),
        ("auto", "rating:1..5", ("binomial", 4.0), (1, 5), {1: 0, 4: 3, 5: 4}),
        ("LinUCB", "rating:1..5", ("identity", 1.0), (1, 5), {1: 0, 4: 0.75, 5: 1}),
        ("SW-GLUCB", "count:20", ("poisson", 20.0), (0, 20), {0: 0, 7: 7}),
        ("LinUCB", "count:20", ("identity", 1.0), (0, 20), {5: 0.25}),
        ("auto", "count", ("poisson", 1e9), (0, 1e9), {12: 12}),
        ("auto", "amount:-100..300", ("identity", 1.0), (-100, 300), {-100: 0, 0: 0.25, 300: 1}),
        ("auto", "cost:0..500", ("identity", 1.0), (0, 500), {0: 1, 125: 0.75, 500: 0}),
        ("auto", "amount", ("identity", 1.0), (-math.inf, math.inf), {-7e6: -7e6, 3: 3}),
        ("auto", "cost", ("identity", 1.0), (-math.inf, math.inf), {-7e6: 7e6, 3: -3}),
        ("auto", "amount:0.5..1e3", ("identity", 1.0), (0.5, 1e3), {0.5: 0}),
    ],
)
def test_a_text_is_a_model_and_a_map(name, text, link, range_, taken):
    memory = {"window": 9} if name == "SW-GLUCB" else {}
    policy = db.policy(name, dim=2, reward=text, **memory)
    assert (policy.link.name, policy.link.m) == link
    assert policy.reward_range() == range_
    assert {value: policy.reward.taken(value) for value in taken} == {
        value: (seen, False) for value, seen in taken.items()
    }
    assert db.policy(**policy.arguments) == policy


@pytest.mark.parametrize("name", ["D-GLUCB", "auto"])
@pytest.mark.parametrize(
    ("text", "plain", "level", "unit"),
    [
        ("rating:1..5", {"link": "binomial", "m": 4}, 1.0, 1.0),
        ("amount:-100..300", {"link": "identity"}, -100.0, 400.0),
    ],
)
def test_an_agent_learns_the_mapped_reward_and_shows_its_units(name, text, plain, level, unit):
    memory = {} if name == "auto" else {"discount": 0.9}
    rewards = values(1, 1, 5)
    mine, shown = played(db.policy(name, dim=2, reward=text, **memory), rewards)
    mapped = [(reward - level) / unit for reward in rewards]
    other, expected = played(db.policy(name, dim=2, **plain, **memory), mapped)
    assert choices(shown) == choices(expected)
    np.testing.assert_array_equal(mine.theta_hat, other.theta_hat)
    for one, two in zip(shown, expected, strict=True):
        np.testing.assert_array_equal(one.means, level + unit * two.means)
        np.testing.assert_array_equal(one.widths, unit * two.widths)
        np.testing.assert_array_equal(one.scores, one.means + one.widths)


@pytest.mark.parametrize(
    ("cost", "amount"), [("cost:0..500", "amount:-500..0"), ("cost", "amount")]
)
def test_a_cost_is_an_amount_with_a_minus(cost, amount):
    costs = values(2, 0, 500)
    agent, of_cost = played(db.policy("auto", dim=2, reward=cost), costs)
    _, of_amount = played(db.policy("auto", dim=2, reward=amount), [-c for c in costs])
    assert choices(of_cost) == choices(of_amount)
    np.testing.assert_array_equal(of_cost[-1].scores, of_amount[-1].scores)
    assert agent.clipped == 0


def test_outside_is_clipped_and_counted(tmp_path):
    policy = db.policy("SW-LinUCB", dim=2, window=5, reward="rating:1..5")
    with pytest.warns(UserWarning, match="reward 9 is outside 1 .. 5.* learned as 5") as said:
        agent, _ = played(policy, [9.0, 3.0, -2.0])
    assert len(said) == 1, "only the first is reported"
    same, _ = played(policy, [5.0, 3.0, 1.0])
    assert (agent.clipped, same.clipped) == (2, 0)
    np.testing.assert_array_equal(agent.theta_hat, same.theta_hat)
    waiting = agent.decide(actions_of(3))
    agent.tick(10)
    assert agent.update(waiting, 70.0) == "late"
    agent.learn(actions_of(4), [1.0, 6.0, 7.0, 2.0], ages=[0, 1, 90, 1])
    assert (agent.clipped, agent.late) == (3, 2), "what changes nothing is not counted"
    agent.save(tmp_path / "agent")
    again = db.Agent.load(tmp_path / "agent")
    assert (again.clipped, again.digest) == (3, agent.digest)


def test_what_is_refused_changes_nothing():
    agent = db.Agent(db.policy("auto", dim=2, reward="amount:0..10", outside="refuse"), seed=0)
    first, second = agent.decide(actions_of(0)), agent.decide(actions_of(1))
    before = agent.digest
    with pytest.raises(ValueError, match=r"\[0, 10\].*got 12.*wider range, or outside='clip'"):
        agent.update(first, 12)
    with pytest.raises(ValueError, match="got 12"):
        agent.update_many([first, second], [1, 12])
    assert agent.digest == before
    assert agent.pending == (1, 2)
    for bad in (math.nan, math.inf, "3", None, 1e101, 1 + 0j):
        with pytest.raises(ValueError, match="reward must be"):
            agent.update(first, bad)
    assert agent.update_many([first, second], [1, 10]) == ["learned", "learned"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "amount"}, "reward must have a range for LinUCB.*'amount:0..500', or use auto"),
        ({"reward": "count"}, "'count:20', or use auto"),
        ({"reward": "rating:0.5..5"}, "give 'amount:0.5..5'"),
        ({"reward": "rating:5..1"}, "ends above its start"),
        ({"reward": "amount:0..inf"}, "numbers for its limits"),
        ({"reward": "amount:7"}, "a range LOW..HIGH"),
        ({"reward": "clicks"}, "reward must be one of click, rating:1..5"),
        ({"reward": "click:0..1"}, "without a range"),
        ({"reward": "count:-3"}, "a count of at most"),
        ({"reward": "click", "m": 2}, "m must not be given with reward='click'"),
        ({"reward": "click", "link": "poisson"}, "link must not be given with reward"),
        ({"reward": "click", "outside": "drop"}, "outside must be one of clip, refuse"),
        ({"outside": "clip"}, "outside is about the range of a reward"),
    ],
)
def test_a_bad_text_is_refused_with_what_to_give(arguments, message):
    with pytest.raises(ValueError, match=message):
        db.policy("LinUCB", dim=2, **arguments)


@pytest.mark.parametrize("text", ["amount:0..300", "cost:0..300"])
def test_a_simulated_run_takes_the_same_values(text):
    rewards = np.array([values(seed, -20, 320) for seed in range(4)]).T
    sets = np.array([actions_of(t) for t in range(ROUNDS)])
    world = Logged(trace=db.Trace(actions=sets, rewards=rewards))
    policy = db.policy("auto", dim=2, reward=text)
    players = {"compiled": policy, "looped": lambda seed: db.Agent(policy, seed=seed)}
    result = db.simulate(players, world, runs=1, seed=3)
    np.testing.assert_array_equal(result.chosen["compiled"], result.chosen["looped"])
    np.testing.assert_array_equal(result.theta_hat["compiled"], result.theta_hat["looped"])


@pytest.mark.parametrize("argument", [{"S": 2.0}, {"discount": 0.9}, {"too_long": "rescale"}])
def test_an_argument_without_effect_is_refused(argument):
    with pytest.raises(ValueError, match="has no effect on auto and must not be given"):
        db.policy("auto", dim=2, horizon=100, **argument)


def test_what_the_contract_accepts_is_ignored():
    plain = db.policy("LinUCB", dim=2)
    with_more = db.policy("LinUCB", dim=2, link="poisson", projection="none", horizon=9, changes=1)
    assert with_more.link == plain.link
    assert with_more.model == plain.model
    assert not {"reward", "outside"} & set(plain.arguments)


@pytest.mark.parametrize(
    ("draw", "warns"),
    [
        (lambda rng: rng.poisson(np.exp(rng.normal(1.0, 0.7))), False),
        (lambda rng: rng.poisson(rng.uniform(0.0, 300.0)), False),
        (lambda rng: rng.poisson(0.02), False),
        (lambda rng: np.round(rng.exponential(110.0)) * (rng.random() < 0.28), True),
        (lambda rng: rng.geometric(0.2) * (rng.random() < 0.4), True),
    ],
)
def test_counts_that_are_none_are_a_warning(draw, warns):
    agent, rng = (
        db.Agent(db.policy("auto", dim=2, reward="count"), seed=0),
        np.random.default_rng(3),
    )
    agent.warns = False
    for t in range(300):
        agent.update(agent.decide(actions_of(t)), float(draw(rng)))
    assert any("use reward='amount'" in text for text in agent.take_warnings()) == warns
