"""What `auto` believes: against plain NumPy and SciPy, and in whatever units the world comes."""

from __future__ import annotations

import numpy as np
import pytest

import driftbandits as db
from driftbandits.policies.adaptations import belief
from plain_belief import PlainBelief
from test_pool import jumping_world, mean


@pytest.mark.parametrize("delay", [0, 7])
def test_a_run_is_the_plain_one(delay):
    rounds = 160
    actions, levels, theta = jumping_world(rounds)
    agent = db.Agent(db.policy("auto", dim=2, false_alarm_rate=0.01))
    plain = PlainBelief(2, threshold=belief.numbers_for(agent.policy).threshold)
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
        waiting.append((choice, a, float(levels[t] < mean(a @ theta[t])), choice.round))
        while len(waiting) > delay:
            decision, a, x, s = waiting.pop(0)
            if agent.update(decision, x) == "learned":
                plain.update(a, x, s)
    assert len(plain.detections) >= 1
    assert [(d.round, d.change) for d in agent.detections] == plain.detections
    np.testing.assert_allclose(agent.theta_hat, plain.theta(), rtol=1e-5, atol=1e-7)
