"""Detections of change: how a kernel reports one, and what a caller sees.

A kernel that has detected a change calls `record_detection`, at most once in an `update`. The
agent and the compiled loop of `simulate` look at the counter after each update and copy the
numbers of the last detection.
"""

from __future__ import annotations

from typing import NamedTuple

from driftbandits.estimator.model import Floats
from driftbandits.estimator.state import (
    CHANGED_IN,
    DETECTED_IN,
    DETECTIONS,
    STATISTIC,
    THRESHOLD,
    Buffers,
    N,
    State,
)
from driftbandits.jit import inlined


class Detection(NamedTuple):
    """A change that a policy has detected."""

    round: int  # the clock when it was detected
    change: int  # estimate of the first round after the change
    statistic: float
    threshold: float  # that the statistic exceeded

    @classmethod
    def from_row(cls, row: Floats) -> Detection:
        return cls(int(row[0]), int(row[1]), float(row[2]), float(row[3]))

    def later(self, rounds: int) -> Detection:
        """The same in a count of rounds that began earlier."""
        return self._replace(round=self.round + rounds, change=self.change + rounds)


@inlined
def record_detection(state: State, change: int, statistic: float, threshold: float) -> None:
    """Report a change that is believed to have happened just before round `change`."""
    counters, gauges = state.counters, state.gauges
    counters[DETECTIONS] += 1
    counters[DETECTED_IN] = counters[N]
    counters[CHANGED_IN] = change
    gauges[STATISTIC] = statistic
    gauges[THRESHOLD] = threshold


def last_detection(buffers: Buffers) -> Detection:
    counters, gauges = buffers.counters, buffers.gauges
    return Detection(
        int(counters[DETECTED_IN]),
        int(counters[CHANGED_IN]),
        float(gauges[STATISTIC]),
        float(gauges[THRESHOLD]),
    )
