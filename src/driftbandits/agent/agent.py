"""Decisions now, rewards whenever they come, a state that survives.

Time belongs to the decision. The clock counts decisions and ticks; a reward is learned with the age
of its decision, however late it arrives. With clock="ticks" decisions do not move the clock and
ticks alone do, so that an application can count time in its own unit; decisions are then counted
apart, and randomness is a function of (seed, count).

An `Agent` may be used by several threads: every method takes the agent's lock, so calls happen one
after the other, in some order.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import checks
from driftbandits.agent import savefile
from driftbandits.agent.decisions import (
    Decision,
    Explanation,
    Floats,
    UnknownDecision,
    estimates_from,
)
from driftbandits.agent.learner import Learner
from driftbandits.agent.ledger import EXPLAINED_DECISIONS, Ledger
from driftbandits.policies import Detection, Policy, recorded_policy

CLOCKS = ("decisions", "ticks")
"""What the clock counts: decisions and ticks, or ticks alone."""

_LARGEST_SEED = 2**63 - 1
_LONGEST_TIME = 2**52
_NUMBERS = (int, float, np.integer, np.floating, np.bool_)


class Agent:
    """A policy at work.

    >>> import driftbandits as db
    >>> agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=100), seed=0)
    >>> choice = agent.decide([[1.0, 0.0], [0.0, 0.5]])
    >>> choice.index
    0
    >>> agent.update(choice, 1.0)
    'learned'
    """

    def __init__(self, policy: Policy, *, seed: int = 0, clock: str = "decisions") -> None:
        if not isinstance(policy, Policy):
            raise ValueError(f"policy must come from driftbandits.policy(...); got {policy!r}")
        self.policy = policy
        self.seed = checks.integer("seed", seed, least=0, most=_LARGEST_SEED)
        counts_apart = checks.choice("clock", clock, CLOCKS) == "ticks"
        self.late = 0
        """Rewards that came too late to matter."""
        self._reward_range = policy.reward_range()
        self._dim = policy.dim
        self._lock = threading.RLock()
        self._learner = Learner(policy, seed=self.seed, counts_apart=counts_apart)
        self._ledger = Ledger()

    # -- deciding --------------------------------------------------------------------------------

    @overload
    def decide(self, actions: ArrayLike) -> Decision: ...

    @overload
    def decide(self, actions: ArrayLike, *, n: int) -> list[Decision]: ...

    @overload
    def decide(self, actions: ArrayLike, *, played: int) -> Decision: ...

    def decide(
        self, actions: ArrayLike, *, n: int | None = None, played: int | None = None
    ) -> Decision | list[Decision]:
        """Choose one of `actions` (K, dim); with n, a ranked list of n of them.

        With `played` the caller plays that row whatever is chosen, and its reward is learned.

        A ranked list is n decisions made at once: each place has its own round, id and
        reward, all are scored by the same estimate, and none repeats an action.
        """
        rows = self._checked_actions(actions)
        if played is not None:
            if n is not None:
                raise ValueError(f"give n or played, not both; got n = {n!r}, played = {played!r}")
            checks.integer("played", played, least=0, most=len(rows) - 1)
        if n is None:
            with self._lock:
                return self._decide(rows, 1, played)[0]
        count = checks.integer("n", n, least=1, most=len(rows))
        with self._lock:
            return self._decide(rows, count)

    def decide_many(self, action_sets: Iterable[ArrayLike]) -> list[Decision]:
        """Decide for several action sets, as by one call after the other; all or none."""
        if not isinstance(action_sets, Iterable):
            raise ValueError(f"action_sets must be a list of action sets; got {action_sets!r}")
        checked = [self._checked_actions(actions) for actions in action_sets]
        with self._lock:
            for rows in checked:
                self._learner.check_actions(rows)
            return [self._decide(rows, 1)[0] for rows in checked]

    def preview(self, actions: ArrayLike, *, seed: int) -> Decision:
        """What would be decided now, with the draws of this seed; nothing changes, the id is 0."""
        rows = self._checked_actions(actions)
        seed = checks.integer("seed", seed, least=0, most=_LARGEST_SEED)
        with self._lock:
            return self._learner.preview(rows, seed=seed)

    def _decide(self, actions: Floats, n: int, played: int | None = None) -> list[Decision]:
        decisions, estimates, radius = self._learner.decide(actions, n)
        ledger = self._ledger
        ledger.enter(decisions, estimates, radius, actions, played)
        if len(ledger.pending) > 1:  # one alone has just been made
            self._expire()
        return decisions

    def _expire(self) -> None:
        self._ledger.expire(self._learner.last_forgotten_round())

    @property
    def issued(self) -> int:
        """The id of the last decision; rounds that only ticked are counted unless apart."""
        return self._learner.issued

    # -- learning --------------------------------------------------------------------------------

    def update(self, decision: Decision | int, reward: float) -> str:
        """Learn the reward of a decision, given as it was returned or by its id.

        Returns "learned", or "late" where the policy has forgotten that round: then it is counted
        and changes nothing.
        """
        value = self._checked_reward(reward)
        with self._lock:
            pending = self._ledger.pending.pop(self._checked_id(decision), None)
            if pending is None:
                self.late += 1
                return "late"
            t, action = pending
            if self._learner.absorb(action, 0, value, t):
                self._expire()
            return "learned"

    def update_many(
        self, decisions: Sequence[Decision | int], rewards: Sequence[float] | Floats
    ) -> list[str]:
        """Learn several rewards, as by one call after the other; all or none."""
        for label, given in (("decisions", decisions), ("rewards", rewards)):
            if not hasattr(given, "__len__"):
                raise ValueError(f"{label} must be a list; got {given!r}")
        if len(decisions) != len(rewards):
            raise ValueError(
                f"rewards must be as many as decisions; got {len(rewards)} for {len(decisions)}"
            )
        values = [self._checked_reward(reward) for reward in rewards]
        with self._lock:
            ids = [self._checked_id(decision) for decision in decisions]
            pending = [number for number in ids if number in self._ledger.pending]
            if len(set(pending)) < len(pending):
                twice = next(number for number in pending if pending.count(number) > 1)
                raise UnknownDecision(f"decisions must differ; got decision {twice} twice")
            return [self.update(*pair) for pair in zip(ids, values, strict=True)]

    def _checked_id(self, decision: Decision | int) -> int:
        """The id of a decision that waits for a reward, or that is too old to matter."""
        if isinstance(decision, Decision):
            number = decision.id
        elif isinstance(decision, bool) or not isinstance(decision, (int, np.integer)):
            raise UnknownDecision(f"decision must be a Decision or its id; got {decision!r}")
        else:
            number = int(decision)
        if number in self._ledger.pending:
            return number
        if not 1 <= number <= self.issued:
            raise UnknownDecision(
                f"decision {number} was never issued; this agent's are 1 to {self.issued}"
            )
        if not self._is_forgotten(number):
            raise UnknownDecision(
                f"decision {number} is not waiting for a reward: it has been rewarded or "
                "withdrawn, or that round passed without a decision"
            )
        return number

    def _is_forgotten(self, number: int) -> bool:
        """Whether a decision that does not wait is too old to matter."""
        learner = self._learner
        apart = learner.counts_apart
        return number <= (self._ledger.last_expired if apart else learner.last_forgotten_round())

    def _checked_reward(self, reward: float) -> float:
        low, high = self._reward_range
        if isinstance(reward, _NUMBERS) and low <= reward <= high:
            return float(reward)
        raise ValueError(
            f"reward must be a number in [{low:g}, {high:g}] for the {self.policy.link.name} "
            f"model; got {reward!r}"
        )

    def withdraw(self, decision: Decision | int) -> None:
        """Take back a decision that was never shown; its round stays in the past."""
        with self._lock:
            self._ledger.pending.pop(self._checked_id(decision), None)

    def tick(self, rounds: int = 1) -> None:
        """Let time pass without a decision."""
        count = checks.integer("rounds", rounds, least=0, most=_LONGEST_TIME)
        with self._lock:
            self._learner.tick(count)
            self._expire()

    def learn(
        self, actions: ArrayLike, rewards: ArrayLike, *, ages: ArrayLike | None = None
    ) -> None:
        """Warm up from foreign data: row i was played `ages[i]` rounds ago.

        Without ages the rows are rounds of their own, oldest first, and the clock counts them, as
        if this agent had made those choices. With ages the clock stands still; an age of 0 is the
        present, and rows older than the policy's memory are counted as late.
        """
        rows = self._checked_actions(actions)
        outcomes = np.atleast_1d(checks.floats("rewards", rewards))
        if outcomes.shape != (len(rows),):
            raise ValueError(f"rewards must be {len(rows)} numbers; got shape {outcomes.shape}")
        values = [self._checked_reward(float(x)) for x in outcomes]
        when = None if ages is None else _checked_ages(ages, len(rows))
        with self._lock:
            self._learner.check_actions(rows)
            for i, value in enumerate(values):
                if when is None:
                    self.tick(1)
                age = 0 if when is None else int(when[i])
                if self.clock - age <= self._learner.last_forgotten_round():
                    self.late += 1
                elif self._learner.absorb(rows, i, value, self.clock - age):
                    self._expire()

    # -- looking ---------------------------------------------------------------------------------

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
    def theta_hat(self) -> Floats:
        """The estimate the last decision used; after an update or tick, the one the next will."""
        return self._estimate(0)

    @property
    def theta(self) -> Floats:
        """The projection of `theta_hat` on ||theta|| <= S."""
        return self._estimate(1)

    def _estimate(self, which: int) -> Floats:
        with self._lock:
            estimate: Floats = self._learner.estimates[which].copy()
            return estimate

    @property
    def certificate(self) -> dict[str, float]:
        """How exact the present estimate is: Newton decrement, error bound, KKT residual.

        Of a large model also `relative_to_width`: the bound of a score's error over its width.
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
        of, estimates, radius = made
        theta_hat, theta = estimates_from(estimates)
        return Explanation(of, theta_hat, theta, radius)

    # -- checking --------------------------------------------------------------------------------

    def _checked_actions(self, actions: ArrayLike) -> Floats:
        rows = checks.floats("actions", actions)
        shape = rows.shape
        if len(shape) != 2 or shape[1] != self._dim:
            raise ValueError(f"actions must have shape (K, {self._dim}); got {np.shape(actions)}")
        if shape[0] == 0:
            raise ValueError("actions must hold at least one action; got none")
        return rows

    # -- keeping ---------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """A fingerprint of everything that decides what this agent will do."""
        with self._lock:
            arrays, meta = self._contents()
        return savefile.digest(arrays, meta)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, which is replaced in one step."""
        savefile.write_whole(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The agent as it was saved; a file that is not whole raises `BadSaveFile`."""
        return cls.from_bytes(Path(path).read_bytes(), source=str(path))

    def to_bytes(self) -> bytes:
        """What `save` writes."""
        with self._lock:
            return savefile.packed(*self._contents())

    @classmethod
    def from_bytes(cls, content: bytes, *, source: str = "the content") -> Self:
        """An agent from what `to_bytes` gave."""
        arrays, meta = savefile.unpacked(content, source)
        apart = meta.get("apart")
        clock = "decisions" if apart is None else "ticks"
        agent = cls(recorded_policy(meta["policy"]), seed=meta["seed"], clock=clock)
        issued, last_expired = apart or (0, 0)
        agent._learner.revive(arrays, issued)
        agent._ledger.revive(arrays, last_expired)
        agent.late = meta["late"]
        return agent

    def _contents(self) -> tuple[savefile.Arrays, dict[str, Any]]:
        learner, ledger = self._learner, self._ledger
        arrays = {
            **learner.essence(),
            **ledger.packed(self.policy.dim, self.policy.model_dim),
            **learner.shown(),
        }
        meta = {"policy": self.policy.arguments, "seed": self.seed, "late": self.late}
        if learner.counts_apart:
            arrays |= ledger.packed_rounds()
            meta["apart"] = [learner.issued, ledger.last_expired]
        return arrays, meta


def _checked_ages(ages: ArrayLike, count: int) -> NDArray[np.int64]:
    given = np.atleast_1d(checks.floats("ages", ages))
    whole = np.isfinite(given).all() and (given >= 0).all() and (given == np.floor(given)).all()
    if given.shape != (count,) or not whole or (given.size and given.max() > _LONGEST_TIME):
        raise ValueError(f"ages must be {count} whole numbers of at least 0; got {ages!r}")
    return given.astype(np.int64)
