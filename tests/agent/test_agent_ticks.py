"""Time that passes without decisions."""

import numpy as np
import pytest
from agent_checks import BY_THE_CLOCK, CALM, assert_alike, oracle_of

import driftbandits as db
import kinds
from policy_checks import Case, World, digest, play
from reference import Played


@pytest.mark.parametrize("name", [n for n in db.policy_names() if not kinds.believing(n)])
def test_a_withdrawn_decision_is_a_tick(name):
    """But for a belief, whose prior follows all that was offered."""
    case = Case(name)
    world = World(case, 25)
    withdrawn, ticked = case.agent(), case.agent()
    # the width of a sampler has J(theta_hat) in it, and theta_hat is certified to 4e-9
    tolerance = 1e-8 if kinds.randomised(name) else 1e-9
    for t, actions in enumerate(world.sets):
        if t % 4 == 2:
            withdrawn.withdraw(withdrawn.decide(actions))
            ticked.tick()
            continue
        one, other = withdrawn.decide(actions), ticked.decide(actions)
        assert_alike(one, other, tolerance=tolerance)
        reward = world.reward(t, actions[one.index])
        withdrawn.update(one, reward)
        ticked.update(other, reward)
    assert withdrawn.pending == ticked.pending == ()
    assert withdrawn.late == 0


@pytest.mark.parametrize("name", db.policy_names())
def test_ticks_add_up(name):
    case = Case(name)
    world = World(case, 16)
    agents = [case.agent() for _ in range(2)]
    for agent in agents:
        play(agent, world, 0, 15)
    agents[0].tick(5)
    agents[0].tick(0)
    for _ in range(5):
        agents[1].tick(1)
    np.testing.assert_allclose(agents[0].theta_hat, agents[1].theta_hat, rtol=1e-9, atol=1e-9)
    assert_alike(*(agent.decide(world.sets[15]) for agent in agents))


@pytest.mark.parametrize("name", BY_THE_CLOCK)
def test_an_age_passes_in_one_step(name):
    """10^12 rounds at once: nothing overflows, the past is forgotten or kept, scores are exact."""
    case = Case(name, CALM)
    world = World(case, 31)
    agent = case.agent()
    decisions = play(agent, world, 0, 30)
    played = [
        Played(d.id, actions[d.index], world.reward(t, actions[d.index]))
        for t, (d, actions) in enumerate(zip(decisions, world.sets, strict=False))
    ]
    agent.decide(world.sets[30])
    size = len(digest(agent))
    agent.tick(10**12)
    assert agent.clock == 10**12 + 31
    assert len(digest(agent)) <= size + 20  # a clock has more digits
    assert len(agent.pending) == (0 if case.forgets else 1)
    oracle = oracle_of(case)
    expected = oracle.score(agent.clock, played, world.sets[30])
    decision = agent.decide(world.sets[30])
    assert decision.id == 10**12 + 32
    np.testing.assert_allclose(agent.theta_hat, expected.theta_hat, atol=1e-8)
    np.testing.assert_allclose(decision.scores, expected.scores, rtol=1e-7)
    agent.update(decision, 1.0)
    restarts = kinds.forgets_by_schedule(name) and agent.clock % case.given["window"] == 0
    assert agent.theta_hat.any() != restarts
