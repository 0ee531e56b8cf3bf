"""The promise of docs/service.md, line by line; `torture` adds kills and faults."""

import re
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest
from calls import (
    NEWS,
    configure,
    counts,
    decide,
    digest,
    events,
    ok,
    play,
    problem,
    reward,
    verified,
)
from click.testing import CliRunner

from driftbandits import store
from driftbandits.cli.commands import group
from driftbandits.service.transactions import load
from servers import Clock, Served


class CountingVFS(apsw.VFS):
    """Counts the syncs of write-ahead logs."""

    def __init__(self, name):
        self.syncs = 0
        super().__init__(name, "")

    def xOpen(self, name, flags):
        return CountingFile(self, name, flags)


class CountingFile(apsw.VFSFile):
    def __init__(self, vfs, name, flags):
        self._vfs = vfs
        self._is_log = str(name.filename() if hasattr(name, "filename") else name).endswith("-wal")
        super().__init__("", name, flags)

    def xSync(self, flags):
        self._vfs.syncs += self._is_log
        return super().xSync(flags)


def test_promise_1_an_answer_means_synced(tmp_path):
    vfs = CountingVFS("counting")
    with Served(f"sqlite:///{tmp_path}/log.db", vfs="counting") as service:
        configure(service.client)
        for i in range(5):
            for send in (
                lambda i=i: decide(service.client, f"e{i}"),
                lambda i=i: reward(service.client, f"e{i}", 1),
            ):
                before = vfs.syncs
                ok(send())
                assert vfs.syncs > before
        before = vfs.syncs
        ok(service.client.get(NEWS))
        assert vfs.syncs == before  # looking is free


def test_promise_2_one_decision_and_one_outcome(client):
    first = ok(decide(client, "e1"))
    assert ok(decide(client, "e1")) == first
    assert problem(decide(client, "e1", 1), 409)["code"] == "conflict"
    assert problem(decide(client, "e1", baseline="left"), 409)["code"] == "conflict"
    assert ok(reward(client, "e1", 1)) == {"status": "learned"}
    before = ok(client.get(NEWS))
    assert ok(reward(client, "e1", 1)) == {"status": "duplicate"}
    assert problem(reward(client, "e1", 0), 409)["code"] == "conflict"
    assert ok(decide(client, "e1")) == first
    after = ok(client.get(NEWS))
    for part in ("theta_hat", "theta", "round", "pending", "radius"):
        assert before[part] == after[part]
    kinds = [event["kind"] for event in events(client)]
    assert kinds.count("decision") == kinds.count("reward") == 1


def test_promise_2_also_when_all_come_at_once(shared_url):
    """The same requests from many callers, at two services over one store."""
    with Served(shared_url) as one, Served(shared_url) as two:
        configure(one.client)

        def ask(i):
            client = (one, two)[i % 2].client
            answer = ok(decide(client, f"e{i // 8}"))
            return f"e{i // 8}", answer, reward(client, f"e{i // 8}", 1).json()

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(ask, range(80)))
        for event_id in {event_id for event_id, _, _ in results}:
            mine = [(answer, told) for id, answer, told in results if id == event_id]
            assert all(answer == mine[0][0] for answer, _ in mine)
            assert sorted(told["status"] for _, told in mine) == ["duplicate"] * 7 + ["learned"]
        assert digest(one.client) == digest(two.client)
        live = digest(one.client)
        assert counts(two.client)["rewards"] == 10
    assert verified(shared_url) == {"news": live}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"name": "SW-GLUCB", "discount": None, "window": 6},
        {"name": "LinUCB", "discount": None},
        {"name": "D-LinUCB"},
        {"discount": None, "half_life_s": 20.0},
        {"name": "SW-LinUCB", "discount": None, "window_s": 30.0},
        {"reward_wait_s": 10.0, "default_reward": 0.25},
        {"mode": "apprentice"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())) or "plain",
)
def test_promise_3_a_replay_gives_the_same_digest(settings, tmp_path):
    """Live, from a snapshot, from the log alone, and by another process that only reads."""
    url, clock = f"sqlite:///{tmp_path}/log.db", Clock()
    more = {"baseline": "stay"} if settings.get("mode") == "apprentice" else {}
    with Served(url, clock=clock, snapshot_every=17) as service:
        configure(service.client, **settings)
        for i in range(40):
            clock.pass_seconds(1.7)
            ok(decide(service.client, f"e{i}", i, **more))
            if i % 3:
                reward(service.client, f"e{i - 1}", i % 2)
            if i % 5 == 0:
                reward(service.client, f"e{i // 2}", 1)
        live = digest(service.client)
        theta = ok(service.client.get(NEWS))["theta_hat"]
        assert verified(url) == {"news": live}
    with Served(url, clock=clock) as service:
        assert digest(service.client) == live
    with store.open(url) as log:
        with log.write() as session:
            assert len(session.snapshots("news")) == 2
            session.drop_snapshots("news", before=10**9)
        with log.read() as session:
            state = load(session, "news")
            assert state.differences == 0
            assert state.digest == live
            assert state.playing.theta_hat.tolist() == theta


def test_promise_3_verify_finds_what_was_altered(tmp_path):
    path = tmp_path / "log.db"
    with Served(f"sqlite:///{path}") as service:
        configure(service.client)
        play(service.client, 10)
    run = CliRunner().invoke(group, ["verify", "--store", f"sqlite:///{path}"])
    assert run.exit_code == 0, run.output
    assert re.search(r"news  \d+ events  [0-9a-f]{64}", run.output)
    with sqlite3.connect(path) as database:
        (body,) = database.execute("SELECT body FROM event WHERE seq = 5").fetchone()
        database.execute("UPDATE event SET body = ? WHERE seq = 5", (body[:-1] + b"!",))
    database.close()
    run = CliRunner().invoke(group, ["verify", "--store", f"sqlite:///{path}"])
    assert run.exit_code == 1
    assert "event 5 of policy news" in run.output
    # and it is not learned: recovery falls back to the snapshot, which is later, or refuses
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM snapshot")
    database.close()
    with Served(f"sqlite:///{path}") as service:
        configure(service.client, policy="/v1/policies/other")
        assert problem(decide(service.client, "new"), 500)["code"] == "corrupt_log"
        ok(decide(service.client, "new", policy="/v1/policies/other"))


def test_promise_4_nothing_is_dropped_in_silence(service):
    client = service.client
    configure(client, reward_wait_s=60, default_reward=0)
    for event_id in ("e1", "e2", "e3"):
        ok(decide(client, event_id))
    assert ok(reward(client, "e1", 1))["status"] == "learned"
    service.clock.pass_seconds(61)
    assert ok(reward(client, "e2", 1))["status"] == "late"
    assert ok(reward(client, "e2", 1))["status"] == "duplicate"
    assert problem(reward(client, "e2", 0), 409)["code"] == "conflict"
    assert ok(reward(client, "e1", 1))["status"] == "duplicate"
    assert counts(client) == {
        "decisions": 3,
        "rewards": 1,
        "defaults": 2,
        "late": 1,
        "duplicates": 2,
        "conflicts": 1,
        "erased": 0,
    }
    kinds = [(event["kind"], event["event_id"]) for event in events(client)[5:]]
    assert kinds == [
        ("reward", "e1"),
        ("default", "e2"),
        ("default", "e3"),
        ("late", "e2"),
        ("duplicate", "e2"),
        ("conflict", "e2"),
        ("duplicate", "e1"),
    ]
    text = client.get("/metrics").text
    assert 'driftbandits_events_total{kind="late",policy="news"} 1.0' in text


def test_promise_5_overload_is_refused_and_loses_nothing(tmp_path):
    """The writer waits for a lock that another process holds; the queue fills; then all goes on."""
    path = tmp_path / "log.db"
    with Served(f"sqlite:///{path}", queue_limit=5) as service:
        configure(service.client)
        holder = apsw.Connection(str(path))
        holder.execute("BEGIN IMMEDIATE")

        def ask(i):
            with service.connect(None) as client:
                return i, decide(client, f"e{i}", i)

        with ThreadPoolExecutor(20) as pool:
            waiting = [pool.submit(ask, i) for i in range(20)]
            while sum(future.done() for future in waiting) < 8:
                time.sleep(0.01)
            assert service.client.get("/healthz").status_code == 200
            holder.execute("ROLLBACK")
            results = [future.result() for future in waiting]
        holder.close()
        refused = [i for i, answer in results if answer.status_code == 503]
        assert len(refused) >= 8
        for i, answer in results:
            if i in refused:
                assert problem(answer, 503)["code"] == "overloaded"
                assert int(answer.headers["retry-after"]) >= 1
            else:
                ok(answer)
        for i in refused:
            ok(decide(service.client, f"e{i}", i))
        assert counts(service.client)["decisions"] == 20
