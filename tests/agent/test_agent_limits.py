"""Numbers far beyond what a column has shown: limited, counted, and said once."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import driftbandits as db
from driftbandits.features.columns import limited

FEATURES = db.Features(
    context={"age": "number", "member": "flag"},
    arm={"kind": "category", "price": "log"},
    cross=[("kind", "age")],
)
ARMS = {"a": {"kind": "a", "price": 10.0}, "b": {"kind": "b", "price": 20.0}}


def visits(count, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield {"age": float(rng.normal(40.0, 10.0)), "member": bool(rng.random() < 0.5)}


def offer(agent, context):
    return {"context": context, "arms": ["a", "b"] if agent.policy.separate else ARMS}


def played(agent, count=60, seed=1):
    """An agent that has seen ordinary ages; a is right from 40 on."""
    for context in visits(count, seed):
        choice = agent.decide(**offer(agent, context))
        right = "a" if context["age"] > 40.0 else "b"
        agent.update(choice, float(choice.arm == right))
    return agent


def by_features(arms="shared"):
    features = FEATURES if arms == "shared" else db.Features(context=FEATURES.context)
    return played(db.Agent(db.policy("auto", features=features, arms=arms), seed=2))


def counts(agent):
    return {one.column: one.count for one in agent.limited}


def by_vectors(arms="shared"):
    agent = db.Agent(db.policy("auto", dim=3, arms=arms), seed=2)
    rng = np.random.default_rng(0)
    for _ in range(40):
        x = rng.normal(size=3) if arms == "separate" else rng.normal(size=(2, 3))
        named = {"arms": ["a", "b"]} if arms == "separate" else {}
        agent.update(agent.decide(x, **named), float(rng.random() < 0.5))
    return agent


# -- counting and warning ------------------------------------------------------------------------


@pytest.mark.parametrize("arms", ["shared", "separate"])
def test_a_column_by_its_name(arms):
    agent = by_features(arms)
    before = counts(agent).get("age", 0)  # of the first values, whose range is a guess
    said = r"'age' was 1e\+06, far beyond the range .* it comes back as ordinary if such values"
    absurd = offer(agent, {"age": 1e6, "member": True})
    with pytest.warns(UserWarning, match=said) as caught:
        agent.decide(**absurd)
    assert len(caught) == 1  # one for a decision, whatever follows from the same number
    assert caught[0].filename == __file__
    agent.decide(**absurd)  # no other warning
    assert agent.limited[0] == db.LimitedColumn("age", before + 2, 1e6)
    assert ("kind=a x age" in counts(agent)) == (arms == "shared")
    again = db.Agent.from_bytes(agent.to_bytes())
    assert again.limited == agent.limited
    again.decide(**absurd)  # it was said before


@pytest.mark.parametrize("arms", ["shared", "separate"])
def test_a_column_by_its_place(arms):
    agent = by_vectors(arms)
    x = np.array([0.1, -1e9, 0.3])
    more = {"arms": ["a", "b"]} if arms == "separate" else {}
    with pytest.warns(UserWarning, match=r"column 1 was -1e\+09"):
        agent.decide(x if more else [x, [0.0, 0.0, 0.0]], **more)
    assert agent.limited == [(1, 1, -1e9)]
    assert db.Agent.from_bytes(agent.to_bytes()).limited == agent.limited


def test_the_range_of_a_few_values_is_no_reason_to_warn():
    """The second of two values may well be far from the first, but not the last of many."""
    agent = db.Agent(db.policy("auto", dim=1))
    for x in (0.0, 0.01, 1.0, *[0.03, 0.0, 0.01, 0.02] * 7):
        agent.decide([[x]])
    assert [one.last for one in agent.limited] == [1.0]
    with pytest.warns(UserWarning, match=r"was 1e\+06"):
        agent.decide([[1e6]])


def test_what_is_warned_of_and_what_not():
    agent = by_vectors()
    agent.preview([[1e9, 0.0, 0.0]], seed=0)
    agent.check([[1e9, 0.0, 0.0]])
    assert agent.limited == db.Agent(db.policy("LinUCB", dim=2)).limited == []
    with pytest.warns(UserWarning, match="column 2 was"):
        agent.learn([[0.0, 0.0, 1e6]], [1.0])
    assert agent.limited == [(2, 1, 1e6)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="column 0 was"):
            agent.decide([[1e9, 0.0, 0.0]])
    assert agent.update(agent.issued, 1.0) == "learned"  # the decision is whole all the same


def test_a_model_that_grows_keeps_what_was_limited():
    agent = by_features()
    with pytest.warns(UserWarning, match="'age'"):
        choice = agent.decide(context={"age": -1e12}, arms=ARMS)
    text, dim = str(agent.explain(choice)), agent.policy.dim
    agent.decide(context={}, arms={str(i): {"kind": f"new{i}", "price": 1.0} for i in range(20)})
    assert agent.policy.dim > dim
    assert agent.limited[0] == ("age", counts(agent)["age"], -1e12)
    assert str(agent.explain(choice)) == text


def test_simulations_do_not_warn():
    actions = np.random.default_rng(0).normal(size=(80, 2, 3))
    actions[50, 0, 1] = 1e9
    world = SimpleNamespace(draw=lambda rng: db.Trace(actions, np.zeros((80, 2))))
    policy = db.policy("auto", dim=3)
    players = {"compiled": policy, "agent": lambda seed: db.Agent(policy, seed=seed)}
    result = db.simulate(players, world, runs=1, seed=0)
    np.testing.assert_array_equal(result.chosen["compiled"], result.chosen["agent"])


@pytest.mark.parametrize("arms", ["shared", "separate"])
def test_contributions_are_those_of_the_limited_action(arms):
    agent = by_features(arms)
    with pytest.warns(UserWarning, match="'age'"):
        choice = agent.decide(**offer(agent, {"age": 1e12, "member": True}))
    shares = {one.name: one.clipped for one in agent.features_report().columns}
    assert counts(agent)["age"] > 0
    assert shares["age"] == pytest.approx(counts(agent)["age"] / 61)
    explanation = agent.explain(choice)
    low, high = explanation.limits["age"]
    assert -100.0 < low < 0.0
    assert 80.0 < high < 200.0
    copy = db.Agent.from_bytes(agent.to_bytes())
    played(agent, 20, seed=5)  # the range moves on, the explanation does not
    for other in (agent, copy):
        again = other.explain(choice)
        assert again.contributions == explanation.contributions
        assert again.limits == explanation.limits
        assert "age *" in str(again)
        assert "* age: limited to" in str(again)
    for i, arm in enumerate(choice.arms):
        z = sum(explanation.contributions[arm].values())
        at_z = 1.0 / (1.0 + math.exp(-z))  # the mean is averaged over the belief about z
        assert min(0.5, at_z) <= choice.means[i] <= max(0.5, at_z)
        assert abs(z) < 100.0


# -- features ------------------------------------------------------------------------------------


def right_choices(agent, absurd, rounds=(0, 100), count=400):
    right = []
    for t, context in enumerate(visits(count)):
        shown = {**context, "age": absurd} if t in rounds else context
        choice = agent.decide(**offer(agent, shown))
        is_right = choice.arm == ("a" if context["age"] > 40.0 else "b")
        agent.update(choice, float(is_right))
        right.append(is_right)
    return np.mean(right[-200:])


@pytest.mark.filterwarnings("ignore:column")
@pytest.mark.parametrize(("absurd", "first"), [(1e60, 0), (1e6, 100)])
def test_an_absurd_number_does_not_move_the_centre_of_others(absurd, first):
    """The mean of all numbers would: then age cannot be told from its flags (.5 right)."""
    agent = db.Agent(db.policy("auto", features=FEATURES), seed=0)
    assert right_choices(agent, absurd, [first]) > 0.85
    assert 30.0 < agent._encoding.book.centres["age"] < 50.0


def fitted(absurd=None):
    rows = [{**context, **ARMS["ab"[i % 2]]} for i, context in enumerate(visits(200, seed=3))]
    if absurd is not None:
        rows[7]["age"] = absurd
    return FEATURES.fit(rows)


@pytest.mark.parametrize("name", ["LinUCB", "D-GLUCB"])
def test_an_absurd_number_does_not_silence_a_policy_of_the_paper(name):
    absurd, usual = 1e12, {"bonus_scale": 0.03} | ({"discount": 0.998} if name[0] == "D" else {})
    clean = right_choices(db.Agent(db.policy(name, features=fitted(), **usual)), 40.0)
    agent = db.Agent(db.policy(name, features=fitted(), **usual))
    with pytest.warns(UserWarning, match=r"'age' was 1e\+.* that was fitted, and is cl") as caught:
        share = right_choices(agent, absurd)
    assert len(caught) == 1
    assert share > clean - 0.05
    assert agent.features_report().columns[0].clipped == pytest.approx(2 / 400)
    again = db.Agent.from_bytes(agent.to_bytes())
    again.decide(context={"age": absurd, "member": True}, arms=ARMS)  # it was said before
    with pytest.warns(UserWarning, match=r"'age' has 1 values far beyond the others"):
        features = fitted(absurd)
    agent = db.Agent(db.policy(name, features=features, **usual))
    assert right_choices(agent, 40.0) > clean - 0.05


def test_a_refused_decision_says_nothing():
    agent = db.Agent(db.policy("LinUCB", features=fitted()))
    absurd = {"age": 1e6, "member": True}
    with pytest.raises(ValueError, match="member"):
        agent.decide(context={"age": 1e6, "member": "perhaps"}, arms=ARMS)
    agent.preview(context=absurd, arms=ARMS, seed=0)
    with pytest.warns(UserWarning, match="that was fitted"):
        agent.decide(context=absurd, arms=ARMS)


def test_numbers_are_limited_to_the_range_of_the_others():
    rng = np.random.default_rng(0)
    usual = rng.normal(5.0, 2.0, size=300).tolist()
    assert limited(usual) == usual
    *kept, far = limited([*usual, -1e12])
    assert kept == usual
    assert -40.0 < far < -5.0
    assert limited([3.0, 3.0]) == [3.0, 3.0]
    rare = [0.0] * 95 + [1.0, 2.0, 3.0, 2.0, 1.0]
    assert limited(rare) == rare


@pytest.mark.parametrize(("text", "far"), [("amount", 20_000.0), ("cost:0..50000", 20_000.0)])
@pytest.mark.parametrize("features", [FEATURES, None])
def test_a_limited_amount_is_counted_as_reward(features, text, far):
    dim = {} if features else {"dim": 2}
    agent = db.Agent(db.policy("auto", features=features, reward=text, **dim), seed=0)
    rng = np.random.default_rng(0)
    for i, context in enumerate(visits(120)):
        actions = rng.normal(size=(2, 2))
        choice = agent.decide(**offer(agent, context)) if features else agent.decide(actions)
        agent.update(choice, far if i == 100 else float(rng.exponential(30.0)))
    found = {one.column: one for one in agent.limited}["reward"]
    assert found.count >= 1
    assert found.last == pytest.approx(far)
