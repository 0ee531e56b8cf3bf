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
from driftbandits.core.estimator.state import BEGUN, N, copy_of, essence, revived
from driftbandits.features import ArmId
from driftbandits.jit import handles_of, line_of
from driftbandits.policies import (
    TABLE_ROWS,
    Policy,
    begin_as_new,
    believes,
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

    def set_clock(self, clock: int, begun: int) -> None:
        """Move the clock of a model that never learns."""
        self.counters[N], self.counters[BEGUN] = clock, begun

    def see(self, seed: int, rows: Floats) -> None:
        if self._believes:
            show_rows(self.handle, rows)


class SeparateLearner(Learner):
    """A model for each arm, and the common one as `model`."""

    model: Arm
    arms: dict[ArmId, Arm]

    def __init__(self, policy: Policy, *, seed: int, counts_apart: bool) -> None:
        # The buffers that all models share: none of them changes the ladder.
        self._shared: dict[str, Any] = {"numbers": numbers_of_arms(policy, 1)}
        super().__init__(policy, seed=seed, counts_apart=counts_apart)
        self._shared["ladder"] = self.model.buffers.ladder
        size = sum(array.nbytes for array in self.model.buffers)
        self._most_arms = min(MOST_ARMS, max(1, MOST_BYTES // size))
        self._decide_among = decider_of(family_of(policy))

    def _model_of(self, buffers: Buffers) -> Arm:
        return Arm(self.policy, buffers._replace(**self._shared))

    # -- arms ------------------------------------------------------------------------------------

    def check(self, offers: Iterable[tuple[Floats, Sequence[ArmId]]]) -> None:
        """Refuse rows and arms that `decide` would refuse."""
        listed = list(offers)
        super().check(listed)
        self._new_arms(dict.fromkeys(arm for _, arms in listed for arm in arms))

    def _new_arms(self, arms: Iterable[ArmId]) -> list[ArmId]:
        """The arms that are not known yet, if there is room for all of them."""
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
        new = self._new_arms(arms)
        if new:
            common = self.model
            if not self.arms:
                common.see(self.seed, rows)
            for arm in new:
                empty = self.policy.new_buffers(0)
                self.arms[arm] = made = self._model_of(revived(empty, essence(common.buffers)))
                if believes(self.policy):
                    begin_as_new(made.handle)
            self._count_arms()
        return [self.arms[arm] for arm in arms]

    def _count_arms(self) -> None:
        """Let the models have the numbers of as many arms as there are."""
        self._shared["numbers"][:] = numbers_of_arms(self.policy, max(len(self.arms), 1))

    # -- deciding --------------------------------------------------------------------------------

    def decide(self, rows: Floats, n: int, arms: Any = None) -> tuple[list[Decision], bytes, float]:
        super().check([(rows, arms)])
        models = self._models_of(arms, rows)
        clock, number, common, policy = self.clock, self._number, self.model, self.policy
        table, picks = np.empty((TABLE_ROWS, len(rows))), np.empty((2, n))
        shown = np.empty((len(rows), 2, policy.model_dim))
        lines, seed, epsilon = handles_of([one.line for one in models]), self.seed, policy.epsilon
        self._decide_among(lines, common.handle, seed, number, epsilon, rows, table, picks, shown)
        begun = common.begun if believes(policy) else models[0].begun
        common.set_clock(clock if self.counts_apart else clock + n, begun)
        decisions = self._decisions(clock, number, table, picks, arms)
        return decisions, shown.tobytes(), models[decisions[0].index].radius

    def _beside(self, arms: Sequence[ArmId]) -> Self:
        other = copy.copy(self)
        other._shared = {**self._shared, "numbers": self._shared["numbers"].copy()}
        other.model = other._copied(self.model)
        touched = {arm: other._copied(self.arms[arm]) for arm in arms if arm in self.arms}
        other.arms = {**self.arms, **touched}
        return other

    def _copied(self, model: Arm) -> Arm:
        return self._model_of(copy_of(model.buffers))

    # -- learning --------------------------------------------------------------------------------

    def learn(self, action: Floats, reward: float, s: int, arm: Any = None) -> bool:
        common, model = self.model, self._models_of([arm], action)[0]
        model.catch_up(common, self.clock)
        found = super().learn(action, reward, s, arm)
        common.take_over(model)
        if believes(self.policy):
            common.set_clock(self.clock, max(common.begun, model.begun))
        return found

    def tick(self, rounds: int) -> None:
        self.model.set_clock(self.clock + rounds, self.model.begun)
        self._shown_at = None

    # -- looking ---------------------------------------------------------------------------------

    def _at(self, clock: int, model: Arm) -> Arm:
        """A copy of a model as that clock makes it."""
        copied = self._copied(model)
        copied.catch_up(self.model, clock)
        return copied

    def now(self) -> list[Model]:
        return [self._at(self.clock, model) for model in self.arms.values() or [self.model]]

    @property
    def estimates(self) -> dict[ArmId, Floats]:
        """theta_hat and theta (2, p) of each arm, of the same time as `Learner.estimates`."""
        at = self.clock if self._shown_at is None else self._shown_at
        return {
            arm: model.estimates  # of the decision that is shown, which it has counted
            if model.clock > at
            else self._at(at, model).fitted(self.seed, self._number).estimates
            for arm, model in self.arms.items()
        }

    def _hold(self, models: Iterable[Buffers], arms: Iterable[ArmId]) -> None:
        super()._hold(models, arms)
        self._count_arms()
