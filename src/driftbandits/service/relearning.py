"""Candidates: configurations that learn the log beside the one that decides.

A `Follower` goes through the log as if it had been there from the first event: it decides on what
was decided on, learns what came of what was played, and respects the modes of all versions. It
passes over decisions that it cannot read, and counts them. What it has learned up to some event is
a function of the log alone, so every process has its own, and a new process begins again with the
log. `Followers` lets them learn in a thread of its own, a portion at a time, without any lock.

`Agreement` estimates what a shadow would have earned:

a, p, r    what was played in a round, the probability it had, the reward
b          what the shadow would have played, drawn by a seed of its own
w          1 / p if b = a, else 0
m_a, m_b   what the shadow's model expected of a and of b before the round
x          m_b + w (r - m_a)

E[x] is what the shadow earns in that round, whatever the model expects: E[w m_a] = E[m_b], and
E[w r] is the reward of b as long as every arm has a chance. So only rounds with p < 1 count. The
better the model knows the rewards, the less x scatters (doubly robust; Dudik, Langford, Li 2011,
with the shadow's draw in place of its probabilities). Intervals hold at any time, see
`driftbandits.core.sequences`.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from driftbandits.agent import Decision, has_probabilities
from driftbandits.core.sequences import FEWEST, Interval, asymptotic_boundary
from driftbandits.features import IGNORE
from driftbandits.service.guardrails import Play
from driftbandits.service.offers import Offer, offer_of
from driftbandits.service.refusals import Refused
from driftbandits.service.state import Candidate, Name, State, Version, new_agent
from driftbandits.store import Corrupt, Event, Head, Kind, Session, Store, StoreError, checked
from driftbandits.store.records import Configured, Decided, Promoted

logger = logging.getLogger("driftbandits.service")

_MANY = 1000
_PAGE = 100


class Compared(NamedTuple):
    """A round whose reward is to come."""

    weight: float  # w
    of_played: float  # m_a
    of_own: float  # m_b


class Agreement(msgspec.Struct, array_like=True):
    """Counts and sums of the rounds so far."""

    decisions: int = 0
    agreed: int = 0
    weights: float = 0.0  # sums of w and w^2
    squared_weights: float = 0.0
    rounds: int = 0  # that have a reward and gave every arm a chance
    rewards: float = 0.0  # sums of r, x, x^2 and (x - r)^2
    total: float = 0.0
    squares: float = 0.0
    squared_differences: float = 0.0
    waiting: dict[str, Compared] = {}

    def note_decision(
        self, event_id: str, *, agrees: bool, propensity: float, expected: tuple[float, float]
    ) -> None:
        self.decisions += 1
        self.agreed += agrees
        if propensity < 1.0:
            weight = 1.0 / propensity if agrees else 0.0
            known = expected if all(map(math.isfinite, expected)) else (0.0, 0.0)
            self.waiting[event_id] = Compared(weight, *known)

    def note_reward(self, event_id: str, r: float) -> None:
        compared = self.waiting.pop(event_id, None)
        if compared is None:
            return
        w = compared.weight
        x = compared.of_own + w * (r - compared.of_played)
        self.weights += w
        self.squared_weights += w * w
        self.rounds += 1
        self.rewards += r
        self.total += x
        self.squares += x * x
        self.squared_differences += (x - r) ** 2

    def let_go(self, pending: Mapping[str, object]) -> None:
        """Drop rounds that have no pending decision any more, from time to time."""
        if len(self.waiting) > 2 * len(pending) + _MANY:
            self.waiting = {id: one for id, one in self.waiting.items() if id in pending}

    @property
    def effective_rounds(self) -> float:
        return self.weights**2 / self.squared_weights if self.squared_weights else 0.0

    @property
    def played_value(self) -> float | None:
        """Mean reward of the rounds that count."""
        return self.rewards / self.rounds if self.rounds else None

    def value(self, *, level: float = 0.95) -> Interval | None:
        """Estimate the mean reward of the shadow."""
        return self._interval(self.total, self.squares, level)

    def difference(self, *, level: float = 0.95) -> Interval | None:
        """Estimate the mean reward of the shadow, less that of the rounds."""
        return self._interval(self.total - self.rewards, self.squared_differences, level)

    def _interval(self, total: float, squares: float, level: float) -> Interval | None:
        n = self.rounds
        if not n:
            return None
        mean = total / n
        if self.effective_rounds < FEWEST:
            return Interval(mean, None, None)
        spread = max(squares - n * mean * mean, 0.0)
        half = asymptotic_boundary(n, spread, risk=1.0 - level) / n
        return Interval(mean, mean - half, mean + half)


class Follower(State, kw_only=True):
    """A configuration on its way through a log."""

    wanted: Configured

    def __post_init__(self) -> None:
        super().__post_init__()
        self.read = self.head  # in a list, the state is ahead of it
        self.skipped = 0  # decisions that it cannot read
        self.agreement = Agreement()
        self.erasures: int | None = None  # of the log that it has read; None: it has read nothing
        self.is_near = False  # whether it has been at the end of the log

    def advance(
        self, session: Session, *, until: int | None = None, seconds: float | None = None
    ) -> bool:
        """Learn from the log, for some time or up to an event; return True if that was all."""
        if self.erasures is None:
            self.erasures = session.erasures(self.policy)
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        events = session.all_events(self.policy, after=self.read.seq, page=_PAGE)
        for event in checked(events, after=self.read):
            if until is not None and event.seq > until:
                break
            self._follow(event)
            if time.monotonic() > deadline:
                return False
        return True

    def _follow(self, event: Event) -> None:
        if not event.is_erased:
            try:
                self._replay_one(event)
            except ValueError:
                if event.kind not in (Kind.DECISION, Kind.CORRECTED):
                    raise
                self.skipped += 1
        if self.seq < event.seq:
            self.seq, self.at_ns = event.seq, event.at_ns
        self.checksum = event.checksum
        self.read = Head(event.seq, event.at_ns, event.checksum)

    # -- events ----------------------------------------------------------------------------------

    def configure(self, record: Configured, at_ns: int) -> None:
        """Another version: its ways of serving, and nothing of its model."""
        self._step(Kind.CONFIGURED, at_ns)
        if self.agent is None:
            self.agent = new_agent(self.wanted)
            self.began_ns = at_ns
        served = msgspec.structs.replace(
            self.wanted,
            version=record.version,
            mode=record.mode,
            reward_wait_s=record.reward_wait_s,
            default_reward=record.default_reward,
            control=0.0,
            shares=None,
            budget=None,
        )
        self.versions.append(Version(self.seq, at_ns, served))

    def _begin(self, name: Name, record: Configured, at_ns: int) -> None:
        self._step(Kind.BEGUN, at_ns)

    def _replay_promotion(self, record: Promoted, at_ns: int) -> None:
        self.configure(record.configured, at_ns)

    def _offer(self, record: Decided) -> Offer:
        offer = offer_of(record)
        features = self.playing.policy.features
        has_vectors = offer.context is not None or len(offer.x) > 0
        if (features is not None) == has_vectors:
            raise ValueError("vectors where there are features, or the other way round")
        return offer if features is None or features.extra == IGNORE else offer.within(features)

    def _learn(self, number: int, value: float) -> None:
        low, high = self.playing.policy.reward_range()
        reward = self.playing.policy.reward
        if low <= value <= high or (reward is not None and reward.outside == "clip"):
            super()._learn(number, value)
        else:
            self.playing.withdraw(number)
            self.skipped += 1

    def _ruled(self, event_id: str, offer: Offer, choices: Sequence[Decision]) -> list[Play]:
        if offer.excluded and not self._knows_probabilities:
            return [Play(choice.index, choice.propensity) for choice in choices]
        return super()._ruled(event_id, offer, choices)

    @property
    def _knows_probabilities(self) -> bool:
        """Policies that sample know the probability of their own choice alone."""
        return has_probabilities(self.playing.policy)

    # -- what it would have done -----------------------------------------------------------------

    def _compare(self, event_id: str, record: Decided, made: Decided | None) -> None:
        if event_id in self.observers.open:  # people look at what was played
            shown = self.observers.open[event_id]
            self.observers.open[event_id] = shown._replace(arm=record.arms[record.index])
        told = record.caller_decided or self.version.record.mode == "apprentice"
        if made is None or told or record.place or len(record.arms) == 1:
            return
        if record.excluded and not self._knows_probabilities:
            return
        reward, means = self.playing.policy.reward, np.frombuffer(made.means, dtype="<f4")
        sign = 1.0 if reward is None else reward.sign
        self.agreement.note_decision(
            event_id,
            agrees=made.index == record.index,
            propensity=record.propensity,
            expected=(sign * float(means[record.index]), sign * float(means[made.index])),
        )
        self.agreement.let_go(self.pending)

    def reward(self, event_id: str, value: float, at_ns: int, *, kind: str = Kind.REWARD) -> str:
        self.agreement.note_reward(event_id, value)
        return super().reward(event_id, value, at_ns, kind=kind)


class Place:
    """Where a follower learns, for one thread at a time."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.lock = threading.Lock()
        self.is_taken = False  # it decides now, and learns elsewhere
        self.failure: str | None = None  # why it learns no more

    def advance(
        self, session: Session, *, until: int | None = None, seconds: float | None = None
    ) -> bool:
        """Let it learn; from the beginning if events were erased that it may have learned from.

        Raises `Refused` where it fails, and ever after.
        """
        if self.failure is None:
            try:
                follower = self.follower
                if follower.erasures not in (None, session.erasures(follower.policy)):
                    self.follower = Follower(follower.policy, wanted=follower.wanted)
                return self.follower.advance(session, until=until, seconds=seconds)
            except StoreError:
                raise
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"
                logger.exception("a candidate of policy %s fails", self.follower.policy)
        raise Refused(409, "failed", f"this configuration failed: {self.failure}")


def readable(record: Configured, decided: Decided) -> str | None:
    """Why a logged decision cannot be read by a configuration; None if it can."""
    follower = Follower("", wanted=record)
    follower.configure(record, 0)
    try:
        follower.playing.check(**follower._offer(decided).asked_of(follower.playing))
    except ValueError as error:
        return str(error)
    return None


def relearned(session: Session, policy: str, candidate: Candidate, *, until: int) -> Follower:
    """Let a candidate learn the log up to an event."""
    follower = Follower(policy, wanted=candidate.record)
    follower.advance(session, until=until)
    return follower


_PORTION_S = 0.004
_PAUSE_S = 0.004
"""Between portions: the interpreter is one, and decisions need it."""
_REST_S = 0.1

Key = tuple[str, Name, int, int]


def _key(policy: str, name: Name, candidate: Candidate) -> Key:
    """A candidate by all that it depends on."""
    return policy, name, candidate.seq, candidate.since


class Followers:
    """The candidates of all policies, which learn in a thread of their own."""

    def __init__(self) -> None:
        self._places: dict[Key, Place] = {}
        self.notify: Callable[[], None] = lambda: None  # that one has come to the end, or failed
        self._guard = threading.Lock()
        self._news = threading.Event()

    def of(self, policy: str, name: Name, candidate: Candidate) -> Place:
        """The place of a candidate, which begins with the log unless it is on its way."""
        key = _key(policy, name, candidate)
        with self._guard:
            if key not in self._places:
                self._places[key] = Place(Follower(policy, wanted=candidate.record))
                self._news.set()
            return self._places[key]

    def forget(self, policy: str, name: Name, candidate: Candidate) -> None:
        """Begin again if the candidate is asked for again."""
        with self._guard:
            self._places.pop(_key(policy, name, candidate), None)

    def _known(self, state: State) -> dict[Name, Place]:
        """The places of a policy's candidates, as far as they have one."""
        found = {
            name: self._places.get(_key(state.policy, name, candidate))
            for name, candidate in list(state.candidates.items())
        }
        return {name: place for name, place in found.items() if place is not None}

    def is_near(self, state: State, name: Name) -> bool:
        """Return True if a candidate has been at the end of the log."""
        place = self._known(state).get(name)
        return place is not None and place.follower.is_near

    def failed(self, state: State) -> int:
        """Count the candidates of a policy that have failed."""
        return sum(place.failure is not None for place in self._known(state).values())

    # -- in a thread of its own ------------------------------------------------------------------

    def live(self, store: Store, states: Mapping[str, State], ending: threading.Event) -> None:
        """Let all candidates learn until the end."""
        while not ending.is_set():
            try:
                is_all = self._one_round(store, states, ending)
            except StoreError as error:
                logger.warning("candidates wait: %s", error)
                is_all = True
            except Exception:  # no fault may end this thread: others learn in it too
                logger.exception("candidates wait")
                is_all = True
            if is_all:
                self._news.wait(_REST_S)
                self._news.clear()

    def _one_round(
        self, store: Store, states: Mapping[str, State], ending: threading.Event
    ) -> bool:
        """A portion of each; whether all are where their logs end."""
        known = list(states.values())
        wanted = {
            _key(state.policy, name, candidate): (state, name, candidate)
            for state in known
            for name, candidate in list(state.candidates.items())
        }
        # Policies that are being folded again are not known yet.
        policies = {state.policy for state in known}
        with self._guard:
            for key in [key for key in self._places if key[0] in policies and key not in wanted]:
                del self._places[key]
        is_all = True
        for state, name, candidate in wanted.values():
            if ending.is_set():
                break
            is_all &= self._portion(store, state, name, candidate)
            time.sleep(_PAUSE_S)
        return is_all

    def _portion(self, store: Store, state: State, name: Name, candidate: Candidate) -> bool:
        place = self.of(state.policy, name, candidate)
        try:
            with place.lock, store.read() as session:
                head = session.head(state.policy)
                is_served_elsewhere = head is not None and head.seq > state.seq
                if place.is_taken or place.failure is not None or is_served_elsewhere:
                    return True
                is_all = place.advance(session, seconds=_PORTION_S)
                if is_all and not place.follower.is_near:
                    place.follower.is_near = True
                    self.notify()
        except Refused:  # the others go on; answers say why this one does not
            self.notify()
            return True
        except Corrupt as error:  # the log was restored from a backup
            logger.warning("candidate %r of %s begins again: %s", name, state.policy, error)
            place.follower = Follower(state.policy, wanted=candidate.record)
            return True
        return is_all
