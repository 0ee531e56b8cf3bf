"""Several decisions made at once."""

import numpy as np
import pytest
from agent_checks import CALM, STEADY

import driftbandits as db
import kinds
from policy_checks import Case, World, all_same, play


@pytest.mark.parametrize("name", STEADY)
def test_a_ranked_list(name, tmp_path):
    case = Case(name, CALM)
    world = World(case, 20)
    agent = case.agent()
    play(agent, world)
    actions = np.random.default_rng(1).uniform(-0.6, 0.6, size=(7, 2))
    agent.save(tmp_path / "agent.npz")
    single = db.Agent.load(tmp_path / "agent.npz").decide(actions)
    everything = db.Agent.load(tmp_path / "agent.npz").decide(actions, n=7)
    ranked = agent.decide(actions, n=3)
    assert all_same(ranked[:1], [single])
    assert all_same(db.Agent.load(tmp_path / "agent.npz").decide(actions, n=1), [single])
    assert all_same(ranked, everything[:3])
    assert sorted(decision.index for decision in everything) == list(range(7))
    assert [(decision.id, decision.round) for decision in ranked] == [(t, t) for t in (21, 22, 23)]
    assert all((decision.scores == single.scores).all() for decision in ranked)
    if not kinds.indifferent(name) and not kinds.randomised(name):
        assert [d.index for d in everything] == np.argsort(-single.scores).tolist()
    assert agent.clock == 23
    assert agent.pending == (21, 22, 23)
    # each place is a decision of its own
    agent.update(ranked[2], 1.0)
    agent.withdraw(ranked[0])
    assert agent.pending == (22,)
    assert agent.explain(22).decision.index == ranked[1].index


def test_a_ranked_list_longer_than_the_window():
    agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=2))
    ranked = agent.decide(np.eye(2).repeat(2, axis=0), n=4)
    assert agent.pending == (3, 4)
    assert [agent.update(decision, 1.0) for decision in ranked] == ["late"] * 2 + ["learned"] * 2


def test_propensities_of_a_ranked_list():
    """Each place is drawn among what the places above it left."""
    epsilon, K, rounds = 0.4, 4, 1500
    agent = Case("LinUCB", {"epsilon": epsilon}).agent(seed=5)
    agent.learn([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0])
    actions = [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.0, 0.9]]
    surplus, variance = np.zeros((3, K)), np.zeros((3, K))
    for _ in range(rounds):
        free = np.ones(K, dtype=bool)
        for place, decision in enumerate(agent.decide(actions, n=3)):
            best = free & (decision.scores == decision.scores[free].max())
            expected = best * (1 - epsilon) / best.sum() + free * epsilon / free.sum()
            assert decision.propensity == pytest.approx(expected[decision.index], rel=1e-12)
            surplus[place] += (np.arange(K) == decision.index) - expected
            variance[place] += expected * (1 - expected)
            free[decision.index] = False
    assert (np.abs(surplus) <= 4 * np.sqrt(variance)).all()
