"""An agent whose clock counts ticks alone, decisions that others play, and previews."""

import math

import numpy as np
import pytest

import driftbandits as db

ACTIONS = np.array([[0.6, 0.2], [0.1, 0.7], [-0.4, 0.3]])


def policy(name="D-GLUCB", **more):
    memory = {"window": 50} if name.startswith("SW") else {"discount": 0.97}
    return db.policy(name, dim=2, **{**memory, **more})


def played(agent, rounds, *, ticks):
    rng = np.random.default_rng(0)
    for i in range(rounds):
        choice = agent.decide(rng.uniform(-0.5, 0.5, (4, 2)))
        if i % 3:
            agent.update(choice, float(rng.random() < 0.6))
        agent.tick(ticks)
    return agent


@pytest.mark.parametrize("name", ["D-GLUCB", "SW-GLUCB"])
def test_ages_are_ticks(name):
    """theta-hat is the root of the score whose weights follow from ticks, not from decisions."""
    agent = db.Agent(policy(name), seed=5, clock="ticks")
    rng = np.random.default_rng(0)
    rows = []
    for i in range(150):
        actions = rng.uniform(-0.5, 0.5, (4, 2))
        choice = agent.decide(actions)
        reward = float(rng.random() < 0.7)
        born = agent.clock
        agent.tick(int(rng.integers(0, 4)) if i % 2 else 0)
        if i % 3:
            agent.update(choice, reward)
            rows.append((actions[choice.index], reward, born))
    ages = np.array([agent.clock - born for _, _, born in rows])
    weights = 0.97**ages if name == "D-GLUCB" else (ages < 50).astype(float)
    x = np.array([row for row, _, _ in rows])
    residuals = np.array([reward for _, reward, _ in rows]) - 1 / (1 + np.exp(-x @ agent.theta_hat))
    score = x.T @ (weights * residuals) - agent.policy.lam * agent.theta_hat
    assert np.abs(score).max() < 1e-8
    expected = weights.sum() ** 2 / np.square(weights).sum()
    assert agent.effective_sample_size == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["D-GLUCB", "LogisticUCB"])
def test_only_ticks_forget(name):
    made = policy(name) if name != "LogisticUCB" else db.policy(name, dim=2)
    agent = db.Agent(made, seed=1, clock="ticks")
    agent.update(agent.decide(ACTIONS), 1.0)
    before = agent.theta_hat
    for _ in range(300):
        agent.decide(ACTIONS)
    assert agent.clock == 0
    assert (agent.theta_hat == before).all()
    agent.tick(5000)
    assert (agent.theta_hat == before).all() == (name == "LogisticUCB")
    assert [(d.id, d.round) for d in agent.decide(ACTIONS, n=2)] == [(302, 5000), (303, 5000)]
    with pytest.raises(db.UnknownDecision, match="1 to 303"):
        agent.update(304, 1.0)


def test_the_radius_is_measured():
    """sqrt(c lam) S + the deviation, with the squared weights of what was seen as the count."""
    agent = played(db.Agent(policy("D-GLUCB"), seed=2, clock="ticks"), 40, ticks=3)
    p = agent.policy
    rng = np.random.default_rng(0)
    weights = 0.0
    for i in range(40):
        row = rng.uniform(-0.5, 0.5, (4, 2))
        if i % 3:
            rng.random()
            made = agent.explain(i + 1).decision
            length = float(np.square(row[made.index]).sum())
            weights += 0.97 ** (2 * 3 * (40 - i)) * length
    c = p.confidence
    n = weights / p.model_L**2
    wide = c.sigma * math.sqrt(
        2 * math.log(1 / c.delta) + p.model_dim * math.log(1 + c.coefficient * n)
    )
    assert agent.radius == pytest.approx(c.scale * (wide + c.offset), rel=1e-10)
    choice = agent.decide(ACTIONS)
    assert agent.explain(choice).radius == agent.radius


@pytest.mark.parametrize("clock", ["decisions", "ticks"])
def test_what_others_play_is_what_is_learned(clock):
    watching = db.Agent(policy(), seed=4, clock=clock)
    told = db.Agent(policy(), seed=4, clock=clock)
    for _ in range(5):
        watching.update(watching.decide(ACTIONS, played=2), 1.0)
        told.update(told.decide(ACTIONS[2:]), 1.0)
    assert watching.theta_hat == pytest.approx(told.theta_hat, abs=1e-12)
    with pytest.raises(ValueError, match="played must be an integer from 0 to 2; got 3"):
        watching.decide(ACTIONS, played=3)
    with pytest.raises(ValueError, match="played must be a list of n"):
        watching.decide(ACTIONS, n=1, played=1)


@pytest.mark.parametrize("clock", ["decisions", "ticks"])
def test_a_preview_changes_nothing(clock):
    agent = played(db.Agent(policy(), seed=4, clock=clock), 30, ticks=1)
    before = agent.digest
    preview = agent.preview(ACTIONS, seed=11)
    assert agent.digest == before
    choice = agent.decide(ACTIONS)
    assert (preview.index, preview.scores.tolist()) == (choice.index, choice.scores.tolist())
    agent = db.Agent(db.policy("random", dim=2), clock=clock)
    assert {agent.preview(ACTIONS, seed=seed).index for seed in range(30)} == {0, 1, 2}


def test_foreign_data_is_late_by_its_round_and_not_by_the_number_of_a_decision():
    agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=5), clock="ticks")
    for _ in range(20):
        agent.decide(np.eye(2))
    agent.tick(6)
    agent.decide(np.eye(2))
    assert agent.pending == (21,)  # the others were forgotten with their round
    agent.learn([[1.0, 0.0], [1.0, 0.0]], [1.0, 1.0], ages=[4, 5])
    assert agent.late == 1
    assert agent.effective_sample_size == 1.0
