"""What an agent refuses, with which words, and that it changes nothing."""

import numpy as np
import pytest
from agent_checks import assert_alike, veteran

import driftbandits as db
import kinds
from policy_checks import Case, World, digest

nan, inf = float("nan"), float("inf")

BAD_CALLS = {
    # actions
    "three features": (lambda a: a.decide(np.ones((4, 3))), ["actions", "(4, 3)", "(K, 2)"]),
    "no action": (lambda a: a.decide(np.empty((0, 2))), ["actions", "at least one"]),
    "infinity": (lambda a: a.decide([[0.5, -inf]]), ["actions", "finite", "inf", "row 0"]),
    "too long": (lambda a: a.decide([[0, 0], [3, 4]]), ["actions", "L = 1", "row 1", "5"]),
    # n
    "n above K": (lambda a: a.decide(np.eye(2), n=3), ["n", "3", "from 1 to 2"]),
    # batches of decisions
    "many, one bad": (lambda a: a.decide_many([np.eye(2), [[nan, 0]]]), ["actions", "nan"]),
    # rewards
    "above the range": (lambda a: a.update(5, 1.5), ["reward", "1.5", "[0, 1]"]),
    "reward NaN": (lambda a: a.update(5, nan), ["reward", "nan"]),
    "reward a word": (lambda a: a.update(5, "1"), ["reward", "'1'"]),
    "reward beyond numbers": (lambda a: a.update(5, 10**400), ["reward", "1000"]),
    # decisions
    "never issued": (lambda a: a.update(7, 1.0), ["decision 7", "never issued", "1 to 6"]),
    "rewarded": (lambda a: a.update(2, 1.0), ["decision 2", "not waiting"]),
    "withdrawn": (lambda a: a.update(4, 1.0), ["decision 4", "not waiting"]),
    "a tick": (lambda a: a.update(6, 1.0), ["decision 6", "not waiting"]),
    "id a bool": (lambda a: a.update(True, 1.0), ["decision", "True"]),
    "withdraw twice": (lambda a: a.withdraw(4), ["decision 4", "not waiting"]),
    "explain unknown": (lambda a: a.explain(9), ["decision 9"]),
    # batches of rewards
    "more rewards": (lambda a: a.update_many([5], [1.0, 0.0]), ["rewards", "2 for 1"]),
    "twice in a batch": (lambda a: a.update_many([5, 5], [1.0, 1.0]), ["decisions", "decision 5"]),
    "one bad of two": (lambda a: a.update_many([5, 2], [1.0, 1.0]), ["decision 2"]),
    "rewards None": (lambda a: a.update_many([5], None), ["rewards", "None"]),
    # time
    "back in time": (lambda a: a.tick(-1), ["rounds", "-1"]),
    "past the last clock": (lambda a: a.tick(2**63 - 1), ["rounds", str(2**63 - 1)]),
    # foreign data
    "learn a second bad row": (lambda a: a.learn([[0, 1], [3, 4]], [1, 1]), ["actions", "row 1"]),
    "learn a bad reward": (lambda a: a.learn(np.eye(2), [1, 2]), ["reward", "2"]),
    "learn few rewards": (lambda a: a.learn(np.eye(2), [1]), ["rewards", "2", "(1,)"]),
    "negative ages": (lambda a: a.learn(np.eye(2), [1, 1], ages=[0, -1]), ["ages", "-1"]),
    "few ages": (lambda a: a.learn(np.eye(2), [1, 1], ages=[0]), ["ages", "2", "[0]"]),
}


def test_bad_calls_say_what_is_wrong_and_change_nothing():
    agent = veteran()
    before = digest(agent)
    for label, (call, fragments) in BAD_CALLS.items():
        with pytest.raises(ValueError, match=r".") as caught:
            call(agent)
        assert digest(agent) == before, label
        for fragment in fragments:
            assert fragment in str(caught.value), (label, str(caught.value))
    assert agent.update(5, 1.0) == "learned"


@pytest.mark.parametrize(("arguments", "low", "high"), [
    ({"link": "binomial", "m": 5}, 0, 5),
    ({"link": "identity", "m": 2.5}, 0, 2.5),
    ({"link": "logistic", "centre": 0.25}, 0.25, 1.25),
])  # fmt: skip
def test_the_ends_of_the_reward_range_belong_to_it(arguments, low, high):
    agent = db.Agent(db.policy("LogisticUCB", dim=2, **arguments))
    for reward in (low, high, (low + high) / 2, np.float32(high), np.int64(1)):
        assert agent.update(agent.decide(np.eye(2)), reward) == "learned"
    choice = agent.decide(np.eye(2))
    for reward in (np.nextafter(low, -1), np.nextafter(high, high + 1)):
        with pytest.raises(ValueError, match=rf"reward .*\[{low:g}, {high:g}\]"):
            agent.update(choice, reward)


@pytest.mark.parametrize("L", [1.0, 0.25])
def test_how_long_is_too_long(L):
    refusing = db.Agent(db.policy("LogisticUCB", dim=2, L=L, S=0.1))
    refusing.decide([[0.6 * L * (1 + 0.99e-9), 0.8 * L * (1 + 0.99e-9)]])
    for excess in (1.01e-9, 1.0):
        with pytest.raises(ValueError, match=rf"actions must not be longer than L = {L:g}"):
            refusing.decide([[0.6 * L * (1 + excess), 0.8 * L * (1 + excess)]])


@pytest.mark.parametrize("name", [name for name in db.policy_names() if not kinds.believing(name)])
def test_longer_actions_can_be_rescaled(name):
    case = Case(name, {"too_long": "rescale", "intercept": True})
    long, fitting = case.agent(), case.agent()
    for t, actions in enumerate(World(case, 15).sets):
        actions[0] /= np.linalg.norm(actions[0])
        stretched = actions.copy()
        stretched[0] *= 10.0 ** (t + 1)
        one, other = long.decide(stretched), fitting.decide(actions)
        assert_alike(one, other)
        long.update(one, t % 2)
        fitting.update(other, t % 2)
    np.testing.assert_allclose(long.theta_hat, fitting.theta_hat, atol=1e-9)


@pytest.mark.compiled  # plain Python warns of the overflow that the kernel looks out for
def test_even_the_longest_numbers_can_be_rescaled():
    agent = Case("LinUCB", {"too_long": "rescale"}).agent()
    plain = Case("LinUCB").agent()
    expected = plain.decide([[1.0, 0.0], [0.6, 0.8]])
    assert agent.decide([[1e300, 0.0], [6e200, 8e200]]).scores == pytest.approx(expected.scores)
