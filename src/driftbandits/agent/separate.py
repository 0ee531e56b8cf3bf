"""The learner inside an agent whose arms have a model each.

Every model is brought up to the common clock when it is offered or learns, and not before: an arm
that nobody offers costs its memory alone. One model belongs to no arm. It never learns, so that
time does not change it; it holds what the arms have in common, and new arms begin as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from driftbandits.agent.explain import Decision, Floats
from driftbandits.agent.learner import Learner, Model
from driftbandits.core import Buffers
from driftbandits.core.estimator.state import TAIL, copy_of, counter_names, essence, revived
from driftbandits.features import ArmId
from driftbandits.jit import handles_of, line_of
from driftbandits.policies import (
    TABLE_ROWS,
    Move,
    Policy,
    begin_as_new,
    believes,
    carried_over,
    decider_of,
    family_of,
    follow_common,
    held_in_common,
    numbers_of_arms,
    show_rows,
)

MOST_ARMS = 10_000
MOST_BYTES = 2**31
"""The memory that the models of all arms may take, their rows not counted."""


class Arm(Model):
    """The model of one arm."""

    def hold(self, buffers: Buffers) -> None:
        super().hold(buffers)
        self._believes = believes(self.policy)
        self._in_common: list[Any] = held_in_common(self.policy, buffers)
        self.line = line_of(self.handle)

    def catch_up(self, common: Arm, clock: int) -> None:
        """Become what the common state and that clock make of this arm."""
        behind = clock - self.clock
        if behind > 0:
            self.tick(behind)
        if self._believes:
            follow_common(self.handle, common.handle)

    def take_over(self, other: Arm) -> None:
        """Copy what all arms have in common from another arm."""
        for mine, theirs in zip(self._in_common, other._in_common, strict=True):
            mine[:] = theirs

    def see(self, seed: int, rows: Floats) -> None:
        if self._believes:
            show_rows(self.handle, rows)

    def anew(self, numbers: Floats) -> Arm:
        """A model that is as this one is, and that knows nothing."""
        arm = self.revived(essence(self.buffers), numbers)
        if self._believes:
            begin_as_new(arm.handle)
        return arm

    def revived(self, arrays: dict[str, Any], numbers: Floats) -> Arm:
        """A model from its essence; what no arm changes is shared with this one."""
        empty = self.policy.new_buffers(0)._replace(numbers=numbers, ladder=self.buffers.ladder)
        return Arm(self.policy, revived(empty, arrays))

    def copied(self, numbers: Floats) -> Arm:
        return Arm(self.policy, copy_of(self.buffers)._replace(numbers=numbers))


class SeparateLearner(Learner):
    """A model for each arm, and the common one as `_model`."""

    def __init__(self, policy: Policy, *, seed: int, counts_apart: bool) -> None:
        self._numbers = numbers_of_arms(policy, 1)  # which all models share
        super().__init__(policy, seed=seed, counts_apart=counts_apart)
        self.arms: dict[ArmId, Arm] = {}
        self._shown_at = 0  # the clock of the estimates that are shown
        size = sum(array.nbytes for array in self._model.buffers)
        self._most_arms = min(MOST_ARMS, max(1, MOST_BYTES // size))
        self._decide_among = decider_of(family_of(policy))

    def _new_model(self) -> Arm:
        return Arm(self.policy, self.policy.new_buffers(0)._replace(numbers=self._numbers))

    # -- arms ------------------------------------------------------------------------------------

    def check(self, offers: Iterable[tuple[Floats, Sequence[ArmId]]]) -> None:
        """Refuse rows and arms that `decide` would refuse."""
        listed = list(offers)
        super().check(listed)
        self._check_room(dict.fromkeys(arm for _, arms in listed for arm in arms))

    def _check_room(self, arms: Iterable[ArmId]) -> list[ArmId]:
        """The arms that are new, if there is room for all of them."""
        known = self.arms
        new = [arm for arm in arms if arm not in known]
        if len(known) + len(new) > self._most_arms:
            raise ValueError(
                f"arms must be at most {self._most_arms} in all for models of "
                f"{self.policy.model_dim} coefficients; {len(known)} are known, and "
                f"{', '.join(map(repr, new[:3]))} {'is' if len(new) == 1 else 'are'} new"
            )
        return new

    def _models_of(self, arms: Sequence[ArmId], rows: Floats) -> list[Arm]:
        """The models of these arms, made where there are none."""
        new = self._check_room(arms)
        if new:
            if not self.arms:
                self._model.see(self.seed, rows)
            for arm in new:
                self.arms[arm] = self._model.anew(self._numbers)
            self._numbers[:] = numbers_of_arms(self.policy, len(self.arms))
        return [self.arms[arm] for arm in arms]

    # -- deciding --------------------------------------------------------------------------------

    def decide(self, rows: Floats, n: int, arms: Any = None) -> tuple[list[Decision], bytes, float]:
        """Pick n of the arms, best first; also the estimates of all, and the radius."""
        super().check([(rows, arms)])
        models = self._models_of(arms, rows)
        clock, number, common, policy = self.clock, self._number, self._model, self.policy
        lines = handles_of([model.line for model in models])
        table, picks = np.empty((TABLE_ROWS, len(rows))), np.empty((2, n))
        shown = np.empty((len(rows), 2, policy.model_dim))
        self._decide_among(
            lines,
            common.handle,
            self.seed,
            number,
            policy.epsilon,
            rows,
            table,
            picks,
            shown,
        )
        self._shown_at = clock
        begun = common.begun if believes(policy) else models[0].begun
        common.set_clock(clock if self.counts_apart else clock + n, begun)
        decisions = self._decisions(clock, number, table, picks, arms)
        return decisions, shown.tobytes(), models[decisions[0].index].radius

    def _beside(self, arms: Sequence[ArmId]) -> Self:
        other = copy.copy(self)
        other._numbers = self._numbers.copy()
        other._model = self._model.copied(other._numbers)
        touched = {arm: self.arms[arm] for arm in arms if arm in self.arms}
        copies = {arm: model.copied(other._numbers) for arm, model in touched.items()}
        other.arms = {**self.arms, **copies}
        return other

    # -- learning --------------------------------------------------------------------------------

    def learn(self, action: Floats, reward: float, s: int, arm: Any = None) -> bool:
        common, model = self._model, self._models_of([arm], action)[0]
        model.catch_up(common, self.clock)
        found = model.learn(action, reward, s)
        common.take_over(model)
        if believes(self.policy):
            common.set_clock(self.clock, max(common.begun, model.begun))
        self._shown_at = self.clock
        if found:
            self.detections.append(model.last_detection)
        return found

    def tick(self, rounds: int) -> None:
        self._model.set_clock(self.clock + rounds, self._model.begun)
        self._shown_at = self.clock

    # -- looking ---------------------------------------------------------------------------------

    def _at(self, clock: int, model: Arm) -> Arm:
        """A copy of a model as that clock makes it."""
        copied = model.copied(self._numbers)
        copied.catch_up(self._model, clock)
        return copied

    def _weights(self) -> Floats:
        weights = [self._at(self.clock, model).weights() for model in self.arms.values()]
        return np.concatenate([np.empty(0), *weights])

    def _fitted(self) -> list[Model]:
        models = list(self.arms.values()) or [self._model]
        return [self._at(self.clock, model).fitted(self.seed, self._number) for model in models]

    @property
    def estimates(self) -> dict[ArmId, Floats]:
        """theta_hat and theta (2, p) of each arm, of the same time as `Learner.estimates`."""
        return {arm: self._estimates_of(model) for arm, model in self.arms.items()}

    def _estimates_of(self, model: Arm) -> Floats:
        if model.clock > self._shown_at:  # it has counted the decision that is shown
            return model.estimates
        return self._at(self._shown_at, model).fitted(self.seed, self._number).estimates

    @property
    def work(self) -> dict[str, int]:
        """The sums over the arms."""
        found = [model.work for model in self.arms.values()]
        return {name: sum(one[name] for one in found) for name in counter_names()}

    # -- saving ----------------------------------------------------------------------------------

    def _take_over(self, old: SeparateLearner, move: Move) -> None:
        self._numbers[:] = numbers_of_arms(self.policy, max(len(old.arms), 1))
        self._shown_at = old._shown_at

        def carried(model: Arm) -> Arm:
            buffers = carried_over(old.policy, model.buffers, self.policy, move)
            return Arm(self.policy, buffers._replace(numbers=self._numbers))

        self._model = carried(old._model)
        self.arms = {arm: carried(model) for arm, model in old.arms.items()}

    def contents(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and plain data: one model after the other, the common one first.

        The rows of all models stand in one table.
        """
        arrays, plain = super().contents()
        found = [essence(model.buffers) for model in (self._model, *self.arms.values())]
        for name in found[0]:
            arrays[name] = (
                np.stack([one[name] for one in found])
                if name != "rows"
                else (np.concatenate([one["rows"] for one in found], axis=1))
            )
        return arrays, {**plain, "arms": list(self.arms), "shown_at": self._shown_at}

    def _revive_models(self, arrays: dict[str, Any], plain: dict[str, Any]) -> None:
        ends = np.cumsum(arrays["counters"][:, TAIL])
        stacked = [name for name in essence(self._model.buffers) if name != "rows"]
        models = []
        for i, (rows, end) in enumerate(zip(arrays["counters"][:, TAIL], ends, strict=True)):
            one = {name: arrays[name][i] for name in stacked}
            one["rows"] = arrays["rows"][:, end - rows : end]
            models.append(self._model.revived(one, self._numbers))
        self._model = models[0]
        self.arms = dict(zip(plain["arms"], models[1:], strict=True))
        self._numbers[:] = numbers_of_arms(self.policy, max(len(self.arms), 1))
        self._shown_at = plain["shown_at"]
