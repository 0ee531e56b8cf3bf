"""What learns inside an agent whose arms have a model each.

Every model is brought up to the common clock when it is offered or learns, and not before: an arm
that nobody offers costs its memory alone. One model belongs to no arm. It never learns, so that
time does not change it; it holds what the arms have in common, and new arms begin as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from driftbandits.agent.decisions import ArmId, Decision, Floats, frozen
from driftbandits.agent.held import (
    BEGUN_AT,
    CLOCK_AT,
    DETECTIONS_AT,
    RADIUS_AT,
    TAIL_AT,
    HeldBuffers,
    certificate_of,
    check_actions,
    sample_size,
)
from driftbandits.agent.learner import KEPT_DETECTIONS
from driftbandits.estimator import keeps_rows
from driftbandits.estimator.state import (
    Buffers,
    Ints,
    copy_of,
    counter_names,
    essence,
    estimates_of,
    revived,
)
from driftbandits.jit import handles_of, line_of
from driftbandits.policies import (
    Detection,
    Hypothesis,
    Policy,
    family_of,
    last_detection,
    rows_of,
)
from driftbandits.policies.carrying import Move, carried_over
from driftbandits.policies.scoring import TABLE_ROWS
from driftbandits.policies.separate import (
    align_with,
    begin_as_new,
    believes,
    change_threshold,
    decider_of,
    forget_before_change,
    held_in_common,
    leading_filter,
    measure_arm,
    numbers_of_arms,
)

MOST_ARMS = 10_000
MOST_BYTES = 2**31
"""What the models of all arms may take, their rows not counted."""


class Arm(HeldBuffers):
    """The model of one arm."""

    def _hold(self, buffers: Buffers) -> None:
        super()._hold(buffers)
        self._in_common: list[Any] = held_in_common(self.policy, buffers)
        self._believes = believes(self.policy)
        self.line = line_of(self._handle)

    def catch_up(self, common: Arm, clock: int) -> None:
        """Be what the common state and that clock make of this arm."""
        behind = clock - self._counters.item(CLOCK_AT)
        if behind > 0:
            self._tick(self._handle, behind)
        if self._in_common:
            if self._believes:
                align_with(self._handle, common._handle)
            self.take_over(common)

    def take_over(self, other: Arm) -> None:
        """Have what is held in common as another arm has it."""
        for mine, theirs in zip(self._in_common, other._in_common, strict=True):
            mine[:] = theirs

    def score(self, seed: int, number: int, row: Floats, table: Floats, pick: Floats) -> None:
        """Mean, width and score of one row that is accepted; of a belief what they follow from."""
        if self._believes:
            measure_arm(self._handle, number, row, table)
        else:
            self._decide(self._handle, seed, number, row, table, pick)

    def learn(self, rows: Floats, index: int, reward: float, s: int) -> None:
        if self._counters.item(TAIL_AT) >= self._capacity:
            self._make_room()
        self._update(self._handle, rows, index, reward, s)

    def leading_filter(self, s: int, threshold: float) -> int:
        """Which filter says that the world has changed; 0: none."""
        return leading_filter(self._handle, s, threshold)

    def forget_before_change(self, winner: int, threshold: float) -> None:
        forget_before_change(self._handle, winner, threshold)

    @property
    def detections(self) -> int:
        """Changes that this arm has found by itself."""
        return self._counters.item(DETECTIONS_AT)

    @property
    def begun(self) -> int:
        return self._counters.item(BEGUN_AT)

    def set_clock(self, clock: int, begun: int) -> None:
        """Of the arm that never learns."""
        self._counters[CLOCK_AT], self._counters[BEGUN_AT] = clock, begun

    @property
    def last_radius(self) -> float:
        return self._gauges.item(RADIUS_AT)

    def anew(self, numbers: Floats) -> Arm:
        """A model that is as this one is, and that knows nothing."""
        arm = self.revived(essence(self.buffers), numbers)
        if self._believes:
            begin_as_new(arm._handle)
        return arm

    def revived(self, arrays: dict[str, Any], numbers: Floats) -> Arm:
        """A model from its essence; what no arm changes is shared with this one."""
        empty = self.policy.new_buffers(0)._replace(numbers=numbers, ladder=self.buffers.ladder)
        return Arm(self.policy, revived(empty, arrays))

    def copied(self, numbers: Floats) -> Arm:
        return Arm(self.policy, copy_of(self.buffers)._replace(numbers=numbers))


class SeparateLearner:
    """A policy, a seed, a clock and what was learned of each arm; as a `Learner` otherwise."""

    def __init__(self, policy: Policy, *, seed: int, counts_apart: bool) -> None:
        self.policy = policy
        self.seed = seed
        self.counts_apart = counts_apart
        self.detections: deque[Detection] = deque(maxlen=KEPT_DETECTIONS)
        self.arms: dict[ArmId, Arm] = {}
        self._issued = 0  # decisions, where they are counted apart
        self._shown_at = 0  # the clock of the estimates that are shown
        self._numbers = numbers_of_arms(policy, 1)
        self._threshold = change_threshold(policy)
        self._common = Arm(policy, policy.new_buffers(0)._replace(numbers=self._numbers))
        size = sum(array.nbytes for array in self._common.buffers)
        self._most_arms = min(MOST_ARMS, max(1, MOST_BYTES // size))
        self._decide_among = decider_of(family_of(policy))
        self._one_pick = np.empty((2, 1))  # scratch

    # -- arms ------------------------------------------------------------------------------------

    def check(self, offers: Sequence[tuple[Floats, Sequence[ArmId]]]) -> None:
        """Refuse rows and arms that `decide` would refuse."""
        for rows, _ in offers:
            check_actions(self.policy, rows)
        self._check_room(dict.fromkeys(arm for _, arms in offers for arm in arms))

    def _check_room(self, arms: Iterable[ArmId]) -> list[ArmId]:
        """Those of the arms that are new, if all of them can be known."""
        known = self.arms
        new = [arm for arm in arms if arm not in known]
        if len(self.arms) + len(new) > self._most_arms:
            raise ValueError(
                f"arms must be at most {self._most_arms} in all for models of "
                f"{self.policy.model_dim} coefficients; {len(self.arms)} are known, and "
                f"{', '.join(map(repr, new[:3]))} {'is' if len(new) == 1 else 'are'} new"
            )
        return new

    def _models_of(self, arms: Sequence[ArmId], rows: Floats) -> list[Arm]:
        """The models of these arms, made where there are none."""
        new = self._check_room(arms)
        if new:
            if not self.arms:
                self._begin(rows)
            for arm in new:
                self.arms[arm] = self._common.anew(self._numbers)
            self._numbers[:] = numbers_of_arms(self.policy, len(self.arms))
        return [self.arms[arm] for arm in arms]

    def _begin(self, rows: Floats) -> None:
        """Let a pool take its scale from the first rows, as if it decided among them."""
        without_advance = 1
        self._common.score(
            self.seed, without_advance, rows, np.empty((TABLE_ROWS, len(rows))), np.empty((2, 0))
        )

    # -- deciding --------------------------------------------------------------------------------

    def decide(
        self, rows: Floats, n: int, arms: tuple[ArmId, ...]
    ) -> tuple[list[Decision], bytes, float]:
        """Pick n of the arms, best first; also the estimates of all, and the radius."""
        check_actions(self.policy, rows)
        models = self._models_of(arms, rows)
        clock, number = self.clock, self._number
        common = self._common
        handles = handles_of([model.line for model in models])
        table, picks = np.empty((TABLE_ROWS, len(rows))), np.empty((2, n))
        shown = np.empty((len(rows), 2, self.policy.model_dim))
        self._decide_among(
            handles,
            common._handle,
            self.seed,
            number,
            self.policy.epsilon,
            rows,
            table,
            picks,
            shown,
        )
        frozen(table)
        self._shown_at = clock
        self._issued += n
        begun = common.begun if believes(self.policy) else models[0].begun
        common.set_clock(clock if number else clock + n, begun)
        decisions = []
        indices, propensities = picks.tolist()
        for rank in range(n):
            id = t = clock + 1 + rank
            if number:
                id, t = number + rank, clock
            decisions.append(Decision(id, int(indices[rank]), t, propensities[rank], table, arms))
        return decisions, shown.tobytes(), models[decisions[0].index].last_radius

    def preview(
        self, rows: Floats, *, seed: int, n: int, arms: tuple[ArmId, ...]
    ) -> list[Decision]:
        """What would be decided now, with the draws of this seed."""
        decisions = self._beside(seed, arms).decide(rows, n, arms)[0]
        for decision in decisions:
            decision.id = decision.round = 0
        return decisions

    def _beside(self, seed: int, arms: Sequence[ArmId]) -> Self:
        """A learner that may decide among these arms and leaves this one as it is."""
        other = type(self)(self.policy, seed=seed, counts_apart=self.counts_apart)
        other._numbers[:] = self._numbers
        other._issued = self._issued
        other._common = self._common.copied(other._numbers)
        touched = {arm: self.arms[arm] for arm in arms if arm in self.arms}
        copies = {arm: model.copied(other._numbers) for arm, model in touched.items()}
        other.arms = {**self.arms, **copies}
        return other

    @property
    def _number(self) -> int:
        """Of the next decision where they are counted apart, else 0, as `decide` of a kernel."""
        return self._issued + 1 if self.counts_apart else 0

    # -- learning --------------------------------------------------------------------------------

    def show(self, rows: Floats, arm: ArmId) -> None:
        """Let a belief see a row of foreign data, as if it had been all that was offered."""
        if believes(self.policy):
            model = self._models_of([arm], rows)[0]
            model.catch_up(self._common, self.clock)
            without_advance = 1
            model.score(self.seed, without_advance, rows, np.empty((TABLE_ROWS, 1)), self._one_pick)

    def absorb(self, rows: Floats, index: int, reward: float, s: int, arm: ArmId) -> bool:
        """Learn the reward of an arm in round s; whether a change was detected by it."""
        model = self._models_of([arm], rows[index : index + 1])[0]
        model.catch_up(self._common, self.clock)
        before = model.detections
        model.learn(rows, index, reward, s)
        winner = model.leading_filter(s, self._threshold) if self._threshold > 0.0 else 0
        self._common.take_over(model)
        if believes(self.policy):
            self._common.set_clock(self.clock, max(self._common.begun, model.begun))
        self._shown_at = self.clock
        if winner > 0:
            self.forget_before_change(winner)
        found = winner > 0 or model.detections > before
        if found and winner == 0:
            self.detections.append(last_detection(self.policy, model.buffers))
        return found

    def forget_before_change(self, winner: int) -> None:
        for model in self.arms.values():
            model.catch_up(self._common, self.clock)
            model.forget_before_change(winner, self._threshold)
        self._common.forget_before_change(winner, self._threshold)
        self.detections.append(last_detection(self.policy, self._common.buffers))

    def tick(self, rounds: int) -> None:
        """Let time pass without a decision."""
        self._common.set_clock(self.clock + rounds, self._common.begun)
        self._shown_at = self.clock

    # -- looking ---------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        return self._common.clock

    @property
    def issued(self) -> int:
        """The id of the last decision; rounds that only ticked are counted unless apart."""
        return self._issued if self.counts_apart else self.clock

    def last_forgotten_round(self) -> int:
        """The last round that lies before the policy's memory."""
        return self._common.last_forgotten_round()

    @property
    def effective_sample_size(self) -> float | None:
        """(sum w)^2 / sum w^2 over the rows of all arms; None for models that keep no rows."""
        if not keeps_rows(self.policy.model):
            return None
        weights = [self._at(self.clock, model).weights() for model in self.arms.values()]
        return sample_size(np.concatenate([np.empty(0), *weights]))

    @property
    def radius(self) -> float:
        """The largest of the next decision; one for all arms unless rows are counted apart."""
        models = list(self.arms.values()) or [self._common]
        return max(self._fitted(self.clock, model).gauges.item(RADIUS_AT) for model in models)

    @property
    def estimates(self) -> dict[ArmId, Floats]:
        """theta_hat and theta (2, p) of each arm, as `Learner.estimates`."""
        return {arm: self._estimates_of(model) for arm, model in self.arms.items()}

    def _estimates_of(self, model: Arm) -> Floats:
        if model.clock > self._shown_at:  # it has counted the decision that is shown
            return estimates_of(model.buffers)
        return estimates_of(self._fitted(self._shown_at, model))

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """What a belief holds to be possible."""
        return self.policy.hypotheses(self._common.buffers)

    @property
    def certificate(self) -> dict[str, float]:
        """The largest over the arms."""
        models = list(self.arms.values()) or [self._common]
        found = [certificate_of(self.policy, self._fitted(self.clock, model)) for model in models]
        return {name: max(one[name] for one in found) for name in found[0]}

    @property
    def work(self) -> dict[str, int]:
        """The sum over the arms."""
        found = [model.work for model in self.arms.values()]
        return {name: sum(one[name] for one in found) for name in counter_names()}

    def _at(self, clock: int, model: Arm) -> Arm:
        """A copy of a model as that clock makes it."""
        copy = model.copied(self._numbers)
        copy.catch_up(self._common, clock)
        return copy

    def _fitted(self, clock: int, model: Arm) -> Buffers:
        return self._at(clock, model).fitted_copy(self.seed, self._number)

    def carried_over(self, policy: Policy, move: Move) -> SeparateLearner:
        """A learner of that policy, with what this one knows."""
        other = SeparateLearner(policy, seed=self.seed, counts_apart=self.counts_apart)
        other._numbers[:] = numbers_of_arms(policy, max(len(self.arms), 1))

        def carried(model: Arm) -> Arm:
            buffers = carried_over(self.policy, model.buffers, policy, move)
            return Arm(policy, buffers._replace(numbers=other._numbers))

        other._common = carried(self._common)
        other.arms = {arm: carried(model) for arm, model in self.arms.items()}
        other._issued, other._shown_at = self._issued, self._shown_at
        other.detections.extend(self.detections)
        return other

    # -- keeping ---------------------------------------------------------------------------------

    def essence(self) -> dict[str, Any]:
        """The arrays that the states consist of: one model after the other, the common one first.

        Rows of all models stand in one table.
        """
        models = [self._common, *self.arms.values()]
        found = [essence(model.buffers) for model in models]
        stacked = {
            name: np.stack([one[name] for one in found]) for name in found[0] if name != "rows"
        }
        return {**stacked, "rows": np.concatenate([one["rows"] for one in found], axis=1)}

    def shown(self) -> dict[str, Any]:
        """Detections; which estimates are shown follows from the labels."""
        return {"detections": rows_of(self.detections)}

    def labels(self) -> dict[str, Any]:
        """What is kept beside the arrays."""
        return {"arms": list(self.arms), "shown_at": self._shown_at}

    def revive(self, arrays: dict[str, Any], issued: int, labels: dict[str, Any]) -> None:
        """Go on from the essence and the labels."""
        models = list(self._revived(arrays))
        self._common = models[0]
        self.arms = dict(zip(labels["arms"], models[1:], strict=True))
        self._numbers[:] = numbers_of_arms(self.policy, max(len(self.arms), 1))
        self._issued, self._shown_at = issued, labels["shown_at"]
        self.detections.extend(map(Detection.from_row, arrays["detections"]))

    def _revived(self, arrays: dict[str, Any]) -> Iterable[Arm]:
        sizes: Ints = arrays["counters"][:, TAIL_AT]
        ends = np.cumsum(sizes)
        for i, end in enumerate(ends):
            one = {
                name: arrays[name][i] for name in essence(self._common.buffers) if name != "rows"
            }
            rows = arrays["rows"][:, end - sizes[i] : end]
            yield self._common.revived({**one, "rows": rows}, self._numbers)
