"""Decisions now, rewards whenever they come, a state that survives.

Time belongs to the decision. The clock counts decisions and ticks; a reward is learned with the age
of its decision, however late it arrives. An `Agent` may be used by several threads: every
method takes the agent's lock, so calls happen one after the other, in some order.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import policies
from driftbandits.agent import savefile
from driftbandits.agent.decisions import Decision, Explanation, Floats, UnknownDecision
from driftbandits.estimator import keeps_rows, new_buffers, with_capacity
from driftbandits.estimator.model import (
    DECREMENT,
    ERROR_BOUND,
    FIRST_CAPACITY,
    HEAD,
    KKT_RESIDUAL,
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
from driftbandits.policies import Policy, policy

_EXPLAINED_DECISIONS = 1000
CLOCKS = ("decisions", "ticks")
_NUMBERS = (int, float, np.integer, np.floating, np.bool_)


class _Pending(NamedTuple):
    round: int
    action: Floats  # (1, dim)


class _Made(NamedTuple):
    """A decision and what it was made by."""

    decision: Decision
    estimates: Floats  # (2, d): theta_hat, theta
    clock: int


class Agent:
    """A policy at work.

    clock: "decisions" lets every decision count as a round, as in the paper; "ticks" lets time
    pass by `tick` alone, for an application whose forgetting follows a clock on the wall.

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
        if clock not in CLOCKS:
            raise ValueError(f"clock must be one of {', '.join(CLOCKS)}; got {clock!r}")
        _check_count("seed", seed, least=0, most=2**63 - 1)
        self.policy = policy
        self.seed = int(seed)
        self.late = 0
        """Rewards that came too late to matter."""
        self._decisions_count = clock == "decisions"
        self._keeps_rows = keeps_rows(policy.model)
        self._reward_range = policy.reward_range()
        self._span = policy.forgets_after
        self._lock = threading.RLock()
        self._issued = 0
        self._pending: dict[int, _Pending] = {}
        self._made: dict[int, _Made] = {}
        self._shown: Floats | None = None
        self._shown_was_used = False  # by a decision, which makes it part of the state
        self._hold(new_buffers(policy.numbers, FIRST_CAPACITY if self._keeps_rows else 0))

    def _hold(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._counters = buffers.counters
        self._estimates = buffers.vectors[THETA_HAT : THETA + 1]

    # -- deciding --------------------------------------------------------------------------------

    @overload
    def decide(self, actions: ArrayLike) -> Decision: ...

    @overload
    def decide(self, actions: ArrayLike, *, n: int) -> list[Decision]: ...

    def decide(self, actions: ArrayLike, *, n: int | None = None) -> Decision | list[Decision]:
        """Choose one of `actions` (K, dim); with n, a ranked list of n of them.

        A ranked list is n decisions made at once: each place has its own round, id and
        reward, all are scored by the same estimate, and none repeats an action.
        """
        rows = self._checked_actions(actions)
        if n is None:
            with self._lock:
                return self._decide(rows, 1)[0]
        _check_count("n", n, least=1, most=len(rows))
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

    def _decide(self, actions: Floats, n: int) -> list[Decision]:
        table, picks = np.empty((4, len(actions))), np.empty((2, n))
        clock = int(self._counters[N])
        step = int(self._decisions_count)
        first = clock + 1 if step else self._issued + 1
        verdict = policies.decide(*self._buffers, self.seed, first, n * step, actions, table, picks)
        if verdict != policies.ACCEPTED:
            self._refuse(actions, verdict)
        self._issued = first + n - 1
        self._shown = _frozen(self._estimates.copy())
        self._shown_was_used = True
        _frozen(table)
        means, widths, scores = table[0], table[1], table[2]
        decisions = []
        for place in range(n):
            index, number = int(picks[0, place]), first + place
            when = clock + 1 + place if step else clock
            decision = Decision(number, index, when, scores, means, widths, float(picks[1, place]))
            self._pending[number] = _Pending(when, actions[index : index + 1].copy())
            self._made[number] = _Made(decision, self._shown, clock)
            decisions.append(decision)
        self._expire()
        return decisions

    def _expire(self) -> None:
        """Let go of what can no longer matter, so that memory stays bounded."""
        while len(self._made) > _EXPLAINED_DECISIONS:
            del self._made[next(iter(self._made))]
        if self._span is None:
            return
        forgotten = int(self._counters[N]) - self._span
        while self._pending:
            oldest = next(iter(self._pending))
            if self._pending[oldest].round > forgotten:
                break
            del self._pending[oldest]

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
        number = decision.id if isinstance(decision, Decision) else decision
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise UnknownDecision(f"decision must be a Decision or its id; got {decision!r}")
        number = int(number)
        if number in self._pending:
            return number
        last = self.clock if self._decisions_count else self._issued
        if not 1 <= number <= last:
            raise UnknownDecision(
                f"decision {number} was never issued; this agent's are 1 to {last}"
            )
        if not self._is_forgotten(number):
            raise UnknownDecision(
                f"decision {number} is not waiting for a reward: it has been rewarded or "
                "withdrawn, or that round passed without a decision"
            )
        return number

    def _is_forgotten(self, number: int) -> bool:
        """Whether a decision that no longer waits was made before the policy's memory begins."""
        if self._span is None:
            return False
        if self._decisions_count:
            return self.clock - number >= self._span
        # Decisions wait in order of time: this one left before all that are remembered.
        remembered = self._made.get(number)
        return remembered is None or self.clock - remembered.decision.round >= self._span

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
        self._absorb(waiting.action, 0, reward, waiting.round)
        return "learned"

    def _absorb(self, actions: Floats, index: int, reward: float, s: int) -> None:
        if self._keeps_rows:
            self._make_room()
        policies.update(*self._buffers, actions, index, reward, s)
        self._shown = None

    def _make_room(self) -> None:
        capacity = self._buffers.rows.shape[1]
        if self._counters[TAIL] < capacity:
            return
        # Twice the room that the rows need, so that moving them to the front stays rare.
        if 2 * (self._counters[TAIL] - self._counters[HEAD]) > capacity:
            self._hold(with_capacity(self._buffers, 2 * capacity))

    def withdraw(self, decision: Decision | int) -> None:
        """Take back a decision that was never shown; its round stays in the past."""
        with self._lock:
            self._pending.pop(self._checked_id(decision), None)

    def tick(self, rounds: int = 1) -> None:
        """Let time pass without a decision."""
        _check_count("rounds", rounds, least=0, most=2**52)
        with self._lock:
            policies.tick(*self._buffers, int(rounds))
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
        outcomes = np.atleast_1d(_numbers("rewards", rewards))
        if outcomes.shape != (len(rows),):
            raise ValueError(f"rewards must be {len(rows)} numbers; got shape {outcomes.shape}")
        values = [self._checked_reward(float(x)) for x in outcomes]
        when = None if ages is None else _checked_ages(ages, len(rows))
        with self._lock:
            self._check_lengths(rows)
            for i, value in enumerate(values):
                if when is None:
                    self.tick(1)
                age = 0 if when is None else int(when[i])
                if self._span is not None and age >= self._span:
                    self.late += 1
                else:
                    self._absorb(rows, i, value, self.clock - age)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        """Decisions and ticks so far."""
        return int(self._counters[N])

    @property
    def pending(self) -> tuple[int, ...]:
        """Decisions that wait for a reward."""
        with self._lock:
            return tuple(self._pending)

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
                self._shown = self._fitted_copy().vectors[THETA_HAT : THETA + 1].copy()
                self._shown_was_used = False
            return np.array(self._shown[which])

    def _fitted_copy(self) -> Buffers:
        """The state after a refit, beside the real one: looking must not change what comes."""
        beside = copy_of(self._buffers)
        policies.refit(*beside)
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
        radius = 0.0
        if self.policy.row.score == policies.UCB:
            scoring = self.policy.scoring
            wide = policies.radius(self.policy.model, scoring, made.clock)
            radius = scoring.bonus_scale * wide
        return Explanation(made.decision, made.estimates[0], made.estimates[1], radius)

    # -- checking --------------------------------------------------------------------------------

    def _checked_actions(self, actions: ArrayLike) -> Floats:
        rows = _numbers("actions", actions)
        if rows.ndim != 2 or rows.shape[1] != self.policy.dim:
            raise ValueError(
                f"actions must have shape (K, {self.policy.dim}); got {np.shape(actions)}"
            )
        if rows.shape[0] == 0:
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
            f"actions must not be longer than L = {self.policy.L:g}; row {bad} has length "
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
        agent = cls(policy(**meta["policy"]), seed=meta["seed"], clock=meta["clock"])
        agent.late, agent._issued = meta["late"], meta["issued"]
        agent._hold(revived(agent.policy.numbers, arrays))
        agent._pending = {
            number: _Pending(when, action[None, :])
            for (number, when), action in zip(
                arrays["pending"].tolist(), arrays["pending_actions"], strict=True
            )
        }
        agent._made = dict(_unpacked_decisions(arrays))
        if "shown" in arrays:
            agent._shown = _frozen(arrays["shown"])
            agent._shown_was_used = True
        return agent

    def _contents(self) -> tuple[savefile.Arrays, dict[str, Any]]:
        waiting = self._pending.items()
        arrays: savefile.Arrays = {
            **essence(self._buffers),
            **_packed_decisions(list(self._made.values()), self.policy.model_dim),
            "pending": np.array([(i, p.round) for i, p in waiting], np.int64).reshape(-1, 2),
            "pending_actions": np.array([p.action[0] for _, p in waiting]).reshape(
                -1, self.policy.dim
            ),
        }
        if self._shown is not None and self._shown_was_used:
            arrays["shown"] = self._shown
        meta = {
            "policy": self.policy.arguments,
            "seed": self.seed,
            "clock": CLOCKS[0] if self._decisions_count else CLOCKS[1],
            "late": self.late,
            "issued": self._issued,
        }
        return arrays, meta


def _packed_decisions(made: list[_Made], d: int) -> savefile.Arrays:
    """Decisions of different sizes as a few flat arrays."""
    decisions = [m.decision for m in made]
    labels = [
        (x.id, x.index, x.round, m.clock, x.scores.size)
        for m, x in zip(made, decisions, strict=True)
    ]
    return {
        "made": np.array(labels, dtype=np.int64).reshape(-1, 5),
        "made_propensities": np.array([x.propensity for x in decisions]),
        "made_estimates": np.array([m.estimates for m in made]).reshape(-1, 2, d),
        "made_means": np.concatenate([x.means for x in decisions] or [np.empty(0)]),
        "made_widths": np.concatenate([x.widths for x in decisions] or [np.empty(0)]),
    }


def _unpacked_decisions(arrays: savefile.Arrays) -> Iterable[tuple[int, _Made]]:
    ends = np.cumsum(arrays["made"][:, 4]).tolist()
    for (number, index, when, clock, size), propensity, estimates, end in zip(
        arrays["made"].tolist(),
        arrays["made_propensities"].tolist(),
        arrays["made_estimates"],
        ends,
        strict=True,
    ):
        means = _frozen(arrays["made_means"][end - size : end])
        widths = _frozen(arrays["made_widths"][end - size : end])
        scores = _frozen(means + widths)
        decision = Decision(number, index, when, scores, means, widths, propensity)
        yield number, _Made(decision, _frozen(estimates), clock)


def _frozen(array: Floats) -> Floats:
    """What is handed out and also kept must not be written to."""
    array.flags.writeable = False
    return array


def _numbers(label: str, given: Any) -> Floats:
    """An array as kernels take it; other layouts would make numba compile them once more."""
    if isinstance(given, np.ndarray) and given.dtype == np.float64 and given.flags.carray:
        return given
    try:
        array = np.asarray(given)
        if array.dtype.kind in "USc" or (array.dtype.kind == "O" and array.ndim == 0):
            raise ValueError(f"these are of type {array.dtype}")
        return np.require(array, np.float64, ["C", "A", "W"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{label} must be an array of numbers: {error}; got {given!r}") from None


def _check_count(label: str, value: Any, *, least: int, most: int | None = None) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = f"from {least} to {most}" if most is not None else f"of at least {least}"
        raise ValueError(f"{label} must be an integer {limit}; got {value!r}")


def _checked_ages(ages: ArrayLike, count: int) -> NDArray[np.int64]:
    given = np.atleast_1d(_numbers("ages", ages))
    whole = np.isfinite(given).all() and (given >= 0).all() and (given == np.floor(given)).all()
    if given.shape != (count,) or not whole or (given.size and given.max() > 2.0**52):
        raise ValueError(f"ages must be {count} whole numbers of at least 0; got {ages!r}")
    return given.astype(np.int64)
