"""Everything is forgotten when rewards have been worse than predicted for long enough.

Page's test with a tolerance, as Hinkley (1971) has it: the sum of (residual + allowed) since it was
last above 0 must not fall below -threshold.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple

from driftbandits.core import links
from driftbandits.core.estimator.memory import forget_oldest
from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import BEGUN, HEAD, TAIL, Ints, N, layout_beyond
from driftbandits.core.linalg import dot
from driftbandits.jit import Share, inlined, reader_of
from driftbandits.policies.adaptations import fixed, record_detection
from driftbandits.policies.scoring import OWN_NUMBERS, Opened

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy


class Numbers(NamedTuple):
    """The test."""

    allowed: float
    threshold: float


class Own(NamedTuple):
    """What the test has seen."""

    since: Annotated[Ints, Share("counters")]  # the round in which the sum was last 0
    total: Annotated[Floats, Share("gauges")]


LAYOUT = layout_beyond(Own)
_own_of, _numbers_of = LAYOUT.of, reader_of(Numbers, first=OWN_NUMBERS)


def numbers_for(policy: Policy) -> Numbers:
    return Numbers(allowed=0.1, threshold=-math.log(policy.false_alarm_rate))


@inlined
def learn(opened: Opened, reward: float, s: int) -> None:
    numbers, model, scoring, _, state = opened
    own, test = _own_of(state.stores), _numbers_of(numbers)
    outcome = reward - scoring.centre
    predicted = links.mean(model.link, model.m, dot(state.scratch.row, state.theta_hat))
    fixed.learn(opened, reward, s)
    own.total[0] += outcome - predicted + test.allowed
    if own.total[0] >= 0.0:
        own.total[0], own.since[0] = 0.0, s
    elif own.total[0] < -test.threshold:
        record_detection(state, own.since[0] + 1, -own.total[0], test.threshold)
        state.counters[BEGUN] = state.counters[N]
        forget_oldest(model, state, state.counters[TAIL] - state.counters[HEAD])
        own.total[0], own.since[0] = 0.0, state.counters[N]
