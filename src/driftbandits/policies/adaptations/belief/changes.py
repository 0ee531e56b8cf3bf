"""When a change is reported.

In a chain with hazard h the odds that a segment began since the last report, over h, are the
statistic of Shiryaev and Roberts: while nothing changes it exceeds A no sooner than after A rounds
in the mean (Pollak 1985), as far as rewards are distributed as the segments before say. They are
not quite: a fit is not the truth, and where rewards are rare it stays uncertain for long. So a
report comes when the odds exceed MARGIN h / false_alarm_rate. docs/auto.md has what was measured.
"""

from __future__ import annotations

from driftbandits import links
from driftbandits.estimator import Model, State
from driftbandits.estimator.memory import load_row
from driftbandits.estimator.state import HEAD, TAIL
from driftbandits.jit import inlined, internal
from driftbandits.policies.adaptations.belief.gaussians import forecast_of
from driftbandits.policies.adaptations.belief.record import HAZARDS, ROOM, TESTED_CHAIN, Belief
from driftbandits.policies.detection import record_detection

_MEASURED_ROWS = 64
MARGIN = 20.0


def least_probability(false_alarm_rate: float) -> float:
    """That a change must have to be reported."""
    odds = MARGIN * float(HAZARDS[TESTED_CHAIN]) / false_alarm_rate
    return odds / (1.0 + odds)


@internal
def look_for_change(model: Model, state: State, belief: Belief, threshold: float) -> None:
    """Report a change that is probable enough."""
    since, before = 0.0, 0.0
    latest, likely = -1, -1
    for r in range(belief.segments[0]):
        weight = belief.weights[TESTED_CHAIN * ROOM + r]
        if belief.starts[r] > belief.reported[0]:
            since += weight
            if likely < 0 or weight > belief.weights[TESTED_CHAIN * ROOM + likely]:
                likely = r
        else:
            before += weight
            if latest < 0 or weight > belief.weights[TESTED_CHAIN * ROOM + latest]:
                latest = r
    if likely < 0 or since <= threshold * (since + before):
        return
    belief.reported[0] = belief.starts[likely]
    belief.size[0] = _size_of(model, state, belief, max(latest, 0), likely)
    record_detection(state, belief.starts[likely], since / (since + before), threshold)


@inlined
def _size_of(model: Model, state: State, belief: Belief, before: int, after: int) -> float:
    """By how much the mean rewards of the last actions differ between two segments."""
    first = max(state.counters[HEAD], state.counters[TAIL] - _MEASURED_ROWS)
    total = 0.0
    for i in range(first, state.counters[TAIL]):
        load_row(model, state, i)
        row = state.scratch.row
        then = links.mean(model.link, model.m, forecast_of(model, belief.theta[before], row))
        now = links.mean(model.link, model.m, forecast_of(model, belief.theta[after], row))
        total += abs(now - then)
    return float(total / max(state.counters[TAIL] - first, 1))
