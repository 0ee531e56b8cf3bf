"""Separate arms as an application uses them: ids, files, previews, explanations, limits."""

import re

import numpy as np
import pytest

import driftbandits as db
import kinds
from driftbandits.agent import separate

X = np.array([0.3, -0.2])


def agent_of(name="D-GLUCB", **more):
    given = {"dim": 2, "arms": "separate", **kinds.memory_of(name, window=40, discount=0.9), **more}
    return db.Agent(db.policy(name, **given), seed=4)


def play(agent, rounds, first=0, arms=("a", "b", 3)):
    """Deterministic rewards; every fourth one does not come."""
    made = []
    for t in range(first, first + rounds):
        offered = list(arms[: 1 + t % len(arms)])
        made.append(agent.decide(X * np.cos(t), arms=offered))
        if t % 4:
            agent.update(made[-1], float((t * 7 + made[-1].index) % 3 == 0))
    return made


@pytest.mark.parametrize("name", ["LinUCB", "SW-GLUCB", "Restart-GLUCB", "auto"])
@pytest.mark.parametrize("clock", ["decisions", "ticks"])
def test_a_saved_agent_goes_on(name, clock, tmp_path):
    given = {"dim": 2, "arms": "separate", **kinds.memory_of(name, window=40, discount=0.9)}
    agent = db.Agent(db.policy(name, **given), seed=4, clock=clock)
    play(agent, 50)
    agent.tick(2)
    agent.decide(X, arms=["a", "new"])
    agent.save(tmp_path / "agent.npz")
    copy = db.Agent.load(tmp_path / "agent.npz")
    assert copy.digest == agent.digest
    assert copy.to_bytes() == agent.to_bytes()
    assert copy.arms == agent.arms == ("a", "b", 3, "new")
    assert copy.pending == agent.pending
    for arm, own in agent.theta_hat.items():
        assert own.tobytes() == copy.theta_hat[arm].tobytes()
    for one, other in zip(play(agent, 30, 50), play(copy, 30, 50), strict=True):
        assert (one.id, one.arm, one.propensity) == (other.id, other.arm, other.propensity)
        assert one.table.tobytes() == other.table.tobytes()
    assert copy.digest == agent.digest


@pytest.mark.parametrize("name", ["D-GLUCB", "auto"])
@pytest.mark.parametrize("rounds", [0, 30])
def test_a_preview_is_what_would_be_decided(name, rounds):
    agent = agent_of(name)
    play(agent, rounds)
    seen = agent.preview(X, arms=["b", "unknown"], seed=4)
    assert "unknown" not in agent.arms
    made = agent.decide(X, arms=["b", "unknown"])
    assert (seen.id, seen.arm, seen.propensity) == (0, made.arm, made.propensity)
    assert seen.table.tobytes() == made.table.tobytes()


def test_an_explanation_speaks_of_arms():
    agent = agent_of()
    play(agent, 20)
    estimates = agent.theta_hat
    choice = agent.decide(X, arms=["b", 3])
    shown = agent.theta_hat
    explained = agent.explain(choice)
    assert explained.decision is choice
    assert set(explained.theta_hat) == {"b", 3}
    for arm in ("b", 3):
        np.testing.assert_array_equal(explained.theta_hat[arm], shown[arm])
        np.testing.assert_allclose(shown[arm], estimates[arm], atol=1e-8)
    lines = explained.table().splitlines()
    assert lines[0].startswith(f"round 21: arm {choice.arm}, chosen with probability")
    assert {line.split()[0] for line in lines[2:]} == {"b", "3"}
    assert explained.radius > 0


BAD = [
    (lambda agent: agent.decide(X), "arms must be a list of ids, as the arms are separate"),
    (lambda agent: agent.decide(X, arms=[]), "arms must hold at least one id"),
    (lambda agent: agent.decide(X, arms=["a", "a"]), "arms must differ; got 'a' twice"),
    (lambda agent: agent.decide(X, arms=["a", 1.5]), "arms must be strings or integers; got 1.5"),
    (lambda agent: agent.decide([X] * 3, arms=["a", "b"]), r"(2,), or (2, 2) for 2 arms"),
    (lambda agent: agent.decide([1.0], arms=["new"]), "actions must have shape (2,)"),
    (lambda agent: agent.decide([9.0, 0.0], arms=["new"]), "must not be longer than L = 1"),
    (lambda agent: agent.decide(X, arms=["new"], n=2), "n must be an integer from 1 to 1"),
    (lambda agent: agent.decide_many([X, X], arms=[["new"]]), "one list of ids for each context"),
    (lambda agent: agent.decide_many([X, [9, 0]], arms=[["new"], ["a"]]), "longer than L"),
    (lambda agent: agent.learn([X], [1.0]), "arms must be a list of ids"),
    (lambda agent: agent.learn([X, X], [1.0, 0.0], arms=["new"]), "(1, 2) for 1 arms"),
]


def test_what_is_wrong_is_named_and_changes_nothing():
    agent = agent_of()
    play(agent, 10)
    before = agent.digest
    for call, message in BAD:
        with pytest.raises(ValueError, match=re.escape(message)):
            call(agent)
        assert agent.digest == before, message


def test_too_many_arms_are_refused(monkeypatch):
    monkeypatch.setattr(separate, "MOST_ARMS", 3)
    agent = agent_of()
    agent.decide(X, arms=["a", "b"])
    before = agent.digest
    message = "at most 3 in all for models of 3 coefficients; 2 are known, and 'c', 'd' are new"
    with pytest.raises(ValueError, match=message):
        agent.decide(X, arms=["a", "c", "d"])
    with pytest.raises(ValueError, match="at most 3"):
        agent.decide_many([X, X], arms=[["c"], ["d"]])
    with pytest.raises(ValueError, match="at most 3"):
        agent.learn([X, X], [1.0, 1.0], arms=["c", "d"])
    assert agent.digest == before
    assert agent.decide(X, arms=["c"]).arm == "c"


def test_a_shared_model_takes_no_arms_and_names_none():
    agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.9))
    with pytest.raises(ValueError, match="arms can be given to a policy with arms='separate'"):
        agent.decide(np.eye(2), arms=["a", "b"])
    choice = agent.decide(np.eye(2))
    assert (choice.arm, choice.arms, agent.arms) == (None, None, ())


@pytest.mark.parametrize("name", ["GLM-TSL", "D-RandLinUCB", "CD-GLUCB", "dLinUCB"])
def test_what_needs_one_model_is_refused(name):
    with pytest.raises(ValueError, match=f"arms must be shared for {name}, which"):
        db.policy(name, dim=2, arms="separate", **kinds.memory_of(name, window=40, discount=0.9))


def test_an_arm_long_unseen_is_as_old_as_it_is():
    """It is brought up to the clock when it comes back, whatever happened in between."""
    agent = agent_of("D-GLUCB", discount=0.99, S=5.0)
    for _ in range(50):
        agent.update(agent.decide(X, arms=["old"]), 1.0)
    sure = agent.theta_hat["old"]
    for t in range(300):
        agent.update(agent.decide(X, arms=["young"]), float(t % 2))
    faded = agent.theta_hat["old"]
    assert 0 < np.linalg.norm(faded) < 0.5 * np.linalg.norm(sure)
    agent.decide(X, arms=["old"])
    np.testing.assert_allclose(agent.theta_hat["old"], faded, atol=1e-8)
