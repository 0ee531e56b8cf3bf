"""What learns inside an agent: a policy's kernels and the buffers that they work on."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftbandits.agent.decisions import Decision, Floats, estimates_from, frozen
from driftbandits.agent.held import (
    ACCEPTED,
    CLOCK_AT,
    DETECTIONS_AT,
    RADIUS_AT,
    TAIL_AT,
    HeldBuffers,
    certificate_of,
    check_actions,
    refusal,
    sample_size,
)
from driftbandits.estimator import keeps_rows
from driftbandits.estimator.state import (
    FIRST_CAPACITY,
    Buffers,
    copy_of,
    essence,
    estimates_of,
    revived,
)
from driftbandits.jit import handle_of
from driftbandits.policies import Detection, Hypothesis, Policy, last_detection, rows_of
from driftbandits.policies.carrying import Move, carried_over
from driftbandits.policies.scoring import TABLE_ROWS
from driftbandits.policies.separate import believes

KEPT_DETECTIONS = 1000


class Learner(HeldBuffers):
    """A policy, a seed, a clock and what was learned. The caller takes turns and checks values.

    Where decisions are counted apart they do not move the clock.
    """

    def __init__(self, policy: Policy, *, seed: int, counts_apart: bool) -> None:
        self.seed = seed
        self.arms: tuple[()] = ()  # none that could be told apart
        self.counts_apart = counts_apart
        self.detections: deque[Detection] = deque(maxlen=KEPT_DETECTIONS)
        self._issued = 0  # decisions, where they are counted apart
        self._shown: bytes | None = None  # theta_hat and theta; bytes are cheap to copy and safe
        self._shown_was_used = False  # by a decision, which makes it part of the state
        self._one_pick = np.empty((2, 1))  # scratch
        super().__init__(
            policy, policy.new_buffers(FIRST_CAPACITY if keeps_rows(policy.model) else 0)
        )

    def _hold(self, buffers: Buffers) -> None:
        super()._hold(buffers)
        self._detected = self._counters.item(DETECTIONS_AT)

    # -- deciding --------------------------------------------------------------------------------

    def decide(
        self, actions: Floats, n: int, arms: Any = None
    ) -> tuple[list[Decision], bytes, float]:
        """Pick n distinct actions, best first; also theta_hat and theta, and the radius."""
        table = np.empty((TABLE_ROWS, len(actions)))
        picks = self._one_pick if n == 1 else np.empty((2, n))
        clock = self._counters.item(CLOCK_AT)
        number = self._issued + 1 if self.counts_apart else 0
        verdict = self._decide(self._handle, self.seed, number, actions, table, picks)
        if verdict != ACCEPTED:
            raise refusal(actions, self.policy.longest)
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
            decisions.append(Decision(id, int(indices[rank]), t, propensities[rank], table, arms))
        return decisions, shown, self._gauges.item(RADIUS_AT)

    def preview(self, actions: Floats, *, seed: int, n: int, arms: Any = None) -> list[Decision]:
        """What would be decided now, with the draws of this seed."""
        table, picks = np.empty((TABLE_ROWS, len(actions))), np.empty((2, n))
        beside = copy_of(self.buffers)
        verdict = self._decide(handle_of(beside), seed, self._number, actions, table, picks)
        if verdict != ACCEPTED:
            raise refusal(actions, self.policy.longest)
        frozen(table)
        return [
            Decision(0, int(index), 0, chance, table, arms) for index, chance in picks.T.tolist()
        ]

    def check(self, offers: Sequence[tuple[Floats, Any]]) -> None:
        """Refuse actions that `decide` would refuse."""
        for actions, _ in offers:
            check_actions(self.policy, actions)

    @property
    def _number(self) -> int:
        """Of the next decision where they are counted apart, else 0, as `decide` of a kernel."""
        return self._issued + 1 if self.counts_apart else 0

    # -- learning --------------------------------------------------------------------------------

    def show(self, rows: Floats, arm: Any = None) -> None:
        """Let a belief see a row of foreign data, as if it had been all that was offered."""
        if believes(self.policy):
            without_advance = 1
            nothing = np.empty((TABLE_ROWS, len(rows))), np.empty((2, 0))
            self._decide(self._handle, self.seed, without_advance, rows, *nothing)

    def absorb(self, actions: Floats, index: int, reward: float, s: int, arm: Any = None) -> bool:
        """Learn the reward of an action of round s; whether a change was detected by it."""
        if self._counters.item(TAIL_AT) >= self._capacity:
            self._make_room()
        self._update(self._handle, actions, index, reward, s)
        self._shown = None
        if self._counters.item(DETECTIONS_AT) == self._detected:
            return False
        self._detected += 1
        self.detections.append(last_detection(self.policy, self.buffers))
        return True

    def tick(self, rounds: int) -> None:
        """Let time pass without a decision."""
        self._tick(self._handle, rounds)
        self._shown = None

    # -- looking ---------------------------------------------------------------------------------

    @property
    def issued(self) -> int:
        """The id of the last decision; rounds that only ticked are counted unless apart."""
        return self._issued if self.counts_apart else self.clock

    @property
    def effective_sample_size(self) -> float | None:
        """(sum w)^2 / sum w^2 over what is remembered; None for a model that keeps no rows."""
        return sample_size(self.weights()) if self._keeps_rows else None

    @property
    def radius(self) -> float:
        """Of the next decision, bonus_scale included; 0 without a bonus."""
        return self._fitted_copy().gauges.item(RADIUS_AT)

    @property
    def estimates(self) -> Floats:
        """theta_hat and theta (2, d) of the last decision; after an update or tick, of the next."""
        if self._shown is None:
            self._shown = estimates_of(self._fitted_copy()).tobytes()
            self._shown_was_used = False
        return estimates_from(self._shown)

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """What a belief holds to be possible."""
        return self.policy.hypotheses(self.buffers)

    @property
    def certificate(self) -> dict[str, float]:
        return certificate_of(self.policy, self._fitted_copy())

    def _fitted_copy(self) -> Buffers:
        return self.fitted_copy(self.seed, self._number)

    def carried_over(self, policy: Policy, move: Move) -> Learner:
        """A learner of that policy, with what this one knows."""
        other = Learner(policy, seed=self.seed, counts_apart=self.counts_apart)
        other._hold(carried_over(self.policy, self.buffers, policy, move))
        other._issued = self._issued
        other.detections.extend(self.detections)
        if self._shown is not None:
            whole = move.with_intercept(self.policy, policy)
            shown = whole.moved(estimates_from(self._shown), policy.model_dim)
            other._shown, other._shown_was_used = shown.tobytes(), self._shown_was_used
        return other

    # -- keeping ---------------------------------------------------------------------------------

    def essence(self) -> dict[str, Any]:
        """The arrays that the state of the estimator consists of."""
        return essence(self.buffers)

    def shown(self) -> dict[str, Any]:
        """Detections, and the estimates of the last decision if nothing has happened since."""
        arrays: dict[str, Any] = {"detections": rows_of(self.detections)}
        if self._shown is not None and self._shown_was_used:
            arrays["shown"] = estimates_from(self._shown)
        return arrays

    def revive(self, arrays: dict[str, Any], issued: int, labels: dict[str, Any]) -> None:
        """Go on from the essence and what was shown."""
        self._hold(revived(self.policy.new_buffers(0), arrays))
        self._issued = issued
        self.detections.extend(map(Detection.from_row, arrays["detections"]))
        if "shown" in arrays:
            self._shown = arrays["shown"].tobytes()
            self._shown_was_used = True
