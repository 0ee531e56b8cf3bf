"""Old events go into an archive: written, read again and compared, and only then taken out.

What was learned is kept in a foundation, as after an erasure. The store keeps the chain and the ids
of archived events; the archive has everything, and `verify` of both together replays the whole log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from driftbandits.service import snapshots
from driftbandits.store import (
    ERASED,
    Event,
    NewEvent,
    Session,
    Snapshot,
    Store,
    StoreError,
    archives,
)
from driftbandits.store.events import START, Head, checked
from driftbandits.store.records import ARCHIVED, Erased, packed

Say = Callable[[str, int, int], None]
"""Told what is going on, how many events of it are done, and of how many."""


class Archive(NamedTuple):
    """What was done."""

    policy: str
    written: int  # events that were added
    last: int  # up to which event the archive goes


def folder_of(folder: Path, chain: str) -> Path:
    """Where the archive of a policy is, whatever it is called by now."""
    return folder / chain


def archive(store: Store, policy: str, folder: Path, *, before_ns: int, say: Say) -> Archive:
    """Move the events that are older into files; begins where an earlier call was broken off."""
    with store.read() as session:
        target = folder_of(folder, session.chain(policy))
        until = archives.last_before(session, policy, before_ns)
        done = archives.last_seq(target)
        written = _write(session, policy, target, after=done, until=until, say=say)
        last = max(done, until)
        _compare(session, policy, target, last=last, say=say)
    if last:
        _found(store, policy, until=last)
        _clear(store, policy, until=last, say=say)
    return Archive(policy, written, last)


def _write(session: Session, policy: str, target: Path, *, after: int, until: int, say: Say) -> int:
    if after >= until:
        return 0

    def events() -> Iterator[Event]:
        for event in session.all_events(policy, after=after):
            if event.seq > until:
                return
            if event.is_archived:
                raise StoreError(
                    f"event {event.seq} of policy {policy} is in another archive than {target}"
                )
            if event.seq % 1000 == 0:
                say("written", event.seq - after, until - after)
            yield event

    return archives.write(target, events())


def _compare(session: Session, policy: str, target: Path, *, last: int, say: Say) -> None:
    """Read the files again: their chain must hold and be the one of the store, event for event."""
    head = Head(0, 0, START)
    stored, archived = session.all_events(policy), archives.read(target, session.chain(policy))
    for event in checked(archives.with_archive(stored, archived), after=head):
        if event.seq % 1000 == 0:
            say("compared", event.seq, last)
        if event.seq == last:
            return


def _found(store: Store, policy: str, *, until: int) -> None:
    """Keep what the archived events have taught, and note in the log that they are gone."""
    with store.read() as session:
        fold = snapshots.load(session, policy)
    with store.write() as session:
        session.lock([policy])
        snapshots.catch_up(session, fold, called=policy)
        record = Erased((), ARCHIVED, "", until)
        fold.erase(record, max(time.time_ns(), fold.at_ns))
        head = session.append(policy, [NewEvent(ERASED, "", fold.at_ns, packed(record))])
        fold.checksum = head.checksum
        content = snapshots.packed(fold)
        session.save_snapshot(Snapshot(policy, fold.seq, fold.at_ns, True, content))
        session.drop_snapshots(policy, before=fold.seq, foundations=True)
        session.set_erasures(policy, session.erasures(policy) + 1)


def _clear(store: Store, policy: str, *, until: int, say: Say) -> None:
    done = 0
    while done < until:
        with store.write() as session:  # a little at a time: others write too
            session.lock([policy])
            done = archives.clear(session, policy, after=done, until=until)
        say("taken out", done, until)
