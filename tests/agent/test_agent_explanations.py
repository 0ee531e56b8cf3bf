"""Why a decision was made."""

import numpy as np
import pytest
from agent_checks import BY_THE_CLOCK, CALM, oracle_of

import driftbandits as db
import kinds
from policy_checks import Case, World, same


@pytest.mark.parametrize("name", BY_THE_CLOCK)
def test_explanations_are_of_the_time(name):
    case = Case(name, CALM)
    world = World(case, 25)
    agent = case.agent()
    seen = []
    for t, actions in enumerate(world.sets):
        decision = agent.decide(actions)
        seen.append((decision, agent.theta))
        agent.update(decision, world.reward(t, actions[decision.index]))
    for decision, theta in seen:
        for key in (decision, decision.id, np.int64(decision.id)):
            explained = agent.explain(key)
            assert same(explained.decision, decision)
            assert explained.theta.tobytes() == theta.tobytes()
    oracle = oracle_of(case)
    last = agent.explain(25)
    expected = 0.0 if kinds.without_bonus(name) else oracle.radius(24, last.theta_hat)
    assert last.radius == pytest.approx(expected, rel=1e-12)


def test_an_explanation_as_a_table():
    agent = db.Agent(db.policy("LinUCB", dim=2))
    agent.learn([[1.0, 0.0]], [1.0])
    choice = agent.decide([[0.1, 0.0], [0.0, 1.0], [0.5, 0.0]])
    first, header, *lines = agent.explain(choice).table().splitlines()
    assert f"round {choice.round}" in first
    assert header.split() == ["action", "mean", "width", "score"]
    order = np.argsort(-choice.scores)
    assert [int(line.split()[0]) for line in lines] == order.tolist()
    for line, i in zip(lines, order, strict=True):
        shown = [float(word) for word in line.replace("<", "").split()[1:]]
        assert shown == pytest.approx(
            [choice.means[i], choice.widths[i], choice.scores[i]], abs=5e-5
        )
        assert line.endswith("<") == (i == choice.index)


def test_only_recent_decisions_can_be_explained():
    agent = db.Agent(db.policy("LinUCB", dim=1))
    agent.decide_many([[[1.0]]] * 1005)
    assert agent.explain(1005).decision.id == 1005
    assert agent.explain(6).decision.id == 6
    with pytest.raises(db.UnknownDecision, match=r"decision 5 "):
        agent.explain(5)
