"""Whether a log is whole, and whether folding it gives what the service had."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from driftbandits.service import snapshots
from driftbandits.service.archiving import folder_of
from driftbandits.service.fold import Candidate, Fold
from driftbandits.service.following import Follower
from driftbandits.store import (
    ERASED,
    PROMOTED,
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
        self._chain = session.chain(policy)
        self._archive = None if archive is None else folder_of(archive, self._chain)
        self._folds_all = self._archive is not None  # and not only what follows the foundation
        self._snapshots = {snapshot.seq: snapshot for snapshot in session.snapshots(policy)}
        kept = self._snapshots.values()
        self._start = max((s.seq for s in kept if s.is_foundation), default=0)
        self.fold = Fold(self._chain)
        self._candidates: dict[str, Candidate] = {}  # as snapshots have them, the last of each
        self.seen = 0
        self.faults: list[str] = []

    def run(self, say: Say) -> None:
        if self._session.erasures(self._policy) and not self._start:
            raise Corrupt("events were erased, and the snapshot of that moment is missing")
        events = self._events_after(0)
        end = self._session.head(self._policy)
        head = Head(0, 0, START)
        for event in checked(events, after=head):
            self._take(event)
            if event.seq % _SAY_EVERY == 0 and end is not None:
                say(self._policy, event.seq, end.seq)
            head = Head(event.seq, event.at_ns, event.checksum)
        self._check_candidates()
        if end != head:
            raise Corrupt(f"the log ends at event {head.seq}, which is not where its head is")
        if self.fold.policy != self._policy:
            self.faults.append(f"the log says that it is called {self.fold.policy}")
        if self.fold.differences:
            self.faults.append(f"{self.fold.differences} events come out otherwise when replayed")

    def _events_after(self, seq: int) -> Iterable[Event]:
        if self._archive is None or seq:
            return self._session.all_events(self._policy, after=seq)
        archived = archives.read(self._archive, self._chain)
        return archives.with_archive(self._session.all_events(self._policy), archived)

    def _relearned(self, candidate: Candidate, until: int) -> Follower:
        erasures = self._session.erasures(self._policy)
        return snapshots.relearned(
            self._events_after, candidate, self._chain, until=until, erasures=erasures
        )

    def _take(self, event: Event) -> None:
        self.seen += 1
        if event.is_erased or (event.kind == PROMOTED and self.fold.counts[ERASED]):
            self._folds_all = False  # what was learned is in the foundation alone
        if self._folds_all or event.seq > self._start:
            if event.is_erased:
                raise Corrupt(f"event {event.seq} was erased after the last snapshot of an erasure")
            fold = self.fold
            fold.relearn = lambda name: self._relearned(fold.candidates[name], fold.seq)
            fold.replay([event])
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
        self._candidates.update(kept.candidates)

    def _check_candidates(self) -> None:
        """What those that still learn had learned must be what the log gives.

        What was kept before an erasure is no longer told from.
        """
        for name, candidate in self._candidates.items():
            now = self.fold.candidates.get(name)
            if not candidate.kept or now is None or now.since != candidate.since:
                continue
            told = snapshots.unpacked_follower(self._chain, candidate)
            if told.erasures != self._session.erasures(self._policy) or (
                candidate.since != candidate.seq and self._archive is not None
            ):
                continue  # it learned from what was left
            again = self._relearned(candidate._replace(kept=b""), told.seq)
            if snapshots.digest(told) != snapshots.digest(again):
                self.faults.append(f"candidate {name!r} has not learned what its log gives")
