"""The log in PostgreSQL: any number of processes and machines over one database.

A writer holds the row lock of a policy from before it reads the head until its commit, so numbers
become visible in order and without gaps. The server cuts off a writer that pauses in a transaction,
and its commit fails.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

import psycopg
from psycopg import errors

from driftbandits.store.events import Overtaken, StoreBusy, StoreError, StoreUnavailable
from driftbandits.store.session import (
    EVENT_COLUMNS,
    HEAD_COLUMNS,
    Row,
    Session,
    Store,
    prepare_tables,
)

LONGEST_PAUSE_MS = 5000
"""Milliseconds that a transaction may stand still before the server ends it."""
LOCK_WAIT_MS = 4000
"""Milliseconds that a writer waits for another one."""
STATEMENT_S = 60
"""Seconds that a statement may take; the server counts them."""
ANSWER_S = 70.0
"""Seconds to wait for a server that takes a statement and does not answer at all."""

_TYPES = {
    "bytes": "BYTEA",
    "text": 'TEXT COLLATE "C"',
    "number": "BIGINT GENERATED ALWAYS AS IDENTITY",
}
_ADD = f"""
WITH moved AS (
    UPDATE policy SET ({HEAD_COLUMNS}) = (n.head, n.at_ns, n.checksum)
    FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[])
        AS n (head, at_ns, checksum, number, follows)
    WHERE policy.number = n.number AND policy.head = n.follows
    RETURNING policy.number)
INSERT INTO event ({EVENT_COLUMNS})
SELECT * FROM unnest(
    %b::bigint[], %b::smallint[], %b::bigint[], %b::bigint[], %b::text[], %b::text[],
    %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[]) AS e ({EVENT_COLUMNS})
WHERE e.policy IN (SELECT number FROM moved)"""
"""One statement, however many events and policies there are: each has a cost of its own."""
_BY_INDEX = (
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
)
"""Statements are planned once and kept. A plan that was made while the log was short would read all
of it ever after, until the database has counted its rows."""
_SESSION_IS_LOST = (psycopg.OperationalError, errors.IdleInTransactionSessionTimeout)
_SCHEMA_LOCK = 7_153_411  # any number: processes that start together make the tables in turn


class PostgresSession(Session):
    """A transaction of one connection."""

    for_update = " FOR UPDATE"
    one_of = "= ANY (?)"

    def __init__(self, connection: psycopg.Connection, secret: bytes) -> None:
        super().__init__(secret)
        self._connection = connection

    def run(self, sql: str, values: Row = ()) -> Iterable[Row]:
        marked = sql.replace("?", "%s").encode()
        cursor = self._connection.execute(marked, tuple(values), binary=True)
        return cursor.fetchall() if cursor.description else ()

    def listed(self, values: Sequence[str]) -> list[str]:
        return list(values)

    def run_for_ids(self, sql: str, wanted: Mapping[int, Sequence[str]]) -> Iterable[Row]:
        numbers = [number for number, event_ids in wanted.items() for _ in event_ids]
        ids = "(policy, event_id) IN (SELECT * FROM unnest(?::bigint[], ?::text[]))"
        return self.run(sql.format(ids=ids), (numbers, list(chain(*wanted.values()))))

    def add(self, events: Sequence[Row], heads: Sequence[Row]) -> bool:
        columns = [list(column) for part in (heads, events) for column in zip(*part, strict=True)]
        done = self._connection.execute(_ADD.encode(), columns, binary=True)
        return done.rowcount == len(events)


class _Connection(psycopg.Connection[Any]):
    """A connection that gives up on a server which has stopped answering."""

    has_deadline = True

    def wait(self, gen: Generator[Any, Any, Any], *given: Any, **more: Any) -> Any:
        return super().wait(self._bounded(gen), *given, **more)

    def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        deadline = time.monotonic() + ANSWER_S
        try:
            state = next(gen)
            while True:
                ready = yield state
                if self.has_deadline and not ready and time.monotonic() > deadline:
                    self.pgconn.finish()  # a rollback would wait as long again
                    raise psycopg.OperationalError(f"no answer within {ANSWER_S:g} s")
                state = gen.send(ready)
        except StopIteration as done:
            return done.value


def _check_may_wait(at_once: bool) -> None:
    if at_once:
        raise StoreBusy("a database elsewhere has to be waited for")


class PostgresStore(Store):
    """One database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._writer: _Connection | None = None
        self._has_traces = False
        self._readers: list[_Connection] = []
        self._guard = threading.Lock()
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        with self._translated():
            connection = self._write_connection()
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                self.secret = prepare_tables(PostgresSession(connection, b""), _TYPES)

    def _connect(self) -> _Connection:
        connection = _Connection.connect(self.url, autocommit=True, connect_timeout=5)
        for name, value in (
            ("synchronous_commit", "on"),
            ("idle_in_transaction_session_timeout", f"{LONGEST_PAUSE_MS}ms"),
            ("lock_timeout", f"{LOCK_WAIT_MS}ms"),
            ("statement_timeout", f"{STATEMENT_S}s"),
            ("tcp_user_timeout", "10s"),
            ("client_min_messages", "warning"),
            ("application_name", f"driftbandits {os.getpid()}"),
            *_BY_INDEX,
        ):
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        return connection

    def _write_connection(self) -> psycopg.Connection:
        if self._writer is None or self._writer.closed:
            self._writer = self._connect()
        return self._writer

    @contextmanager
    def write(self, *, at_once: bool = False) -> Iterator[Session]:
        _check_may_wait(at_once)
        with self._translated():
            connection = self._write_connection()
            try:
                with connection.transaction():
                    session = PostgresSession(connection, self.secret)
                    yield session
                self._has_traces |= session.has_erased
            except (*_SESSION_IS_LOST, errors.ReadOnlySqlTransaction):
                with suppress(psycopg.Error):
                    connection.close()
                self._forget_readers()
                raise

    @contextmanager
    def read(self, *, at_once: bool = False) -> Iterator[Session]:
        _check_may_wait(at_once)
        with self._translated():
            with self._guard:
                connection = self._readers.pop() if self._readers else None
            if connection is None or connection.closed:
                connection = self._connect()
            try:
                with connection.transaction():
                    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    # A reader holds no lock, so it may take its time.
                    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                    yield PostgresSession(connection, self.secret)
            except BaseException:
                connection.close()
                self._forget_readers()
                raise
            with self._guard:
                self._readers.append(connection)

    def maintain(self) -> None:
        """Let the database reuse the place of erased events; it does not overwrite it by itself."""
        if not self._has_traces:
            return
        self._has_traces = False
        with self._translated(), self._connect() as connection:
            connection.execute("SET statement_timeout = 0")
            connection.has_deadline = False
            try:
                for table in ("event", "snapshot"):
                    connection.execute(f"VACUUM {table}".encode())
            except BaseException:
                self._has_traces = True
                raise

    def _forget_readers(self) -> None:
        """They may be of a database that is gone; the next ones are of the one that is there."""
        with self._guard:
            idle, self._readers = self._readers, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except errors.DeadlockDetected as error:
            raise Overtaken(f"another process was first: {error}") from error
        except errors.LockNotAvailable as error:
            raise StoreBusy(f"another process holds the lock: {error}") from error
        except (errors.DiskFull, errors.ReadOnlySqlTransaction) as error:
            raise StoreUnavailable(f"the database cannot be written: {error}") from error
        except _SESSION_IS_LOST as error:
            raise StoreUnavailable(f"the database does not answer: {error}") from error
        except psycopg.Error as error:
            said = error.diag.message_primary or ""  # the details quote what was to be written
            raise StoreError(f"{type(error).__name__}: {said}") from error

    def close(self) -> None:
        self._forget_readers()
        if self._writer is not None:
            self._writer.close()
        self._writer = None
