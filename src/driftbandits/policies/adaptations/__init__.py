"""Modules that adapt the memory of a policy as it goes, and the changes that they report.

An adaptation is a module, listed in ADAPTATIONS (policies/catalogue.py), with

    numbers_for(policy)             the numbers that its kernels read, a NamedTuple
    LAYOUT                          of its own state, a NamedTuple whose fields are annotated with
                                    their shares of the stores: `layout_beyond` makes it
    sizes_for(policy)               what its state needs beyond the estimator's; that of LAYOUT
    window_for(policy)              the longest window that it uses; None: no window
    exploration_for(policy)         the epsilon of its source

and kernels

    estimate(opened, seed, actions) bring theta_hat and theta up to date before a decision
    learn(opened, reward, s)        learn the reward of scratch.row, chosen in round s

What a module does not have is that of fixed.py.

A kernel that has detected a change calls `record_detection`, at most once in an `update`. Agents
and the compiled loop of `simulate` look at the counter after each update and copy the last
detection.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from driftbandits.core.estimator.model import Floats
from driftbandits.core.estimator.state import (
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

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Policy


class Detection(NamedTuple):
    """A change that a policy has detected."""

    round: int  # the clock when it was detected
    change: int  # estimate of the first round after the change
    statistic: float  # of `auto` the probability that there was a change
    threshold: float  # that the statistic exceeded
    size: float | None = None  # by how much mean rewards have changed, of `auto`

    @classmethod
    def from_row(cls, row: Floats) -> Detection:
        size = float(row[4]) if len(row) > 4 and math.isfinite(row[4]) else None
        return cls(int(row[0]), int(row[1]), float(row[2]), float(row[3]), size)

    def later(self, rounds: int) -> Detection:
        """The detection in a count of rounds that began earlier."""
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


def rows_of(detections: Collection[Detection]) -> Floats:
    """One row for each; without their sizes, as records were before there were any, if none has."""
    rows = np.array(detections, dtype=np.float64).reshape(-1, len(Detection._fields))
    return rows if np.isfinite(rows[:, -1]).any() else rows[:, :-1]


def last_detection(policy: Policy, buffers: Buffers) -> Detection:
    counters, gauges = buffers.counters, buffers.gauges
    return Detection(
        int(counters[DETECTED_IN]),
        int(counters[CHANGED_IN]),
        float(gauges[STATISTIC]),
        float(gauges[THRESHOLD]),
        policy.size_of_change(buffers),
    )
