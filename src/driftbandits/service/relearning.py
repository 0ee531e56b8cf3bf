"""Candidates: configurations that learn the log beside the one that decides.

A `Follower` goes through the log as if it had been there from the first event: it decides on what
was decided on, learns what came of what was played, and respects the modes of all versions. It
passes over decisions that it cannot read, and counts them. What it has learned up to some event is
a function of the log alone, so every process may have its own, and one that is lost begins again
from what a snapshot has kept. `Followers` lets them learn in a thread of its own, a portion at a
time, without any lock of the log.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from driftbandits.agent import Decision, has_probabilities
from driftbandits.core.sequences import FEWEST, Interval, asymptotic_boundary
from driftbandits.features import IGNORE
from driftbandits.service import snapshots
from driftbandits.service.guardrails import Play
from driftbandits.service.offers import Offer, offer_of
from driftbandits.service.refusals import Refused
from driftbandits.service.state import Candidate, Name, State, Version, new_agent
from driftbandits.store import (
    BEGUN,
    CONFIGURED,
    CORRECTED,
    DECISION,
    DROPPED,
    REWARD,
    START,
    Corrupt,
    Event,
    Head,
    Session,
    Store,
    StoreError,
    checked,
)
from driftbandits.store.records import Configured, Decided, Promoted

_MANY = 1000


class Sums(msgspec.Struct, array_like=True):
    """Sums over rounds of an estimate e of what the shadow would have earned."""

    rounds: int = 0
    rewards: float = 0.0
    total: float = 0.0  # of e
    squares: float = 0.0
    squared_differences: float = 0.0  # of e less the reward

    def add(self, estimate: float, reward: float) -> None:
        self.rounds += 1
        self.rewards += reward
        self.total += estimate
        self.squares += estimate * estimate
        self.squared_differences += (estimate - reward) ** 2


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
    estimates: Sums = msgspec.field(default_factory=Sums)  # of x
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
        self.weights += w
        self.squared_weights += w * w
        self.estimates.add(compared.of_own + w * (r - compared.of_played), r)

    def let_go(self, pending: Mapping[str, object]) -> None:
        """Drop rounds that have no pending decision any more, from time to time."""
        if len(self.waiting) > 2 * len(pending) + _MANY:
            self.waiting = {id: one for id, one in self.waiting.items() if id in pending}

    # -- looking ---------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """Rounds that have a reward and gave every arm a chance."""
        return self.estimates.rounds

    @property
    def effective_rounds(self) -> float:
        return self.weights**2 / self.squared_weights if self.squared_weights else 0.0

    @property
    def played_value(self) -> float | None:
        """Mean reward of the rounds that count."""
        return self.estimates.rewards / self.rounds if self.rounds else None

    def value(self, *, level: float = 0.95) -> Interval | None:
        """Estimate the mean reward of the shadow."""
        of = self.estimates
        return _interval(of.rounds, of.total, of.squares, self.effective_rounds, level)

    def difference(self, *, level: float = 0.95) -> Interval | None:
        """Estimate the mean reward of the shadow, less that of the rounds."""
        of, total = self.estimates, self.estimates.total - self.estimates.rewards
        return _interval(of.rounds, total, of.squared_differences, self.effective_rounds, level)


def _interval(
    n: float, total: float, squares: float, effective: float, level: float
) -> Interval | None:
    if not n:
        return None
    mean = total / n
    if effective < FEWEST:
        return Interval(mean, None, None)
    spread = max(squares - n * mean * mean, 0.0)
    half = asymptotic_boundary(n, spread, risk=1.0 - level) / n
    return Interval(mean, mean - half, mean + half)


logger = logging.getLogger("driftbandits.service")

_PAGE = 100


class Unreadable(ValueError):
    """A decision about something else than what this configuration decides by."""


class CandidateFailed(Exception):
    """A configuration cannot learn the log, for a reason of its own."""


class Follower(State):
    """A configuration on its way through a log."""

    def __init__(self, policy: str, record: Configured) -> None:
        super().__init__(policy)
        self.wanted = record
        self.read = Head(0, 0, START)  # in a list, the state is ahead of it
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
        deadline = None if seconds is None else time.monotonic() + seconds
        for event in self.follow(session.all_events(self.policy, after=self.read.seq, page=_PAGE)):
            if event.seq == until:
                return True
            if deadline is not None and time.monotonic() > deadline:
                return False
        return True

    def follow(self, events: Iterable[Event]) -> Iterator[Event]:
        """Learn of events that follow, whose chain is checked; each is given on."""
        for event in checked(events, after=self.read):
            self._follow(event)
            yield event

    def _follow(self, event: Event) -> None:
        if not event.is_erased:
            try:
                self._replay_one(event)
            except (ValueError, Refused):
                if event.kind not in (DECISION, CORRECTED):
                    raise
                self.skipped += 1
        if self.seq < event.seq:
            self.seq, self.at_ns = event.seq, event.at_ns
        self.checksum = event.checksum
        self.read = Head(event.seq, event.at_ns, event.checksum)

    @property
    def is_between_lists(self) -> bool:
        return self.seq == self.read.seq

    # -- events ----------------------------------------------------------------------------------

    def configure(self, record: Configured, at_ns: int) -> None:
        """Another version: its ways of serving, and nothing of its model."""
        self._step(CONFIGURED, at_ns)
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

    def begin(self, name: Name, record: Configured, at_ns: int) -> None:
        self._step(BEGUN, at_ns)

    def drop(self, name: Name, at_ns: int) -> None:
        self._step(DROPPED, at_ns)

    def _replay_promotion(self, record: Promoted, at_ns: int) -> None:
        self.configure(record.configured, at_ns)

    def _offer(self, record: Decided) -> Offer:
        offer = offer_of(record)
        features = self.playing.policy.features
        has_vectors = offer.context is not None or len(offer.x) > 0
        if (features is not None) == has_vectors:
            raise Unreadable("vectors where there are features, or the other way round")
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
        if offer.excluded and not has_probabilities(
            self.playing.policy
        ):  # it knows its own choice alone
            return [Play(choice.index, choice.propensity) for choice in choices]
        return super()._ruled(event_id, offer, choices)

    # -- what it would have done -----------------------------------------------------------------

    def _compare(self, event_id: str, record: Decided, made: Decided | None) -> None:
        if event_id in self.observers.open:  # people look at what was played
            shown = self.observers.open[event_id]
            self.observers.open[event_id] = shown._replace(arm=record.arms[record.index])
        told = record.caller_decided or self.version.record.mode == "apprentice"
        if made is None or told or record.place or len(record.arms) == 1:
            return
        if record.excluded and not has_probabilities(self.playing.policy):
            return
        self.agreement.note_decision(
            event_id,
            agrees=made.index == record.index,
            propensity=record.propensity,
            expected=self._expected(made, record.index),
        )
        self.agreement.let_go(self.pending)

    def _expected(self, made: Decided, played: int) -> tuple[float, float]:
        """Return the expected rewards of the played arm and of its own choice, as reported."""
        means = np.frombuffer(made.means, dtype="<f4")
        reward = self.playing.policy.reward
        sign = 1.0 if reward is None else reward.sign
        return sign * float(means[played]), sign * float(means[made.index])

    def reward(self, event_id: str, value: float, at_ns: int, *, kind: str = REWARD) -> str:
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

        Raises `CandidateFailed` where it fails, and ever after.
        """
        if self.failure is not None:
            raise CandidateFailed(self.failure)
        try:
            return self._advance(session, until, seconds)
        except (StoreError, CandidateFailed):
            raise
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            logger.exception("a candidate of policy %s fails", self.follower.policy)
            raise CandidateFailed(self.failure) from error

    def _advance(self, session: Session, until: int | None, seconds: float | None) -> bool:
        follower = self.follower
        erasures = session.erasures(follower.policy)
        if follower.erasures not in (None, erasures):
            self.follower = follower = Follower(follower.policy, follower.wanted)
        return follower.advance(session, until=until, seconds=seconds)


def readable(record: Configured, decided: Decided) -> str | None:
    """Why a logged decision cannot be read by a configuration; None if it can."""
    follower = Follower("", record)
    follower.configure(record, 0)
    try:
        follower.playing.check(**follower._offer(decided).asked_of(follower.playing))
    except ValueError as error:
        return str(error)
    return None


class _Following(msgspec.Struct, array_like=True):
    """A follower: its state, and what it keeps besides."""

    state: bytes
    skipped: int
    agreement: Agreement
    erasures: int | None


def packed_follower(follower: Follower) -> bytes:
    """Pack a follower, so that it can go on from there."""
    kept = _Following(
        snapshots.packed(follower), follower.skipped, follower.agreement, follower.erasures
    )
    return msgspec.msgpack.encode(kept)


def unpacked_follower(policy: str, candidate: Candidate) -> Follower:
    """A candidate as far as it has come; where nothing was kept, before its first event."""
    if not candidate.kept:
        return Follower(policy, candidate.record)
    kept = msgspec.msgpack.decode(candidate.kept, type=_Following)
    state = snapshots.unpacked_into(lambda policy: Follower(policy, candidate.record), kept.state)
    assert isinstance(state, Follower)
    state.skipped, state.agreement = kept.skipped, kept.agreement
    state.read, state.erasures = state.head, kept.erasures
    return state


def relearned(
    events_after: Callable[[int], Iterable[Event]],
    candidate: Candidate,
    policy: str,
    *,
    until: int,
    erasures: int,
) -> Follower:
    """Learn a log up to an event; `erasures` says how often events of it were erased."""
    follower = unpacked_follower(policy, candidate)
    if follower.erasures != erasures:
        follower = Follower(policy, candidate.record)
    if follower.read.seq < until:
        for event in follower.follow(events_after(follower.read.seq)):
            if event.seq == until:
                break
    return follower


_PORTION_S = 0.004
_PAUSE_S = 0.004
"""Between portions: the interpreter is one, and decisions need it."""
_REST_S = 0.1
_KEPT_EVERY = 20_000

Key = tuple[str, Name, int, int]


class Followers:
    """By policy, name, and what they depend on."""

    def __init__(self) -> None:
        self._all: dict[Key, Place] = {}
        # up to which event, of a log in which so often events were erased, and what
        self._kept: dict[Key, tuple[int, int | None, bytes]] = {}
        self.notify: Callable[[], None] = lambda: None  # that one has come to the end, or failed
        self._guard = threading.Lock()
        self._news = threading.Event()

    def of(self, policy: str, name: Name, candidate: Candidate) -> Place:
        """That of a candidate, which begins where it was kept unless it is on its way."""
        key = policy, name, candidate.seq, candidate.since
        with self._guard:
            if key not in self._all:
                self._all[key] = Place(unpacked_follower(policy, candidate))
                self._news.set()
            return self._all[key]

    def forget(self, policy: str, name: Name, candidate: Candidate) -> None:
        """Begin again from what a snapshot has kept, if the candidate is asked for again."""
        key = policy, name, candidate.seq, candidate.since
        with self._guard:
            self._all.pop(key, None)
            self._kept.pop(key, None)

    def is_near(self, policy: str, name: Name, candidate: Candidate) -> bool:
        """Return True if a candidate has been at the end of the log."""
        place = self._all.get((policy, name, candidate.seq, candidate.since))
        return place is not None and place.follower.is_near

    def failed(self, state: State) -> list[str]:
        """Why candidates of a policy have failed."""
        places = [
            self._all.get((state.policy, name, candidate.seq, candidate.since))
            for name, candidate in list(state.candidates.items())
        ]
        return [one.failure for one in places if one is not None and one.failure is not None]

    def keep(self, state: State, *, erasures: int) -> None:
        """Put what candidates have learned into a state, for a snapshot; nothing of what is erased.

        One may have read the log when an erasure was not committed yet.
        """
        for name, candidate in state.candidates.items():
            found = self._kept.get((state.policy, name, candidate.seq, candidate.since))
            if found is not None and found[1] == erasures:
                kept = candidate._replace(kept=found[2])
                state.candidates = {**state.candidates, name: kept}

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
        wanted = [
            (state, name, candidate)
            for state in list(states.values())
            for name, candidate in list(state.candidates.items())
        ]
        keys = {(state.policy, name, one.seq, one.since) for state, name, one in wanted}
        self._let_go(keys, {state.policy for state in list(states.values())})
        is_all = True
        for state, name, candidate in wanted:
            if ending.is_set():
                break
            is_all &= self._portion(store, state, name, candidate)
            time.sleep(_PAUSE_S)
        return is_all

    def _portion(self, store: Store, state: State, name: Name, candidate: Candidate) -> bool:
        policy = state.policy
        place = self.of(policy, name, candidate)
        try:
            with place.lock, store.read() as session:
                head = session.head(policy)
                is_served_elsewhere = head is not None and head.seq > state.seq
                if place.is_taken or place.failure is not None or is_served_elsewhere:
                    return True
                is_all = place.advance(session, seconds=_PORTION_S)
                if is_all and not place.follower.is_near:
                    place.follower.is_near = True
                    self.notify()
                self._keep_now_and_then(policy, name, candidate, place.follower, is_all)
        except CandidateFailed:  # the others go on; answers say why this one does not
            self.notify()
            return True
        except Corrupt as error:  # the log was restored from a backup
            logger.warning("candidate %r of %s begins again: %s", name, policy, error)
            place.follower = Follower(policy, candidate.record)
            return True
        return is_all

    def _keep_now_and_then(
        self, policy: str, name: Name, candidate: Candidate, follower: Follower, is_all: bool
    ) -> None:
        key = policy, name, candidate.seq, candidate.since
        before = self._kept[key][0] if key in self._kept else 0
        news = follower.seq - before
        if follower.is_between_lists and (news >= _KEPT_EVERY or (is_all and before == 0)):
            content = packed_follower(follower)
            self._kept[key] = follower.seq, follower.erasures, content

    def keep_all(self) -> None:
        """At the end: everything that was learned."""
        for key, place in list(self._all.items()):
            with place.lock:
                follower = place.follower
                if not place.is_taken and follower.versions and follower.is_between_lists:
                    content = packed_follower(follower)
                    self._kept[key] = follower.seq, follower.erasures, content

    def _let_go(self, keys: set[Key], known: set[str]) -> None:
        """Drop candidates that are gone. Policies that are being folded again are not known yet."""
        with self._guard:
            gone = [key for key in {*self._all, *self._kept} - keys if key[0] in known]
            for key in gone:
                self._all.pop(key, None)
                self._kept.pop(key, None)
