"""What learns inside an agent: a policy's kernels and the buffers that they work on.

Kernels, handles and the places of buffers are known to this module alone among those of the agent.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import numpy as np

from driftbandits import policies
from driftbandits.agent.decisions import Decision, Floats, estimates_from, frozen
from driftbandits.estimator import keeps_rows, with_capacity
from driftbandits.estimator.stale import OFF
from driftbandits.estimator.state import (
    BEGUN,
    DECREMENT,
    DETECTIONS,
    ERROR_BOUND,
    FIRST_CAPACITY,
    HEAD,
    KKT_RESIDUAL,
    RADIUS,
    SPAN,
    TAIL,
    Buffers,
    N,
    copy_of,
    counter_names,
    essence,
    estimates_of,
    notes_of,
    revived,
)
from driftbandits.jit import handle_of
from driftbandits.policies import Detection, Policy, last_detection

_KEPT_DETECTIONS = 1000
# Plain numbers, as `item` takes them: it gives plain numbers too, which are quick to compare.
_CLOCK, _HEAD, _TAIL, _RADIUS = int(N), int(HEAD), int(TAIL), int(RADIUS)
_BEGUN, _SPAN, _DETECTIONS = int(BEGUN), int(SPAN), int(DETECTIONS)
_ACCEPTED = int(policies.ACCEPTED)


class Learner:
    """A policy, a seed, a clock and what was learned. The caller takes turns and checks values.

    Where decisions are counted apart they do not move the clock.
    """

    def __init__(self, policy: Policy, *, seed: int, counts_apart: bool) -> None:
        self.policy = policy
        self.seed = seed
        self.counts_apart = counts_apart
        self.detections: deque[Detection] = deque(maxlen=_KEPT_DETECTIONS)
        self._issued = 0  # decisions, where they are counted apart
        self.kernels = policies.kernels_of(policies.family_of(policy))
        _, self._decide, self._update, self._tick = self.kernels
        self._keeps_rows = keeps_rows(policy.model)
        self._shown: bytes | None = None  # theta_hat and theta; bytes are cheap to copy and safe
        self._shown_was_used = False  # by a decision, which makes it part of the state
        self._one_pick = np.empty((2, 1))  # scratch
        self._hold(policy.new_buffers(FIRST_CAPACITY if self._keeps_rows else 0))

    def _hold(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self._handle = handle_of(buffers)
        self._capacity = buffers.rows.shape[1] if self._keeps_rows else sys.maxsize
        self._counters, self._gauges = buffers.counters, buffers.gauges
        self._detected = self._counters.item(_DETECTIONS)
        self._estimates = estimates_of(buffers)

    # -- deciding --------------------------------------------------------------------------------

    def decide(self, actions: Floats, n: int) -> tuple[list[Decision], bytes, float]:
        """Pick n distinct actions, best first; also theta_hat and theta, and the radius."""
        table = np.empty((4, len(actions)))
        picks = self._one_pick if n == 1 else np.empty((2, n))
        clock = self._counters.item(_CLOCK)
        number = self._issued + 1 if self.counts_apart else 0
        verdict = self._decide(self._handle, self.seed, number, actions, table, picks)
        if verdict != _ACCEPTED:
            raise _refusal(actions, self.policy.longest)
        table.setflags(write=False)
        self._shown = shown = self._estimates.tobytes()
        self._shown_was_used = True
        self._issued += n
        decisions = []
        indices, propensities = picks.tolist()
        for rank in range(n):
            id = t = clock + 1 + rank
            if number:
                id, t = number + rank, clock
            decisions.append(Decision(id, int(indices[rank]), t, propensities[rank], table))
        return decisions, shown, self._gauges.item(_RADIUS)

    def preview(self, actions: Floats, *, seed: int) -> Decision:
        """What would be decided now, with the draws of this seed."""
        table, picks = np.empty((4, len(actions))), np.empty((2, 1))
        beside = copy_of(self.buffers)
        verdict = self._decide(handle_of(beside), seed, self._number, actions, table, picks)
        if verdict != _ACCEPTED:
            raise _refusal(actions, self.policy.longest)
        return Decision(0, int(picks[0, 0]), 0, float(picks[1, 0]), frozen(table))

    def check_actions(self, actions: Floats) -> None:
        """Refuse actions that `decide` would refuse."""
        if policies.check_actions(self.policy.numbers, actions) != _ACCEPTED:
            raise _refusal(actions, self.policy.longest)

    @property
    def _number(self) -> int:
        """Of the next decision where they are counted apart, else 0, as `decide` of a kernel."""
        return self._issued + 1 if self.counts_apart else 0

    # -- learning --------------------------------------------------------------------------------

    def absorb(self, actions: Floats, index: int, reward: float, s: int) -> bool:
        """Learn the reward of an action of round s; whether a change was detected by it."""
        if self._counters.item(_TAIL) >= self._capacity:
            self._make_room()
        self._update(self._handle, actions, index, reward, s)
        self._shown = None
        if self._counters.item(_DETECTIONS) == self._detected:
            return False
        self._detected += 1
        self.detections.append(last_detection(self.buffers))
        return True

    def _make_room(self) -> None:
        """Twice the room that the rows need, so that moving them to the front stays rare."""
        rows = self._counters.item(_TAIL) - self._counters.item(_HEAD)
        if 2 * rows > self._capacity:
            self._hold(with_capacity(self.buffers, 2 * self._capacity))

    def tick(self, rounds: int) -> None:
        """Let time pass without a decision."""
        self._tick(self._handle, rounds)
        self._shown = None

    # -- looking ---------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        return self._counters.item(_CLOCK)

    @property
    def issued(self) -> int:
        """The id of the last decision; rounds that only ticked are counted unless apart."""
        return self._issued if self.counts_apart else self.clock

    def last_forgotten_round(self) -> int:
        """The last round that lies before the policy's memory. Foreign data may be older than 1."""
        counters = self._counters
        last = counters.item(_BEGUN) or -sys.maxsize
        span = counters.item(_SPAN)
        return max(last, counters.item(_CLOCK) - span) if span > 0 else last

    @property
    def effective_sample_size(self) -> float | None:
        """(sum w)^2 / sum w^2 over what is remembered; None for a model that keeps no rows."""
        if not self._keeps_rows:
            return None
        head, tail = self._counters[HEAD], self._counters[TAIL]
        ages = self.clock - self.buffers.rows[-1, head:tail]
        weights = self.policy.weights_of_ages(self.buffers, ages)
        return float(weights.sum() ** 2 / np.square(weights).sum()) if weights.size else 0.0

    @property
    def radius(self) -> float:
        """Of the next decision, bonus_scale included; 0 without a bonus."""
        return self._fitted_copy().gauges.item(_RADIUS)

    @property
    def estimates(self) -> Floats:
        """theta_hat and theta (2, d) of the last decision; after an update or tick, of the next."""
        if self._shown is None:
            self._shown = estimates_of(self._fitted_copy()).tobytes()
            self._shown_was_used = False
        return estimates_from(self._shown)

    @property
    def certificate(self) -> dict[str, float]:
        fitted = self._fitted_copy()
        gauges, model = fitted.gauges, self.policy.model
        relative = {}
        if model.fast and not model.linear:
            off = self.policy.problem.k * float(notes_of(fitted)[OFF])
            relative["relative_to_width"] = off / (gauges.item(_RADIUS) or 1.0)
        return {
            "newton_decrement": float(gauges[DECREMENT]),
            "error_bound": float(gauges[ERROR_BOUND]),
            "kkt_residual": float(gauges[KKT_RESIDUAL]),
            **relative,
        }

    @property
    def work(self) -> dict[str, int]:
        return {name: int(self._counters[i]) for name, i in counter_names().items()}

    def _fitted_copy(self) -> Buffers:
        """The state as the next decision will see it: one among no actions, made by a copy."""
        beside = copy_of(self.buffers)
        nothing = np.empty((0, self.policy.dim)), np.empty((4, 0)), np.empty((2, 0))
        self._decide(handle_of(beside), self.seed, self._number, *nothing)
        return beside

    # -- keeping ---------------------------------------------------------------------------------

    def essence(self) -> dict[str, Any]:
        """The arrays that the state of the estimator consists of."""
        return essence(self.buffers)

    def shown(self) -> dict[str, Any]:
        """Detections, and the estimates of the last decision if nothing has happened since."""
        arrays = {"detections": np.array(self.detections, dtype=np.float64).reshape(-1, 4)}
        if self._shown is not None and self._shown_was_used:
            arrays["shown"] = estimates_from(self._shown)
        return arrays

    def revive(self, arrays: dict[str, Any], issued: int) -> None:
        """Go on from the essence and what was shown."""
        self._hold(revived(self.policy.new_buffers(0), arrays))
        self._issued = issued
        self.detections.extend(map(Detection.from_row, arrays["detections"]))
        if "shown" in arrays:
            self._shown = arrays["shown"].tobytes()
            self._shown_was_used = True


def _refusal(actions: Floats, longest: float) -> ValueError:
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
