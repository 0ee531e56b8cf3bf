"""Events, and the chain of checksums that shows a log to be whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Kind:
    """The subjects of events; `store.records` has the content of each."""

    CONFIGURED, DECISION, CORRECTED = "configured", "decision", "corrected"
    REWARD, DEFAULT, LATE, WITHDRAWN = "reward", "default", "late", "withdrawn"
    DUPLICATE, CONFLICT, REFUSED, ERASED = "duplicate", "conflict", "refused", "erased"
    BEGUN, PROMOTED, DROPPED, RETIRED = "begun", "promoted", "dropped", "retired"


SLOTS = {
    Kind.DECISION: 1,
    Kind.REWARD: 2,
    Kind.DEFAULT: 2,
    Kind.WITHDRAWN: 2,
    Kind.LATE: 3,
    Kind.CORRECTED: 4,
}
"""An event_id has at most one event in each slot; the other kinds may repeat."""

START = bytes(16)
"""The checksum before the first event."""

ERASED_ID = "~"
"""First character of the token of an erased event_id; no event_id has it."""

ABOUT = "driftbandits"
"""The key of what a Parquet file says about its log, as JSON."""

_SALT_SIZE = 16


class StoreError(Exception):
    """The store cannot do what it was asked to."""


class StoreBusy(StoreError):
    """Another process holds the lock; trying again later helps."""


class Overtaken(StoreBusy):
    """Another process has appended since the head was read; nothing was written."""


class StoreUnavailable(StoreError):
    """The disk or the database does not answer as it should; nothing was written."""


class Corrupt(StoreError):
    """The store does not hold what was written."""


class Head(NamedTuple):
    """Where a policy's log ends."""

    seq: int
    at_ns: int
    checksum: bytes


class NewEvent(NamedTuple):
    """An event that is to be appended."""

    kind: str
    event_id: str  # "" where the event belongs to no decision
    at_ns: int
    body: bytes


class Event(NamedTuple):
    """One line of a policy's log. After an erasure body and salt are empty, the rest stays."""

    policy: str
    seq: int
    at_ns: int
    kind: str
    event_id: str
    body: bytes
    salt: bytes
    digest: bytes
    checksum: bytes

    @property
    def is_erased(self) -> bool:
        """The content of the event is gone."""
        return not self.salt


class Known(NamedTuple):
    """The events of an event_id."""

    decision: Event | None = None  # or what corrected it
    outcome: Event | None = None  # what was learned, a reward or the default; or its withdrawal
    late: Event | None = None


class Snapshot(NamedTuple):
    """A state as of `seq`. From a foundation on, and only from there, a log can be folded."""

    policy: str
    seq: int
    at_ns: int
    is_foundation: bool  # it holds what erased events had taught
    content: bytes


class Key(NamedTuple):
    """A key of the service: the hash of its secret, and its role."""

    id: str
    hash: bytes
    role: str
    prefix: str
    label: str
    created_ns: int
    revoked_ns: int  # 0: valid


def content_digest(salt: bytes, event_id: str, body: bytes) -> bytes:
    """Salted, so that it says nothing about an event whose salt is gone."""
    return hashlib.blake2b(event_id.encode() + b"\0" + body, digest_size=16, key=salt).digest()


def link_checksum(
    previous: bytes, policy: str, seq: int, at_ns: int, kind: str, digest: bytes
) -> bytes:
    text = f"{policy} {seq} {at_ns} {kind} ".encode()
    return hashlib.blake2b(previous + text + digest, digest_size=16).digest()


def chained(policy: str, head: Head, new_events: Sequence[NewEvent]) -> list[Event]:
    """The new_events as events that follow `head`."""
    seq, _, checksum = head
    salts = os.urandom(_SALT_SIZE * len(new_events))
    events = []
    for i, (kind, event_id, at_ns, body) in enumerate(new_events):
        seq += 1
        salt = salts[_SALT_SIZE * i : _SALT_SIZE * (i + 1)]
        digest = content_digest(salt, event_id, body)
        checksum = link_checksum(checksum, policy, seq, at_ns, kind, digest)
        events.append(Event(policy, seq, at_ns, kind, event_id, body, salt, digest, checksum))
    return events


def checked(events: Iterable[Event], *, after: Head) -> Iterator[Event]:
    """Yield the events; raises `Corrupt` at the first that is altered or missing."""
    head = after
    for event in events:
        _check_follows(event, head)
        head = Head(event.seq, event.at_ns, event.checksum)
        yield event


def _check_follows(event: Event, head: Head) -> None:
    where = f"event {event.seq} of policy {event.policy}"
    if event.seq != head.seq + 1:
        raise Corrupt(f"{where} follows event {head.seq}: events are missing")
    try:
        digest = content_digest(event.salt, event.event_id, event.body)
        checksum = link_checksum(
            head.checksum, event.policy, event.seq, event.at_ns, event.kind, event.digest
        )
    except (TypeError, ValueError, AttributeError) as error:  # even the type of a column is damaged
        raise Corrupt(f"{where} is not what was written: {error}") from error
    if digest != event.digest and not event.is_erased:
        raise Corrupt(f"the content of {where} is not what was written")
    if checksum != event.checksum:
        raise Corrupt(f"the checksum of {where} does not continue the chain")
