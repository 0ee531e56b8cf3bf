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
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import checks
from driftbandits.agent import savefile
from driftbandits.agent.explain import (
    CONSTANT,
    EXPLAINED_DECISIONS,
    Decision,
    Explanation,
    Floats,
    Ledger,
    Limits,
    UnknownDecision,
    explanation_of,
    show_as_rewards,
)
from driftbandits.agent.learner import Learner
from driftbandits.agent.offers import LONGEST_TIME, Offer, Offers, checked_ages, checked_played
from driftbandits.agent.separate import SeparateLearner
from driftbandits.core import keeps_rows
from driftbandits.core.estimator.state import counter_names
from driftbandits.features import ArmId, Encoding, Features, Report, frame_of, report_on
from driftbandits.policies import (
    Detection,
    Hypothesis,
    LimitedColumn,
    Move,
    Policy,
    Row,
    larger,
    limited_columns,
    limits_of,
    policy_from,
    room_for,
)

CLOCKS = ("decisions", "ticks")
"""The clock counts decisions and ticks, or ticks alone."""

Played = Callable[[list[Decision]], Sequence[int]]
"""A function that returns the rows that are played, given what was chosen."""
REWARD = "reward"
"""The name of rewards among the columns that were limited."""
_LARGEST_SEED = 2**63 - 1
_NUMBERS = (int, float, np.integer, np.floating, np.bool_)


@dataclass
class Scatter:
    """The scatter of the rewards of a count model, for a warning if they are no counts."""

    seen: int = 0
    mean: float = 0.0
    squares: float = 0.0  # sum of squared distances from the mean

    def add(self, reward: float) -> None:
        self.seen += 1
        away = reward - self.mean
        self.mean += away / self.seen
        self.squares += away * (reward - self.mean)

    @property
    def is_too_wide(self) -> bool:
        """True if means that differ by the features would not explain the variance."""
        variance = self.squares / self.seen
        wide = variance > 3.0 * self.mean and variance - self.mean > 2.0 * self.mean**2
        return self.seen >= 100 and wide


class Agent:
    """A policy at work.

    >>> import driftbandits as db
    >>> agent = db.Agent(db.policy("SW-GLUCB", dim=2, window=100), seed=0)
    >>> choice = agent.decide([[1.0, 0.0], [0.0, 0.5]])
    >>> choice.index
    0
    >>> agent.update(choice, 1.0)
    'learned'
    >>> agent
    <Agent of SW-GLUCB: 1 rounds, 0 pending, no change detected>
    """

    warns = True
    """If true, the first number of a column and the first reward that are clipped warn."""

    def __init__(self, policy: Policy, *, seed: int = 0, clock: str = "decisions") -> None:
        self.policy, self.seed = _checked_policy(policy), _checked_seed(seed)
        self._clock = checks.choice("clock", clock, CLOCKS)
        self.late = 0
        """Rewards that came too late to matter."""
        self.clipped = 0
        """Rewards that were learned, and lay outside the range that `reward` gave the policy."""
        self._reward_range = policy.reward_range()
        self._lock = threading.RLock()
        make = SeparateLearner if policy.separate else Learner
        self._learner = make(policy, seed=self.seed, counts_apart=clock == "ticks")
        self._ledger = Ledger()
        self._limits = 0  # numbers that were limited, as far as they were noticed
        self._said: set[str | int] = set()  # columns that there was a warning of
        self._unsaid: list[str] = []  # warnings
        self._scatter = Scatter() if policy.link.name == "poisson" else None
        self._read_by(None if policy.features is None else Encoding(policy.features))

    def _read_by(self, encoding: Encoding | None) -> None:
        """Take actions from tables by this encoding, or as they are."""
        self._encoding = encoding
        self._offers = Offers(self.policy, encoding)

    def __repr__(self) -> str:
        found, waiting = self.detections, len(self._ledger.pending)
        change = f"last change detected in round {found[-1].round}" if found else ""
        counts = f"{self.issued} rounds, {waiting} pending"
        return f"<Agent of {self.policy.name}: {counts}, {change or 'no change detected'}>"

    def _turn(self, *, keep: bool = True) -> AbstractContextManager[Any]:
        return self._lock if self._encoding is None else self._reading(self._encoding, keep)

    @contextmanager
    def _reading(self, encoding: Encoding, keep: bool) -> Iterator[None]:
        """A turn in which tables are read: all of it happens, or nothing.

        Reading gives coordinates to levels that were never seen. They stay if `keep` is true and
        nothing was refused; otherwise they are taken back, together with the larger model they may
        have led to.
        """
        with self._lock:
            size, done = len(encoding), False
            before = self.policy, self._learner, self._ledger
            try:
                yield
                done = keep
            finally:
                if done:
                    encoding.commit()
                    self._unsaid += encoding.take_warnings()
                else:
                    encoding.take_back(size)
                    self.policy, self._learner, self._ledger = before

    # -- deciding --------------------------------------------------------------------------------

    @overload
    def decide(
        self, actions: Any = None, *, context: Any = None, arms: Any = None, played: Any = None
    ) -> Decision: ...

    @overload
    def decide(
        self, actions: Any = None, *, n: int, context: Any = ..., arms: Any = ..., played: Any = ...
    ) -> list[Decision]: ...

    def decide(
        self,
        actions: ArrayLike | None = None,
        *,
        context: Any = None,
        arms: Any = None,
        n: int | None = None,
        played: int | Sequence[int] | Played | None = None,
    ) -> Decision | list[Decision]:
        """Choose one of `actions` (K, dim); with n, a ranked list of n of them.

        A policy with features chooses by a context and arms instead: the context is a dict or a
        row of a frame, the arms are a dict of dicts by id, a list of ids or of dicts with an "id",
        or a frame with that column.

        Separate arms are chosen from by their ids, and `actions` is the context (dim,) that they
        share, or a row for each. With `played` the caller plays that row whatever is chosen, and
        its reward is learned; of a ranked list, one row for each place. A function instead of rows
        is shown what was chosen, as a list, and returns the rows; it must not raise.

        A ranked list is n decisions made at once: each place has its own round, id and
        reward, all are scored by the same estimate, and none repeats an action.
        """
        with self._turn():
            offer = self._offers.offer(actions, context, arms)
            count = 1 if n is None else offer.count(n)
            if played is not None and not callable(played):
                played = checked_played([played] if n is None else played, count, offer.size)
            decisions = self._decide(offer, count, played)
        if self._unsaid:
            self._warn()
        return decisions[0] if n is None else decisions

    def decide_many(
        self,
        action_sets: Iterable[ArrayLike] | None = None,
        *,
        context: Any = None,
        arms: Any = None,
    ) -> list[Decision]:
        """Decide for several action sets, as by one call after the other; all or none.

        Separate arms are given as one list of ids for each context. With features, `context` is a
        frame or a list of dicts, and `arms` are those of every decision, or a list of them.
        """
        with self._turn():
            offers = self._offers.offers(action_sets, context, arms)
            if self._encoding is None:
                self._learner.check((self._rows_of(offer), offer.arms) for offer in offers)
            decisions = [self._decide(offer, 1)[0] for offer in offers]
        self._warn()
        return decisions

    @overload
    def preview(
        self, actions: Any = None, *, seed: int, context: Any = None, arms: Any = None
    ) -> Decision: ...

    @overload
    def preview(
        self, actions: Any = None, *, seed: int, context: Any = None, arms: Any = None, n: int
    ) -> list[Decision]: ...

    def preview(
        self,
        actions: ArrayLike | None = None,
        *,
        seed: int,
        context: Any = None,
        arms: Any = None,
        n: int | None = None,
    ) -> Decision | list[Decision]:
        """Return what `decide` would return with the draws of this seed; change nothing. Ids are 0.

        One decision, or with n a list of them.
        """
        seed = _checked_seed(seed)
        with self._turn(keep=False):
            offer = self._offers.offer(actions, context, arms)
            count, rows = offer.count(n), self._rows_of(offer)
            made = self._learner.preview(rows, seed=seed, n=count, arms=offer.arms)
        decisions = show_as_rewards(self.policy.reward, made)
        return decisions[0] if n is None else decisions

    def check(
        self, actions: ArrayLike | None = None, *, context: Any = None, arms: Any = None
    ) -> None:
        """Refuse what `decide` would refuse; nothing changes."""
        with self._turn(keep=False):
            offer = self._offers.offer(actions, context, arms)
            self._learner.check([(self._rows_of(offer), offer.arms)])

    def _decide(self, offer: Offer, n: int, played: Any = None) -> list[Decision]:
        actions, ledger = self._rows_of(offer), self._ledger
        made, estimates, radius = self._learner.decide(actions, n, offer.arms)
        decisions = show_as_rewards(self.policy.reward, made)
        limits = self._note_limits(actions)
        if callable(played):
            played = checked_played(played(decisions), n, len(actions))
        ledger.enter(decisions, estimates, radius, actions, played, offer.encoded, limits)
        if len(ledger.pending) > 1:  # one alone has just been made
            self._expire()
        return decisions

    def _rows_of(self, offer: Offer) -> Floats:
        """The actions of an offer, in a model that has room for them."""
        encoded, dim = offer.encoded, self.policy.dim
        if encoded is None:
            rows: Floats = offer.rows
            return rows
        if encoded.coordinates > dim:
            self._carry_over(encoded.coordinates, self._named().features, larger(dim))
        return encoded.dense(self.policy.dim)

    def _carry_over(self, coordinates: int, features: Features, move: Move) -> None:
        """Go on with a model that has room for these coordinates, and with what was learned."""
        old = self.policy
        dim = room_for(coordinates, features, intercept=old.intercept)
        self.policy = old.with_dim(dim, features=features)
        self._learner = self._learner.carried_over(self.policy, move)
        self._ledger = self._ledger.moved(old, self.policy, move)

    def _expire(self) -> None:
        self._ledger.expire(self._learner.model.last_forgotten_round())

    # -- warnings --------------------------------------------------------------------------------

    def _note_limits(self, rows: Floats) -> Limits:
        """The ranges that the last rows were limited to; prepare a warning of new columns."""
        model = self._learner.model
        count = model.limits.item()
        if count == self._limits:
            return {}
        self._limits = count
        limits, new = {}, {}
        for at, limit in limits_of(model.buffers, rows).items():
            name, (low, high, value) = self._as_offered(at, *limit[:3])
            limits[at] = (limit.low, limit.high, low, high)
            if limit.is_surprising and name not in self._said:
                new[name] = (value, low, high)
        for name, (value, low, high) in list(new.items())[:1]:
            more = f" So were {len(new) - 1} other columns." if len(new) > 1 else ""
            self._unsaid.append(
                f"column {name!r} was {value:.6g}, far beyond the range {low:.4g} .. {high:.4g} "
                "that follows from what it has shown, and was limited to that; it comes back as "
                f"ordinary if such values keep coming. agent.limited counts them.{more}"
            )
        self._said.update(new)
        return limits

    def _as_offered(self, at: int, *values: float) -> tuple[str | int, list[float]]:
        """The name of a column, or its place, and values of it in the units of the offer."""
        encoding, policy = self._encoding, self.policy
        if policy.intercept and at == policy.dim:  # the place of the constant is the rewards'
            rewards = np.array(values) + policy.centre
            shown = rewards if policy.reward is None else policy.reward.values(rewards)
            return REWARD, shown.tolist()
        if encoding is None:
            return at, list(values)
        return encoding.names[at], [encoding.as_offered(at, x) for x in values]

    def take_warnings(self) -> list[str]:
        """The warnings since the last call; of an agent that `warns` nothing is left."""
        said, self._unsaid = self._unsaid, []
        return said

    def _warn(self) -> None:
        if self._unsaid and self.warns:
            for text in self.take_warnings():
                warnings.warn(text, UserWarning, stacklevel=3)

    # -- learning --------------------------------------------------------------------------------

    def update(self, decision: Decision | int, reward: float) -> str:
        """Learn the reward of a decision, given as it was returned or by its id.

        Returns "learned", or "late" where the policy has forgotten that round: then it is counted
        and changes nothing.
        """
        with self._lock:
            status = self._update(decision, reward)
        if self._unsaid:
            self._warn()
        return status

    def _update(self, decision: Decision | int, reward: float) -> str:
        value, clipped = self._checked_reward(reward)
        pending = self._ledger.pending.pop(self._checked_id(decision), None)
        if pending is None:
            self.late += 1
            return "late"
        if clipped:
            self._note_clipped(reward)
        self._note_scatter(value)
        t, action, arm = pending
        if self._learner.learn(action, value, t, arm):
            self._expire()
        return "learned"

    def update_many(
        self, decisions: Sequence[Decision | int], rewards: Sequence[float] | NDArray[np.float64]
    ) -> list[str]:
        """Learn several rewards, as by one call after the other; all or none."""
        for label, given in (("decisions", decisions), ("rewards", rewards)):
            if not hasattr(given, "__len__"):
                raise ValueError(f"{label} must be a list; got {given!r}")
        if len(decisions) != len(rewards):
            raise ValueError(
                f"rewards must be as many as decisions; got {len(rewards)} for {len(decisions)}"
            )
        with self._lock:
            _ = [self._checked_reward(reward) for reward in rewards]
            ids = [self._checked_id(decision) for decision in decisions]
            pending = [number for number in ids if number in self._ledger.pending]
            if len(set(pending)) < len(pending):
                twice = next(number for number in pending if pending.count(number) > 1)
                raise UnknownDecision(f"decisions must differ; got decision {twice} twice")
            statuses = [self._update(*pair) for pair in zip(ids, rewards, strict=True)]
        self._warn()
        return statuses

    def withdraw(self, decision: Decision | int) -> None:
        """Take back a decision that was never shown; its round stays in the past."""
        with self._lock:
            self._ledger.pending.pop(self._checked_id(decision), None)

    def tick(self, rounds: int = 1) -> None:
        """Let time pass without a decision."""
        count = checks.integer("rounds", rounds, least=0, most=LONGEST_TIME)
        with self._lock:
            self._learner.tick(count)
            self._expire()

    def learn(
        self,
        actions: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        *,
        ages: ArrayLike | None = None,
        context: Any = None,
        arms: Any = None,
    ) -> None:
        """Warm up from foreign data: row i was played `ages[i]` rounds ago.

        Without ages the rows are rounds of their own, oldest first, and the clock counts them, as
        if this agent had made those choices. With ages the clock stands still; an age of 0 is the
        present, and rows older than the policy's memory are counted as late. Of separate arms the
        id is given for each row. With features, `context` is a frame or a list of dicts, and
        `arms` has a row for each with the columns of the arm that was played: ids, a list of
        dicts with an "id", or a frame with that column.
        """
        with self._turn():
            plays = self._offers.plays(actions, context, arms)
            if self._encoding is None:
                rows = np.concatenate([play.rows for play in plays])
                self._learner.check([(rows, [arm for play in plays for arm in play.arms or ()])])
            outcomes = np.atleast_1d(checks.floats("rewards", rewards))
            for row in np.flatnonzero(np.isnan(outcomes))[:1].tolist():
                raise ValueError(
                    f"rewards must be known: row {row} is missing. Leave such rows out, as in "
                    "log.dropna(subset=['reward'])."
                )
            if outcomes.shape != (len(plays),):
                raise ValueError(
                    f"rewards must be {len(plays)} numbers; got shape {outcomes.shape}"
                )
            values = [self._checked_reward(float(x)) for x in outcomes]
            when = None if ages is None else checked_ages(ages, len(plays))
            for i, (play, (value, clipped)) in enumerate(zip(plays, values, strict=True)):
                if when is None:
                    self.tick(1)
                age = 0 if when is None else when[i]
                if self._learn(play, value, self.clock - age) and clipped:
                    self._note_clipped(outcomes[i])
        self._warn()

    def _learn(self, play: Offer, reward: float, s: int) -> bool:
        """Learn what was played in round s; return False if that round is forgotten."""
        row, arm = self._rows_of(play), play.arms and play.arms[0]
        if s <= self._learner.model.last_forgotten_round():
            self.late += 1
            return False
        self._learner.see(row)
        self._note_limits(row)
        self._note_scatter(reward)
        if self._learner.learn(row, reward, s, arm):
            self._expire()
        return True

    def _note_clipped(self, value: Any) -> None:
        """Count a reward that was clipped; prepare a warning of the first."""
        reward = self.policy.reward
        if self.clipped == 0 and reward is not None:
            low, high = reward.range
            self._unsaid.append(
                f"reward {float(value):g} is outside {low:g} .. {high:g}, the range of "
                f"reward={reward.text!r}, and was learned as {min(max(value, low), high):g}. "
                "agent.clipped counts such rewards. Give reward a wider range, or "
                "outside='refuse'."
            )
        self.clipped += 1

    def _note_scatter(self, value: float) -> None:
        """Prepare a warning, once, if counts scatter far more than the model says."""
        if self._scatter is None:
            return
        self._scatter.add(value)
        if self._scatter.is_too_wide:
            self._scatter = None
            self._unsaid.append(
                "the rewards scatter far more than counts of independent events do, so that the "
                "policy will choose badly and report changes that are none: use reward='amount'"
            )

    def _checked_id(self, decision: Decision | int) -> int:
        """The id of a decision that waits for a reward, or that is too old to matter."""
        number = decision.id if isinstance(decision, Decision) else _id_of(decision)
        if number in self._ledger.pending:
            return number
        if not 1 <= number <= self.issued:
            raise UnknownDecision(
                f"decision {number} was never issued; this agent's are 1 to {self.issued}"
            )
        learner = self._learner
        forgotten = learner.model.last_forgotten_round()
        if number > (self._ledger.last_expired if learner.counts_apart else forgotten):
            raise UnknownDecision(
                f"decision {number} is not waiting for a reward: it has been rewarded or "
                "withdrawn, or that round passed without a decision"
            )
        return number

    def _checked_reward(self, reward: float) -> tuple[float, bool]:
        """A reward as the model sees it; True if it was clipped for that."""
        if self.policy.reward is not None:
            return self.policy.reward.taken(reward)
        low, high = self._reward_range
        if isinstance(reward, _NUMBERS) and low <= reward <= high:
            return float(reward), False
        raise ValueError(
            f"reward must be a number in [{low:g}, {high:g}] for the {self.policy.link.name} "
            f"model; got {reward!r}"
        )

    # -- looking ---------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        """Decisions and ticks so far."""
        return self._learner.clock

    @property
    def issued(self) -> int:
        """The id of the last decision; rounds that only ticked are counted unless apart."""
        return self._learner.issued

    @property
    def pending(self) -> tuple[int, ...]:
        """The ids of the decisions that wait for a reward."""
        with self._lock:
            return tuple(self._ledger.pending)

    def waits_for(self, decision: Decision | int) -> bool:
        """True if a reward for this decision would be learned."""
        return _id_of(decision) in self._ledger.pending

    @property
    def effective_sample_size(self) -> float | None:
        """(sum w)^2 / sum w^2 over what is remembered; None for a model that keeps no rows."""
        if not keeps_rows(self.policy.model):
            return None
        with self._lock:
            weights = np.concatenate([model.weights() for model in self._learner.now()])
        return float(weights.sum() ** 2 / np.square(weights).sum()) if weights.size else 0.0

    @property
    def radius(self) -> float:
        """The confidence radius of the next decision, bonus_scale included; 0 without a bonus.

        Of separate arms the largest, which is that of all unless rows are counted apart.
        """
        with self._lock:
            return max(model.radius for model in self._learner.fitted())

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
    def names(self) -> tuple[str, ...]:
        """The names of the coordinates of theta that have a meaning yet, in their order."""
        with self._lock:
            return tuple(self._named().names)

    @property
    def coefficients(self) -> dict[Any, Any]:
        """theta by the names of its features; of separate arms, by the ids of the arms."""
        with self._lock:
            names, theta = self.names, self.theta

        def named(own: Floats) -> dict[str, float]:
            found = dict(zip(names, own.tolist(), strict=False))
            return {**found, CONSTANT: float(own[-1])} if self.policy.intercept else found

        is_one = not isinstance(theta, dict)
        return named(theta) if is_one else {arm: named(own) for arm, own in theta.items()}

    def features_report(self) -> Report:
        """Levels, what they share, missing and clipped values, the dimension and what it costs."""
        with self._lock:
            found = limited_columns(self.policy, self._learner.model.buffers)
            limited = {int(at): count for at, count, _ in found}
            return report_on(self._named(), room=self.policy.model_dim, limited=limited)

    def _named(self) -> Encoding:
        if self._encoding is None:
            raise ValueError("features must have been given to the policy: these have no names")
        return self._encoding

    @property
    def certificate(self) -> dict[str, float]:
        """The exactness of the present estimate: Newton decrement, error bound, KKT residual.

        Of a large model also `relative_to_width`, the bound of a score's error over its width, and
        `proved`: 1 where that bound is a proof, 0 where it is an estimate. Of separate arms the
        largest values.
        """
        with self._lock:
            found = [model.certificate() for model in self._learner.fitted()]
        return {name: max(one[name] for one in found) for name in found[0]}

    @property
    def work(self) -> dict[str, int]:
        """The work of the estimator so far: exact passes, anchors, Newton steps, projections."""
        with self._lock:
            counters = [model.counters.tolist() for model in self._learner.models()]
        return {name: sum(own[i] for own in counters) for name, i in counter_names().items()}

    @property
    def detections(self) -> tuple[Detection, ...]:
        """The changes that the policy has detected, oldest first; the last 1000 are kept."""
        with self._lock:
            return tuple(self._learner.detections)

    @property
    def beliefs(self) -> list[Hypothesis]:
        """The hypotheses of `auto` and their posterior probabilities; none of other policies."""
        with self._lock:
            return self.policy.hypotheses(self._learner.model.buffers)

    @property
    def limited(self) -> list[LimitedColumn]:
        """Columns of `auto` that had numbers far beyond what they had shown; of others nothing.

        The model is given the end of the range instead of such a number. It comes back as ordinary
        if such numbers keep coming. Amounts are limited in the same way; their name is "reward".
        """
        with self._lock:
            found = limited_columns(self.policy, self._learner.model.buffers)
            shown = [self._as_offered(int(at), last) for at, _, last in found]
        return [
            LimitedColumn(name, one.count, last)
            for one, (name, (last,)) in zip(found, shown, strict=True)
        ]

    def explain(self, decision: Decision | int) -> Explanation:
        """Why a decision was made: mean, width and score of every action as they were."""
        with self._lock:
            made = self._ledger.made.get(_id_of(decision))
            if made is None:
                raise UnknownDecision(
                    f"decision {_id_of(decision)} cannot be explained; the last "
                    f"{EXPLAINED_DECISIONS} decisions can"
                )
            names = None if self._encoding is None else self._encoding.names
            return explanation_of(made, self.policy, names)

    def to_frame(self) -> Any:
        """A frame of the last decisions, oldest first: by polars, else by pandas or pyarrow.

        Its columns are id, round, chosen (the arm's id, or the place of the action), actions (how
        many there were), propensity, mean, width, score, and pending (True if the reward has not
        come).
        """
        with self._lock:
            made = [one.decision for one in self._ledger.made.values()]
            pending = [d.id in self._ledger.pending for d in made]
        chosen = [d.index if d.arms is None else d.arm for d in made]
        has_texts = any(isinstance(one, str) for one in chosen)
        return frame_of(
            {
                "id": [d.id for d in made],
                "round": [d.round for d in made],
                "chosen": [str(one) if has_texts else one for one in chosen],
                "actions": [len(d.scores) for d in made],
                "propensity": [d.propensity for d in made],
                "mean": [float(d.means[d.index]) for d in made],
                "width": [float(d.widths[d.index]) for d in made],
                "score": [float(d.scores[d.index]) for d in made],
                "pending": pending,
            }
        )

    # -- saving ----------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """A fingerprint of everything that decides what this agent will do."""
        with self._lock:
            return savefile.digest(*self._contents())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, which is replaced in one step."""
        checks.write_whole(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The agent as it was saved; a file that is not whole raises `BadSaveFile`."""
        return cls.from_bytes(Path(path).read_bytes(), source=str(path))

    def to_bytes(self) -> bytes:
        """The content of the file that `save` writes."""
        with self._lock:
            return savefile.packed(*self._contents())

    @classmethod
    def from_bytes(cls, content: bytes, *, source: str = "the content") -> Self:
        """An agent from what `to_bytes` gave."""
        return cls._revived(*savefile.unpacked(content, source))

    def __reduce__(self) -> Any:
        """Copy and pickle through the save format."""
        return type(self).from_bytes, (self.to_bytes(),), {"warns": self.warns}

    def _contents(self) -> tuple[savefile.Arrays, dict[str, Any]]:
        arrays, plain = self._learner.contents()
        made, of_made = savefile.ledger_contents(self._ledger, self.policy.dim)
        own = {
            "policy": self.policy.arguments,
            "seed": self.seed,
            "clock": self._clock,
            "late": self.late,
            "clipped": self.clipped,
            "said": sorted(self._said, key=str),
            "encoding": None if self._encoding is None else self._encoding.to_dict(),
        }
        return {**arrays, **made}, {**own, **plain, **of_made}

    @classmethod
    def _revived(cls, arrays: savefile.Arrays, plain: dict[str, Any]) -> Self:
        policy = policy_from(plain["policy"])
        agent = cls(policy, seed=plain["seed"], clock=plain["clock"])
        agent._learner.revive(arrays, plain)
        agent._ledger = savefile.revived_ledger(arrays, plain, policy)
        if policy.features is not None:
            agent._read_by(Encoding(policy.features, plain["encoding"]))
        agent.late, agent.clipped = plain["late"], plain["clipped"]
        agent._limits = agent._learner.model.limits.item()
        agent._said = set(plain["said"])
        return agent

    # -- another policy, or other features ---------------------------------------------------------

    def with_policy(self, policy: Policy, *, seed: int | None = None) -> Self:
        """An agent that goes on with another policy or seed, and with all that this one knows.

        The policies may differ in what the estimate does not depend on, such as epsilon, delta or
        bonus_scale; for other arguments there is nothing to carry over.
        """
        seed = self.seed if seed is None else _checked_seed(seed)
        policy = _checked_policy(policy)
        policy = policy.with_dim(self.policy.dim) if policy.features is not None else policy
        lost = relearned_arguments(self.policy, policy, old_seed=self.seed, new_seed=seed)
        if lost:
            raise ValueError(
                f"policy must not differ in {', '.join(lost)}, on which what was learned depends"
            )
        with self._lock:
            arrays, plain = self._contents()
            other = self._revived(arrays, {**plain, "policy": policy.arguments, "seed": seed})
        other._learner.fit_again()  # so that the radius is that of the new policy
        return other

    def with_features(self, features: Features) -> Self:
        """An agent with other features that keeps what this one has learned.

        Coordinates of columns and crosses that both have are carried over, with what is known of
        them; new ones start at the prior, and those that are gone are averaged over.
        """
        if not isinstance(features, Features):
            raise ValueError(
                f"features must be driftbandits.Features; got {checks.brief(features)}"
            )
        with self._lock:
            encoding, places = self._named().carried_to(features)
            other = self._revived(*self._contents())
        move = Move(*(np.array(list(x), dtype=np.int64) for x in (places, places.values())))
        other._carry_over(len(encoding), features, move)
        other._read_by(encoding)
        return other


def _id_of(decision: Any) -> int:
    if isinstance(decision, Decision):
        return decision.id
    if isinstance(decision, bool) or not isinstance(decision, (int, np.integer)):
        raise UnknownDecision(f"decision must be a Decision or its id; got {decision!r}")
    return int(decision)


def _checked_policy(policy: Any) -> Policy:
    if not isinstance(policy, Policy):
        raise ValueError(f"policy must come from driftbandits.policy(...); got {policy!r}")
    return policy


def _checked_seed(seed: Any) -> int:
    return checks.integer("seed", seed, least=0, most=_LARGEST_SEED)


ESTIMATE_DEPENDS_ON: Mapping[str, Callable[[Row], bool]] = {
    "false_alarm_rate": lambda row: row.false_alarm_rate > 0.0,
    "delta": lambda row: row.adaptation == "judged models",  # by which rewards are judged bad
    # elsewhere by the memory
    "horizon": lambda row: row.adaptation in ("bandit over windows", "arm tests"),
    "changes": lambda row: row.adaptation == "arm tests",
    "seed": lambda row: row.adaptation == "bandit over windows",
    **dict.fromkeys(
        ("path_length", "bonus_scale", "projection", "epsilon", "too_long"), lambda row: False
    ),
}
"""The rows whose estimate depends on an argument; one that is not listed matters to all."""


def relearned_arguments(
    old: Policy, new: Policy, *, old_seed: int = 0, new_seed: int = 0
) -> list[str]:
    """The arguments that differ and that the estimate of the new policy depends on.

    Where there are none, what was learned is carried over. Otherwise the state would be that of no
    policy, and has to be learned again.
    """

    def given(policy: Policy, seed: int) -> dict[str, Any]:
        values = {name: getattr(policy, name) for name in Policy.__dataclass_fields__}
        if policy.reward is not None:
            # what becomes of values outside of its range concerns those to come
            values["reward"] = policy.reward.text
        if policy.features is not None and old.features == new.features:
            del values["dim"]  # the model grows
        return {**values, "seed": seed}

    before, after = given(old, old_seed), given(new, new_seed)
    differing = [name for name in after if name not in before or before[name] != after[name]]
    depends = ESTIMATE_DEPENDS_ON
    return [name for name in differing if name not in depends or depends[name](new.row)]
