"""The buffers of a policy, held while its kernels work on them.

Handles and the places of buffers are known to this module and to the learners alone.
"""

from __future__ import annotations

import sys

import numpy as np

from driftbandits import policies
from driftbandits.agent.decisions import Floats
from driftbandits.estimator import keeps_rows, with_capacity
from driftbandits.estimator.model import POOL
from driftbandits.estimator.stale import ESTIMATED, OFF
from driftbandits.estimator.state import (
    BEGUN,
    DECREMENT,
    DETECTIONS,
    ERROR_BOUND,
    HEAD,
    KKT_RESIDUAL,
    RADIUS,
    SPAN,
    TAIL,
    Buffers,
    N,
    copy_of,
    counter_names,
    estimates_of,
    notes_of,
)
from driftbandits.jit import handle_of
from driftbandits.policies import Policy
from driftbandits.policies.scoring import TABLE_ROWS

# Plain numbers, as `item` takes them: it gives plain numbers too, which are quick to compare.
CLOCK_AT, HEAD_AT, TAIL_AT, RADIUS_AT = int(N), int(HEAD), int(TAIL), int(RADIUS)
BEGUN_AT, SPAN_AT, DETECTIONS_AT = int(BEGUN), int(SPAN), int(DETECTIONS)
ACCEPTED = int(policies.ACCEPTED)


class HeldBuffers:
    """Buffers, where they lie, and the kernels of their policy."""

    def __init__(self, policy: Policy, buffers: Buffers) -> None:
        self.policy = policy
        self.kernels = policies.kernels_of(policies.family_of(policy))
        _, self._decide, self._update, self._tick = self.kernels
        self._keeps_rows = keeps_rows(policy.model)
        self._hold(buffers)

    def _hold(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self._handle = handle_of(buffers)
        self._capacity = buffers.rows.shape[1] if self._keeps_rows else sys.maxsize
        self._counters, self._gauges = buffers.counters, buffers.gauges
        self._estimates = estimates_of(buffers)

    def _make_room(self) -> None:
        """Twice the room that the rows need, so that moving them to the front stays rare."""
        rows = self._counters.item(TAIL_AT) - self._counters.item(HEAD_AT)
        if 2 * rows > self._capacity:
            self._hold(with_capacity(self.buffers, 2 * self._capacity))

    @property
    def clock(self) -> int:
        return self._counters.item(CLOCK_AT)

    def last_forgotten_round(self) -> int:
        """The last round that lies before the policy's memory. Foreign data may be older than 1."""
        counters = self._counters
        last = counters.item(BEGUN_AT) or -sys.maxsize
        span = counters.item(SPAN_AT)
        return max(last, counters.item(CLOCK_AT) - span) if span > 0 else last

    @property
    def work(self) -> dict[str, int]:
        return {name: int(self._counters[i]) for name, i in counter_names().items()}

    def weights(self) -> Floats:
        """Of the remembered rows."""
        head, tail = self._counters[HEAD], self._counters[TAIL]
        ages = self.clock - self.buffers.rows[-1, head:tail]
        return self.policy.weights_of_ages(self.buffers, ages)

    def fitted_copy(self, seed: int, number: int) -> Buffers:
        """The state as the next decision will see it: one among no actions, made by a copy."""
        beside = copy_of(self.buffers)
        nothing = np.empty((0, self.policy.dim)), np.empty((TABLE_ROWS, 0)), np.empty((2, 0))
        self._decide(handle_of(beside), seed, number, *nothing)
        return beside


def certificate_of(policy: Policy, fitted: Buffers) -> dict[str, float]:
    gauges = fitted.gauges
    certificate = {
        "newton_decrement": float(gauges[DECREMENT]),
        "error_bound": float(gauges[ERROR_BOUND]),
        "kkt_residual": float(gauges[KKT_RESIDUAL]),
    }
    if policy.fast and policy.row.memory != POOL and not policy.model.linear:
        off = policy.problem.k * float(notes_of(fitted)[OFF])
        certificate["relative_to_width"] = off / (gauges.item(RADIUS_AT) or 1.0)
        certificate["proved"] = 1.0 - float(notes_of(fitted)[ESTIMATED])
    return certificate


def sample_size(weights: Floats) -> float:
    """(sum w)^2 / sum w^2."""
    return float(weights.sum() ** 2 / np.square(weights).sum()) if weights.size else 0.0


def refusal(actions: Floats, longest: float) -> ValueError:
    """What is wrong with actions that a policy does not accept."""
    finite = np.isfinite(actions).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        return ValueError(f"actions must be finite; got {actions[bad]} in row {bad}")
    scale = float(np.abs(actions).max()) or 1.0
    lengths = scale * np.sqrt(((actions / scale) ** 2).sum(axis=1))
    bad = int(np.argmax(lengths))
    return ValueError(
        f"actions must not be longer than L = {longest:g}; row {bad} has length "
        f"{lengths[bad]:.6g}. Give a larger L, or too_long='rescale'."
    )


def check_actions(policy: Policy, actions: Floats) -> None:
    """Refuse actions that `decide` would refuse."""
    if policies.check_actions(policy.numbers, actions) != ACCEPTED:
        raise refusal(actions, policy.longest)
