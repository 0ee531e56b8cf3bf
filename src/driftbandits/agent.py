"""What an application holds: decisions now, rewards whenever they come, a state that survives.

Time belongs to the decision. The clock counts decisions and ticks; a reward is learned with the age
of its decision, however late it arrives. An `Agent` may be used by several threads: every
method takes the agent's lock, so calls happen one after the other, in some order.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import policies
from driftbandits.estimator import keeps_rows, new_buffers, state_of, with_capacity
from driftbandits.estimator.model import (
    DECREMENT,
    ERROR_BOUND,
    HEAD,
    KKT_RESIDUAL,
    TAIL,
    Buffers,
    N,
    State,
    counter_names,
)
from driftbandits.policies import Policy, policy

FORMAT_VERSION = 1
_FIRST_CAPACITY = 64
_EXPLAINED_DECISIONS = 1000

Floats = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Decision:
    """One choice. scores = means + widths; propensity is the probability it had."""

    id: int
    index: int
    round: int
    scores: Floats
    means: Floats
    widths: Floats
    propensity: float


class Explanation(NamedTuple):
    """Why a decision was made: what every action was worth at the time, and by which estimate."""

    decision: Decision
    theta: Floats
    radius: float

    def table(self) -> str:
        """The actions from best to worst, as text."""
        d = self.decision
        lines = [f"round {d.round}: action {d.index}, chosen with probability {d.propensity:.3g}"]
        lines.append("action      mean     width     score")
        for i in np.argsort(-d.scores, kind="stable"):
            mark = " <" if i == d.index else ""
            lines.append(f"{i:6d}{d.means[i]:10.4f}{d.widths[i]:10.4f}{d.scores[i]:10.4f}{mark}")
        return "\n".join(lines)


class UnknownDecision(ValueError):
    """A reward for a decision that is not waiting for one."""


class BadSaveFile(ValueError):
    """A file that is not a whole, unaltered save of an agent."""


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

    def __init__(self, policy: Policy, *, seed: int = 0) -> None:
        if not isinstance(policy, Policy):
            raise ValueError(f"policy must come from driftbandits.policy(...); got {policy!r}")
        self.policy = policy
        self.seed = _checked_seed(seed)
        self.late = 0
        """Rewards that came too late to matter."""
        self._keeps_rows = keeps_rows(policy.model)
        self._lock = threading.RLock()
        self._pending: dict[int, Floats] = {}
        self._explained: dict[int, Explanation] = {}
        self._used: tuple[Floats, Floats] | None = None
        self._hold(new_buffers(policy.numbers, _FIRST_CAPACITY if self._keeps_rows else 0))

    def _hold(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._state: State = state_of(*buffers)

    # -- deciding --------------------------------------------------------------------------------

    def decide(self, actions: ArrayLike, *, n: int | None = None) -> Any:
        """Choose one of `actions` (K, dim); with n, a ranked list of n of them.

        A ranked list is n decisions made at once: each place has its own round, id and
        reward, all are scored by the same estimate, and none repeats an action.
        """
        rows = self._checked_actions(actions)
        if n is not None:
            _check_count("n", n, least=1, most=len(rows))
        with self._lock:
            decisions = self._decide(rows, 1 if n is None else int(n))
        return decisions[0] if n is None else decisions

    def decide_many(self, action_sets: Iterable[ArrayLike]) -> list[Decision]:
        """Decide for several action sets, as by one call after the other; all or none."""
        checked = [self._checked_actions(actions) for actions in action_sets]
        with self._lock:
            for rows in checked:
                self._check_lengths(rows)
            return [self._decide(rows, 1)[0] for rows in checked]

    def _decide(self, actions: Floats, n: int) -> list[Decision]:
        K = actions.shape[0]
        means, widths = np.empty(K), np.empty(K)
        chosen, propensities = np.empty(n, dtype=np.int64), np.empty(n)
        t = self.clock + 1
        radius = self._radius()
        verdict = policies.decide(
            *self._buffers, self.seed, actions, means, widths, chosen, propensities
        )
        if verdict != policies.ACCEPTED:
            self._refuse(actions, verdict)
        self._used = (self._state.theta_hat.copy(), self._state.theta.copy())
        scores = means + widths
        decisions = []
        for place in range(n):
            index, s = int(chosen[place]), t + place
            decision = Decision(s, index, s, scores, means, widths, float(propensities[place]))
            self._pending[s] = actions[index].copy()
            self._explained[s] = Explanation(decision, self._used[1], radius)
            decisions.append(decision)
        self._expire()
        return decisions

    def _radius(self) -> float:
        if self.policy.row.score != policies.UCB:
            return 0.0
        scoring = self.policy.scoring
        return scoring.bonus_scale * policies.radius(self.policy.model, scoring, self.clock)

    def _expire(self) -> None:
        """Let go of what can no longer matter, so that memory stays bounded."""
        while len(self._explained) > _EXPLAINED_DECISIONS:
            del self._explained[next(iter(self._explained))]
        span = self.policy.forgets_after
        if span is not None:
            oldest = self.clock - span
            for s in list(self._pending):
                if s > oldest:
                    break
                del self._pending[s]

    # -- learning --------------------------------------------------------------------------------

    def update(self, decision: Decision | int, reward: float) -> str:
        """Learn the reward of a decision, given as it was returned or by its id.

        Returns "learned", or "late" where the policy has forgotten that round: then it is counted
        and changes nothing.
        """
        return self.update_many([decision], [reward])[0]

    def update_many(
        self, decisions: Sequence[Decision | int], rewards: Sequence[float] | Floats
    ) -> list[str]:
        """Learn several rewards, as by one call after the other; all or none."""
        if len(decisions) != len(rewards):
            raise ValueError(
                f"rewards must be as many as decisions; got {len(rewards)} for {len(decisions)}"
            )
        with self._lock:
            values = [self._checked_reward(reward) for reward in rewards]
            ids = [self._checked_id(decision) for decision in decisions]
            twice = {s for s in ids if ids.count(s) > 1} if len(ids) > 1 else set()
            for s in twice:
                if not self._is_late(s):
                    raise UnknownDecision(f"decisions names decision {s} more than once")
            return [self._learn_pending(s, value) for s, value in zip(ids, values, strict=True)]

    def _is_late(self, s: int) -> bool:
        span = self.policy.forgets_after
        return span is not None and self.clock - s >= span

    def _checked_id(self, decision: Decision | int) -> int:
        s = decision.id if isinstance(decision, Decision) else decision
        if isinstance(s, bool) or not isinstance(s, (int, np.integer)):
            raise UnknownDecision(f"decision must be a Decision or its id; got {decision!r}")
        if not 1 <= s <= self.clock:
            raise UnknownDecision(
                f"decision {s} was never issued; this agent's rounds are 1 to {self.clock}"
            )
        if s not in self._pending and not self._is_late(int(s)):
            raise UnknownDecision(
                f"decision {s} is not waiting for a reward: it has been rewarded or withdrawn, or "
                "that round passed without a decision"
            )
        return int(s)

    def _checked_reward(self, reward: float) -> float:
        low, high = self.policy.reward_range()
        number = isinstance(reward, (int, float, np.number, np.bool_))
        if not number or not low <= float(reward) <= high:
            raise ValueError(
                f"reward must be a number in [{low:g}, {high:g}] for the "
                f"{self.policy.link.name} model; got {reward!r}"
            )
        return float(reward)

    def _learn_pending(self, s: int, reward: float) -> str:
        if self._is_late(s):
            self.late += 1
            return "late"
        self._absorb(self._pending.pop(s), reward, s)
        return "learned"

    def _absorb(self, action: Floats, reward: float, s: int) -> None:
        if self._keeps_rows:
            self._make_room()
        policies.update(*self._buffers, action, reward, s)
        self._used = None

    def _make_room(self) -> None:
        counters = self._buffers.counters
        capacity = self._buffers.rows.shape[1]
        living = int(counters[TAIL] - counters[HEAD])
        # Twice the room that the rows need, so that moving them to the front stays rare.
        if counters[TAIL] == capacity and 2 * living > capacity:
            self._hold(with_capacity(self._buffers, 2 * capacity))

    def withdraw(self, decision: Decision | int) -> None:
        """Take back a decision that was never shown; its round stays in the past."""
        with self._lock:
            s = self._checked_id(decision)
            self._pending.pop(s, None)

    def tick(self, rounds: int = 1) -> None:
        """Let time pass without a decision."""
        _check_count("rounds", rounds, least=0)
        with self._lock:
            policies.tick(*self._buffers, int(rounds))
            self._used = None
            self._expire()

    def learn(
        self, actions: ArrayLike, rewards: ArrayLike, *, ages: ArrayLike | None = None
    ) -> None:
        """Warm up from foreign data: row i was played `ages[i]` rounds ago.

        Without ages the rows are rounds of their own, oldest first, and the clock counts them, as
        if this agent had made those choices. With ages the clock stands still; an age of 0 is
        the present, and rows older than the policy's memory are counted as late.
        """
        rows = self._checked_actions(actions)
        outcomes = np.atleast_1d(np.asarray(rewards, dtype=np.float64))
        if outcomes.shape != (len(rows),):
            raise ValueError(f"rewards must be {len(rows)} numbers; got shape {outcomes.shape}")
        values = [self._checked_reward(float(x)) for x in outcomes]
        when = None if ages is None else _checked_ages(ages, len(rows))
        with self._lock:
            self._check_lengths(rows)
            for i, row in enumerate(rows):
                if when is None:
                    self.tick(1)
                s = self.clock - (0 if when is None else int(when[i]))
                if self._is_late(s):
                    self.late += 1
                else:
                    self._absorb(row, values[i], s)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        """Decisions and ticks so far."""
        return int(self._buffers.counters[N])

    @property
    def pending(self) -> tuple[int, ...]:
        """Decisions that wait for a reward."""
        with self._lock:
            return tuple(self._pending)

    @property
    def theta_hat(self) -> Floats:
        """The estimate the last decision used; after an update or tick, the one the next will."""
        return self._estimate()[0]

    @property
    def theta(self) -> Floats:
        """The projection of `theta_hat` on ||theta|| <= S."""
        return self._estimate()[1]

    def _estimate(self) -> tuple[Floats, Floats]:
        with self._lock:
            if self._used is None:
                fitted = self._fitted_copy()
                self._used = (fitted.theta_hat.copy(), fitted.theta.copy())
            return self._used[0].copy(), self._used[1].copy()

    def _fitted_copy(self) -> State:
        """The state after a refit, beside the real one: looking must not change what comes."""
        b = self._buffers
        copy = b._replace(small=b.small.copy(), counters=b.counters.copy())
        policies.refit(*copy)
        return state_of(*copy)

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
            return {name: int(self._buffers.counters[i]) for name, i in counter_names().items()}

    def explain(self, decision: Decision | int) -> Explanation:
        """Why a decision was made: mean, width and score of every action as they were."""
        s = decision.id if isinstance(decision, Decision) else decision
        with self._lock:
            if s not in self._explained:
                raise UnknownDecision(
                    f"decision {s!r} cannot be explained: the last {_EXPLAINED_DECISIONS} "
                    f"decisions are kept, up to round {self.clock}"
                )
            return self._explained[s]

    # -- checking --------------------------------------------------------------------------------

    def _checked_actions(self, actions: ArrayLike) -> Floats:
        try:
            rows = np.ascontiguousarray(actions, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"actions must be an array of numbers (K, dim): {error}") from None
        if rows.ndim != 2 or rows.shape[1] != self.policy.dim:
            raise ValueError(
                f"actions must have shape (K, {self.policy.dim}); got {np.shape(actions)}"
            )
        if rows.shape[0] == 0:
            raise ValueError("actions must hold at least one action; got none")
        return rows

    def _check_lengths(self, rows: Floats) -> None:
        scratch = np.empty(self.policy.model_dim)
        for row in rows:
            verdict = policies.model_row(self.policy.scoring, row, scratch)
            if verdict != policies.ACCEPTED:
                self._refuse(rows, verdict)

    def _refuse(self, actions: Floats, verdict: int) -> None:
        if verdict == policies.NOT_FINITE:
            bad = int(np.argmin(np.isfinite(actions).all(axis=1)))
            raise ValueError(f"actions must be finite; got {actions[bad]} in row {bad}")
        lengths = np.sqrt((actions**2).sum(axis=1))
        bad = int(np.argmax(lengths))
        raise ValueError(
            f"actions must not be longer than L = {self.policy.L:g}; row {bad} has length "
            f"{lengths[bad]:.6g}. Give a larger L, or too_long='rescale'."
        )

    # -- keeping ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file: arrays as npz, the rest as JSON in it, never a pickle.

        The file is replaced in one step, so a crash leaves the old or the new one.
        """
        with self._lock:
            content = _packed(self)
        target = Path(path)
        beside = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.part")
        try:
            with beside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The agent as it was saved; a file that is not whole raises `BadSaveFile`."""
        content = Path(path).read_bytes()
        agent: Self = _unpacked(cls, content, str(path))
        return agent


def _packed(agent: Agent) -> bytes:
    explained = list(agent._explained.values())
    decisions = [e.decision for e in explained]
    sizes = [d.scores.size for d in decisions]
    d, dim = agent.policy.model_dim, agent.policy.dim
    arrays = {
        "small": agent._buffers.small,
        "rows": agent._buffers.rows,
        "counters": agent._buffers.counters,
        "pending_ids": np.array(list(agent._pending), dtype=np.int64),
        "pending_actions": np.array(list(agent._pending.values())).reshape(-1, dim),
        "explained": np.array(
            [(x.id, x.index, n) for x, n in zip(decisions, sizes, strict=True)], dtype=np.int64
        ).reshape(-1, 3),
        "explained_numbers": np.array(
            [(e.decision.propensity, e.radius, *e.theta) for e in explained]
        ).reshape(-1, 2 + d),
        "explained_means": np.concatenate([x.means for x in decisions] or [np.empty(0)]),
        "explained_widths": np.concatenate([x.widths for x in decisions] or [np.empty(0)]),
    }
    if agent._used is not None:
        arrays["used"] = np.array(agent._used)
    meta: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "policy": agent.policy.arguments,
        "seed": agent.seed,
        "late": agent.late,
    }
    meta["checksum"] = _checksum(arrays, meta)
    file = io.BytesIO()
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(file, json=text, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _checksum(arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _unpacked(cls: type[Any], content: bytes, path: str) -> Any:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("json").tobytes())
        version = meta["format"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise BadSaveFile(f"path must name a saved agent; {path} cannot be read: {error}") from None
    if version != FORMAT_VERSION:
        raise BadSaveFile(
            f"path must name an agent saved in format {FORMAT_VERSION}; {path} has format {version}"
        )
    checksum = meta.pop("checksum", None)
    if checksum != _checksum(arrays, meta):
        raise BadSaveFile(f"path must name an unaltered save; the checksum of {path} is wrong")
    agent = cls(policy(**meta["policy"]), seed=meta["seed"])
    agent.late = meta["late"]
    agent._hold(
        agent._buffers._replace(
            small=arrays["small"], rows=arrays["rows"], counters=arrays["counters"]
        )
    )
    agent._pending = dict(
        zip(arrays["pending_ids"].tolist(), arrays["pending_actions"], strict=True)
    )
    ends = np.cumsum(arrays["explained"][:, 2])
    for (s, index, size), numbers, end in zip(
        arrays["explained"].tolist(), arrays["explained_numbers"], ends.tolist(), strict=True
    ):
        means = arrays["explained_means"][end - size : end]
        widths = arrays["explained_widths"][end - size : end]
        decision = Decision(s, index, s, means + widths, means, widths, float(numbers[0]))
        agent._explained[s] = Explanation(decision, numbers[2:], float(numbers[1]))
    if "used" in arrays:
        agent._used = (arrays["used"][0], arrays["used"][1])
    return agent


def _checked_seed(seed: int) -> int:
    _check_count("seed", seed, least=0, most=2**63 - 1)
    return int(seed)


def _check_count(label: str, value: Any, *, least: int, most: int | None = None) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = f"from {least} to {most}" if most is not None else f"of at least {least}"
        raise ValueError(f"{label} must be an integer {limit}; got {value!r}")


def _checked_ages(ages: ArrayLike, count: int) -> NDArray[np.int64]:
    given = np.atleast_1d(np.asarray(ages, dtype=np.float64))
    whole = np.isfinite(given).all() and (given >= 0).all() and (given == np.floor(given)).all()
    if given.shape != (count,) or not whole or (given.size and given.max() > 2.0**52):
        raise ValueError(f"ages must be {count} whole numbers of at least 0; got {ages!r}")
    return given.astype(np.int64)


__all__ = ["Agent", "BadSaveFile", "Decision", "Explanation", "UnknownDecision"]
