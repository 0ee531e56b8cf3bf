"""Whether a log is whole, and whether folding it gives what the service had."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from driftbandits.service import snapshots
from driftbandits.service.fold import Fold
from driftbandits.store import START, Corrupt, Event, Head, Session, Snapshot, Store, checked


class Verdict(NamedTuple):
    """What a replay of one policy has shown."""

    policy: str
    events: int
    digest: str
    faults: list[str]


def verify(store: Store) -> list[Verdict]:
    """Replay every log from its beginning, or from the last erasure; and look at the database."""
    with store.read() as session:
        verdicts = [_verdict(session, policy) for policy in session.policies()]
    damage = store.damage()
    return [*verdicts, Verdict("the database", 0, "", damage)] if damage else verdicts


def _verdict(session: Session, policy: str) -> Verdict:
    replay = _Replay(session, policy)
    try:
        replay.run()
    except (Corrupt, msgspec.DecodeError, snapshots.BadSnapshot) as error:
        replay.faults.append(str(error))
    fold = replay.fold
    digest = snapshots.digest(fold) if fold.versions and not replay.faults else ""
    return Verdict(policy, replay.seen, digest, replay.faults)


class _Replay:
    def __init__(self, session: Session, policy: str) -> None:
        self._session = session
        self._policy = policy
        self._snapshots = {snapshot.seq: snapshot for snapshot in session.snapshots(policy)}
        kept = self._snapshots.values()
        self._start = max((s.seq for s in kept if s.is_foundation), default=0)
        self.fold = Fold(policy)
        self.seen = 0
        self.faults: list[str] = []

    def run(self) -> None:
        if self._session.erasures(self._policy) and not self._start:
            raise Corrupt("events were erased, and the snapshot of that moment is missing")
        events = self._session.all_events(self._policy)
        head = Head(0, 0, START)
        for event in checked(events, after=head):
            self._take(event)
            head = Head(event.seq, event.at_ns, event.checksum)
        if self._session.head(self._policy) != head:
            raise Corrupt(f"the log ends at event {head.seq}, which is not where its head is")
        if self.fold.differences:
            self.faults.append(f"{self.fold.differences} events come out otherwise when replayed")

    def _take(self, event: Event) -> None:
        self.seen += 1
        if event.seq > self._start:
            if event.is_erased:
                raise Corrupt(f"event {event.seq} was erased after the last snapshot of an erasure")
            self.fold.replay([event])
        snapshot = self._snapshots.get(event.seq)
        if snapshot is not None:
            self._take_snapshot(event, snapshot)

    def _take_snapshot(self, event: Event, snapshot: Snapshot) -> None:
        if event.seq < self._start:
            return
        kept = snapshots.unpacked(snapshot.content)
        if kept.checksum != event.checksum:
            raise Corrupt(f"the snapshot at event {event.seq} belongs to another log")
        if event.seq == self._start:
            self.fold = kept
        elif snapshots.digest(kept) != snapshots.digest(self.fold):
            self.faults.append(f"the snapshot at event {event.seq} is not what its log gives")
