"""Verify that a log is whole, and that folding it gives the states of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from driftbandits.service.relearning import relearned
from driftbandits.service.state import BadSnapshot, State
from driftbandits.store import (
    START,
    Corrupt,
    Event,
    Head,
    Session,
    Store,
    StoreError,
    checked,
)

_SAY_EVERY = 1000


class Replayed(NamedTuple):
    """The result of replaying one policy."""

    policy: str
    events: int
    digest: str
    faults: list[str]


Say = Callable[[str, int, int], None]
"""Told whose log is replayed, how many of its events are done, and of how many."""


def verify(store: Store, *, say: Say = lambda policy, done, total: None) -> list[Replayed]:
    """Replay every log from its beginning, or from the last erasure; and look at the database."""
    with store.read() as session:
        verdicts = [_verdict(session, policy, say) for policy in session.policies()]
    damage = store.damage()
    return [*verdicts, Replayed("the database", 0, "", damage)] if damage else verdicts


def _verdict(session: Session, policy: str, say: Say) -> Replayed:
    replay = _Replay(session, policy)
    try:
        replay.run(say)
    except (StoreError, msgspec.DecodeError, BadSnapshot) as error:
        replay.faults.append(str(error))
    state = replay.state
    digest = state.digest if state.versions and not replay.faults else ""
    return Replayed(policy, replay.seen, digest, replay.faults)


class _Replay:
    def __init__(self, session: Session, policy: str) -> None:
        self._session = session
        self._policy = policy
        self._snapshots = {snapshot.seq: snapshot for snapshot in session.snapshots(policy)}
        kept = self._snapshots.values()
        self._start = max((s.seq for s in kept if s.is_foundation), default=0)
        self.state = State(policy)
        self.seen = 0
        self.faults: list[str] = []

    def run(self, say: Say) -> None:
        if self._session.erasures(self._policy) and not self._start:
            raise Corrupt("events were erased, and the snapshot of that moment is missing")
        events = self._session.all_events(self._policy)
        end = self._session.head(self._policy)
        head = Head(0, 0, START)
        for event in checked(events, after=head):
            self._take(event)
            if event.seq % _SAY_EVERY == 0 and end is not None:
                say(self._policy, event.seq, end.seq)
            head = Head(event.seq, event.at_ns, event.checksum)
        if end != head:
            raise Corrupt(f"the log ends at event {head.seq}, which is not where its head is")
        if self.state.differences:
            self.faults.append(f"{self.state.differences} events come out otherwise when replayed")

    def _take(self, event: Event) -> None:
        self.seen += 1
        if event.seq > self._start:
            if event.is_erased:
                raise Corrupt(f"event {event.seq} was erased after the last snapshot of an erasure")
            state = self.state
            state.relearn = lambda name: relearned(
                self._session, self._policy, state.candidates[name], until=state.seq
            )
            state.replay([event])
        snapshot = self._snapshots.get(event.seq)
        if snapshot is None or event.seq < self._start:
            return
        kept = State.from_bytes(snapshot.content)
        if kept.checksum != event.checksum:
            raise Corrupt(f"the snapshot at event {event.seq} belongs to another log")
        if event.seq == self._start:
            self.state = kept
        elif kept.digest != self.state.digest:
            self.faults.append(f"the snapshot at event {event.seq} is not what its log gives")
