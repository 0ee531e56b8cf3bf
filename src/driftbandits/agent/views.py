"""What can be seen of an agent without changing it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from driftbandits.agent.decisions import (
    ArmId,
    Decision,
    Explanation,
    UnknownDecision,
    explanation_of,
)
from driftbandits.agent.learner import Learner
from driftbandits.agent.ledger import EXPLAINED_DECISIONS, Ledger
from driftbandits.agent.separate import SeparateLearner
from driftbandits.agent.tables import Tables
from driftbandits.features import Report, report_on
from driftbandits.policies import Detection, Hypothesis, Policy
from driftbandits.rewards import Reward


class Views:
    """An agent as it can be looked at."""

    policy: Policy
    seed: int
    late: int
    clipped: int
    _reward: Reward | None
    _lock: threading.RLock
    _learner: Learner | SeparateLearner
    _ledger: Ledger
    _tables: Tables | None
    _separate: bool

    @property
    def clock(self) -> int:
        """Decisions and ticks so far."""
        return self._learner.clock

    @property
    def pending(self) -> tuple[int, ...]:
        """Decisions that wait for a reward."""
        with self._lock:
            return tuple(self._ledger.pending)

    def waits_for(self, decision: Decision | int) -> bool:
        """Whether a reward for this decision would be learned."""
        return (decision.id if isinstance(decision, Decision) else decision) in self._ledger.pending

    @property
    def effective_sample_size(self) -> float | None:
        """(sum w)^2 / sum w^2 over what is remembered; None for a model that keeps no rows."""
        with self._lock:
            return self._learner.effective_sample_size

    @property
    def radius(self) -> float:
        """The confidence radius of the next decision, bonus_scale included; 0 without a bonus."""
        with self._lock:
            return self._learner.radius

    @property
    def theta_hat(self) -> Any:
        """The estimate the last decision used; after an update or tick, the one the next will.

        An array (d,), or of separate arms a dictionary of arrays by their ids.
        """
        return self._estimate(0)

    @property
    def theta(self) -> Any:
        """The projection of `theta_hat` on ||theta|| <= S."""
        return self._estimate(1)

    def _estimate(self, which: int) -> Any:
        with self._lock:
            estimates = self._learner.estimates
            if isinstance(estimates, dict):
                return {arm: both[which].copy() for arm, both in estimates.items()}
            return estimates[which].copy()

    @property
    def arms(self) -> tuple[ArmId, ...]:
        """The separate arms that are known, in the order in which they appeared."""
        with self._lock:
            return tuple(self._learner.arms)

    @property
    def coefficients(self) -> dict[Any, Any]:
        """theta by the names of its features; of separate arms, by the ids of the arms."""
        with self._lock:
            tables = self._named_tables()
            theta = self.theta
            if isinstance(theta, dict):
                return {arm: tables.named(own, self.policy) for arm, own in theta.items()}
            return tables.named(theta, self.policy)

    @property
    def names(self) -> tuple[str, ...]:
        """What the coordinates of theta mean, in their order, as far as they have a meaning yet."""
        with self._lock:
            return tuple(self._named_tables().encoding.book.names)

    def features_report(self) -> Report:
        """Levels, what they share, missing and clipped values, the dimension and what it costs."""
        with self._lock:
            return report_on(self._named_tables().encoding, room=self.policy.model_dim)

    def _named_tables(self) -> Tables:
        if self._tables is None:
            raise ValueError("features must have been given to the policy: these have no names")
        return self._tables

    @property
    def certificate(self) -> dict[str, float]:
        """How exact the present estimate is: Newton decrement, error bound, KKT residual.

        Of a large model also `relative_to_width`, the bound of a score's error over its width, and
        `proved`: 1 where that bound is a proof, 0 where it is an estimate.
        """
        with self._lock:
            return self._learner.certificate

    @property
    def work(self) -> dict[str, int]:
        """What the estimator has done so far: exact passes, anchors, Newton steps, projections."""
        with self._lock:
            return self._learner.work

    @property
    def detections(self) -> tuple[Detection, ...]:
        """The changes that the policy has detected, oldest first; the last 1000 are kept."""
        with self._lock:
            return tuple(self._learner.detections)

    @property
    def beliefs(self) -> list[Hypothesis]:
        """What `auto` holds to be possible and how probable that is; of other policies nothing."""
        with self._lock:
            return self._learner.hypotheses

    def explain(self, decision: Decision | int) -> Explanation:
        """Why a decision was made: mean, width and score of every action as they were."""
        number = decision.id if isinstance(decision, Decision) else decision
        whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        with self._lock:
            made = self._ledger.made.get(int(number)) if whole else None
        if made is None:
            raise UnknownDecision(
                f"decision {number!r} cannot be explained; the last {EXPLAINED_DECISIONS} "
                "decisions can"
            )
        explanation = explanation_of(made, separate=self._separate)
        if self._tables is None:
            return explanation
        return self._tables.explained(explanation, self._ledger.encoded[int(number)], self.policy)
