"""What both stores do, and then what only one of them has."""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from driftbandits import store
from driftbandits.store import (
    START,
    Corrupt,
    Head,
    Key,
    Kind,
    NewEvent,
    Overtaken,
    Snapshot,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    postgres,
    sqlite,
)
from driftbandits.store.records import Decided, packed, unpacked
from torture.disk import Disk

NOTHING_MOVES = apsw.SQLITE_CHECKPOINT_NOOP


BEGINNING = Head(0, 0, START)


def fill(log, policy="news", count=3, *, first=1):
    with log.write() as session:
        session.create(policy)
        session.lock([policy])
        entries = [
            NewEvent("decision", f"e{i}", 10 * i, b"body %d" % i)
            for i in range(first, first + count)
        ]
        return session.append(policy, entries)


@pytest.fixture
def open_store(store_url):
    """Opens the same database again."""
    return lambda: store.open(store_url)


def append_to(session, kind):
    session.lock(["news"])
    session.append("news", [NewEvent(kind, "e1", 99, b"")])


def test_events_come_back_in_order_and_whole(open_store):
    with open_store() as log:
        head = fill(log, count=5)
    with open_store() as log, log.read() as session:
        events = session.events("news")
        assert [event.seq for event in events] == [1, 2, 3, 4, 5]
        assert [event.body for event in events] == [b"body %d" % i for i in range(1, 6)]
        assert list(store.checked(events, after=BEGINNING)) == events
        assert session.head("news") == head == Head(5, 50, events[-1].checksum)
        assert [event.seq for event in session.events("news", after=2, limit=2)] == [3, 4]
        assert list(session.all_events("news", page=2)) == events
        assert session.policies() == ["news"]
        assert session.head("olds") is None


def test_a_transaction_that_fails_leaves_nothing(open_store):
    class Interrupted(Exception):
        pass

    with open_store() as log:
        before = fill(log)
        with suppress(Interrupted), log.write() as session:
            append_to(session, "reward")
            session.create("other")
            raise Interrupted
        with log.read() as session:
            assert session.head("news") == before
            assert session.policies() == ["news"]
        assert fill(log, first=7).seq == before.seq + 3


def test_one_decision_and_one_outcome(open_store):
    """The database itself refuses a second one, whatever the program does."""
    with open_store() as log:
        fill(log)
        with log.write() as session:
            session.lock(["news"])
            session.append(
                "news", [NewEvent("reward", "e1", 99, b""), NewEvent("late", "e1", 99, b"")]
            )
            session.append("news", [NewEvent("duplicate", "e1", 99, b"")] * 2)
        for kind in ("decision", "reward", "default", "late"):
            with pytest.raises(StoreError), log.write() as session:
                append_to(session, kind)
        with log.read() as session:
            known = session.known("news", ["e1", "e2", "e9"])
            assert known["e1"].decision is not None
            assert known["e1"].outcome is not None
            assert known["e1"].late is not None
            assert known["e2"].outcome is None
            assert "e9" not in known
            assert session.head("news").seq == 7


@pytest.mark.parametrize("column", ["body", "event_id", "at_ns", "kind", "digest", "checksum"])
def test_altered_events_are_found(open_store, column):
    other = {"event_id": "e9", "at_ns": 21, "kind": "reward"}.get(column, b"x" * 16)
    with open_store() as log:
        fill(log, count=4)
        with log.write() as session:
            session.run(f"UPDATE event SET {column} = ? WHERE seq = 2", (other,))
        with log.read() as session, pytest.raises(Corrupt, match=r"event [23] of policy news"):
            list(store.checked(session.events("news"), after=BEGINNING))


def test_missing_events_are_found(open_store):
    with open_store() as log:
        fill(log, count=4)
        with log.write() as session:
            session.run("DELETE FROM event WHERE seq = 2")
        with log.read() as session, pytest.raises(Corrupt, match="missing"):
            list(store.checked(session.events("news"), after=BEGINNING))


def matching(session, first, last, **more):
    limits = {"until": 99, "limit": 99, **more}
    return sorted(session.matching("news", first=first, last=last, **limits))


def test_events_are_read_in_pages_of_bytes(open_store):
    """However many are asked for, few large ones are held at once; one is always read."""
    sizes = [10, 10, 500, 5000, 10, 10]
    with open_store() as log:
        with log.write() as session:
            session.create("news")
            session.lock(["news"])
            events = [NewEvent(Kind.DECISION, f"e{i}", i, b"x" * n) for i, n in enumerate(sizes)]
            session.append("news", events)
        with log.read() as session:
            pages, after = [], 0
            while page := session.page("news", after=after, limit=4, most_bytes=600):
                pages.append([event.seq for event in page])
                after = page[-1].seq
    assert pages == [[1, 2, 3], [4], [5, 6]]


def test_erased_events_keep_their_place_and_nothing_else(open_store):
    with open_store() as log:
        fill(log, count=4)
        with log.write() as session:
            session.lock(["news"])
            assert matching(session, "e2", "e2") == [2]
            assert matching(session, "e", "f") == [1, 2, 3, 4]
            assert matching(session, "e", "f", until=3) == [1, 2, 3]
            assert len(matching(session, "e", "f", limit=2)) == 2
            assert [e.seq for e in session.outlines("news", after=1, limit=2)] == [2, 3]
            session.erase("news", [2, 3])
            assert matching(session, "e", "f") == [1, 4]
            outlines = session.outlines("news", after=0, limit=9)
            assert [e.seq for e in outlines if e.is_erasable] == [1, 4]
    with open_store() as log, log.read() as session:
        events = session.events("news")
        assert list(store.checked(events, after=BEGINNING)) == events
        assert [event.is_erased for event in events] == [False, True, True, False]
        assert not any(b"body 2" in part for part in map(repr_bytes, events))
        assert "e2" not in {event.event_id for event in events}
        assert session.known("news", ["e2"])["e2"].decision == events[1]
        assert session.erasures("news") == 1


def repr_bytes(event):
    return repr(event).encode()


def test_writers_take_turns(open_store):
    """Two connections append at once: no gap, no number twice, one chain."""
    rounds = 25
    with open_store() as log:
        fill(log, count=1)

    def append(name):
        with open_store() as log:
            for i in range(rounds):
                with log.write() as session:
                    session.lock(["news"])
                    session.append("news", [NewEvent("decision", f"{name}{i}", 1, b"")])

    threads = [threading.Thread(target=append, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_store() as log, log.read() as session:
        events = session.events("news")
        assert len(list(store.checked(events, after=BEGINNING))) == 1 + 2 * rounds


def test_a_reader_sees_one_moment(open_store):
    with open_store() as log:
        fill(log, count=2)
        with log.read() as session:
            assert len(session.events("news")) == 2
            fill(log, count=2, first=3)
            assert len(session.events("news")) == 2
        with log.read() as session:
            assert len(session.events("news")) == 4


def test_snapshots(open_store):
    with open_store() as log:
        fill(log, count=4)
        with log.write() as session:
            for seq, is_foundation in ((1, True), (2, False), (3, False)):
                session.save_snapshot(Snapshot("news", seq, 10, is_foundation, b"state %d" % seq))
            session.save_snapshot(Snapshot("news", 3, 11, False, b"again"))
        with log.read() as session:
            kept = session.snapshots("news")
            assert [(s.seq, s.is_foundation, s.content) for s in kept] == [
                (3, False, b"again"),
                (2, False, b"state 2"),
                (1, True, b"state 1"),
            ]
        with log.write() as session:
            session.drop_snapshots("news", before=3)
            assert [s.seq for s in session.snapshots("news")] == [3, 1]
            session.drop_snapshots("news", before=3, foundations=True)
            assert [s.seq for s in session.snapshots("news")] == [3]


def test_keys(open_store):
    key = Key("id1", b"h" * 32, "writer", "shop.", "label", 5, 0)
    with open_store() as log:
        with log.write() as session:
            session.add_key(key)
        with log.write() as session:
            assert session.api_keys() == [key]
            assert session.revoke_key("id1", at_ns=9)
            assert not session.revoke_key("id1", at_ns=10)
            assert not session.revoke_key("id2", at_ns=10)
            assert session.api_keys() == [key._replace(revoked_ns=9)]


def test_a_backup_is_the_same_log(open_store, tmp_path):
    with open_store() as log:
        fill(log, count=4)
        with log.write() as session:
            session.lock(["news"])
            session.erase("news", [2])
            session.save_snapshot(Snapshot("news", 4, 10, True, b"state"))
            session.add_key(Key("id1", b"h" * 32, "writer", "", "", 5, 0))
        url = f"sqlite:///{tmp_path}/copy.db"
        store.backup(log, url)
        with store.open(url) as copy:
            with log.read() as source, copy.read() as target:
                for ask in (
                    lambda s: s.policies(),
                    lambda s: s.events("news"),
                    lambda s: s.head("news"),
                    lambda s: s.snapshots("news"),
                    lambda s: s.api_keys(),
                    lambda s: s.known("news", ["e1", "e2"]),
                    lambda s: s.erasures("news"),
                ):
                    assert ask(source) == ask(target)
            with pytest.raises(StoreError, match="empty"):
                store.backup(log, url)
            fill(copy, first=9)
            with copy.read() as session:
                events = session.events("news")
                assert len(list(store.checked(events, after=BEGINNING))) == 7


def test_an_append_names_the_event_that_it_follows(open_store):
    """Who has not seen what another one has appended writes nothing."""
    with open_store() as log, open_store() as other:
        fill(log, count=2)
        with log.write() as session:
            session.lock(["news"])
            session._rows["news"] = session._rows["news"]._replace(head=Head(1, 10, b""))
            with pytest.raises(Overtaken):
                session.append("news", [NewEvent("decision", "e7", 99, b"")])
        with other.read() as session:
            assert [event.event_id for event in session.events("news")] == ["e1", "e2"]


def test_a_later_schema_is_refused(open_store):
    with open_store() as log, log.write() as session:
        session.set_about("schema", b"99")
    with pytest.raises(Corrupt, match="schema 99"):
        open_store()


def test_a_backup_can_move_to_the_other_database(postgres_server, tmp_path):
    target = postgres_server.new_database()
    with store.open(f"sqlite:///{tmp_path}/log.db") as log:
        fill(log, count=1500)
        store.backup(log, target)
        with store.open(target) as copy, log.read() as source, copy.read() as moved:
            assert list(source.all_events("news")) == list(moved.all_events("news"))


def test_a_backup_is_taken_in_one_go(tmp_path, monkeypatch):
    """Writes meanwhile do not make it begin again, and are not in it."""
    url, copy = f"sqlite:///{tmp_path}/log.db", f"sqlite:///{tmp_path}/copy.db"
    with store.open(url) as log:
        fill(log, count=5000)
        written = []

        def write(progress):
            fill(log, first=10_000 + len(written), count=1)
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
        fill(log, count=50)
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
        fill(holder)
        with holder.write() as session:
            session.lock(["news"])
            with pytest.raises(StoreBusy), other.write() as waiting:
                waiting.lock(["news"])
        assert fill(other, first=8).seq == 6


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
        fill(log, count=500)
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
        fill(other)
        with pytest.raises(StoreUnavailable):
            pause_in_a_transaction(paused, other)
        assert fill(paused, first=8).seq == 9


def pause_in_a_transaction(paused, other):
    with paused.write() as session:
        session.lock(["news"])
        session.run("SET LOCAL idle_in_transaction_session_timeout = 1")
        assert fill(other, first=5).seq == 6  # waits until the server has ended it
        session.append("news", [NewEvent("decision", "e5", 1, b"")])


def test_a_plan_that_was_made_for_a_short_log_reads_a_long_one_by_its_index(postgres_server):
    """Plans are kept for as long as a connection, or until the database has counted the rows."""
    with store.open(postgres_server.new_database()) as log:
        with log.write() as session:
            session.run("ALTER TABLE event SET (autovacuum_enabled = off)")
        wanted = {}
        for name in ("one", "two"):
            fill(log, policy=name, count=1)
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
        fill(log, policy="one", first=2, count=2000)
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
            fill(log, count=1, first=first)
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
            assert fill(log).seq == 3
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
