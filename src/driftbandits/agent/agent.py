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
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from driftbandits import policies
from driftbandits.agent import savefile
from driftbandits.agent.checks import check_count, checked_ages, numbers
from driftbandits.agent.decisions import (
    Decision,
    Explanation,
    Floats,
    Made,
    UnknownDecision,
    Waiting,
    estimates_from,
    frozen,
    packed_decisions,
    unpacked_decisions,
)
from driftbandits.estimator import keeps_rows, new_buffers, with_capacity
from driftbandits.estimator.model import (
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
    THETA,
    THETA_HAT,
    Buffers,
    N,
    copy_of,
    counter_names,
    essence,
    revived,
)
from driftbandits.jit import handle_of
from driftbandits.policies import Detection, Policy, last_detection, policy

CLOCKS = ("decisions", "ticks")
"""What the clock counts: decisions and ticks, or ticks alone."""

_EXPLAINED_DECISIONS = 1000
_KEPT_DETECTIONS = 1000
# Plain numbers, as `item` takes them: it gives plain numbers too, which are quick to compare.
_CLOCK, _HEAD, _TAIL, _RADIUS = int(N), int(HEAD), int(TAIL), int(RADIUS)
_BEGUN, _SPAN, _DETECTIONS = int(BEGUN), int(SPAN), int(DETECTIONS)
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
        check_count("seed", seed, least=0, most=2**63 - 1)
        if clock not in CLOCKS:
            raise ValueError(f"clock must be one of {', '.join(CLOCKS)}; got {clock!r}")
        self.policy = policy
        self.seed = int(seed)
        self._counts_apart = clock == "ticks"
        self._issued = 0  # decisions, where they are counted apart
        self._last_expired = 0
        self.late = 0
        """Rewards that came too late to matter."""
        _, self._play, self._learn, self._pass = policies.kernels_of(policies.family_of(policy))
        self._keeps_rows = keeps_rows(policy.model)
        self._reward_range = policy.reward_range()
        self._dim = policy.dim
        self._lock = threading.RLock()
        self._pending: dict[int, Waiting] = {}  # by id, in the order of their rounds
        self._made: dict[int, Made] = {}
        self._detections: deque[Detection] = deque(maxlen=_KEPT_DETECTIONS)
        self._shown: bytes | None = None  # theta_hat and theta; bytes are cheap to copy and safe
        self._shown_was_used = False  # by a decision, which makes it part of the state
        self._one_pick = np.empty((2, 1))  # scratch
        self._hold(new_buffers(policy.numbers, FIRST_CAPACITY if self._keeps_rows else 0))

    def _hold(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._handle = handle_of(buffers)
        self._capacity = buffers.rows.shape[1] if self._keeps_rows else sys.maxsize
        self._counters, self._gauges = buffers.counters, buffers.gauges
        self._detected = self._counters.item(_DETECTIONS)
        self._estimates = buffers.vectors[THETA_HAT : THETA + 1]

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
            check_count("played", played, least=0, most=len(rows) - 1)
        if n is None:
            with self._lock:
                return self._decide(rows, 1, played=played)[0]
        check_count("n", n, least=1, most=len(rows))
        with self._lock:
            return self._decide(rows, int(n))

    def decide_many(self, action_sets: Iterable[ArrayLike]) -> list[Decision]:
        """Decide for several action sets, as by one call after the other; all or none."""
        if not isinstance(action_sets, Iterable):
            raise ValueError(f"action_sets must be a list of action sets; got {action_sets!r}")
        checked = [self._checked_actions(actions) for actions in action_sets]
        with self._lock:
            for rows in checked:
                self._check_lengths(rows)
            return [self._decide(rows, 1)[0] for rows in checked]

    def preview(self, actions: ArrayLike, *, seed: int) -> Decision:
        """What would be decided now, with the draws of this seed; nothing changes, the id is 0."""
        rows = self._checked_actions(actions)
        check_count("seed", seed, least=0, most=2**63 - 1)
        table, picks = np.empty((4, len(rows))), np.empty((2, 1))
        with self._lock:
            number = self._issued + 1 if self._counts_apart else 0
            beside = copy_of(self._buffers)
            verdict = self._play(handle_of(beside), int(seed), number, rows, table, picks)
        if verdict != policies.ACCEPTED:
            self._refuse(rows, verdict)
        return Decision(0, int(picks[0, 0]), 0, float(picks[1, 0]), frozen(table))

    def _decide(self, actions: Floats, n: int, *, played: int | None = None) -> list[Decision]:
        table = np.empty((4, actions.shape[0]))
        picks = self._one_pick if n == 1 else np.empty((2, n))
        clock = self._counters.item(_CLOCK)
        number = self._issued + 1 if self._counts_apart else 0
        verdict = self._play(self._handle, self.seed, number, actions, table, picks)
        if verdict != policies.ACCEPTED:
            self._refuse(actions, verdict)
        frozen(table)
        self._shown = shown = self._estimates.tobytes()
        self._shown_was_used = True
        radius = self._gauges.item(_RADIUS)
        made, pending, decisions = self._made, self._pending, []
        indices, propensities = picks.tolist()
        for rank in range(n):
            index, t = int(indices[rank]), clock + 1 + rank
            id = t
            if self._counts_apart:
                id, t = number + rank, clock
            decision = Decision(id, index, t, propensities[rank], table)
            row = index if played is None else played
            pending[id] = t, actions[row : row + 1].copy()
            made[id] = decision, shown, radius
            decisions.append(decision)
        self._issued += n
        while len(made) > _EXPLAINED_DECISIONS:
            del made[next(iter(made))]
        if len(pending) > 1:  # one alone has just been made
            self._expire()
        return decisions

    def _expire(self) -> None:
        """Let go of decisions whose rewards can no longer matter, so that memory stays bounded."""
        pending, last = self._pending, self._last_forgotten_round()
        while pending:
            oldest = next(iter(pending))
            if pending[oldest][0] > last:
                break
            del pending[oldest]
            self._last_expired = oldest

    def _last_forgotten_round(self) -> int:
        """The last round that lies before the policy's memory. Foreign data may be older than 1."""
        counters = self._counters
        last = counters.item(_BEGUN) or -sys.maxsize
        span = counters.item(_SPAN)
        return max(last, counters.item(_CLOCK) - span) if span > 0 else last

    def _is_forgotten(self, number: int) -> bool:
        """Whether a decision that does not wait is too old to matter."""
        last = self._last_expired if self._counts_apart else self._last_forgotten_round()
        return number <= last

    @property
    def issued(self) -> int:
        """The id of the last decision; rounds that only ticked are counted unless apart."""
        return self._issued if self._counts_apart else self.clock

    # -- learning --------------------------------------------------------------------------------

    def update(self, decision: Decision | int, reward: float) -> str:
        """Learn the reward of a decision, given as it was returned or by its id.

        Returns "learned", or "late" where the policy has forgotten that round: then it is counted
        and changes nothing.
        """
        value = self._checked_reward(reward)
        with self._lock:
            return self._learn_pending(self._checked_id(decision), value)

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
            waiting = [number for number in ids if number in self._pending]
            if len(set(waiting)) < len(waiting):
                twice = next(number for number in waiting if waiting.count(number) > 1)
                raise UnknownDecision(f"decisions must differ; got decision {twice} twice")
            return [
                self._learn_pending(number, value)
                for number, value in zip(ids, values, strict=True)
            ]

    def _checked_id(self, decision: Decision | int) -> int:
        """The id of a decision that waits for a reward, or that is too old to matter."""
        if isinstance(decision, Decision):
            number = decision.id
        elif isinstance(decision, bool) or not isinstance(decision, (int, np.integer)):
            raise UnknownDecision(f"decision must be a Decision or its id; got {decision!r}")
        else:
            number = int(decision)
        if number in self._pending:
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

    def _checked_reward(self, reward: float) -> float:
        low, high = self._reward_range
        if isinstance(reward, _NUMBERS) and low <= reward <= high:
            return float(reward)
        raise ValueError(
            f"reward must be a number in [{low:g}, {high:g}] for the {self.policy.link.name} "
            f"model; got {reward!r}"
        )

    def _learn_pending(self, number: int, reward: float) -> str:
        waiting = self._pending.pop(number, None)
        if waiting is None:
            self.late += 1
            return "late"
        t, action = waiting
        self._absorb(action, 0, reward, t)
        return "learned"

    def _absorb(self, actions: Floats, index: int, reward: float, s: int) -> None:
        if self._counters.item(_TAIL) >= self._capacity:
            self._make_room()
        self._learn(self._handle, actions, index, reward, s)
        self._shown = None
        if self._counters.item(_DETECTIONS) > self._detected:
            self._detected += 1
            self._detections.append(last_detection(self._buffers))
            self._expire()

    def _make_room(self) -> None:
        """Twice the room that the rows need, so that moving them to the front stays rare."""
        rows = self._counters.item(_TAIL) - self._counters.item(_HEAD)
        if 2 * rows > self._capacity:
            self._hold(with_capacity(self._buffers, 2 * self._capacity))

    def withdraw(self, decision: Decision | int) -> None:
        """Take back a decision that was never shown; its round stays in the past."""
        with self._lock:
            self._pending.pop(self._checked_id(decision), None)

    def tick(self, rounds: int = 1) -> None:
        """Let time pass without a decision."""
        check_count("rounds", rounds, least=0, most=2**52)
        with self._lock:
            self._pass(self._handle, int(rounds))
            self._shown = None
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
        outcomes = np.atleast_1d(numbers("rewards", rewards))
        if outcomes.shape != (len(rows),):
            raise ValueError(f"rewards must be {len(rows)} numbers; got shape {outcomes.shape}")
        values = [self._checked_reward(float(x)) for x in outcomes]
        when = None if ages is None else checked_ages(ages, len(rows))
        with self._lock:
            self._check_lengths(rows)
            for i, value in enumerate(values):
                if when is None:
                    self.tick(1)
                age = 0 if when is None else int(when[i])
                if self.clock - age <= self._last_forgotten_round():
                    self.late += 1
                else:
                    self._absorb(rows, i, value, self.clock - age)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        """Decisions and ticks so far."""
        return self._counters.item(_CLOCK)

    @property
    def pending(self) -> tuple[int, ...]:
        """Decisions that wait for a reward."""
        with self._lock:
            return tuple(self._pending)

    def waits_for(self, decision: Decision | int) -> bool:
        """Whether a reward for this decision would be learned."""
        return (decision.id if isinstance(decision, Decision) else decision) in self._pending

    @property
    def effective_sample_size(self) -> float | None:
        """(sum w)^2 / sum w^2 over what is remembered; None for a model that keeps no rows."""
        if not self._keeps_rows:
            return None
        with self._lock:
            head, tail = self._counters[HEAD], self._counters[TAIL]
            ages = self.clock - self._buffers.rows[-1, head:tail]
            weights = policies.weights_of_ages(self.policy, self._buffers, ages)
        return float(weights.sum() ** 2 / np.square(weights).sum()) if weights.size else 0.0

    @property
    def radius(self) -> float:
        """The confidence radius of the next decision, bonus_scale included; 0 without a bonus."""
        with self._lock:
            return self._fitted_copy().gauges.item(_RADIUS)

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
            if self._shown is None:
                self._shown = self._fitted_copy().vectors[THETA_HAT : THETA + 1].tobytes()
                self._shown_was_used = False
            estimate: Floats = estimates_from(self._shown)[which].copy()
            return estimate

    def _fitted_copy(self) -> Buffers:
        """The state as the next decision will see it: one among no actions, made by a copy."""
        beside = copy_of(self._buffers)
        number = self._issued + 1 if self._counts_apart else 0
        nothing = np.empty((0, self.policy.dim)), np.empty((4, 0)), np.empty((2, 0))
        self._play(handle_of(beside), self.seed, number, *nothing)
        return beside

    @property
    def certificate(self) -> dict[str, float]:
        """How exact the present estimate is: Newton decrement, error bound, KKT residual."""
        with self._lock:
            gauges = self._fitted_copy().gauges
        return {
            "newton_decrement": float(gauges[DECREMENT]),
            "error_bound": float(gauges[ERROR_BOUND]),
            "kkt_residual": float(gauges[KKT_RESIDUAL]),
        }

    @property
    def work(self) -> dict[str, int]:
        """What the estimator has done so far: exact passes, anchors, Newton steps, projections."""
        with self._lock:
            return {name: int(self._counters[i]) for name, i in counter_names().items()}

    @property
    def detections(self) -> tuple[Detection, ...]:
        """The changes that the policy has detected, oldest first; the last 1000 are kept."""
        with self._lock:
            return tuple(self._detections)

    def explain(self, decision: Decision | int) -> Explanation:
        """Why a decision was made: mean, width and score of every action as they were."""
        number = decision.id if isinstance(decision, Decision) else decision
        whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        with self._lock:
            made = self._made.get(int(number)) if whole else None
        if made is None:
            raise UnknownDecision(
                f"decision {number!r} cannot be explained; the last {_EXPLAINED_DECISIONS} "
                "decisions can"
            )
        of, estimates, radius = made
        theta_hat, theta = estimates_from(estimates)
        return Explanation(of, theta_hat, theta, radius)

    # -- checking --------------------------------------------------------------------------------

    def _checked_actions(self, actions: ArrayLike) -> Floats:
        rows = numbers("actions", actions)
        shape = rows.shape
        if len(shape) != 2 or shape[1] != self._dim:
            raise ValueError(f"actions must have shape (K, {self._dim}); got {np.shape(actions)}")
        if shape[0] == 0:
            raise ValueError("actions must hold at least one action; got none")
        return rows

    def _check_lengths(self, rows: Floats) -> None:
        verdict = policies.check_actions(self.policy.numbers, rows)
        if verdict != policies.ACCEPTED:
            self._refuse(rows, verdict)

    def _refuse(self, actions: Floats, verdict: int) -> None:
        if not np.isfinite(actions).all():
            bad = int(np.argmin(np.isfinite(actions).all(axis=1)))
            raise ValueError(f"actions must be finite; got {actions[bad]} in row {bad}")
        scale = float(np.abs(actions).max()) or 1.0
        lengths = scale * np.sqrt(((actions / scale) ** 2).sum(axis=1))
        bad = int(np.argmax(lengths))
        raise ValueError(
            f"actions must not be longer than L = {self.policy.longest:g}; row {bad} has length "
            f"{lengths[bad]:.6g}. Give a larger L, or too_long='rescale'."
        )

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
        agent = cls(policy(**meta["policy"]), seed=meta["seed"], clock=clock)
        if apart is not None:
            agent._issued, agent._last_expired = apart
        agent.late = meta["late"]
        agent._hold(revived(agent.policy.numbers, arrays))
        ids = arrays["pending"].tolist()
        rounds = ids if apart is None else arrays["pending_rounds"].tolist()
        agent._pending = {
            number: (t, action[None, :])
            for number, t, action in zip(ids, rounds, arrays["pending_actions"], strict=True)
        }
        agent._made = dict(unpacked_decisions(arrays))
        agent._detections.extend(map(Detection.from_row, arrays["detections"]))
        if "shown" in arrays:
            agent._shown = arrays["shown"].tobytes()
            agent._shown_was_used = True
        return agent

    def _contents(self) -> tuple[savefile.Arrays, dict[str, Any]]:
        arrays: savefile.Arrays = {
            **essence(self._buffers),
            **packed_decisions(list(self._made.values()), self.policy.model_dim),
            "pending": np.array(list(self._pending), dtype=np.int64),
            "pending_actions": np.array(
                [action[0] for _, action in self._pending.values()]
            ).reshape(-1, self.policy.dim),
            "detections": np.array(self._detections, dtype=np.float64).reshape(-1, 4),
        }
        if self._shown is not None and self._shown_was_used:
            arrays["shown"] = estimates_from(self._shown)
        meta = {
            "policy": self.policy.arguments,
            "seed": self.seed,
            "late": self.late,
        }
        if self._counts_apart:
            rounds = [t for t, _ in self._pending.values()]
            arrays["pending_rounds"] = np.array(rounds, dtype=np.int64)
            meta["apart"] = [self._issued, self._last_expired]
        return arrays, meta
