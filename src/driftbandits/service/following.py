"""What another configuration makes of a log: a fold that is told what was played.

It lives through all versions as if it had been there from the first event on: it decides on what
they decided on, learns of what was played, and goes through their modes. What it cannot read it
passes over and counts. What it has learned up to some event is a function of the log alone, so it
may come as far behind the log as it has to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from driftbandits.features.spec import REFUSE
from driftbandits.service.agreement import Agreement
from driftbandits.service.fold import Fold, Version, new_agent
from driftbandits.service.offers import Offer, offer_of
from driftbandits.service.refusals import Refused
from driftbandits.store import (
    BEGUN,
    CONFIGURED,
    CORRECTED,
    DECISION,
    DROPPED,
    REWARD,
    START,
    Event,
    Head,
    Session,
    checked,
)
from driftbandits.store.records import Configured, Decided, Promoted

_PAGE = 100


class Unreadable(ValueError):
    """A decision about something else than what this configuration decides by."""


class Follower(Fold):
    """A configuration on its way through a log."""

    def __init__(self, chain: str, record: Configured) -> None:
        super().__init__(chain)
        self.wanted = record
        self.read = Head(0, 0, START)  # of a list, the fold is ahead of it
        self.skipped = 0  # decisions that it cannot read
        self.agreement = Agreement()
        self.erasures: int | None = None  # of the log that it has read; None: it has read nothing
        self.is_near = False  # whether it has been at the end of the log

    def advance(
        self, session: Session, *, until: int | None = None, seconds: float | None = None
    ) -> bool:
        """Learn what the log holds, for so long or up to an event; whether that is all of it."""
        policy = session.policy_of(self.chain)  # where it is in the log, it may be called otherwise
        if self.erasures is None:
            self.erasures = session.erasures(policy)
        deadline = None if seconds is None else time.monotonic() + seconds
        for event in self.follow(session.all_events(policy, after=self.read.seq, page=_PAGE)):
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

    # -- what it is told -------------------------------------------------------------------------

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

    def begin(self, name: str, record: Configured, at_ns: int) -> None:
        self._step(BEGUN, at_ns)

    def drop(self, name: str, at_ns: int) -> None:
        self._step(DROPPED, at_ns)

    def _replay_promotion(self, record: Promoted, at_ns: int) -> None:
        self.configure(record.configured, at_ns)

    def _offer(self, record: Decided) -> Offer:
        offer = offer_of(record)
        features = self.playing.policy.features
        has_vectors = offer.context is not None or len(offer.x) > 0
        if (features is not None) == has_vectors:
            raise Unreadable("vectors where there are features, or the other way round")
        return offer if features is None or features.extra != REFUSE else offer.within(features)

    def _learn(self, number: int, value: float) -> None:
        low, high = self.playing.policy.reward_range()
        reward = self.playing.policy.reward
        if low <= value <= high or (reward is not None and reward.outside == "clip"):
            super()._learn(number, value)
        else:
            self.playing.withdraw(number)
            self.skipped += 1

    # -- what it would have done -----------------------------------------------------------------

    def _compare(self, event_id: str, record: Decided, made: Decided | None) -> None:
        if event_id in self.pending:  # people look at what was played
            waiting = self.pending[event_id]
            self.pending[event_id] = waiting._replace(arm=record.arms[record.index])
        told = record.told or self.version.record.mode == "apprentice"
        if made is None or told or record.place or len(record.arms) == 1:
            return
        self.agreement.note_decision(
            event_id,
            agrees=made.index == record.index,
            propensity=record.propensity,
            expected=self._expected(made, record.index),
        )
        self.agreement.let_go(self.pending)

    def _expected(self, made: Decided, played: int) -> tuple[float, float]:
        """What it expected of what was played, and of its own choice, as rewards are reported."""
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

    def advance(
        self, session: Session, *, until: int | None = None, seconds: float | None = None
    ) -> bool:
        """Let it learn; from the beginning if events were erased that it may have learned from."""
        follower = self.follower
        erasures = session.erasures(session.policy_of(follower.chain))
        if follower.erasures not in (None, erasures):
            self.follower = follower = Follower(follower.chain, follower.wanted)
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
