"""What several tests of the agent share."""

import numpy as np
import pytest

import driftbandits as db
from policy_checks import POOLS
from reference import Reference

CALM = {"false_alarm_rate": 1e-9}
"""In so few rounds a policy that restarts then does not; others have no use for it."""
STEADY = [name for name in db.policy_names() if name not in ("BOB-GLUCB", *POOLS)]
"""Whose memory is not cut into blocks."""
BY_THE_CLOCK = [name for name in STEADY if name != "dLinUCB"]
"""Whose radius counts rounds; that of dLinUCB counts what a model has learned."""
SAME_AS = {"GLM-UCB": "LogisticUCB", "CD-GLUCB": "LogisticUCB", "CD-LinUCB": "LinUCB"}


def oracle_of(case):
    given = {name: value for name, value in case.given.items() if name not in CALM}
    return Reference(SAME_AS.get(case.name, case.name), **given)


def assert_alike(one, other, *, tolerance=1e-9):
    """The same decision up to rounding: the two agents have fitted at different times."""
    assert (one.id, one.index, one.round) == (other.id, other.index, other.round)
    assert one.propensity == pytest.approx(other.propensity, rel=1e-9)  # of a random scale, a real
    np.testing.assert_allclose(one.scores, other.scores, rtol=tolerance, atol=tolerance)


def veteran(**extra):
    """Rounds 1-3 rewarded, 4 withdrawn, 5 waiting, 6 a tick."""
    agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=50, **extra), seed=2)
    for t in range(3):
        agent.update(agent.decide(np.eye(2)), float(t % 2))
    agent.withdraw(agent.decide(np.eye(2)))
    agent.decide(np.eye(2) / 2)
    agent.tick(1)
    return agent
