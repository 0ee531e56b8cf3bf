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
    snapshots = {snapshot.seq: snapshot for snapshot in session.snapshots(policy)}
    start = max((s.seq for s in snapshots.values() if s.is_foundation), default=0)
    seen, faults, state = 0, list[str](), State(policy)
    head, end = Head(0, 0, START), session.head(policy)
    try:
        if session.erasures(policy) and not start:
            raise Corrupt("events were erased, and the snapshot of that moment is missing")
        for event in checked(session.all_events(policy), after=head):
            seen += 1
            head = Head(event.seq, event.at_ns, event.checksum)
            if event.seq > start:
                _replay(session, state, event)
            if event.seq >= start and (snapshot := snapshots.get(event.seq)) is not None:
                kept = State.from_bytes(snapshot.content)
                if kept.checksum != event.checksum:
                    raise Corrupt(f"the snapshot at event {event.seq} belongs to another log")
                if event.seq == start:
                    state = kept
                elif kept.digest != state.digest:
                    faults.append(f"the snapshot at event {event.seq} is not what its log gives")
            if event.seq % _SAY_EVERY == 0 and end is not None:
                say(policy, event.seq, end.seq)
        if end != head:
            raise Corrupt(f"the log ends at event {head.seq}, which is not where its head is")
        if state.differences:
            faults.append(f"{state.differences} events come out otherwise when replayed")
    except (StoreError, msgspec.DecodeError, BadSnapshot) as error:
        faults.append(str(error))
    digest = state.digest if state.versions and not faults else ""
    return Replayed(policy, seen, digest, faults)


def _replay(session: Session, state: State, event: Event) -> None:
    if event.is_erased:
        raise Corrupt(f"event {event.seq} was erased after the last snapshot of an erasure")
    state.relearn = lambda name: relearned(
        session, state.policy, state.candidates[name], until=state.seq
    )
    state.replay([event])
