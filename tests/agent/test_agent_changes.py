"""A policy with other arguments: what was learned is carried over, or has to be learned again."""

import numpy as np
import pytest

import driftbandits as db
from driftbandits.agent import relearned_arguments
from driftbandits.policies import ROWS
from policy_checks import REACH, STRICT, memory_of

PROBES = [(name, base, change) for name, probes in REACH.items() for base, change, _ in probes]
PROBES += [("delta", STRICT, {"delta": 0.1}), ("seed", {}, {}), ("window", {}, {"window": 30})]
TOLD = {"epsilon": 0.3, "bonus_scale": 0.1, "too_long": "rescale"}
"""Every policy that has a use for these carries them over."""


def made(name, arguments):
    try:
        return db.policy(name, **{"dim": 2, **memory_of(name), **arguments})
    except ValueError:
        return None


def rounds(policy, count, seed=5):
    """Action sets, what is played of them and what that earns: the same for every policy."""
    rng = np.random.default_rng(seed)
    low, high = policy.reward_range()
    high = min(high, low + 1.0)
    for t in range(count):
        actions = rng.uniform(-0.7, 0.7, size=(4, policy.dim))
        played = int(rng.integers(4))
        good = (actions[played, 0] > 0) == (t < count / 2)
        yield actions, played, high if good else low


def live_through(agent, told):
    decisions = []
    for actions, played, reward in told:
        decisions.append(agent.decide(actions, played=played))
        agent.update(decisions[-1], reward)
    return decisions


@pytest.mark.parametrize("name", ROWS)
def test_carried_is_as_if_it_had_been_so_from_the_start(name):
    carried = set()
    for argument, base, change in PROBES:
        old, new = made(name, base), made(name, {**base, **change})
        if old is None or new is None:
            continue
        seed = 8 if argument == "seed" else 2
        if relearned_arguments(old, new, old_seed=2, new_seed=seed):
            with pytest.raises(ValueError, match="must not differ"):
                db.Agent(old, seed=2).with_policy(new, seed=seed)
            continue
        carried.add(argument)
        agent, witness = db.Agent(old, seed=2), db.Agent(new, seed=seed)
        told = list(rounds(new, 60))
        live_through(agent, told[:30])
        live_through(witness, told[:30])
        actions, played, reward = told[30]
        waiting, also = (one.decide(actions, played=played) for one in (agent, witness))
        agent = agent.with_policy(new, seed=seed)
        assert agent.policy == new
        mine, theirs = live_through(agent, told[31:]), live_through(witness, told[31:])
        assert agent.update(waiting.id, reward) == witness.update(also.id, reward)
        np.testing.assert_allclose(
            agent.theta_hat, witness.theta_hat, rtol=1e-7, atol=1e-9, err_msg=str((base, change))
        )
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6, atol=1e-8)
            assert (one.id, one.round) == (other.id, other.round)
    assert carried >= {argument for argument in TOLD if made(name, {argument: TOLD[argument]})}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("auto", {"arms": "separate", "dim": 3}),
        ("D-GLUCB", {"dim": 20, "discount": 0.99, "L": 9.0}),
    ],
)
def test_separate_arms_and_large_models_are_carried_over(name, arguments):
    old, new = db.policy(name, **arguments), db.policy(name, **arguments, epsilon=0.5)
    rng = np.random.default_rng(0)
    agent, witness = db.Agent(old, seed=1), db.Agent(new, seed=1)
    for t in range(60):
        if t == 30:
            agent = agent.with_policy(new)
        actions = rng.uniform(-0.5, 0.5, size=(3, old.dim))
        played, reward = int(rng.integers(3)), float(rng.random() < 0.4)
        arms = {"arms": ["a", "b", "c"]} if old.separate else {}
        choices = [one.decide(actions, **arms, played=played) for one in (agent, witness)]
        for one, choice in zip((agent, witness), choices, strict=True):
            one.update(choice, reward)
        np.testing.assert_allclose(choices[0].means, choices[1].means, rtol=1e-4, atol=1e-6)
    assert agent.policy == new


def test_features_that_have_grown_are_carried_over():
    features = db.Features(context={"country": "category"}, arm={"price": "number"})
    agent = db.Agent(db.policy("auto", features=features), seed=1)
    for t in range(40):
        choice = agent.decide(
            context={"country": f"c{t}"}, arms={"a": {"price": 1.0}, "b": {"price": 2.0}}
        )
        agent.update(choice, float(choice.arm == "a"))
    wanted = db.policy("auto", features=features, epsilon=0.1)
    assert agent.policy.dim > wanted.dim
    assert relearned_arguments(agent.policy, wanted) == []
    other = agent.with_policy(wanted)
    assert other.policy.dim == agent.policy.dim
    np.testing.assert_array_equal(other.theta_hat, agent.theta_hat)
    assert other.names == agent.names
