"""The learner inside an agent: a policy's kernels and the buffers that they work on.

The caller takes turns and checks values. Where decisions are counted apart they have ids of their
own and do not move the clock.
"""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from driftbandits import policies
from driftbandits.agent.explain import Decision, Floats
from driftbandits.core import Buffers, keeps_rows, with_capacity
from driftbandits.core.estimator import state
from driftbandits.jit import handle_of
from driftbandits.policies import TABLE_ROWS, Detection, Move, Policy, believes

KEPT_DETECTIONS = 1000

# Plain numbers, as `item` takes them: it gives plain numbers too, which are quick to compare.
_CLOCK, _HEAD, _TAIL, _RADIUS = map(int, (state.N, state.HEAD, state.TAIL, state.RADIUS))
_BEGUN, _SPAN, _DETECTIONS = map(int, (state.BEGUN, state.SPAN, state.DETECTIONS))
_ACCEPTED = int(policies.ACCEPTED)
_WITHOUT_ADVANCE = 1  # a number of a decision, which lets the clock stand still


class Model:
    """The buffers of a policy, and the kernels that work on them."""

    def __init__(self, policy: Policy, buffers: Buffers) -> None:
        self.policy = policy
        _, self.choose, self._update, self._tick = policies.kernels_of(policies.family_of(policy))
        self._keeps_rows = keeps_rows(policy.model)
        self.hold(buffers)

    def hold(self, buffers: Buffers) -> None:
        """Work on these buffers from now on."""
        self.buffers = buffers
        self.handle = handle_of(buffers)
        self._capacity = buffers.rows.shape[1] if self._keeps_rows else sys.maxsize
        self.counters, self.gauges = buffers.counters, buffers.gauges
        self.limits = policies.limit_counter(self.policy, buffers)  # (1,), of limited values
        self.estimates = state.estimates_of(buffers)  # theta_hat and theta, (2, p)

    def see(self, seed: int, rows: Floats) -> None:
        """Let scales and priors follow these rows, as if they had been offered."""
        nothing = np.empty((TABLE_ROWS, len(rows))), np.empty((2, 0))
        self.choose(self.handle, seed, _WITHOUT_ADVANCE, rows, *nothing)

    def learn(self, action: Floats, reward: float, s: int) -> bool:
        """Learn the reward of an action (1, dim) of round s; True if that detects a change."""
        if self.counters.item(_TAIL) >= self._capacity:
            # Twice the room that the rows need, so that moving them to the front stays rare.
            rows = self.counters.item(_TAIL) - self.counters.item(_HEAD)
            if 2 * rows > self._capacity:
                self.hold(with_capacity(self.buffers, 2 * self._capacity))
        before = self.counters.item(_DETECTIONS)
        self._update(self.handle, action, 0, reward, s)
        return self.counters.item(_DETECTIONS) > before

    def tick(self, rounds: int) -> None:
        self._tick(self.handle, rounds)

    @property
    def clock(self) -> int:
        return self.counters.item(_CLOCK)

    @property
    def begun(self) -> int:
        """The round in which the memory begins, where a detection has cut it; else 0."""
        return self.counters.item(_BEGUN)

    def last_forgotten_round(self) -> int:
        """The last round that lies before the policy's memory. Foreign data may be older than 1."""
        last = self.counters.item(_BEGUN) or -sys.maxsize
        span = self.counters.item(_SPAN)
        return max(last, self.counters.item(_CLOCK) - span) if span > 0 else last

    @property
    def radius(self) -> float:
        """The radius of the last decision."""
        return self.gauges.item(_RADIUS)

    def weights(self) -> Floats:
        """The weights of the remembered rows."""
        head, tail = self.counters[state.HEAD], self.counters[state.TAIL]
        ages = self.clock - self.buffers.rows[-1, head:tail]
        return self.policy.weights_of_ages(self.buffers, ages)

    def fitted(self, seed: int, number: int) -> Model:
        """A copy as the next decision will see it: it has decided among no actions."""
        fitted = Model(self.policy, state.copy_of(self.buffers))
        nothing = np.empty((0, self.policy.dim)), np.empty((TABLE_ROWS, 0)), np.empty((2, 0))
        fitted.choose(fitted.handle, seed, number, *nothing)
        return fitted

    def certificate(self) -> dict[str, float]:
        """The exactness of the estimate of this fitted model."""
        gauges, policy = self.gauges, self.policy
        certificate = {
            "newton_decrement": float(gauges[state.DECREMENT]),
            "error_bound": float(gauges[state.ERROR_BOUND]),
            "kkt_residual": float(gauges[state.KKT_RESIDUAL]),
        }
        if policy.fast and not believes(policy) and not policy.model.linear:
            off, estimated = state.notes_of(self.buffers)[[state.OFF, state.ESTIMATED]].tolist()
            certificate["relative_to_width"] = policy.problem.k * off / (self.radius or 1.0)
            certificate["proved"] = 1.0 - estimated
        return certificate


class Learner:
    """One model for all actions, and what an agent asks of it."""

    def __init__(self, policy: Policy, *, seed: int, counts_apart: bool) -> None:
        self.policy, self.seed, self.counts_apart = policy, seed, counts_apart
        self.detections: deque[Detection] = deque(maxlen=KEPT_DETECTIONS)
        self.arms: Mapping[Any, Model] = {}  # separate ones
        self._issued = 0  # decisions, where they are counted apart
        self._shown_at: int | None = None  # the clock of a decision that nothing has followed
        self._one_pick = np.empty((2, 1))  # scratch
        room = state.FIRST_CAPACITY if keeps_rows(policy.model) and not policy.separate else 0
        self.model = self._model_of(policy.new_buffers(room))

    def _model_of(self, buffers: Buffers) -> Model:
        return Model(self.policy, buffers)

    # -- deciding --------------------------------------------------------------------------------

    def decide(
        self, actions: Floats, n: int, arms: Any = None
    ) -> tuple[list[Decision], bytes, float]:
        """Pick n distinct actions, best first; also theta_hat and theta, and the radius."""
        # Without properties: this is called in every round.
        model, number = self.model, self._issued + 1 if self.counts_apart else 0
        table = np.empty((TABLE_ROWS, len(actions)))
        picks = self._one_pick if n == 1 else np.empty((2, n))
        clock = model.counters.item(_CLOCK)
        if model.choose(model.handle, self.seed, number, actions, table, picks) != _ACCEPTED:
            raise refusal(actions, self.policy.longest)
        made = self._decisions(clock, number, table, picks, arms)
        return made, model.estimates.tobytes(), model.gauges.item(_RADIUS)

    def _decisions(
        self, clock: int, number: int, table: Floats, picks: Floats, arms: Any
    ) -> list[Decision]:
        """The decisions that a kernel has made at that clock."""
        table.setflags(write=False)
        decisions = []
        id = number or clock + 1
        for index, propensity in zip(*picks.tolist(), strict=True):
            t = clock if number else id
            decisions.append(Decision(id, int(index), t, propensity, table, arms))
            id += 1
        self._issued += len(decisions)
        self._shown_at = clock
        return decisions

    def preview(self, rows: Floats, *, seed: int, n: int, arms: Any = None) -> list[Decision]:
        """Decide with the draws of this seed and change nothing."""
        beside = self._beside(arms)
        beside.seed = seed
        decisions = beside.decide(rows, n, arms)[0]
        for decision in decisions:
            decision.id = decision.round = 0
        return decisions

    def _beside(self, arms: Any) -> Self:
        """A learner that may decide among these arms and leaves this one as it is."""
        other = copy.copy(self)
        other.model = Model(self.policy, state.copy_of(self.model.buffers))
        return other

    def fit_again(self) -> None:
        """Let the next decision compute what follows from the policy's arguments."""
        for model in self.models():
            model.buffers.counters[state.FITTED] = 0

    def check(self, offers: Iterable[tuple[Floats, Any]]) -> None:
        """Refuse actions that `decide` would refuse."""
        for actions, _ in offers:
            if policies.check_actions(self.policy.numbers, actions) != _ACCEPTED:
                raise refusal(actions, self.policy.longest)

    @property
    def _number(self) -> int:
        """The id of the next decision where they are counted apart, else 0, as kernels take it."""
        return self._issued + 1 if self.counts_apart else 0

    # -- learning --------------------------------------------------------------------------------

    def see(self, rows: Floats) -> None:
        """Let a belief see a row of foreign data, as if it had been all that was offered."""
        if believes(self.policy):
            self.model.see(self.seed, rows)

    def learn(self, action: Floats, reward: float, s: int, arm: Any = None) -> bool:
        """Learn the reward of an action (1, dim) of round s; True if that detects a change."""
        self._shown_at = None
        model = self.arms.get(arm, self.model)
        found = model.learn(action, reward, s)
        if found:
            self.detections.append(policies.last_detection(self.policy, model.buffers))
        return found

    def tick(self, rounds: int) -> None:
        """Let time pass without a decision."""
        self.model.tick(rounds)
        self._shown_at = None

    # -- looking ---------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        return self.model.clock

    @property
    def issued(self) -> int:
        """The id of the last decision; rounds that only ticked are counted unless apart."""
        return self._issued if self.counts_apart else self.clock

    def models(self) -> list[Model]:
        """All models, that of no arm first."""
        return [self.model, *self.arms.values()]

    def now(self) -> list[Model]:
        """The models that learn, as they are at the present clock."""
        return [self.model]

    def fitted(self) -> list[Model]:
        """Copies of the models as the next decision will see them."""
        return [model.fitted(self.seed, self._number) for model in self.now()]

    @property
    def estimates(self) -> Any:
        """theta_hat and theta (2, p) of the last decision; after an update or tick, of the next."""
        model = self.fitted()[0] if self._shown_at is None else self.model
        return model.estimates

    # -- saving ----------------------------------------------------------------------------------

    def carried_over(self, policy: Policy, move: Move) -> Self:
        """A learner of that policy, with what this one knows."""
        other = type(self)(policy, seed=self.seed, counts_apart=self.counts_apart)
        other._issued, other._shown_at = self._issued, self._shown_at
        other.detections.extend(self.detections)
        moved = [
            policies.carried_over(self.policy, one.buffers, policy, move) for one in self.models()
        ]
        other._hold(moved, self.arms)
        return other

    def contents(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and plain data that `revive` goes on from: all models, one after the other.

        The rows of all models stand in one table.
        """
        found = [state.essence(model.buffers) for model in self.models()]
        arrays = {
            "rows": np.concatenate([one.pop("rows") for one in found], axis=1),
            **{name: np.stack([one[name] for one in found]) for name in found[0]},
            "detections": policies.rows_of(self.detections),
        }
        plain = {"issued": self._issued, "shown_at": self._shown_at, "arms": list(self.arms)}
        return arrays, plain

    def revive(self, arrays: dict[str, Any], plain: dict[str, Any]) -> None:
        """Go on from what `contents` gave."""
        self._issued, self._shown_at = plain["issued"], plain["shown_at"]
        self.detections.extend(map(Detection.from_row, arrays["detections"]))
        ends = np.cumsum(arrays["counters"][:, state.TAIL])[:-1]
        stacked = [name for name in state.essence(self.model.buffers) if name != "rows"]
        models = []
        for i, rows in enumerate(np.split(arrays["rows"], ends, axis=1)):
            own = {name: arrays[name][i] for name in stacked}
            models.append(state.revived(self.policy.new_buffers(0), {**own, "rows": rows}))
        self._hold(models, plain["arms"])

    def _hold(self, models: Iterable[Buffers], arms: Iterable[Any]) -> None:
        """Go on with these models, that of no arm first."""
        self.model, *own = map(self._model_of, models)
        self.arms = dict(zip(arms, own, strict=True))


def refusal(actions: Floats, longest: float) -> ValueError:
    """An error that says what is wrong with actions that a policy does not accept."""
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
