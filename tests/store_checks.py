"""What every store has to do. A check is given a function that opens the same database again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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
    Session,
    Snapshot,
    Store,
    StoreError,
)

Open = Callable[[], Store]
BEGINNING = Head(0, 0, START)


def fill(log: Store, policy: str = "news", count: int = 3, *, first: int = 1) -> Head:
    with log.write() as session:
        session.create(policy)
        session.lock([policy])
        entries = [
            NewEvent("decision", f"e{i}", 10 * i, b"body %d" % i)
            for i in range(first, first + count)
        ]
        return session.append(policy, entries)


def append_to(session: Session, kind: str) -> None:
    session.lock(["news"])
    session.append("news", [NewEvent(kind, "e1", 99, b"")])


def check_events_come_back_in_order_and_whole(open_store: Open) -> None:
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


def check_a_transaction_that_fails_leaves_nothing(open_store: Open) -> None:
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


def check_one_decision_and_one_outcome(open_store: Open) -> None:
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


def check_altered_events_are_found(open_store: Open, column: str) -> None:
    other = {"event_id": "e9", "at_ns": 21, "kind": "reward"}.get(column, b"x" * 16)
    with open_store() as log:
        fill(log, count=4)
        with log.write() as session:
            session.run(f"UPDATE event SET {column} = ? WHERE seq = 2", (other,))
        with log.read() as session, pytest.raises(Corrupt, match=r"event [23] of policy news"):
            list(store.checked(session.events("news"), after=BEGINNING))


def check_missing_events_are_found(open_store: Open) -> None:
    with open_store() as log:
        fill(log, count=4)
        with log.write() as session:
            session.run("DELETE FROM event WHERE seq = 2")
        with log.read() as session, pytest.raises(Corrupt, match="missing"):
            list(store.checked(session.events("news"), after=BEGINNING))


def matching(session: Session, first: str, last: str, **more: int) -> list[int]:
    limits = {"until": 99, "limit": 99, **more}
    return sorted(session.matching("news", first=first, last=last, **limits))


def check_events_are_read_in_pages_of_bytes(open_store: Open) -> None:
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


def check_erased_events_keep_their_place_and_nothing_else(open_store: Open) -> None:
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


def repr_bytes(event: store.Event) -> bytes:
    return repr(event).encode()


def check_writers_take_turns(open_store: Open) -> None:
    """Two connections append at once: no gap, no number twice, one chain."""
    rounds = 25
    with open_store() as log:
        fill(log, count=1)

    def append(name: str) -> None:
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


def check_a_reader_sees_one_moment(open_store: Open) -> None:
    with open_store() as log:
        fill(log, count=2)
        with log.read() as session:
            assert len(session.events("news")) == 2
            fill(log, count=2, first=3)
            assert len(session.events("news")) == 2
        with log.read() as session:
            assert len(session.events("news")) == 4


def check_snapshots(open_store: Open) -> None:
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


def check_keys(open_store: Open) -> None:
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


def check_a_backup_is_the_same_log(open_store: Open, folder: Path) -> None:
    with open_store() as log:
        fill(log, count=4)
        with log.write() as session:
            session.lock(["news"])
            session.erase("news", [2])
            session.save_snapshot(Snapshot("news", 4, 10, True, b"state"))
            session.add_key(Key("id1", b"h" * 32, "writer", "", "", 5, 0))
        url = f"sqlite:///{folder}/copy.db"
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


def check_an_append_names_the_event_that_it_follows(open_store: Open) -> None:
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


def check_a_later_schema_is_refused(open_store: Open) -> None:
    with open_store() as log, log.write() as session:
        session.set_about("schema", b"99")
    with pytest.raises(Corrupt, match="schema 99"):
        open_store()


CHECKS = [
    check_an_append_names_the_event_that_it_follows,
    check_events_are_read_in_pages_of_bytes,
    check_events_come_back_in_order_and_whole,
    check_a_transaction_that_fails_leaves_nothing,
    check_one_decision_and_one_outcome,
    check_missing_events_are_found,
    check_erased_events_keep_their_place_and_nothing_else,
    check_writers_take_turns,
    check_a_reader_sees_one_moment,
    check_snapshots,
    check_keys,
    check_a_later_schema_is_refused,
]
