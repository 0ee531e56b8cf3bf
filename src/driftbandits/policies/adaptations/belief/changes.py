"""When a change is reported.

A change is reported when it is probable enough that some segment began since the last report. Its
odds are those of chains in which changes come against the one in which none comes, so that time
alone makes no change probable: while nothing changes they are a ratio of likelihoods, which
exceeds c times what it began with in at most 1/c of all runs, however long (Ville 1939), as far as
rewards are distributed as the segments before say. They are not quite: a fit is not the truth. The
limit grows like 1 / false_alarm_rate; docs/auto.md has what was measured.

After a report the chain without changes begins again, with the segment that was reported.
"""

from __future__ import annotations

from driftbandits import links
from driftbandits.estimator import Model, State
from driftbandits.estimator.memory import load_row
from driftbandits.estimator.state import HEAD, TAIL
from driftbandits.jit import inlined, internal
from driftbandits.policies.adaptations.belief.gaussians import forecast_of
from driftbandits.policies.adaptations.belief.record import CHAINS, PRIOR_TRUST, Belief
from driftbandits.policies.adaptations.belief.segments import hold
from driftbandits.policies.detection import record_detection

_MEASURED_ROWS = 64
_ODDS = 0.006  # that are asked for, times false_alarm_rate
_IN_NO_CHANGE = float(PRIOR_TRUST[0] / PRIOR_TRUST[:CHAINS].sum())  # of the trust in chains


def least_probability(false_alarm_rate: float) -> float:
    """That a change must have to be reported."""
    odds = _ODDS / false_alarm_rate
    return odds / (1.0 + odds)


@internal
def look_for_change(model: Model, state: State, belief: Belief, threshold: float) -> None:
    """Report a change that is probable enough."""
    since, before = 0.0, 0.0
    latest, likely = -1, -1
    for r in range(belief.segments[0]):
        if belief.starts[r] > belief.reported[0]:
            since += belief.held[r]
            if likely < 0 or belief.held[r] > belief.held[likely]:
                likely = r
        else:
            before += belief.held[r]
            if latest < 0 or belief.held[r] > belief.held[latest]:
                latest = r
    if likely < 0 or since <= threshold * (since + before):
        return
    belief.reported[0] = belief.starts[likely]
    belief.size[0] = _size_of(model, state, belief, max(latest, 0), likely)
    record_detection(state, belief.starts[likely], since / (since + before), threshold)
    _begin_without_changes(belief, likely)


@inlined
def _begin_without_changes(belief: Belief, likely: int) -> None:
    """Let the chain in which nothing changes hold one segment, and be trusted as at first."""
    for r in range(belief.segments[0]):
        belief.weights[r] = 1.0 if r == likely else 0.0
    in_chains = 0.0
    for h in range(CHAINS):
        in_chains += belief.trust[h]
    others = in_chains - belief.trust[0]
    kept = in_chains * (1.0 - _IN_NO_CHANGE) / others if others > 0.0 else 0.0
    belief.trust[0] = in_chains * _IN_NO_CHANGE
    for h in range(1, CHAINS):
        belief.trust[h] *= kept
    hold(belief)


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
