"""The service over real sockets and real databases. The promise of docs/service.md comes first."""

import io
import json
import random
import re
import socket
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import apsw
import httpx
import msgspec
import polars
import pytest
from click.testing import CliRunner

import driftbandits as db
from driftbandits import store, wire
from driftbandits.cli.commands import group
from driftbandits.service import connections, snapshots
from driftbandits.service.app import ROUTES
from driftbandits.service.endpoints import Limits
from driftbandits.service.verifying import verify
from servers import Clock, Process, Served

CONFIGURATION = {"name": "D-GLUCB", "dim": 2, "discount": 0.95, "epsilon": 0.2, "seed": 3}
NEWS = "/v1/policies/news"
DAY = 86_400.0
MODES = ("online", "frozen")


def arms(number=0):
    return [
        {"id": "left", "x": [0.6, 0.1 * (number % 5)]},
        {"id": "right", "x": [0.2, 0.5]},
        {"id": "stay", "x": [-0.3, 0.4]},
    ]


def decide(client, event_id, number=0, policy=NEWS, **more):
    body = {"event_id": event_id, "arms": arms(number), **more}
    return client.post(f"{policy}/decisions", json=body)


def reward(client, event_id, value, policy=NEWS):
    return client.post(f"{policy}/rewards", json={"event_id": event_id, "value": value})


def ok(answer):
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def problem(answer, status):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


def configure(client, policy=NEWS, **settings):
    return ok(client.put(policy, json={**CONFIGURATION, **settings}))


def digest(client, policy=NEWS):
    return ok(client.get(f"{policy}/digest"))["digest"]


def counts(client, policy=NEWS):
    return ok(client.get(policy))["counts"]


def events(client, policy=NEWS, after=0):
    return ok(client.get(f"{policy}/events", params={"after": after}))["events"]


def verified(url):
    with store.open(url) as log:
        verdicts = {verdict.policy: verdict for verdict in verify(log)}
    assert not any(verdict.problems for verdict in verdicts.values()), verdicts
    return {policy: verdict.digest for policy, verdict in verdicts.items()}


def play(client, count, *, first=0, policy=NEWS):
    """Decisions whose rewards come late, twice, differently, or never."""
    for i in range(first, first + count):
        ok(decide(client, f"e{i}", i, policy))
        if i % 4:
            ok(reward(client, f"e{max(first, i - i % 3)}", 1, policy))
        if i % 7 == 0:
            assert decide(client, f"e{i}", i + 1, policy).status_code == 409


@pytest.fixture
def served(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service.client)
        yield service


@pytest.fixture
def client(served):
    return served.client


# -- the promise ---------------------------------------------------------------------------------


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


def test_promise_1_what_was_answered_survives_kills(store_url):
    """kill -9 under load, twice, with every request sent twice."""
    answers, learned = {}, set()
    for round_ in range(2):
        process = Process(store_url, "--no-auth")
        with httpx.Client(base_url=process.address, timeout=30.0) as client:
            configure(client)
            for event_id, answer in answers.items():
                assert ok(decide(client, event_id, int(event_id[1:]))) == answer
            for event_id in learned:
                assert ok(reward(client, event_id, 1))["status"] == "duplicate"
            killer = threading.Timer(0.4, process.kill)
            killer.start()
            number = 1000 * round_
            try:
                while True:
                    event_id = f"e{number}"
                    answers[event_id] = ok(decide(client, event_id, number))
                    assert ok(decide(client, event_id, number)) == answers[event_id]
                    assert ok(reward(client, event_id, 1))["status"] == "learned"
                    learned.add(event_id)
                    assert ok(reward(client, event_id, 1))["status"] == "duplicate"
                    number += 1
            except httpx.TransportError:
                killer.join()
    assert len(learned) > 3
    process = Process(store_url, "--no-auth")
    with httpx.Client(base_url=process.address, timeout=30.0) as client:
        for event_id, answer in answers.items():
            assert ok(decide(client, event_id, int(event_id[1:]))) == answer
        live = digest(client)
    process.kill()
    assert verified(store_url) == {"news": live}


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


def test_promise_2_also_when_all_come_at_once(store_url):
    """The same requests from many callers, at two services over one store."""
    with Served(store_url) as one, Served(store_url) as two:
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
    assert verified(store_url) == {"news": live}


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
            fold = snapshots.load(session, "news")
            assert fold.differences == 0
            assert snapshots.digest(fold) == live
            assert fold.playing.theta_hat.tolist() == theta


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


def test_promise_4_nothing_is_dropped_in_silence(tmp_path):
    clock = Clock()
    with Served(f"sqlite:///{tmp_path}/log.db", clock=clock) as service:
        client = service.client
        configure(client, reward_wait_s=60, default_reward=0)
        for event_id in ("e1", "e2", "e3"):
            ok(decide(client, event_id))
        assert ok(reward(client, "e1", 1))["status"] == "learned"
        clock.pass_seconds(61)
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
        kinds = [(event["kind"], event["event_id"]) for event in events(client)[4:]]
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


# -- decisions -----------------------------------------------------------------------------------


def test_answers_are_those_of_an_agent(client):
    agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.95, epsilon=0.2), seed=3)
    for i in range(30):
        offered = arms(i)
        answer = ok(decide(client, f"e{i}", i))
        choice = agent.decide([arm["x"] for arm in offered])
        assert answer == {
            "event_id": f"e{i}",
            "arm": offered[choice.index]["id"],
            "index": choice.index,
            "round": choice.round,
            "propensity": choice.propensity,
            "scores": choice.scores.tolist(),
            "model_seq": answer["model_seq"],
        }
        ok(reward(client, f"e{i}", i % 2))
        agent.update(choice, i % 2)
    told = ok(client.get(NEWS))
    assert told["theta_hat"] == agent.theta_hat.tolist()
    assert told["theta"] == agent.theta.tolist()
    assert told["radius"] == agent.radius
    assert told["effective_sample_size"] == agent.effective_sample_size
    assert [event["seq"] for event in events(client)] == list(range(1, 62))
    assert all(
        event["seq"] == answer_seq
        for event, answer_seq in zip(events(client)[1::2], range(2, 62, 2), strict=True)
    )


def test_model_seq_is_the_event_before(client):
    for i in range(3):
        assert ok(decide(client, f"e{i}"))["model_seq"] == 1 + i


def test_batches_are_single_requests_in_order(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        client = service.client
        for policy in ("one", "many"):
            configure(client, f"/v1/policies/{policy}")
        bodies = [{"event_id": f"e{i}", "arms": arms(i)} for i in range(5)]
        bodies += [bodies[0], {**bodies[1], "arms": arms(9)[:2]}]
        single = [client.post("/v1/policies/one/decisions", json=body) for body in bodies]
        batch = ok(client.post("/v1/policies/many/decisions:batch", json={"decisions": bodies}))
        for answer, result in zip(single, batch["results"], strict=True):
            assert result["status"] == answer.status_code
            told = answer.json()
            assert (result["decision"] or {"error": result["error"]}) == told
        rewards = [{"event_id": f"e{i}", "value": v} for i, v in ((0, 1), (0, 1), (0, 0), (9, 1))]
        results = ok(client.post("/v1/policies/many/rewards:batch", json={"rewards": rewards}))
        assert [result["status"] for result in results["results"]] == [200, 200, 409, 404]
        assert results["results"][1]["reward"] == {"status": "duplicate"}


def test_one_transaction_may_hold_everything_about_an_id(client):
    """What a batch has not committed yet counts for its later items."""
    ok(decide(client, "old"))
    rewards = [{"event_id": "old", "value": v} for v in (1, 1, 0)]
    told = ok(client.post(f"{NEWS}/rewards:batch", json={"rewards": rewards}))["results"]
    assert [result["status"] for result in told] == [200, 200, 409]
    assert [result["reward"] for result in told[:2]] == [
        {"status": "learned"},
        {"status": "duplicate"},
    ]
    assert counts(client)["late"] == 0


def test_an_apprentice_plays_and_learns_the_baseline(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        client = service.client
        configure(client, mode="apprentice", epsilon=0)
        agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.95), seed=3)
        assert problem(decide(client, "e"), 422)["path"] == "$.baseline"
        for i in range(10):
            answer = ok(decide(client, f"e{i}", i, baseline="stay"))
            assert (answer["arm"], answer["index"], answer["propensity"]) == ("stay", 2, 1.0)
            choice = agent.decide([arm["x"] for arm in arms(i)], played=2)
            assert answer["scores"] == choice.scores.tolist()
            ok(reward(client, f"e{i}", 1))
            agent.update(choice, 1)
        assert ok(client.get(NEWS))["theta_hat"] == agent.theta_hat.tolist()
        assert {event["suggested"] for event in events(client) if event["kind"] == "decision"} - {2}
        # from here on it decides, with what it has learned
        configure(client, mode="online", epsilon=0)
        assert ok(client.get(NEWS))["theta_hat"] == agent.theta_hat.tolist()
        assert ok(decide(client, "new"))["index"] == agent.decide([a["x"] for a in arms()]).index


def test_a_frozen_policy_decides_and_does_not_learn(client):
    play(client, 12)
    ok(decide(client, "before"))
    configure(client, mode="frozen")
    frozen = ok(client.get(NEWS))
    assert ok(reward(client, "before", 1)) == {"status": "recorded"}
    for i in range(20):
        ok(decide(client, f"f{i}", i))
        assert ok(reward(client, f"f{i}", 1)) == {"status": "recorded"}
        assert ok(reward(client, f"f{i}", 1)) == {"status": "duplicate"}
    after = ok(client.get(NEWS))
    assert after["theta_hat"] == frozen["theta_hat"]
    assert after["radius"] == frozen["radius"]
    assert after["round"] == frozen["round"]
    configure(client, mode="online")
    ok(decide(client, "after"))
    assert ok(reward(client, "after", 1)) == {"status": "learned"}


# -- rewards and time ----------------------------------------------------------------------------


def test_a_default_is_learned_without_anybody_asking(tmp_path):
    clock = Clock()
    with Served(f"sqlite:///{tmp_path}/log.db", clock=clock) as service:
        configure(service.client, reward_wait_s=5, default_reward=0.5)
        ok(decide(service.client, "e1"))
        clock.pass_seconds(4.9)
        time.sleep(0.5)
        assert ok(service.client.get(NEWS))["pending"] == 1
        clock.pass_seconds(0.1)
        deadline = time.monotonic() + 20
        while ok(service.client.get(NEWS))["pending"] and time.monotonic() < deadline:
            time.sleep(0.05)
        last = events(service.client)[-1]
        assert (last["kind"], last["event_id"], last["value"]) == ("default", "e1", 0.5)


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_clock_that_jumps(tmp_path, jump):
    clock = Clock()
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, clock=clock) as service:
        client = service.client
        configure(client, discount=None, half_life_s=3600, reward_wait_s=7 * DAY)
        for i in range(6):
            ok(decide(client, f"e{i}", i))
            clock.pass_seconds(jump if i == 2 else 1)
        for i in range(6):
            assert ok(reward(client, f"e{i}", 1))["status"] == "learned"
        times = [event["at"] for event in events(client)]
        assert times == sorted(times)
        live = digest(client)
    assert verified(url) == {"news": live}


def test_forgetting_by_the_servers_clock(tmp_path):
    """A row's weight halves in half_life_s, however many decisions there were."""
    clock = Clock()
    with Served(f"sqlite:///{tmp_path}/log.db", clock=clock) as service:
        client = service.client
        configure(client, discount=None, half_life_s=100, epsilon=0)
        agent = db.Agent(
            db.policy("D-GLUCB", dim=2, discount=0.5 ** (1 / 1000)), seed=3, clock="ticks"
        )
        for i in range(8):
            answer = ok(decide(client, f"e{i}", i))
            choice = agent.decide([arm["x"] for arm in arms(i)])
            assert answer["scores"] == choice.scores.tolist()
            clock.pass_seconds(50)
            ok(reward(client, f"e{i}", 1))
            agent.tick(500)
            agent.update(choice, 1)
        told = ok(client.get(NEWS))
        assert told["theta_hat"] == agent.theta_hat.tolist()
        weights = [0.5 ** ((k + 1) / 2) for k in range(8)]
        expected = sum(weights) ** 2 / sum(w * w for w in weights)
        assert told["effective_sample_size"] == pytest.approx(expected, rel=1e-12)


def test_a_window_in_seconds(tmp_path):
    clock = Clock()
    with Served(f"sqlite:///{tmp_path}/log.db", clock=clock) as service:
        client = service.client
        configure(client, name="SW-GLUCB", discount=None, window_s=10)
        for i in range(30):
            ok(decide(client, f"e{i}", i))
            ok(reward(client, f"e{i}", 1))
            clock.pass_seconds(1)
        ok(decide(client, "pending"))
        assert ok(client.get(NEWS))["effective_sample_size"] == 9  # those of age 1 to 9 s
        clock.pass_seconds(10.1)
        assert ok(reward(client, "pending", 1))["status"] == "late"


def test_rewards_that_a_policy_has_forgotten_are_late(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        client = service.client
        configure(client, name="SW-GLUCB", discount=None, window=3)
        for i in range(5):
            ok(decide(client, f"e{i}", i))
        assert ok(client.get(NEWS))["pending"] == 3
        assert ok(reward(client, "e0", 1))["status"] == "late"
        assert ok(reward(client, "e0", 1))["status"] == "duplicate"
        assert problem(reward(client, "e0", 0), 409)
        assert ok(reward(client, "e4", 1))["status"] == "learned"


# -- policies ------------------------------------------------------------------------------------


def test_versions(client):
    play(client, 5)
    assert client.put(NEWS, json=CONFIGURATION).status_code == 200
    assert ok(client.get(NEWS))["version"] == 1
    configure(client, mode="frozen")
    kept = ok(client.get(NEWS))
    assert (kept["version"], kept["configuration"]["fresh"]) == (2, False)
    configure(client, discount=0.9)
    fresh = ok(client.get(NEWS))
    assert (fresh["version"], fresh["configuration"]["fresh"], fresh["round"]) == (3, True, 0)
    assert fresh["theta_hat"] == [0.0, 0.0]
    assert ok(reward(client, "e4", 1))["status"] == "late"  # of a version that is gone
    versions = ok(client.get(f"{NEWS}/versions"))["versions"]
    assert [(v["version"], v["mode"], v["arguments"]["discount"]) for v in versions] == [
        (1, "online", 0.95),
        (2, "frozen", 0.95),
        (3, "online", 0.9),
    ]


def test_the_list_of_policies(client):
    configure(client, "/v1/policies/other", mode="frozen")
    listed = ok(client.get("/v1/policies"))["policies"]
    assert [(p["policy"], p["name"], p["mode"]) for p in listed] == [
        ("news", "D-GLUCB", "online"),
        ("other", "D-GLUCB", "frozen"),
    ]


def test_the_history_counts_by_the_minute(tmp_path):
    clock = Clock()
    with Served(f"sqlite:///{tmp_path}/log.db", clock=clock) as service:
        configure(service.client)
        for i in range(6):
            clock.pass_seconds(25)
            ok(decide(service.client, f"e{i}"))
            ok(reward(service.client, f"e{i}", 1))
        minutes = ok(service.client.get(f"{NEWS}/history"))["minutes"]
        assert sum(minute["decisions"] for minute in minutes) == 6
        assert sum(minute["reward_sum"] for minute in minutes) == 6.0
        assert sum(minute["reward_square_sum"] for minute in minutes) == 6.0
        assert minutes[0]["theta"] == [0.0, 0.0]
        assert minutes[-1]["theta"] != [0.0, 0.0]


# -- the log -------------------------------------------------------------------------------------


def test_the_log_as_json_and_as_parquet(client):
    play(client, 9)
    ok(reward(client, "e1", 1))
    told = events(client)
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    page = ok(client.get(f"{NEWS}/events?after=3&limit=2"))
    assert (page["events"], page["next"]) == (told[3:5], 5)
    for answer in (
        client.get(f"{NEWS}/events?format=parquet"),
        client.get(f"{NEWS}/events", headers={"accept": "application/vnd.apache.parquet"}),
    ):
        table = polars.read_parquet(io.BytesIO(answer.content))
        assert table["seq"].to_list() == [event["seq"] for event in told]
        assert table["scores"].to_list() == [event.get("scores") for event in told]
        assert table["value"].to_list() == [event.get("value") for event in told]
        assert answer.headers["x-next"] == str(len(told))
    first = next(event for event in told if event["kind"] == "decision")
    assert first["arms"] == arms(0)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=1e3", "limit=99999999", "form=a"])
def test_queries_that_make_no_sense(client, query):
    assert problem(client.get(f"{NEWS}/events?{query}"), 422)["path"] == query.split("=")[0]


def test_erasure_takes_a_persons_events_and_leaves_what_was_learned(store_url):
    with Served(store_url) as service:
        client = service.client
        configure(client)
        for i in range(6):
            ok(decide(client, f"ann:{i}", i))
            ok(decide(client, f"bob:{i}", i))
            if i < 4:
                ok(reward(client, f"ann:{i}", 1))
                ok(reward(client, f"bob:{i}", 0))
        ok(reward(client, "ann:0", 1))
        before = ok(client.get(NEWS))
        told = ok(client.post(f"{NEWS}/erasures", json={"prefix": "ann:"}))
        assert told == {"erased": 6 + 4 + 1}
        after = ok(client.get(NEWS))
        assert after["theta_hat"] == before["theta_hat"]
        assert after["pending"] == before["pending"] - 2
        assert problem(decide(client, "ann:0"), 410)["code"] == "erased"
        assert problem(reward(client, "ann:5", 1), 410)["code"] == "erased"
        assert ok(decide(client, "bob:0", 0))["event_id"] == "bob:0"
        listed = events(client)
        assert sum(event.get("erased", False) for event in listed) == 11
        assert "ann" not in json.dumps(listed)
        assert ok(client.post(f"{NEWS}/erasures", json={"prefix": "ann:"})) == {"erased": 0}
        play(client, 5, first=100)
        live = digest(client)
    assert verified(store_url) == {"news": live}
    with Served(store_url) as service:
        assert digest(service.client) == live
        assert problem(decide(service.client, "ann:0"), 410)
    with store.open(store_url) as log, log.read() as session:
        stored = list(session.all_events("news"))
        assert not any(b"ann:" in event.body or "ann:" in event.event_id for event in stored)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "$"),
        ({"older_than_days": -1}, "$.older_than_days"),
        ({"older_than_days": 1e308}, "$.older_than_days"),
        ({"prefix": ""}, "$.prefix"),
        ({"event_ids": ["a b"]}, "$.event_ids[0]"),
    ],
)
def test_bad_erasures_name_the_field(refusing, body, path):
    assert problem(refusing.post(f"{NEWS}/erasures", json=body), 422)["path"] == path


def test_retention_erases_what_is_old(tmp_path):
    clock = Clock()
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, clock=clock) as service:
        configure(service.client)
        play(service.client, 5)
        clock.pass_seconds(10 * DAY)
        play(service.client, 5, first=50)
        theta = ok(service.client.get(NEWS))["theta_hat"]
    with Served(url, clock=clock, retention_days=5) as service:
        deadline = time.monotonic() + 20
        while not counts(service.client)["erased"] and time.monotonic() < deadline:
            time.sleep(0.05)
        told = events(service.client)
        assert all(
            event.get("erased", False) == (event["at"] < "2023-11-20")
            for event in told
            if event["kind"] not in ("configured", "erased")
        )
        assert ok(service.client.get(NEWS))["theta_hat"] == theta
        live = digest(service.client)
    assert verified(url) == {"news": live}


@pytest.mark.parametrize("damage", ["flipped", "truncated", "other format", "empty"])
def test_a_bad_snapshot_falls_back(tmp_path, damage):
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, snapshot_every=20) as service:
        configure(service.client)
        play(service.client, 60)
        live = digest(service.client)
    with store.open(url) as log:
        for bad in (1, 2):
            with log.write() as session:
                kept = session.snapshots("news")
                assert len(kept) == 2
                content = bytearray(kept[bad - 1].content)
                content[len(content) // 2] ^= 1
                altered = {
                    "flipped": bytes(content),
                    "truncated": bytes(content[:-7]),
                    "other format": b"driftbandits-state-9\n" + bytes(content[21:]),
                    "empty": b"",
                }[damage]
                session.save_snapshot(kept[bad - 1]._replace(content=altered))
            with log.read() as session:
                assert snapshots.digest(snapshots.load(session, "news")) == live
    with Served(url) as service:
        assert digest(service.client) == live


# -- several processes ---------------------------------------------------------------------------


def test_two_services_are_one(store_url):
    """Decided here, rewarded there; both hold the same state, as one alone would."""
    with Served(store_url) as one, Served(store_url) as two:
        configure(one.client)
        for i in range(20):
            ok(decide((one, two)[i % 2].client, f"e{i}", i))
            ok(reward((two, one)[i % 2].client, f"e{i}", i % 2))
        assert ok(decide(two.client, "e0")) == ok(decide(one.client, "e0"))
        assert digest(one.client) == digest(two.client)
        agent = db.Agent(db.policy("D-GLUCB", dim=2, discount=0.95, epsilon=0.2), seed=3)
        for i in range(20):
            agent.update(agent.decide([arm["x"] for arm in arms(i)]), i % 2)
        assert ok(two.client.get(NEWS))["theta_hat"] == agent.theta_hat.tolist()
        ok(one.client.post(f"{NEWS}/erasures", json={"event_ids": ["e3"]}))
        ok(decide(two.client, "e99"))
        assert digest(one.client) == digest(two.client)


def test_whatever_comes_two_services_and_a_replay_agree(store_url):
    """Requests of every kind in a random order, at either service, and a clock that wanders."""
    rng, clock = random.Random(8), Clock()
    waits = {"reward_wait_s": 30, "default_reward": 0.5}
    with (
        Served(store_url, clock=clock, snapshot_every=40) as one,
        Served(store_url, clock=clock) as two,
    ):
        configure(one.client, **waits)

        def erase(client):
            body = {"event_ids": [f"e{rng.randrange(40)}"]}
            ok(client.post(f"{NEWS}/erasures", json=body))

        steps = (
            (0.45, lambda client: decide(client, f"e{rng.randrange(40)}", rng.randrange(2))),
            (0.37, lambda client: reward(client, f"e{rng.randrange(40)}", rng.choice((0, 1)))),
            (0.03, lambda client: configure(client, mode=rng.choice(MODES), **waits)),
            (0.01, lambda client: configure(client, discount=rng.choice((0.9, 0.8)), **waits)),
            (0.06, erase),
            (0.10, lambda client: clock.pass_seconds(rng.choice((1, 40, -20)))),
        )
        for step in rng.choices([s for _, s in steps], [weight for weight, _ in steps], k=150):
            step(rng.choice((one, two)).client)
        live = digest(one.client)
        assert digest(two.client) == live
        assert sum(counts(one.client).values()) > 80
    assert verified(store_url) == {"news": live}


# -- what is refused -----------------------------------------------------------------------------


def raw(client, text, path=f"{NEWS}/decisions"):
    return client.post(path, content=text)


ARM = '{"id": "a", "x": [0.1, 0.2]}'


@pytest.mark.parametrize(
    ("text", "status", "path"),
    [
        ("", 400, "$"),
        ("{", 400, "$"),
        ("nonsense", 400, "$"),
        ("[" * 100_000, 422, "$"),
        ('{"a":' * 100_000, 422, "$"),
        ("[]", 422, "$"),
        ("null", 422, "$"),
        ('{"arms": [ARM]}', 422, "$"),
        ('{"event_id": 7, "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "", "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "a b", "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "~a", "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "LONG", "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "e", "arms": [ARM], "extra": 1}', 422, "$"),
        ('{"event_id": "e", "event_id": "e", "arms": [ARM]}', 400, "$.event_id"),
        ('{"event_id": "e", "event\\u005fid": "e", "arms": [ARM]}', 400, "$.event_id"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, 0.2], "x": [0.1, 0.3]}]}', 400,
         "$.arms[0].x"),
        ('{"event_id": "e", "arms": []}', 422, "$.arms"),
        ('{"event_id": "e", "arms": [ARM, ARM]}', 422, "$.arms[1].id"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, NaN]}]}', 400, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [-Infinity, 0]}]}', 400, "$.arms[0].x[0]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, 1e999]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, 1e12]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, "0.2"]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, true]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, null]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1]}]}', 422, "$.arms[0].x"),
        ('{"event_id": "e", "arms": [ARM, {"id": "b", "x": [0.1]}]}', 422, "$.arms[1].x"),
        ('{"event_id": "e", "arms": [ARM, {"id": "b", "x": [3, 4]}]}', 422, "$.arms[1].x"),
        ('{"event_id": "e", "arms": [ARM], "baseline": "b"}', 422, "$.baseline"),
        ('{"event_id": "e", "arms": [ARM], "baseline": 0}', 422, "$.baseline"),
    ],
)  # fmt: skip
def test_bad_decisions_name_the_field(refusing, text, status, path):
    text = text.replace("ARM", ARM).replace("LONG", "a" * 129)
    assert problem(raw(refusing, text), status)["path"] == path


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """A service that is asked only for what it refuses."""
    with Served(f"sqlite:///{tmp_path_factory.mktemp('refusing')}/log.db") as service:
        configure(service.client)
        yield service.client
        assert counts(service.client)["decisions"] == 0


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"event_id": "e", "value": "1"}, "$.value"),
        ({"event_id": "e", "value": None}, "$.value"),
        ({"event_id": "e", "value": 1e300}, "$.value"),
        ({"event_id": "e"}, "$"),
    ],
)
def test_bad_rewards_name_the_field(refusing, body, path):
    answer = refusing.post(f"{NEWS}/rewards", json=body)
    assert problem(answer, 422)["path"] == path


def test_a_reward_out_of_range(client):
    ok(decide(client, "e1"))
    assert problem(reward(client, "e1", 1.5), 422)["path"] == "$.value"
    assert ok(reward(client, "e1", 0.5))["status"] == "learned"


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"name": "nobody"}, "$.name"),
        ({"dim": 0}, "$.dim"),
        ({"dim": 10**6}, "$.dim"),
        ({"discount": 2}, "$.discount"),
        ({"discount": "0.9"}, "$.discount"),
        ({"mode": "eager"}, "$.mode"),
        ({"default_reward": 1}, "$.default_reward"),
        ({"reward_wait_s": 5, "default_reward": 7}, "$.default_reward"),
        ({"reward_wait_s": 0}, "$.reward_wait_s"),
        ({"half_life_s": 5}, "$.half_life_s"),
        ({"name": "LinUCB", "discount": None, "half_life_s": 5}, "$.half_life_s"),
        ({"name": "SW-GLUCB", "discount": None, "window": 5, "window_s": 5}, "$.window_s"),
        ({"seed": -1}, "$.seed"),
        ({"colour": "red"}, "$"),
    ],
)
def test_bad_configurations_name_the_field(refusing, settings, path):
    answer = refusing.put(NEWS, json={**CONFIGURATION, **settings})
    assert problem(answer, 422)["path"] == path


def test_every_wrong_number_of_a_batch_has_its_path(refusing):
    decisions = [{"event_id": "e", "arms": arms()}, {"event_id": "f", "arms": arms() * 2}]
    answer = refusing.post(f"{NEWS}/decisions:batch", json={"decisions": decisions})
    assert problem(answer, 422)["path"] == "$.decisions[1].arms[3].id"


def test_what_is_not_there(refusing):
    assert problem(refusing.get("/v1/nothing"), 404)["code"] == "not_found"
    assert problem(refusing.get("/v1/policies/olds"), 404)["code"] == "unknown_policy"
    assert (
        problem(decide(refusing, "e", policy="/v1/policies/olds"), 404)["code"] == "unknown_policy"
    )
    assert problem(reward(refusing, "e", 1), 404)["code"] == "unknown_decision"
    assert problem(refusing.get("/v1/policies/olds/events"), 404)["code"] == "unknown_policy"
    assert problem(refusing.get("/v1/policies/a%20b"), 422)["path"] == "policy"
    answer = refusing.delete(NEWS)
    assert problem(answer, 405)["code"] == "no_such_method"
    assert answer.headers["allow"] == "GET, PUT"
    assert problem(refusing.get("/page/../app.py"), 404)
    assert problem(refusing.get("/page/%2e%2e/app.py"), 404)


# -- limits and keys -----------------------------------------------------------------------------


def test_limits_each_with_its_own_answer(tmp_path):
    limits = Limits(body_bytes=5000, pending_per_key=2, rate_per_key=None)
    with Served(f"sqlite:///{tmp_path}/log.db", limits=limits) as service:
        client = service.client
        configure(client)
        assert problem(raw(client, " " * 5001), 413)["code"] == "too_large"

        def endless():
            for _ in range(100):
                yield b" " * 1000

        assert problem(raw(client, endless()), 413)["code"] == "too_large"
        for event_id in ("e1", "e2"):
            ok(decide(client, event_id))
        refused = decide(client, "e3")
        assert problem(refused, 429)["code"] == "too_many_pending"
        assert int(refused.headers["retry-after"]) >= 1
        ok(decide(client, "e1"))
        ok(reward(client, "e1", 1))
        ok(decide(client, "e3"))


def test_a_slow_caller_is_cut_off(served, monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.2)
    address = urlsplit(served.address)
    with socket.create_connection((address.hostname, address.port), timeout=20.0) as slow:
        head = f"POST {NEWS}/decisions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{{"
        slow.sendall(head.encode())
        assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")
    ok(decide(served.client, "e1"))


def spoken(method, path, body=b"", *headers):
    """A request as it goes over the wire."""
    if "transfer-encoding: chunked" in headers:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        headers = (*headers, f"content-length: {len(body)}")
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def heard(served, *parts):
    """Every answer on one connection, as (status, content), after which it is closed."""
    address = urlsplit(served.address)
    with socket.create_connection((address.hostname, address.port), timeout=20.0) as caller:
        for part in parts:
            caller.sendall(part)
            time.sleep(0.02)
        stream, answers = caller.makefile("rb"), []
        while line := stream.readline():
            lengths = [0]
            while (header := stream.readline()).strip():
                name, _, value = header.partition(b": ")
                lengths += [int(value)] if name == b"content-length" else []
            answers.append((int(line.split()[1]), stream.read(lengths[-1])))
    return answers


def test_requests_of_one_connection_are_answered_in_their_order(served):
    """Short ones go a shorter way than the others; who sends them without waiting sees no more."""
    asked = json.dumps({"event_id": "p1", "arms": arms()}).encode()
    told = b'{"event_id": "p1", "value": 1}'
    requests = [
        spoken("POST", f"{NEWS}/decisions", asked),
        spoken("GET", "/healthz"),
        spoken("POST", f"{NEWS}/rewards", told),
        spoken("POST", f"{NEWS}/rewards", told, "transfer-encoding: chunked"),
        spoken("POST", f"{NEWS}/rewards", b"{"),
        spoken("GET", f"{NEWS}/digest"),
        spoken("GET", f"{NEWS}/none"),
        spoken("POST", f"{NEWS}/rewards", told, "connection: close"),
    ]
    together = b"".join(requests)
    for parts in ([together], requests, [together[:300], together[300:]]):
        answers = heard(served, *parts)
        assert [status for status, _ in answers] == [200, 200, 200, 200, 400, 200, 404, 200]
        first, _, rewarded, again, refused, _, _, last = (content for _, content in answers)
        assert json.loads(first)["event_id"] == "p1"
        assert json.loads(rewarded)["status"] == ("learned" if parts == [together] else "duplicate")
        assert again == last == b'{"status":"duplicate"}'
        assert json.loads(refused)["error"]["code"] == "malformed"


def test_callers_may_repeat_themselves(served):
    """What comes before a body is parsed once; however the next one arrives, it is its own."""

    def asking(event_id, *headers):
        body = json.dumps({"event_id": event_id, "arms": arms()}).encode()
        return spoken("POST", f"{NEWS}/decisions", body, *headers)

    ids = ["r1", "r2-longer", "r3", "r4", "r5", "r6", "r7-" + "l" * 99, "r8", "r9"]
    r1, r2, r3, r4, r5, r6, r7, r8 = (asking(event_id) for event_id in ids[:-1])
    pieces = [r1, r2, r3[:40], r3[40:], r4 + r5, r6 + r7[:-5], r7[-5:], r8]
    answers = heard(served, *pieces, asking("r9", "connection: close"))
    assert [status for status, _ in answers] == [200] * len(ids)
    assert [json.loads(content)["event_id"] for _, content in answers] == ids


@pytest.mark.parametrize("length", [b"5", b"0", b"33", b"+12", b"1, 2", b" 5"])
def test_a_repeated_head_with_another_length(served, length):
    """Whatever it says, it is understood as if it were the first on its connection."""
    body = b'{"event_id": "none", "value": 1}'
    good = spoken("POST", f"{NEWS}/rewards", body)
    ends = b"content-length: %d" % len(body)
    odd = good.replace(ends, b"content-length: " + length)
    last = spoken("POST", f"{NEWS}/rewards", body, "connection: close")
    after_another = heard(served, good, odd, last)
    assert after_another[0][0] == 404
    assert after_another[1:] == heard(served, odd, last)


def test_a_caller_may_wait_for_leave_to_send_its_body(served):
    asked = json.dumps({"event_id": "w1", "arms": arms()}).encode()
    whole = spoken("POST", f"{NEWS}/decisions", asked, "expect: 100-continue", "connection: close")
    head, _, body = whole.partition(b"\r\n\r\n")
    assert [status for status, _ in heard(served, head + b"\r\n\r\n", body)] == [100, 200]


def test_the_rate_of_a_key(tmp_path):
    limits = Limits(rate_per_key=3)
    with Served(f"sqlite:///{tmp_path}/log.db", limits=limits, with_keys=True) as service:
        answers = [service.client.get("/v1/policies") for _ in range(12)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert 1 <= len(refused) <= 9
        assert problem(refused[0], 429)["code"] == "rate_limited"
        assert int(refused[0].headers["retry-after"]) >= 1
        assert service.client.get("/healthz").status_code == 200


def make_key(url, *options):
    run = CliRunner().invoke(group, ["keys", "create", "--store", url, *options])
    assert run.exit_code == 0, run.output
    return run.output.strip()


def test_keys_roles_and_tenants(tmp_path):
    path = tmp_path / "log.db"
    url = f"sqlite:///{path}"
    tokens = {
        role: make_key(url, "--role", role, "--prefix", "shop.")
        for role in ("reader", "writer", "admin")
    }
    shop, other = "/v1/policies/shop.news", "/v1/policies/bank.news"
    with Served(url, with_keys=True) as service:
        assert service.key is None  # there were keys already
        reader, writer, admin = (service.connect(tokens[role]) for role in tokens)
        with reader, writer, admin, service.connect(make_key(url, "--role", "admin")) as root:
            time.sleep(2.1)
            configure(root, other)
            configure(admin, shop)
            assert problem(admin.put(other, json=CONFIGURATION), 403)["code"] == "other_tenant"
            assert problem(writer.put(shop, json=CONFIGURATION), 403)["code"] == "forbidden"
            ok(decide(writer, "e1", policy=shop))
            ok(reward(writer, "e1", 1, policy=shop))
            assert problem(decide(reader, "e2", policy=shop), 403)["code"] == "forbidden"
            assert problem(decide(writer, "e2", policy=other), 403)["code"] == "other_tenant"
            ok(reader.get(shop))
            assert problem(reader.get(other), 403)["code"] == "other_tenant"
            assert [p["policy"] for p in ok(reader.get("/v1/policies"))["policies"]] == [
                "shop.news"
            ]
            assert len(ok(root.get("/v1/policies"))["policies"]) == 2
            assert "bank" not in reader.get("/metrics").text
            for authorization in (
                "",
                "Bearer",
                "Bearer x",
                "Basic abc",
                "Bearer dbk_a_b",
                f"Bearer {tokens['reader'][:-1]}",
            ):
                answer = httpx.get(service.address + shop, headers={"authorization": authorization})
                assert problem(answer, 401)["code"] == "unauthorized"
                assert answer.headers["www-authenticate"] == "Bearer"
            id = tokens["reader"].split("_")[1]
            run = CliRunner().invoke(group, ["keys", "revoke", "--store", url, id])
            assert run.exit_code == 0, run.output
            time.sleep(2.1)
            assert problem(reader.get(shop), 401)
            for event_id in ("e3", "e4", "e5"):
                ok(decide(writer, event_id, policy=shop))
            CliRunner().invoke(
                group, ["keys", "revoke", "--store", url, tokens["writer"].split("_")[1]]
            )
            time.sleep(2.1)
            assert problem(decide(writer, "e6", policy=shop), 401)  # on the same connection
    listing = CliRunner().invoke(group, ["keys", "list", "--store", url]).output
    assert f"{id}  reader  revoked  shop." in listing
    stored = path.read_bytes()
    assert not any(token.split("_", 2)[2].encode() in stored for token in tokens.values())


def test_the_first_key_is_made_once(tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, with_keys=True) as service:
        assert re.fullmatch(r"dbk_[0-9a-f]{12}_[\w-]{43}", service.key)
        configure(service.client)
    with Served(url, with_keys=True) as service:
        assert service.key is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_without_keys_only_loopback(host):
    run = CliRunner().invoke(group, ["serve", "--no-auth", "--host", host])
    assert run.exit_code == 2
    assert "loopback" in run.output


def test_without_keys_no_other_sites_page_gets_in(client):
    for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
        assert client.get("/v1/policies", headers=headers).status_code == 403
    origin = str(client.base_url).rstrip("/")
    assert client.get("/v1/policies", headers={"origin": origin}).status_code == 200


# -- when things break ---------------------------------------------------------------------------


@pytest.mark.parametrize("in_loop", [True, False])
def test_a_writer_that_dies_takes_the_process_with_it(tmp_path, in_loop):
    """Nobody is left hanging: requests fail, readiness flips, the server ends with an error."""
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service.client)
        log = service.service.engine.store
        log.write = die
        log.write_at_once = die if in_loop else lambda: None
        answer = decide(service.client, "e1")
        assert answer.status_code == 503
        service.join()
        assert service.code == 1


def die():
    raise SystemExit("the writer is told to die")


def test_a_slow_disk_is_left_to_the_thread(tmp_path):
    """The loop has to answer others; it tries again after a while."""
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service.client)
        log, used = service.service.engine.store, []
        write, write_at_once = log.write, log.write_at_once

        @contextmanager
        def slowly():
            used.append("loop")
            time.sleep(0.06)
            with write_at_once() as session:
                yield session

        def with_patience():
            used.append("thread")
            return write()

        log.write, log.write_at_once = with_patience, slowly
        for i in range(4):
            ok(decide(service.client, f"e{i}"))
        assert used == ["loop", "loop", "thread", "thread"]
        time.sleep(1.1)
        ok(decide(service.client, "later"))
        assert used[4:] == ["loop"]


def test_a_disk_that_fails_and_comes_back(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        client = service.client
        configure(client)
        play(client, 5)
        before = digest(client)
        log = service.service.engine.store
        real = log.write, log.write_at_once

        def fails():
            raise store.StoreUnavailable("disk full")

        log.write = log.write_at_once = fails
        refused = decide(client, "new")
        assert problem(refused, 503)["code"] == "storage_unavailable"
        assert "retry-after" in refused.headers
        assert digest(client) == before
        log.write, log.write_at_once = real
        ok(decide(client, "new"))


def test_a_commit_that_fails_is_as_if_nothing_happened(tmp_path):
    """The fold had moved on; it is made again from the log."""
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        client = service.client
        configure(client)
        play(client, 5)
        before = digest(client)
        log = service.service.engine.store
        connection = log._write_connection()
        connection.set_commit_hook(lambda: True)  # rolls every commit back
        assert decide(client, "new").status_code >= 500
        assert reward(client, "e4", 1).status_code >= 500
        connection.set_commit_hook(None)
        assert digest(client) == before
        first = ok(decide(client, "new"))
        assert ok(decide(client, "new")) == first


# -- the rest of the interface -------------------------------------------------------------------


def test_the_document_describes_every_route(client):
    document = ok(client.get("/openapi.json"))
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == set(ROUTES)
    text = json.dumps(document)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in document["components"]["schemas"]
    decision = document["components"]["schemas"]["DecisionRequest"]
    assert decision["required"] == ["event_id", "arms"]
    arguments = document["components"]["schemas"]["PolicyRequest"]["properties"]
    assert {"name", "dim", "discount", "window", "mode", "half_life_s"} <= set(arguments)


def test_answers_match_the_document(client):
    play(client, 6)
    for path, type_ in (
        ("/v1/policies", wire.PoliciesAnswer),
        (NEWS, wire.PolicyAnswer),
        (f"{NEWS}/versions", wire.VersionsAnswer),
        (f"{NEWS}/history", wire.HistoryAnswer),
        (f"{NEWS}/digest", wire.DigestAnswer),
        (f"{NEWS}/events", wire.EventsAnswer),
    ):
        struct = msgspec.json.decode(client.get(path).content, type=type_)
        assert msgspec.json.decode(msgspec.json.encode(struct)) == client.get(path).json()


def test_health_readiness_and_metrics(client):
    ok(decide(client, "e1"))
    assert ok(client.get("/healthz")) == {"status": "ok"}
    assert ok(client.get("/readyz")) == {"status": "ok"}
    assert client.head("/readyz").content == b""
    text = client.get("/metrics").text
    assert "driftbandits_ready 1" in text
    route = '{method="POST",route="/v1/policies/{policy}/decisions",status="200"} 1'
    assert f"driftbandits_requests_total{route}" in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r"\w+(\{.*\})? [-+.e\d]+", line), line


def test_backup_of_a_store_in_use(served, tmp_path):
    play(served.client, 10)
    target = f"sqlite:///{tmp_path}/copy.db"
    run = CliRunner().invoke(
        group, ["backup", "--store", served.service.announcement.store, "--to", target]
    )
    assert run.exit_code == 0, run.output
    assert verified(target) == {"news": digest(served.client)}


def test_commands_do_not_make_the_store_they_look_at(tmp_path):
    for command in (["verify"], ["keys", "list"], ["keys", "revoke", "x"]):
        run = CliRunner().invoke(group, [*command, "--store", f"sqlite:///{tmp_path}/no.db"])
        assert run.exit_code == 2
        assert "there is no file" in run.output
    assert not list(tmp_path.iterdir())
