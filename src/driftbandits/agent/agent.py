"""Decisions now, rewards whenever they come, a state that survives.

Time belongs to the decision. The clock counts decisions and ticks; a reward is learned with the age
of its decision, however late it arrives. With clock="ticks" decisions do not move the clock and
ticks alone do, so that an application can count time in its own unit; decisions are then counted
apart, and randomness is a function of (seed, count).

An `Agent` may be used by several threads: every method takes the agent's lock, so calls happen one
after the other, in some order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import checks
from driftbandits.agent.decisions import (
    Decision,
    Floats,
    UnknownDecision,
    show_as_rewards,
)
from driftbandits.agent.keeping import Kept
from driftbandits.agent.learner import Learner
from driftbandits.agent.ledger import Ledger
from driftbandits.agent.offers import (
    LONGEST_TIME,
    checked_actions,
    checked_ages,
    checked_played,
    no_arms,
    no_context,
    offered_arms,
    played_arms,
    with_arms,
)
from driftbandits.agent.separate import SeparateLearner
from driftbandits.agent.tables import Reading, Tables
from driftbandits.features import Encoded, Features
from driftbandits.policies import Policy
from driftbandits.policies.arguments import room_for
from driftbandits.policies.carrying import Move, larger

CLOCKS = ("decisions", "ticks")
"""What the clock counts: decisions and ticks, or ticks alone."""

Played = Callable[[list[Decision]], Sequence[int]]
"""Which rows are played, given what was chosen."""

_LARGEST_SEED = 2**63 - 1
_NUMBERS = (int, float, np.integer, np.floating, np.bool_)


class Agent(Kept):
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
        self.clipped = 0
        """Rewards that were learned, and lay outside the range that `reward` gave the policy."""
        self._reward, self._reward_range = policy.reward, policy.reward_range()
        self._dim, self._separate = policy.dim, policy.separate
        self._lock = threading.RLock()
        make: type[Learner | SeparateLearner] = SeparateLearner if policy.separate else Learner
        self._learner: Learner | SeparateLearner = make(
            policy, seed=self.seed, counts_apart=counts_apart
        )
        self._ledger = Ledger()
        self._read_by(None if policy.features is None else Tables(policy.features))

    def _read_by(self, tables: Tables | None) -> None:
        """What is offered comes as actions, or as tables."""
        self._tables = tables
        self._turn: Any = self._lock if tables is None else Reading(self, tables)

    # -- deciding --------------------------------------------------------------------------------

    @overload
    def decide(
        self,
        actions: ArrayLike | None = None,
        *,
        context: Any = None,
        arms: Any = None,
        n: None = None,
        played: int | Played | None = None,
    ) -> Decision: ...

    @overload
    def decide(
        self,
        actions: ArrayLike | None = None,
        *,
        context: Any = None,
        arms: Any = None,
        n: int,
        played: Sequence[int] | Played | None = None,
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
        with self._turn:
            offer = self._checked_offer(actions, context, arms)
            most = self._size_of(offer)
            count = 1 if n is None else checks.integer("n", n, least=1, most=most)
            rows: Any = played
            if not callable(played):
                rows = checked_played([played] if n is None else played, count, most)
            decisions = self._decide(offer, count, rows)
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
        with self._turn:
            offers = self._checked_offers(action_sets, context, arms)
            return [self._decide(offer, 1)[0] for offer in offers]

    @overload
    def preview(
        self,
        actions: ArrayLike | None = None,
        *,
        seed: int,
        context: Any = None,
        arms: Any = None,
        n: None = None,
    ) -> Decision: ...

    @overload
    def preview(
        self,
        actions: ArrayLike | None = None,
        *,
        seed: int,
        context: Any = None,
        arms: Any = None,
        n: int,
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
        """What would be decided now, with the draws of this seed; nothing changes, ids are 0."""
        seed = checks.integer("seed", seed, least=0, most=_LARGEST_SEED)
        with self._turn as turn:
            offer = self._checked_offer(actions, context, arms)
            count = 1 if n is None else checks.integer("n", n, least=1, most=self._size_of(offer))
            rows, names, _ = self._rehearsed(turn, offer)
            made = self._learner.preview(rows, seed=seed, n=count, arms=names)
        decisions = show_as_rewards(self._reward, made)
        return decisions[0] if n is None else decisions

    def check(
        self, actions: ArrayLike | None = None, *, context: Any = None, arms: Any = None
    ) -> None:
        """Refuse what `decide` would refuse; nothing changes."""
        with self._turn as turn:
            offer = self._checked_offer(actions, context, arms)
            rows, names, _ = self._rehearsed(turn, offer)
            self._learner.check([(rows, names)])

    def _rehearsed(self, turn: Any, offer: Any) -> tuple[Floats, Any, Encoded | None]:
        """The rows of an offer that nothing is learned of."""
        if self._tables is not None:
            turn.is_rehearsal = True
        return self._rows_of(offer)

    def _size_of(self, offer: Any) -> int:
        """How many arms there are to choose from."""
        return len(offer[0]) if self._tables is None else len(offer.encoded.arms)

    def _decide(
        self, offer: Any, n: int, played: Sequence[int] | Played | None = None
    ) -> list[Decision]:
        actions, arms, encoded = self._rows_of(offer)
        made, estimates, radius = self._learner.decide(actions, n, arms)
        decisions = show_as_rewards(self._reward, made)
        if callable(played):
            played = checked_played(played(decisions), n, len(actions))
        ledger = self._ledger
        ledger.enter(decisions, estimates, radius, actions, played, encoded)
        if len(ledger.pending) > 1:  # one alone has just been made
            self._expire()
        return decisions

    def _rows_of(self, offer: Any) -> tuple[Floats, Any, Encoded | None]:
        """The actions of an offer and their ids, in a model that has room for them."""
        if self._tables is None:
            actions, arms = offer
            return actions, arms, None
        encoded, coordinates = offer
        if coordinates > self._dim:
            dim = room_for(coordinates, self._tables.features, intercept=self.policy.intercept)
            self._carry_over(self.policy.with_dim(dim), larger(self._dim))
        return encoded.dense(self._dim), encoded.arms, encoded

    def _carry_over(self, policy: Policy, move: Move) -> None:
        """Go on with another policy and what was learned so far."""
        self._learner = self._learner.carried_over(policy, move)
        self._ledger = self._ledger.moved(self.policy, policy, move)
        self.policy, self._dim = policy, policy.dim

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
        value, clipped = self._checked_reward(reward)
        with self._lock:
            pending = self._ledger.pending.pop(self._checked_id(decision), None)
            if pending is None:
                self.late += 1
                return "late"
            self.clipped += clipped
            t, action, arm = pending
            if self._learner.absorb(action, 0, value, t, arm):
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
            return [self.update(*pair) for pair in zip(ids, rewards, strict=True)]

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
        if learner.counts_apart:
            return number <= self._ledger.last_expired
        return number <= learner.last_forgotten_round()

    def _checked_reward(self, reward: float) -> tuple[float, bool]:
        """A reward as the model sees it, and whether it was clipped for that."""
        if self._reward is not None:
            return self._reward.taken(reward)
        low, high = self._reward_range
        if isinstance(reward, _NUMBERS) and low <= reward <= high:
            return float(reward), False
        model = f"the {self.policy.link.name} model"
        raise ValueError(
            f"reward must be a number in [{low:g}, {high:g}] for {model}; got {reward!r}"
        )

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
        with self._turn:
            plays = self._checked_plays(actions, context, arms)
            outcomes = np.atleast_1d(checks.floats("rewards", rewards))
            if outcomes.shape != (len(plays),):
                raise ValueError(
                    f"rewards must be {len(plays)} numbers; got shape {outcomes.shape}"
                )
            values = [self._checked_reward(float(x)) for x in outcomes]
            when = None if ages is None else checked_ages(ages, len(plays))
            for i, value in enumerate(values):
                if when is None:
                    self.tick(1)
                self._absorb(plays[i], *value, self.clock - (0 if when is None else int(when[i])))

    def _absorb(self, play: Any, reward: float, clipped: bool, s: int) -> None:
        rows, names, _ = self._rows_of(play)
        if s <= self._learner.last_forgotten_round():
            self.late += 1
            return
        self.clipped += clipped
        self._learner.show(rows, names and names[0])
        if self._learner.absorb(rows, 0, reward, s, names and names[0]):
            self._expire()

    # -- checking --------------------------------------------------------------------------------

    def _checked_offer(self, actions: Any, context: Any, arms: Any) -> Any:
        if self._tables is not None:
            return self._tables.offer(actions, context, arms)
        if context is not None:
            raise no_context(context)
        if self._separate:
            return offered_arms(self._dim, actions, arms)
        if arms is not None:
            raise no_arms(arms)
        return checked_actions(self._dim, actions), None

    def _checked_offers(self, action_sets: Any, context: Any, arms: Any) -> list[Any]:
        if self._tables is not None:
            return list(self._tables.offers(action_sets, context, arms))
        if not isinstance(action_sets, Iterable):
            raise ValueError(f"action_sets must be a list of action sets; got {action_sets!r}")
        pairs = with_arms(list(action_sets), arms)
        offers = [self._checked_offer(actions, context, own) for actions, own in pairs]
        self._learner.check(offers)
        return offers

    def _checked_plays(self, actions: Any, context: Any, arms: Any) -> list[Any]:
        """One offer for each row."""
        if self._tables is not None:
            return list(self._tables.plays(actions, context, arms))
        if self._separate and context is None:
            rows, names = played_arms(self._dim, actions, arms)
        else:
            rows, names = self._checked_offer(actions, context, arms)
        self._learner.check([(rows, names)])
        return [(rows[i : i + 1], names and names[i : i + 1]) for i in range(len(rows))]

    # -- other features --------------------------------------------------------------------------

    def with_features(self, features: Features) -> Self:
        """An agent with other features that keeps what this one has learned.

        Coordinates of columns and crosses that both have are carried over, with what is known of
        them; new ones start at the prior, and those that are gone are averaged over.
        """
        with self._lock:
            tables, move = self._named_tables().carried_to(features)
            other = type(self).from_bytes(self.to_bytes())
        dim = room_for(len(tables.encoding), features, intercept=self.policy.intercept)
        other._carry_over(self.policy.with_dim(dim, features=features), move)
        other._read_by(tables)
        return other
