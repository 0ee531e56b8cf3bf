"""The log in a SQLite file: write-ahead log, synced at every commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import msgspec

from driftbandits.store.events import Corrupt, StoreBusy, StoreError, StoreUnavailable
from driftbandits.store.session import (
    EVENT_COLUMNS,
    HEAD_COLUMNS,
    Row,
    Session,
    Store,
    prepare_tables,
)

_WAIT_MS = 5000
_CHECKPOINT_PAGES = 4000
"""Where a commit moves the write-ahead log into the database itself, if `maintain` has not."""
_LOG_BYTES = 16 * 1024 * 1024
"""The write-ahead log is cut off to this size when it begins anew."""

_LONG_LOG_PAGES = 1000
_CUT_OFF_WAIT_MS = 100
_LOOK_EVERY_S = 0.002

_MARKS = f"({', '.join('?' for _ in EVENT_COLUMNS.split(','))})"
_TYPES = {"bytes": "BLOB", "text": "TEXT", "number": "INTEGER"}


class SQLiteSession(Session):
    """A transaction of one connection."""

    one_of = "IN (SELECT value FROM json_each(?))"

    def __init__(self, connection: apsw.Connection, secret: bytes) -> None:
        super().__init__(secret)
        self._connection = connection

    def run(self, sql: str, values: Row = ()) -> Iterable[Row]:
        return self._connection.execute(sql, tuple(values))

    def listed(self, values: Sequence[str]) -> str:
        return msgspec.json.encode(values).decode()

    def run_for_ids(self, sql: str, wanted: Mapping[int, Sequence[str]]) -> Iterable[Row]:
        sql = sql.format(ids=f"policy = ? AND event_id {self.one_of}")
        for number, event_ids in wanted.items():
            yield from self._connection.execute(sql, (number, self.listed(event_ids)))

    def add(self, events: Sequence[Row], heads: Sequence[Row]) -> bool:
        for head in heads:
            self._connection.execute(
                f"UPDATE policy SET ({HEAD_COLUMNS}) = (?, ?, ?) WHERE number = ? AND head = ?",
                tuple(head),
            )
            if not self._connection.changes():
                return False
        self._connection.executemany(f"INSERT INTO event ({EVENT_COLUMNS}) VALUES {_MARKS}", events)
        return True


def _wait_at_most(connection: apsw.Connection, wait_ms: int) -> None:
    """Look for the lock again and again, at the same pace.

    SQLite's own way has longer and longer pauses: who has waited longest waits longest again, and
    one process that writes all the time keeps the others from it for seconds.
    """
    deadline = time.monotonic() + wait_ms / 1000

    def wait(_: int) -> bool:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_EVERY_S)
        return True

    connection.set_busy_handler(wait)


def claim(path: str) -> apsw.Connection:
    """Hold the lock of a file beside the store until the connection is closed."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        held = apsw.Connection(f"{path}-serving")
    except (OSError, apsw.CantOpenError) as error:
        raise StoreUnavailable(f"store {path} cannot be opened: {error}") from None
    try:
        held.execute("BEGIN EXCLUSIVE")
    except apsw.BusyError:
        held.close()
        raise StoreError(
            f"another process serves {path}, and a SQLite file is served by one: stop it, or use "
            "PostgreSQL, which several processes may serve"
        ) from None
    return held


class SQLiteStore(Store):
    """One file, served by one process; others may read it and write to it now and then."""

    def __init__(self, path: str, *, vfs: str | None = None) -> None:
        self.url = f"sqlite:///{path}"
        self.path = path
        self._vfs = vfs
        self._writer: apsw.Connection | None = None
        self._was_maintained = False
        self._was_full = False
        self._has_traces = True  # perhaps, of a process that ended before it could take them out
        self._readers: list[apsw.Connection] = []
        self._guard = threading.Lock()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        with (
            self._translated(),
            self._transaction(self._write_connection(), "IMMEDIATE") as connection,
        ):
            self.secret = prepare_tables(SQLiteSession(connection, b""), _TYPES)

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self.path, vfs=self._vfs)
        connection.set_busy_timeout(_WAIT_MS)
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}").fetchall()
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}").fetchall()
        return connection

    def _write_connection(self) -> apsw.Connection:
        if self._writer is None:
            connection = self._connect()
            if self._was_full:  # room goes into the database first: the log would take all of it
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                self._was_full = False
            self._writer = connection
        return self._writer

    @contextmanager
    def write(self, *, at_once: bool = False) -> Iterator[Session]:
        with self._translated():
            try:
                connection = self._write_connection()
                _wait_at_most(connection, 0 if at_once else _WAIT_MS)
                with self._transaction(connection, "IMMEDIATE"):
                    session = SQLiteSession(connection, self.secret)
                    yield session
                self._has_traces |= session.has_erased
                self._start_log_again(connection)
            except (apsw.IOError, apsw.FullError, apsw.CorruptError, apsw.ReadOnlyError) as error:
                self._was_full |= isinstance(error, apsw.FullError)
                self._forget_writer()  # the next one starts from the files as they are
                raise

    def _start_log_again(self, connection: apsw.Connection) -> None:
        """After `maintain`, move the little that is left: the next writer begins the log anew."""
        if self._was_maintained:
            self._was_maintained = False
            with suppress(apsw.Error):  # what was committed is on disk in any case
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _forget_writer(self) -> None:
        connection, self._writer = self._writer, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.close(True)

    @contextmanager
    def read(self, *, at_once: bool = False) -> Iterator[Session]:
        with self._translated():
            with self._guard:
                connection = self._readers.pop() if self._readers else None
            if connection is None:
                connection = self._connect()
            try:
                connection.set_busy_timeout(0 if at_once else _WAIT_MS)
                with self._transaction(connection, "DEFERRED"):
                    yield SQLiteSession(connection, self.secret)
            except BaseException:
                with suppress(apsw.Error):
                    connection.close(True)
                raise
            with self._guard:
                self._readers.append(connection)

    @contextmanager
    def _transaction(self, connection: apsw.Connection, kind: str) -> Iterator[apsw.Connection]:
        connection.execute(f"BEGIN {kind}")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(apsw.Error):  # after a failed write SQLite may have rolled back itself
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            raise StoreBusy(f"{self.path} is locked by another process: {error}") from error
        except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
            raise Corrupt(f"{self.path} is damaged: {error}") from error
        except (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError) as error:
            raise StoreUnavailable(f"{self.path} cannot be written: {error}") from error
        except apsw.Error as error:
            raise StoreError(f"{self.path}: {type(error).__name__}: {error}") from error

    def maintain(self) -> None:
        """Move what was committed into the database, so that no commit has to do much of it.

        There deleted content is overwritten; the write-ahead log still has it until it is cut off,
        while no connection uses it.
        """
        with self._translated():
            connection = self._connect()
            try:
                moved = 0
                for _ in range(2):  # and what was committed meanwhile
                    _, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self._was_maintained = moved >= _LONG_LOG_PAGES
                if self._has_traces:
                    self._has_traces = False
                    self._cut_off_log(connection)
            finally:
                connection.close()

    def _cut_off_log(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(_CUT_OFF_WAIT_MS)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError):  # a long read is under way: the next time
            self._has_traces = True

    def damage(self) -> list[str]:
        with self.read() as session:
            rows = [str(text) for (text,) in session.run("PRAGMA integrity_check")]
        return [] if rows == ["ok"] else rows

    def copy_file(self, path: str) -> bool:
        """One read transaction, which no writer waits for; only what is in use is copied."""
        with self._translated():
            connection = self._connect()
            try:
                connection.execute("VACUUM INTO ?", (path,))
            finally:
                connection.close()
        return True

    def close(self) -> None:
        for connection in [*self._readers, *([self._writer] if self._writer else [])]:
            connection.close()
        self._readers, self._writer = [], None
