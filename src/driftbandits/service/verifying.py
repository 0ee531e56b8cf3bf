"""Whether a log is whole, and whether folding it gives what the service had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from driftbandits.service import snapshots
from driftbandits.service.archiving import folder_of
from driftbandits.service.fold import Fold
from driftbandits.store import (
    START,
    Corrupt,
    Event,
    Head,
    Session,
    Snapshot,
    Store,
    StoreError,
    archives,
    checked,
)

_SAY_EVERY = 1000


class Verdict(NamedTuple):
    """What a replay of one policy has shown."""

    policy: str
    events: int
    digest: str
    faults: list[str]


Say = Callable[[str, int, int], None]
"""Told whose log is replayed, how many of its events are done, and of how many."""


def _say_nothing(policy: str, done: int, total: int) -> None:
    return


def verify(store: Store, *, archive: Path | None = None, say: Say = _say_nothing) -> list[Verdict]:
    """Replay every log from its beginning, or from the last erasure; and look at the database.

    With the folder of an `archive` what is there is replayed too.
    """
    with store.read() as session:
        verdicts = [_verdict(session, policy, archive, say) for policy in session.policies()]
    damage = store.damage()
    return [*verdicts, Verdict("the database", 0, "", damage)] if damage else verdicts


def _verdict(session: Session, policy: str, archive: Path | None, say: Say) -> Verdict:
    replay = _Replay(session, policy, archive)
    try:
        replay.run(say)
    except (StoreError, msgspec.DecodeError, snapshots.BadSnapshot) as error:
        replay.faults.append(str(error))
    fold = replay.fold
    digest = snapshots.digest(fold) if fold.versions and not replay.faults else ""
    return Verdict(policy, replay.seen, digest, replay.faults)


class _Replay:
    def __init__(self, session: Session, policy: str, archive: Path | None) -> None:
        self._session = session
        self._policy = policy
        self._archive = None if archive is None else folder_of(archive, policy)
        self._folds_all = self._archive is not None  # and not only what follows the foundation
        self._snapshots = {snapshot.seq: snapshot for snapshot in session.snapshots(policy)}
        kept = self._snapshots.values()
        self._start = max((s.seq for s in kept if s.is_foundation), default=0)
        self.fold = Fold(policy)
        self.seen = 0
        self.faults: list[str] = []

    def run(self, say: Say) -> None:
        if self._session.erasures(self._policy) and not self._start:
            raise Corrupt("events were erased, and the snapshot of that moment is missing")
        events = self._session.all_events(self._policy)
        if self._archive is not None:
            events = archives.with_archive(events, archives.read(self._archive, self._policy))
        end = self._session.head(self._policy)
        head = Head(0, 0, START)
        for event in checked(events, after=head):
            self._take(event)
            if event.seq % _SAY_EVERY == 0 and end is not None:
                say(self._policy, event.seq, end.seq)
            head = Head(event.seq, event.at_ns, event.checksum)
        if end != head:
            raise Corrupt(f"the log ends at event {head.seq}, which is not where its head is")
        if self.fold.differences:
            self.faults.append(f"{self.fold.differences} events come out otherwise when replayed")

    def _take(self, event: Event) -> None:
        self.seen += 1
        if event.is_erased:
            self._folds_all = False
        if self._folds_all or event.seq > self._start:
            if event.is_erased:
                raise Corrupt(f"event {event.seq} was erased after the last snapshot of an erasure")
            self.fold.replay([event])
        snapshot = self._snapshots.get(event.seq)
        if snapshot is not None:
            self._take_snapshot(event, snapshot)

    def _take_snapshot(self, event: Event, snapshot: Snapshot) -> None:
        if event.seq < self._start and not self._folds_all:
            return
        kept = snapshots.unpacked(snapshot.content)
        if kept.checksum != event.checksum:
            raise Corrupt(f"the snapshot at event {event.seq} belongs to another log")
        if event.seq == self._start and not self._folds_all:
            self.fold = kept
        elif snapshots.digest(kept) != snapshots.digest(self.fold):
            self.faults.append(f"the snapshot at event {event.seq} is not what its log gives")
