"""Every statement that the two stores share, and what a store has to offer."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Self

from driftbandits.store.events import (
    ERASED_ID,
    SLOTS,
    START,
    Corrupt,
    Event,
    Head,
    Key,
    Known,
    NewEvent,
    Overtaken,
    Snapshot,
    StoreError,
    chained,
)

SCHEMA_VERSION = 1

# TEXT is compared byte by byte: the PostgreSQL store says so for its columns.
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value {bytes} NOT NULL)",
    """CREATE TABLE IF NOT EXISTS policy (
        number {number} PRIMARY KEY, name {text} NOT NULL UNIQUE, head BIGINT NOT NULL,
        at_ns BIGINT NOT NULL, checksum {bytes} NOT NULL, erasures BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS event (
        policy BIGINT NOT NULL, seq BIGINT NOT NULL, at_ns BIGINT NOT NULL, kind {text} NOT NULL,
        event_id {text} NOT NULL, place SMALLINT, body {bytes} NOT NULL, salt {bytes} NOT NULL,
        digest {bytes} NOT NULL, checksum {bytes} NOT NULL, PRIMARY KEY (policy, seq))""",
    # One decision and one outcome per event_id. Kinds that may repeat have none: nulls differ.
    "CREATE UNIQUE INDEX IF NOT EXISTS event_once ON event (policy, event_id, place)",
    """CREATE TABLE IF NOT EXISTS snapshot (
        policy BIGINT NOT NULL, seq BIGINT NOT NULL, at_ns BIGINT NOT NULL,
        anchor SMALLINT NOT NULL, content {bytes} NOT NULL, PRIMARY KEY (policy, seq))""",
    """CREATE TABLE IF NOT EXISTS api_key (
        id {text} PRIMARY KEY, hash {bytes} NOT NULL, role {text} NOT NULL, prefix {text} NOT NULL,
        label {text} NOT NULL, created_ns BIGINT NOT NULL, revoked_ns BIGINT NOT NULL)""",
)

_EVENT_COLUMNS = "seq, at_ns, kind, event_id, body, salt, digest, checksum"
EVENT_COLUMNS = f"policy, place, {_EVENT_COLUMNS}"
HEAD_COLUMNS = "head, at_ns, checksum"
LAST_CHARACTER = "\U0010ffff"
PAGE_BYTES = 8 * 1024 * 1024
"""Size of the bodies of events that are read at a time; one event may be larger."""

Row = Sequence[Any]


class _PolicyRow(NamedTuple):
    number: int
    head: Head
    erasures: int


class Outline(NamedTuple):
    """An event without its content."""

    seq: int
    at_ns: int
    event_id: str
    size: int

    @property
    def is_erasable(self) -> bool:
        """The event belongs to a decision, and was not erased before."""
        return self.event_id[:1] not in ("", ERASED_ID)


class Session(ABC):
    """Reading and writing inside one transaction."""

    def __init__(self, secret: bytes) -> None:
        self.has_erased = False
        self._secret = secret
        self._rows: dict[str, _PolicyRow] = {}

    # -- what the two databases do in their own way ----------------------------------------------

    @abstractmethod
    def run(self, sql: str, values: Row = ()) -> Iterable[Row]:
        """The rows of a statement whose values are marked by `?`."""

    @abstractmethod
    def add(self, events: Sequence[Row], heads: Sequence[Row]) -> bool:
        """Insert events if their logs still end where they did, and set where they end now.

        Values of `EVENT_COLUMNS`, and of `HEAD_COLUMNS` with the number of the policy and the seq
        that the first of its events follows.
        """

    @abstractmethod
    def listed(self, values: Sequence[str]) -> Any:
        """The one value that stands for some in a statement with `one_of`."""

    @abstractmethod
    def run_for_ids(self, sql: str, wanted: Mapping[int, Sequence[str]]) -> Iterable[Row]:
        """The rows of a statement whose `{ids}` says that event_id is one of its policy's."""

    one_of: str
    """SQL that says that a column is one of a list."""

    for_update = ""
    """Suffix that makes a SELECT lock its rows until the transaction ends."""

    # -- policies --------------------------------------------------------------------------------

    def policies(self) -> list[str]:
        return [name for (name,) in self.run("SELECT name FROM policy ORDER BY name")]

    def create(self, policy: str) -> None:
        """Give a policy an empty log; nothing happens if it has one."""
        self.run(
            "INSERT INTO policy (name, head, at_ns, checksum, erasures) VALUES (?, 0, 0, ?, 0) "
            "ON CONFLICT (name) DO NOTHING",
            (policy, START),
        )

    def lock(self, policies: Iterable[str]) -> None:
        """Lock those of these policies that exist, until the transaction ends."""
        # in one order, so that two writers never deadlock
        self._read_rows(sorted(set(policies)), f" ORDER BY name{self.for_update}")

    def head(self, policy: str) -> Head | None:
        row = self._row(policy)
        return None if row is None else row.head

    def _row(self, policy: str) -> _PolicyRow | None:
        if policy not in self._rows:
            self._read_rows([policy], "")
        return self._rows.get(policy)

    def _read_rows(self, policies: Sequence[str], suffix: str) -> None:
        rows = self.run(
            "SELECT name, number, head, at_ns, checksum, erasures FROM policy "
            f"WHERE name {self.one_of}{suffix}",
            (self.listed(policies),),
        )
        for name, number, seq, at_ns, checksum, erasures in rows:
            head = Head(seq, at_ns, checksum)
            self._rows[name] = _PolicyRow(number, head, erasures)

    def _existing(self, policy: str) -> _PolicyRow:
        row = self._row(policy)
        if row is None:
            raise StoreError(f"there is no policy {policy!r} in the store")
        return row

    # -- the log ---------------------------------------------------------------------------------

    def append(self, policy: str, new_events: Sequence[NewEvent]) -> Head:
        """Add events after the head of a policy that this transaction has locked."""
        self.append_all({policy: new_events})
        return self._rows[policy].head

    def append_all(self, new_events: Mapping[str, Sequence[NewEvent]]) -> None:
        """Append events to several policies in as few statements."""
        self.insert_all(
            {
                policy: chained(policy, self._existing(policy).head, new)
                for policy, new in new_events.items()
            }
        )

    def insert_all(self, events_of: Mapping[str, Sequence[Event]]) -> None:
        """Add events that go on from the heads, as they are."""
        rows, heads = [], []
        for policy, events in events_of.items():
            row = self._existing(policy)
            if not events:
                continue
            rows += [(row.number, SLOTS.get(event.kind), *event[1:]) for event in events]
            last = events[-1]
            head = Head(last.seq, last.at_ns, last.checksum)
            heads.append((*head, row.number, row.head.seq))
            self._rows[policy] = row._replace(head=head)
        if rows and not self.add(rows, heads):
            raise Overtaken("another process has appended to the log meanwhile")

    def events(self, policy: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Up to `limit` events with a seq above `after`, in order."""
        row = self._existing(policy)
        rows = self.run(
            f"SELECT {_EVENT_COLUMNS} FROM event WHERE policy = ? AND seq > ? ORDER BY seq LIMIT ?",
            (row.number, after, limit),
        )
        return [Event(policy, *values) for values in rows]

    def all_events(self, policy: str, *, after: int = 0, page: int = 1000) -> Iterator[Event]:
        """Every event with a seq above `after`, read a page at a time."""
        while events := self.page(policy, after=after, limit=page):
            yield from events
            after = events[-1].seq

    def page(
        self, policy: str, *, after: int, limit: int, most_bytes: int = PAGE_BYTES
    ) -> list[Event]:
        """Like `events`, and not many more bytes at once than these; at least one event."""
        size = count = 0
        for outline in self.outlines(policy, after=after, limit=limit):
            size += outline.size
            if count and size > most_bytes:
                break
            count += 1
        return self.events(policy, after=after, limit=count) if count else []

    def known(self, policy: str, event_ids: Iterable[str]) -> dict[str, Known]:
        """Return the events of each event_id, erased or not."""
        found = self.known_of({policy: list(event_ids)})
        return {event_id: known for (_, event_id), known in found.items()}

    def known_of(self, wanted: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Known]:
        """Return the events by policy and event_id."""
        asked: dict[int, dict[str, tuple[str, str]]] = {}  # by what stands in the log
        for policy, event_ids in wanted.items():
            row = self._existing(policy)
            of_policy = asked[row.number] = {id: (policy, id) for id in event_ids}
            if row.erasures:
                of_policy.update({self.token(policy, id): (policy, id) for id in event_ids})
        found: dict[tuple[str, str], dict[int, Event]] = {}
        for number, slot, *values in self.run_for_ids(
            f"SELECT policy, place, {_EVENT_COLUMNS} FROM event WHERE {{ids}} AND place > 0",
            {number: list(ids) for number, ids in asked.items() if ids},
        ):
            policy, event_id = asked[number][values[3]]
            event = Event(policy, *values)
            found.setdefault((policy, event_id), {})[slot] = event
        return {at: Known(of.get(4, of.get(1)), of.get(2), of.get(3)) for at, of in found.items()}

    # -- erasure ---------------------------------------------------------------------------------

    def token(self, policy: str, event_id: str) -> str:
        """Return the token of an erased event_id: enough to recognise it, too little to read it."""
        text = f"{policy}\0{event_id}".encode()
        return ERASED_ID + hashlib.blake2b(text, digest_size=16, key=self._secret).hexdigest()

    def matching(self, policy: str, *, first: str, last: str, until: int, limit: int) -> list[int]:
        """The seqs of some events up to `until` that are not erased, by a range of event_ids."""
        rows = self.run(
            "SELECT seq FROM event WHERE policy = ? AND event_id >= ? AND event_id <= ? "
            "AND event_id > '' AND substr(event_id, 1, 1) <> ? AND seq <= ? LIMIT ?",
            (self._existing(policy).number, first, last, ERASED_ID, until, limit),
        )
        return [seq for (seq,) in rows]

    def outlines(self, policy: str, *, after: int, limit: int) -> list[Outline]:
        """Return up to `limit` events with a seq above `after`, without their content."""
        rows = self.run(
            "SELECT seq, at_ns, event_id, length(body) FROM event "
            "WHERE policy = ? AND seq > ? ORDER BY seq LIMIT ?",
            (self._existing(policy).number, after, limit),
        )
        return [Outline(*row) for row in rows]

    def erasures(self, policy: str) -> int:
        """Return how often events of this policy were erased."""
        return self._existing(policy).erasures

    def set_erasures(self, policy: str, erasures: int) -> None:
        row = self._existing(policy)
        self.run("UPDATE policy SET erasures = ? WHERE number = ?", (erasures, row.number))
        self._rows[policy] = row._replace(erasures=erasures)

    def erase(self, policy: str, seqs: Sequence[int]) -> None:
        """Take the content out of events of a locked policy; their place in the chain stays."""
        row = self._existing(policy)
        self.has_erased = True
        for seq in seqs:
            (event,) = self.events(policy, after=seq - 1, limit=1)
            self.run(
                "UPDATE event SET event_id = ?, body = ?, salt = ? WHERE policy = ? AND seq = ?",
                (self.token(policy, event.event_id), b"", b"", row.number, seq),
            )
        self.set_erasures(policy, row.erasures + 1)

    # -- snapshots -------------------------------------------------------------------------------

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; a foundation of the same event stays one."""
        number = self._existing(snapshot.policy).number
        self.run(
            "DELETE FROM snapshot WHERE policy = ? AND seq = ? AND anchor <= ?",
            (number, snapshot.seq, int(snapshot.is_foundation)),
        )
        self.run(
            "INSERT INTO snapshot (policy, seq, at_ns, anchor, content) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (policy, seq) DO NOTHING",
            (number, snapshot.seq, snapshot.at_ns, int(snapshot.is_foundation), snapshot.content),
        )

    def snapshots(self, policy: str) -> list[Snapshot]:
        """Newest first."""
        number = self._existing(policy).number
        rows = self.run(
            "SELECT seq, at_ns, anchor, content FROM snapshot WHERE policy = ? ORDER BY seq DESC",
            (number,),
        )
        return [
            Snapshot(policy, seq, at_ns, bool(is_foundation), content)
            for seq, at_ns, is_foundation, content in rows
        ]

    def drop_snapshots(self, policy: str, *, before: int, foundations: bool = False) -> None:
        """Let go of the snapshots below a seq; of foundations only if told to."""
        number = self._existing(policy).number
        self.run(
            "DELETE FROM snapshot WHERE policy = ? AND seq < ? AND anchor <= ?",
            (number, before, int(foundations)),
        )

    # -- keys ------------------------------------------------------------------------------------

    def api_keys(self) -> list[Key]:
        rows = self.run(
            "SELECT id, hash, role, prefix, label, created_ns, revoked_ns FROM api_key "
            "ORDER BY created_ns, id"
        )
        return [Key(*row) for row in rows]

    def add_key(self, key: Key) -> None:
        self.run(
            "INSERT INTO api_key (id, hash, role, prefix, label, created_ns, revoked_ns) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            key,
        )

    def revoke_key(self, id: str, *, at_ns: int) -> bool:
        """Revoke a key; returns False if there is no such key in use."""
        rows = self.run(
            "UPDATE api_key SET revoked_ns = ? WHERE id = ? AND revoked_ns = 0 RETURNING id",
            (at_ns, id),
        )
        return bool(list(rows))

    # -- what the store knows about itself -------------------------------------------------------

    def about(self, name: str) -> bytes | None:
        for (value,) in self.run("SELECT value FROM about WHERE name = ?", (name,)):
            if not isinstance(value, bytes):
                raise Corrupt(f"what the store says about its {name} is not what was written")
            return value
        return None

    def set_about(self, name: str, value: bytes) -> None:
        self.run("DELETE FROM about WHERE name = ?", (name,))
        self.run("INSERT INTO about (name, value) VALUES (?, ?)", (name, value))


class Store(ABC):
    """A database of logs. `read` may be used by any thread, `write` by one at a time."""

    url: str
    secret: bytes
    """Makes the tokens of erased event_ids."""

    @abstractmethod
    def write(self, *, at_once: bool = False) -> AbstractContextManager[Session]:
        """A transaction that is on disk when it has been left without an exception.

        With `at_once` entering raises `StoreBusy` if it has to wait, as for a store that is far.
        """

    @abstractmethod
    def read(self, *, at_once: bool = False) -> AbstractContextManager[Session]:
        """One unchanging view of what has been committed."""

    def maintain(self) -> None:
        """Housekeeping that may go on beside the writer, in another thread.

        It also takes out what the database itself has kept of erased events.
        """
        return

    def copy_file(self, path: str) -> bool:
        """Write a copy into a new file, as of now and in one go; False if this is no file."""
        return False

    def damage(self) -> list[str]:
        """Return the faults that the database itself finds in its tables and indexes."""
        return []

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def prepare_tables(session: Session, types: dict[str, str]) -> bytes:
    """Make the tables where they are missing, refuse those of another schema; the secret."""
    for statement in SCHEMA:
        session.run(statement.format(**types))
    found = session.about("schema")
    if found is None:
        session.set_about("schema", str(SCHEMA_VERSION).encode())
    elif found != str(SCHEMA_VERSION).encode():
        raise Corrupt(
            f"the store has schema {found.decode(errors='replace')}; this version reads "
            f"{SCHEMA_VERSION}"
        )
    secret = session.about("secret")
    if secret is None:
        secret = os.urandom(32)
        session.set_about("secret", secret)
    return secret
