"""Both stores pass the same checks; what only one of them has is checked here."""

import os
import signal
import time
from pathlib import Path

import apsw
import pytest

import store_checks
from driftbandits import store
from driftbandits.store import (
    NewEvent,
    StoreBusy,
    StoreUnavailable,
    postgres,
    sqlite,
)
from driftbandits.store.records import Decided, packed, unpacked
from torture.disk import Disk

NOTHING_MOVES = apsw.SQLITE_CHECKPOINT_NOOP


@pytest.mark.parametrize("check", store_checks.CHECKS, ids=lambda check: check.__name__)
def test_store(check, store_url):
    check(lambda: store.open(store_url))


@pytest.mark.parametrize("column", ["body", "event_id", "at_ns", "kind", "digest", "checksum"])
def test_altered_events_are_found(column, store_url):
    store_checks.check_altered_events_are_found(lambda: store.open(store_url), column)


def test_a_backup_is_the_same_log(store_url, tmp_path):
    store_checks.check_a_backup_is_the_same_log(lambda: store.open(store_url), tmp_path)


def test_a_backup_can_move_to_the_other_database(postgres_server, tmp_path):
    target = postgres_server.new_database()
    with store.open(f"sqlite:///{tmp_path}/log.db") as log:
        store_checks.fill(log, count=1500)
        store.backup(log, target)
        with store.open(target) as copy, log.read() as source, copy.read() as moved:
            assert list(source.all_events("news")) == list(moved.all_events("news"))


def test_a_backup_is_taken_in_one_go(tmp_path, monkeypatch):
    """Writes meanwhile do not make it begin again, and are not in it."""
    url, copy = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/copy.db"
    with store.open(url) as log:
        store_checks.fill(log, count=5000)
        written = []

        def write(progress):
            store_checks.fill(log, first=10_000 + len(written), count=1)
            written.append(progress)
            return False

        def connect(self):
            connection = connected(self)
            connection.set_progress_handler(lambda: write(1), 4000)
            return connection

        connected = sqlite.SQLiteStore._connect
        log._write_connection()  # the one that `write` uses
        monkeypatch.setattr(sqlite.SQLiteStore, "_connect", connect)
        assert log.copy_file(f"{tmp_path}/copy.db")
        monkeypatch.undo()
        assert len(written) > 3, "nothing was written while it was copied"
        with store.open(copy) as backup, backup.read() as session, log.read() as after:
            assert session.head("news").seq == 5000
            assert after.head("news").seq == 5000 + len(written)


def test_a_backup_is_whole_or_is_not(tmp_path, monkeypatch):
    """Where it is broken off there is no file by its name; the next one is not disturbed by it."""
    with store.open(f"sqlite:///{tmp_path}/log.db") as log:
        store_checks.fill(log, count=50)
        copy = tmp_path / "copy.db"
        with monkeypatch.context() as broken:
            broken.setattr(store, "_sync", None)  # what comes before it was done
            with pytest.raises(TypeError):
                store.backup(log, f"sqlite:///{copy}")
        assert not copy.exists()
        assert copy.with_name("copy.db.partial").exists()
        store.backup(log, f"sqlite:///{copy}")
        assert copy.exists()
        assert not copy.with_name("copy.db.partial").exists()


def test_a_busy_store_says_so(store_url, monkeypatch):
    monkeypatch.setattr(sqlite, "_WAIT_MS", 50)
    monkeypatch.setattr(postgres, "LOCK_WAIT_MS", 50)
    with store.open(store_url) as holder, store.open(store_url) as other:
        store_checks.fill(holder)
        with holder.write() as session:
            session.lock(["news"])
            with pytest.raises(StoreBusy), other.write() as waiting:
                waiting.lock(["news"])
        assert store_checks.fill(other, first=8).seq == 6


def test_sqlite_syncs_every_commit(tmp_path):
    with store.open(f"sqlite:///{tmp_path}/log.db") as log:
        connection = log._write_connection()
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("journal_mode") == "wal"


def test_maintenance_goes_on_beside_the_writer(store_url):
    with store.open(store_url) as log:
        with log.write() as session:
            session.create("news")
            session.lock(["news"])
            log.maintain()
            session.append("news", [NewEvent("decision", "e1", 1, b"body")])
        log.maintain()
        with log.read() as session:
            assert session.head("news").seq == 1


def test_maintenance_empties_the_write_ahead_log(tmp_path):
    with store.open(f"sqlite:///{tmp_path}/log.db") as log:
        log.maintain()  # the first one cuts the log off
        store_checks.fill(log, count=500)
        before = (tmp_path / "log.db").stat().st_size
        log.maintain()
        assert (tmp_path / "log.db").stat().st_size > before
        _, moved = log._write_connection().wal_checkpoint(mode=0)
        assert moved >= 10


def test_after_maintenance_the_log_begins_anew(tmp_path, monkeypatch):
    """Although there is always a commit that came too late to be moved."""
    monkeypatch.setattr(sqlite, "_LONG_LOG_PAGES", 20)
    with store.open(f"sqlite:///{tmp_path}/log.db") as log:
        lengths = []
        for number in range(200):
            with log.write() as session:
                session.create(f"policy{number}")
                if number % 20 == 10:
                    log.maintain()
            lengths.append(log._write_connection().wal_checkpoint(mode=NOTHING_MOVES)[0])
    assert max(lengths) < 100


def test_writing_at_once_does_not_wait(tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    with store.open(url) as holder, store.open(url) as other:
        with holder.write() as session:
            session.create("news")
            began = time.monotonic()
            with pytest.raises(StoreBusy), other.write(at_once=True):
                pass
            assert time.monotonic() - began < sqlite._WAIT_MS / 1000 / 2
        with other.write(at_once=True) as session:
            assert session.policies() == ["news"]


def test_a_database_elsewhere_cannot_be_written_at_once(postgres_server):
    log = store.open(postgres_server.new_database())
    with log, pytest.raises(StoreBusy), log.write(at_once=True):
        pass


def test_a_damaged_file_is_no_store(tmp_path):
    (tmp_path / "log.db").write_bytes(b"something else " * 1000)
    with pytest.raises(store.Corrupt):
        store.open(f"sqlite:///{tmp_path}/log.db")


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((StoreUnavailable, OSError)):
        store.open(f"sqlite:///{tmp_path}/file/log.db")


def test_a_writer_that_pauses_is_cut_off(postgres_server):
    """The server ends its transaction; what it then commits is refused, and it can start anew."""
    url = postgres_server.new_database()
    with store.open(url) as paused, store.open(url) as other:
        store_checks.fill(other)
        with pytest.raises(StoreUnavailable):
            pause_in_a_transaction(paused, other)
        assert store_checks.fill(paused, first=8).seq == 9


def pause_in_a_transaction(paused, other):
    with paused.write() as session:
        session.lock(["news"])
        session.run("SET LOCAL idle_in_transaction_session_timeout = 1")
        assert store_checks.fill(other, first=5).seq == 6  # waits until the server has ended it
        session.append("news", [NewEvent("decision", "e5", 1, b"")])


def test_a_plan_that_was_made_for_a_short_log_reads_a_long_one_by_its_index(postgres_server):
    """Plans are kept for as long as a connection, or until the database has counted the rows."""
    with store.open(postgres_server.new_database()) as log:
        with log.write() as session:
            session.run("ALTER TABLE event SET (autovacuum_enabled = off)")
        wanted = {}
        for name in ("one", "two"):
            store_checks.fill(log, policy=name, count=1)
            wanted[name] = [f"e{i}" for i in range(20)]

        def look_up(times):
            with log.write() as session:
                for _ in range(times):
                    session.known_of(wanted)

        def rows_read():
            """All rows that were read one after the other, once the statistics have come in."""
            with log.read() as session:
                session.run("SELECT pg_stat_clear_snapshot()")
                ((rows,),) = session.run(
                    "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'event'"
                )
            return rows

        look_up(20)
        store_checks.fill(log, policy="one", first=2, count=2000)
        before = rows_read()
        look_up(20)
        with log.write() as session:
            session.run("SELECT pg_stat_force_next_flush()")
        assert rows_read() - before < 2000


def test_room_on_a_full_disk_goes_into_the_database_first(tmp_path):
    """And not into the write-ahead log, which would take all of it and stay."""
    disk = Disk("small")
    ahead = tmp_path / "log.db-wal"
    with store.open(f"sqlite:///{tmp_path}/log.db", vfs="small") as log:
        disk.room, first = 3_000_000, 1

        def fill_it(first):
            for number in range(first, 10_000):
                with log.write() as session:
                    session.create("news")
                    session.lock(["news"])
                    session.append("news", [NewEvent("decision", f"e{number}", 1, bytes(20_000))])
            raise AssertionError("the disk was never full")

        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                fill_it(first)
            with log.read() as session:
                assert session.head("news").seq >= first
                first = session.head("news").seq + 1
            disk.room += 4_000_000
            store_checks.fill(log, count=1, first=first)
            first += 1
            assert ahead.stat().st_size < 1_000_000


def test_a_database_that_never_answers_is_given_up(postgres_server, monkeypatch):
    """It takes statements and does nothing; a new session works as soon as there is one."""
    monkeypatch.setattr(postgres, "ANSWER_S", 0.5)
    with store.open(postgres_server.new_database()) as log:
        with log.write() as session:
            ((stopped,),) = session.run("SELECT pg_backend_pid()")
        os.kill(stopped, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable, match="no answer within"), log.write() as session:
                session.policies()
            assert store_checks.fill(log).seq == 3
        finally:
            os.kill(stopped, signal.SIGCONT)


def test_postgres_that_is_not_there():
    with pytest.raises(StoreUnavailable):
        store.open("postgresql://nobody@127.0.0.1:1/nothing")


@pytest.mark.parametrize("address", ["", "log.db", "sqlite://", "sqlite:///", "mysql://x/y", 7])
def test_addresses_that_name_no_store(address):
    with pytest.raises(ValueError, match="store must be an address like sqlite:///FILE"):
        store.open(address)


def test_a_missing_folder_is_made(tmp_path):
    with store.open(f"sqlite:///{tmp_path}/a/b/log.db"):
        assert Path(tmp_path, "a/b/log.db").is_file()


def test_records_keep_every_bit():
    record = Decided(1, ("a", "b"), b"\x01\x02", -1, 0, 1, 7, 0.1 + 0.2, b"\xff", "key")
    assert unpacked("decision", packed(record)) == record
