"""What several tests of the agent share."""

import numpy as np
import pytest

import driftbandits as db
import kinds
from reference import Reference

CALM = {"false_alarm_rate": 1e-9}
"""In so few rounds a policy that restarts then does not; others have no use for it."""
_UNSTEADY = kinds.either(kinds.believing, kinds.draws_windows, kinds.learns_in_one_pass)
STEADY = sorted({*kinds.those(kinds.of_the_paper), *kinds.one_of_each(kinds.no(_UNSTEADY))})
"""Whose memory is not cut into blocks, and is the same in whatever order rewards come."""
BY_THE_CLOCK = [
    name for name in STEADY if not kinds.judges_models(name) and not kinds.tests_arms(name)
]
"""Whose radius counts rounds, and not what a model has learned."""


def oracle_of(case):
    given = {name: value for name, value in case.given.items() if name not in CALM}
    return Reference(case.name, **given)


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
