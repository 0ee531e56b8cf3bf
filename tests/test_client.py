"""The client, against scripted answers for what a healthy service never says, and the service."""

import asyncio
import importlib.util
import logging
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from driftbandits import client as clients
from driftbandits.cli.commands import run as run_command
from driftbandits.client import AsyncClient, Client
from driftbandits.client.queue import FAILURES, Item, Queue
from driftbandits.evaluate import Log, write_log
from scripts import Waited, problem, scripted
from servers import Process, Served, wait_until

_spec = importlib.util.spec_from_file_location(
    "outages", Path(__file__).parents[1] / "benchmarks" / "outages.py"
)
assert _spec is not None
assert _spec.loader is not None
outages: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(outages)

ARMS = {"a": [1.0, 0.0], "b": [0.0, 0.5]}
AWAY = "http://127.0.0.1:9"  # nobody listens to the port of `discard`
HANGS_S = 30.0
"""benchmarks/outages.py measures how closely a budget is kept; here nobody may hang."""
LEARNED = {"status": "learned"}
DECISION = {
    "event_id": "e1",
    "arm": "b",
    "index": 1,
    "round": 1,
    "propensity": 1.0,
    "scores": [0.5, 0.75],
    "model_seq": 1,
    "later": "fields are ignored",
}


@pytest.fixture(params=[Client, Waited], ids=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


# --- shapes --------------------------------------------------------------------------------------


def test_a_decision_is_asked_for_and_read(make: Any) -> None:
    with scripted((200, DECISION)) as script, make(script.url, "secret") as client:
        arms = {"a": [1.0, 0.0], "b": np.array([0.0, 0.5])}
        decision = client.decide("news", arms, event_id="e1", baseline="a")
        client.decide("news", [clients.Arm("a", [1, 0]), {"id": "b", "x": (0, 1)}])
        client.decide("news", arms, context=pd.Series({"age": np.float64(27), "country": "DE"}))
    assert isinstance(decision, clients.Decision)
    assert (decision.arm, decision.index, decision.scores) == ("b", 1, [0.5, 0.75])
    wanted = [{"id": "a", "x": [1.0, 0.0]}, {"id": "b", "x": [0.0, 0.5]}]
    first, second, third = script.requests
    body = {"event_id": "e1", "arms": wanted, "baseline": "a"}
    assert first == ("POST", "/v1/policies/news/decisions", body)
    assert second[2]["arms"] == [{"id": "a", "x": [1, 0]}, {"id": "b", "x": [0, 1]}]
    assert third[2]["context"] == {"age": 27, "country": "DE"}
    drawn = second[2]["event_id"], third[2]["event_id"]
    assert len(set(drawn)) == 2
    assert all(len(name) == 32 for name in drawn)
    assert script.headers[0]["authorization"] == "Bearer secret"
    assert script.headers[0]["content-type"] == "application/json"


def test_a_batch_is_all_answers_or_an_exception_with_all(make: Any) -> None:
    refused = {"status": 409, "error": {"code": "conflict", "message": "other arms"}}
    results = {"results": [{"status": 200, "decision": DECISION}, refused]}
    good = {"results": [{"status": 200, "reward": {"status": "learned"}}]}
    with scripted((200, results), (200, good)) as script, make(script.url) as client:
        requests = [{"arms": {"a": [1.0]}, "event_id": "e1"}, {"arms": {"a": [2.0]}}]
        with pytest.raises(clients.SomeRefused, match=r"1 of 2 were refused.*409: other") as caught:
            client.decide_many("news", requests)
        assert client.reward_many("news", {"e1": 1.0}) == [clients.Reward("learned")]
    first, second = caught.value.results
    assert first.arm == "b"
    assert isinstance(second, clients.Conflict)
    assert caught.value.status == second.status == 409
    assert script.requests[1][1:] == (
        "/v1/policies/news/rewards:batch",
        {"rewards": [{"event_id": "e1", "value": 1.0}]},
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.decide("", {"a": [1.0]}), "policy must be the name of a policy; got ''"),
        (lambda c: c.decide("p", [[1.0]]), "arms must be .*; got list"),
        (lambda c: c.decide("p", 3), "arms must be .*; got int"),
        (lambda c: c.decide_many("p", [{"event_id": "e"}]), r"requests\[0\] must have arms"),
        (lambda c: c.decide_many("p", [{"arms": {}, "id": 1}]), r"requests\[0\] .*got arms, id"),
    ],
)
def test_calls_that_cannot_be_meant_are_refused_here(call: Any, message: str, make: Any) -> None:
    with make("http://127.0.0.1:1") as client, pytest.raises(ValueError, match=message):
        call(client)


@pytest.mark.parametrize(
    ("url", "more", "message"),
    [
        ("127.0.0.1:8080", {}, "url must begin with http:// or https://; got '127.0.0.1:8080'"),
        ("http://127.0.0.1:1", {"key": ""}, "key must be a text, or None; got str"),
        ("http://127.0.0.1:1", {"key": b"k"}, "key must be a text, or None; got bytes"),
        ("http://127.0.0.1:1", {"timeout": 0}, "timeout must be a finite number"),
        ("http://127.0.0.1:1", {"timeout": "1"}, "timeout must be a finite number"),
        ("http://127.0.0.1:1", {"patience": -1}, "patience must be a finite number"),
        ("http://127.0.0.1:1", {"queue": 0}, "queue must be an integer of at least 1"),
    ],
)
def test_wrong_settings_are_told_at_once(url: str, more: dict[str, Any], message: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=message):
            kind(url, **more)


def test_a_client_does_not_show_its_key() -> None:
    with Client("http://127.0.0.1:1", "secret") as client:
        assert "secret" not in repr(client)


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, clients.BadRequest),
        (401, clients.NotAllowed),
        (403, clients.NotAllowed),
        (404, clients.NotFound),
        (409, clients.Conflict),
        (410, clients.BadRequest),
        (413, clients.BadRequest),
        (422, clients.BadRequest),
        (500, clients.Unavailable),
    ],
)
def test_a_refusal_is_final_and_says_what_the_service_said(
    status: int, kind: type[clients.ServiceError], make: Any
) -> None:
    body = problem("x must have 2 numbers", "invalid", "$.arms[0].x")
    message = rf"{status}: x must have 2 numbers \(at \$\.arms"
    with (
        scripted((status, body)) as script,
        make(script.url) as client,
        pytest.raises(kind, match=message) as caught,
    ):
        client.reward("news", "e1", 1.0)
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.path) == (status, "invalid", "$.arms[0].x")
    assert len(script.requests) == 1


def test_an_answer_of_somebody_else_is_told_as_such(make: Any) -> None:
    answers = (200, {"hello": 1}), (404, b"<html>no"), (400, b"")
    with scripted(*answers) as script, make(script.url) as client:
        with pytest.raises(clients.ServiceError, match="not what a decision service says"):
            client.policies()
        with pytest.raises(clients.NotFound, match="404: <html>no"):
            client.policies()
        with pytest.raises(clients.BadRequest, match="400: no explanation given"):
            client.policies()


def test_overload_and_lost_connections_are_tried_again_with_the_same_event(make: Any) -> None:
    busy = (503, problem("overloaded"), {"retry-after": "0"})
    answers = [busy, 0.0, (429, problem("slow down")), (502, b"proxy"), (200, DECISION)]
    with scripted(*answers) as script, make(script.url, patience=20) as client:
        assert client.decide("news", {"a": [1.0]}).arm == "b"
    assert len(script.requests) == 5
    assert all(request == script.requests[0] for request in script.requests)


def test_the_service_says_how_long_to_wait(make: Any) -> None:
    busy = (503, problem("overloaded"), {"retry-after": "1"})
    with scripted(busy, (200, {"status": "learned"})) as script, make(script.url) as client:
        began = time.monotonic()
        assert client.reward("news", "e1", 1.0).status == "learned"
        assert time.monotonic() - began >= 1.0
    busy = (503, problem("overloaded"), {"retry-after": "100"})
    with scripted(busy) as script, make(script.url, patience=5) as client:
        with pytest.raises(clients.Unavailable, match="503: overloaded"):
            client.reward("news", "e1", 1.0)
        assert len(script.requests) == 1  # waiting so long would be in vain


def test_patience_ends(make: Any) -> None:
    with scripted((429, problem("slow down"))) as script, make(script.url, patience=0.4) as client:
        with pytest.raises(clients.TooMany, match="429: slow down"):
            client.reward("news", "e1", 1.0)
        assert 2 <= len(script.requests) <= 10  # pauses grow
    with scripted((503, problem("busy"))) as script, make(script.url, patience=0) as client:
        with pytest.raises(clients.Unavailable):
            client.reward("news", "e1", 1.0)
        assert len(script.requests) == 1


def test_nobody_there(make: Any) -> None:
    with scripted((200, {})) as script:
        pass  # now nobody listens there
    with make(script.url, patience=0.2) as client:
        with pytest.raises(clients.NoAnswer, match="no answer to GET /v1/policies") as caught:
            client.policies()
        assert caught.value.status == 0
        with pytest.raises(clients.NoAnswer):
            client.health()


def test_an_answer_that_takes_too_long_is_asked_for_again(make: Any) -> None:
    answers = (0.6, (200, {"status": "learned"}))
    with scripted(*answers) as script, make(script.url, timeout=0.2) as client:
        assert client.reward("news", "e1", 1.0).status == "learned"
    assert len(script.requests) == 2


def test_health_is_an_answer_and_not_an_exception(make: Any) -> None:
    starting = (503, problem("the log is replayed"))
    with scripted(starting, (200, {"status": "ok"})) as script, make(script.url) as client:
        assert client.health() == clients.Health(False, "503: the log is replayed")
        assert client.health() == clients.Health(True, "ok")
    assert [request[:2] for request in script.requests] == [("GET", "/readyz")] * 2


def test_the_module_is_light() -> None:
    program = (
        "import sys, driftbandits.client\n"
        "print(sorted(name for name in sys.modules if name.startswith('driftbandits')\n"
        "       and not name.startswith(('driftbandits.client', 'driftbandits.api.'))))\n"
        "print(sorted({'numpy', 'numba', 'httpx', 'asyncio', 'polars'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "['driftbandits', 'driftbandits.api', 'driftbandits.checks']",
        "[]",
    ]


# --- the service ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    server = Process(f"sqlite:///{tmp_path_factory.mktemp('service')}/log.db", "--no-auth")
    with Client(server.address) as client:
        client.put_policy(outages.POLICY, "D-GLUCB", dim=2, discount=0.99, epsilon=0.1)
    yield server
    server.kill()


def test_every_call_of_the_service(server: Process, make: Any) -> None:
    policy = f"news-{make.__name__}"
    with make(server.address) as client:
        made = client.put_policy(policy, "D-GLUCB", dim=2, discount=0.9, epsilon=0.2, seed=1)
        assert (made.policy, made.version, made.counts.decisions) == (policy, 1, 0)
        assert made.configuration.arguments["discount"] == 0.9
        assert client.health() == clients.Health(True, "ok")

        decision = client.decide(policy, ARMS, event_id="e1")
        assert decision.arm == list(ARMS)[decision.index]
        assert decision.event_id == "e1"
        assert len(decision.scores) == 2
        assert client.decide(policy, ARMS, event_id="e1") == decision
        assert client.reward(policy, "e1", 1.0).status == "learned"
        assert client.reward(policy, "e1", 1.0).status == "duplicate"

        many = client.decide_many(policy, [{"arms": ARMS, "event_id": f"m{i}"} for i in range(3)])
        assert [decision.event_id for decision in many] == ["m0", "m1", "m2"]
        told = client.reward_many(policy, {"m0": 0.0, "m1": 1.0})
        assert [reward.status for reward in told] == ["learned", "learned"]

        state = client.policy(policy)
        assert (state.pending, state.counts.decisions, state.counts.rewards) == (1, 4, 3)
        assert state.counts.duplicates == 2
        assert any(value != 0.0 for value in state.theta_hat)
        (line,) = [line for line in client.policies() if line.policy == policy]
        assert (line.name, line.mode, line.counts) == ("D-GLUCB", "online", state.counts)

        page = client.events(policy, limit=3)
        rest = client.events(policy, after=page.next)
        events = [*page.events, *rest.events]
        assert [event.seq for event in events] == list(range(1, state.seq + 1))
        assert [event.kind for event in events[:3]] == ["configured", "decision", "duplicate"]
        assert events[1].arms == [clients.Arm(name, x) for name, x in ARMS.items()]
        assert events[1].propensity == decision.propensity

        (version,) = client.versions(policy)
        assert version == state.configuration == made.configuration
        digest = client.digest(policy)
        assert (digest.policy, digest.seq) == (policy, state.seq)
        assert client.erase(policy, event_ids=["m0"]).erased == 2
        assert client.erase(policy, prefix="m0").erased == 0
        assert client.digest(policy).seq == state.seq + 1
        assert client.policy(policy).theta_hat == state.theta_hat


def test_what_the_service_refuses(server: Process, make: Any) -> None:
    policy = f"strict-{make.__name__}"
    with make(server.address) as client:
        client.put_policy(policy, "greedy", dim=2)
        client.decide(policy, ARMS, event_id="e1")
        with pytest.raises(clients.Conflict, match=r"409: .*e1"):
            client.decide(policy, {"a": [0.5, 0.5]}, event_id="e1")
        with pytest.raises(clients.NotFound, match=r"404: .*nothing"):
            client.decide("nothing", ARMS)
        with pytest.raises(clients.NotFound, match=r"404: .*never"):
            client.reward(policy, "never", 1.0)
        with pytest.raises(clients.BadRequest, match="x must have 2 numbers") as caught:
            client.decide(policy, {"a": [1.0]})
        assert (caught.value.status, caught.value.path) == (422, "$.arms[0].x")
        with pytest.raises(clients.BadRequest) as caught:
            client.reward(policy, "e1", float("nan"))  # no JSON number: sent as null
        assert caught.value.path == "$.value"
        with pytest.raises(clients.BadRequest, match="discount"):
            client.put_policy(f"{policy}-2", "D-GLUCB", dim=2)
        with pytest.raises(clients.SomeRefused) as some:
            client.reward_many(policy, {"e1": 1.0, "never": 0.0})
        learned, unknown = some.value.results
        assert learned == clients.Reward("learned")
        assert isinstance(unknown, clients.NotFound)


def test_a_key_that_nobody_knows(make: Any, tmp_path: Path) -> None:
    with (
        Served(f"sqlite:///{tmp_path}/log.db", with_keys=True) as service,
        make(service.address, "not-a-key") as stranger,
        pytest.raises(clients.NotAllowed, match="401"),
    ):
        stranger.policies()


def test_a_log_can_be_imported_while_the_service_runs(server: Process, tmp_path: Path) -> None:
    log = Log(["e1", "e2"], [1, 2], [[[1.0, 0.0]]] * 2, [0, 0], [1.0, 1.0], [1.0, 1.0])
    write_log(log, tmp_path / "old.parquet")
    command = ["log", "import", str(tmp_path / "old.parquet"), "--store", server.store]
    assert run_command([*command, "--as", "warm", "--policy", "greedy"]) == 0
    with Client(server.address) as client:
        state = client.policy("warm")
        assert (state.version, state.configuration.mode, state.counts.rewards) == (2, "online", 2)
        assert state.theta_hat[0] > 0.0
        assert client.decide("warm", ARMS).arm == "a"
        # The same configuration again is no change, so that what was learned stays.
        assert client.put_policy("warm", "greedy", dim=2).version == 2


def test_nothing_is_lost_or_doubled_while_the_server_is_killed(server: Process) -> None:
    rounds, threads = 40, 3

    def play(thread: int) -> None:
        with Client(server.address, timeout=5.0) as client:
            for i in range(rounds):
                decision = client.decide("killed", ARMS, event_id=f"{thread}-{i}")
                status = client.reward("killed", decision.event_id, 1.0).status
                assert status in ("learned", "duplicate")  # the first answer may have been lost
                done.release()

    async def play_async(name: str) -> None:
        async with AsyncClient(server.address, timeout=5.0) as client:
            for i in range(rounds):
                decision = await client.decide("killed", ARMS, event_id=f"{name}-{i}")
                status = (await client.reward("killed", decision.event_id, 1.0)).status
                assert status in ("learned", "duplicate")
                done.release()

    done = threading.Semaphore(0)
    with Client(server.address) as client:
        client.put_policy("killed", "greedy", dim=2, epsilon=0.5)
    with ThreadPoolExecutor(threads) as pool:
        playing = [pool.submit(play, thread) for thread in range(threads - 1)]
        playing.append(pool.submit(asyncio.run, play_async("async")))
        for _ in range(2):
            for _ in range(rounds // 2):
                assert done.acquire(timeout=60)
            server.kill()
            server.start()
        for future in playing:
            future.result(timeout=120)
    with Client(server.address) as client:
        state = client.policy("killed")
        assert (state.counts.decisions, state.counts.rewards) == (rounds * threads,) * 2
        assert (state.pending, state.counts.conflicts, state.counts.late) == (0, 0, 0)


def test_the_migration_page_does_what_it_says(server: Process) -> None:
    page = (
        (Path(__file__).parent.parent / "docs" / "moving.md").read_text().partition("## Azure")[2]
    )
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    program = program.replace("http://127.0.0.1:8080", server.address).replace('"..."', "None")
    names: dict[str, Any] = {}
    exec(compile(program, "moving.md", "exec"), names)
    with names["client"] as client:
        assert client.policy("lunch").counts.rewards == 1
        (event,) = [
            one for one in client.events("lunch").events if one.event_id == "order-1" and one.arms
        ]
        assert event.context == {"time": "morning", "weather.rain": 0.2}


# --- a shop whose service is killed, paused or slow ---------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("what", ["killed", "paused", "slow"])
def test_no_call_waits_longer_than_its_budget_and_nothing_is_lost(
    server: Process, what: str, asynchronous: bool
) -> None:
    shop = outages.Shop(what)
    proxy = outages.Proxy(int(server.address.rpartition(":")[2]))
    begin, end = {
        "killed": (server.kill, server.start),
        "paused": (
            lambda: server.send_signal(signal.SIGSTOP),
            lambda: server.send_signal(signal.SIGCONT),
        ),
        "slow": (lambda: setattr(proxy, "delay_s", 0.6), lambda: setattr(proxy, "delay_s", 0.0)),
    }[what]

    def trouble() -> None:
        wait_until(lambda: len(shop.shown) >= 20)
        begin()
        try:
            wait_until(lambda: len(shop.told) >= 100)
        finally:
            end()
        answered = len(shop.shown) - len(shop.told)
        wait_until(lambda: len(shop.shown) - len(shop.told) >= answered + 20)

    url = proxy.url if what == "slow" else server.address
    left = outages.run(shop, url, trouble, visitors=4, asynchronous=asynchronous)
    proxy.close()
    lost = outages.lost(shop, server.address)
    assert (left, lost["decisions"], lost["rewards"]) == (0, 0, 0)
    assert set(shop.shown) == set(shop.brought)
    # benchmarks/outages.py measures how closely the budget is kept; here nobody may hang.
    assert max(shop.seconds) < HANGS_S
    if what == "slow":  # every answer came, and too late
        assert lost["corrected"]


def test_what_an_ended_process_could_not_send_the_next_one_sends(
    server: Process, make: Any, tmp_path: Path
) -> None:
    spool, event = tmp_path / "spool", f"spooled-{make.__name__}"
    with make(AWAY, spool=spool) as client:
        shown = client.decide(outages.POLICY, outages.ARMS, event_id=event, fallback="b")
        assert (shown.arm, shown.index, shown.caller_decided) == ("b", 1, True)
        assert client.reward(outages.POLICY, event, 1.0).status == "queued"
        with pytest.raises(ValueError, match="no other client"):
            make(AWAY, spool=spool)
    with spool.open("ab") as file:
        file.write(b'["decision", "shop", "tor')  # as if it had died while it wrote
    with make(server.address, spool=spool) as client:
        client.health()
        assert client.flush() == 0
        explained = client.explanation(outages.POLICY, event)
        assert (explained.index, explained.caller_decided) == (1, True)
        assert explained.outcome.value == 1.0
    assert spool.read_bytes() == b""


def test_a_process_that_was_forked_has_a_background_of_its_own(server: Process) -> None:
    program = (
        "import os, sys\n"
        "from driftbandits.client import Client\n"
        f"client = Client({server.address!r})\n"
        f"arms = {outages.ARMS!r}\n"
        "def decide(event):\n"
        f"    return client.decide({outages.POLICY!r}, arms, event_id=event, fallback='b',\n"
        "                         budget=30.0)\n"
        "assert not decide('before').caller_decided\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(int(decide('child').caller_decided))\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=100)


# --- answers that a healthy service never gives --------------------------------------------------


def test_after_some_failures_nobody_waits_any_more(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "driftbandits.client")
    with make(AWAY, queue=8) as client:
        for i in range(20):
            answer = client.decide(
                "news", ARMS, event_id=f"e{i}", baseline="a", fallback="baseline", budget=0.05
            )
            assert (answer.event_id, answer.arm, answer.caller_decided) == (f"e{i}", "a", True)
        assert client.unsent == 8  # what there is room for
        said = [record.getMessage() for record in caplog.records]
        assert sum("not asked until it answers" in line for line in said) == 1
        assert sum("others are lost" in line for line in said) == 1
    assert "8 calls were never sent" in caplog.records[-1].getMessage()


def accepting(accepted: list[dict[str, Any]] | None = None) -> Any:
    """Return an answer that takes whatever is asked, one by one or in a batch, and notes it."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        asked = body.get("decisions") or body.get("rewards") or [body]
        if accepted is not None:
            accepted.extend(asked)
        results = [
            {"status": 200, "reward": LEARNED}
            if "value" in one
            else {"status": 200, "decision": DECISION}
            for one in asked
        ]
        if asked == [body]:
            return 200, results[0].get("reward") or results[0]["decision"]
        return 200, {"results": results}

    return answer


def test_the_queue_finds_out_that_the_service_is_back(make: Any) -> None:
    """No visitor waits for a trial: while it is open only the queue asks."""
    busy = (503, problem("overloaded", "overloaded"), {"retry-after": "99"})
    with scripted(busy) as script, make(script.url) as client:
        for i in range(FAILURES):
            assert client.decide(
                "news", ARMS, event_id=f"e{i}", fallback="b", budget=30.0
            ).caller_decided
        before = len([r for r in script.requests if "played" not in str(r[2])])
        assert before == FAILURES
        assert client.decide(
            "news", ARMS, event_id="more", fallback="b", budget=30.0
        ).caller_decided
        script.answers[:] = [accepting()]
        assert client.flush() == 0
        assert not client.decide(
            "news", ARMS, event_id="e9", fallback="b", budget=30.0
        ).caller_decided
    asked = [body for _, _, body in script.requests if "decisions" not in body]
    assert [body["event_id"] for body in asked if "played" not in body] == ["e0", "e1", "e2", "e9"]


def test_rewards_go_behind_their_decisions(make: Any) -> None:
    busy = (503, problem("overloaded", "overloaded"), {"retry-after": "9"})
    with scripted(busy) as script, make(script.url) as client:
        client.decide("news", ARMS, event_id="e0", fallback="b")
        client.decide("news", ARMS, event_id="e1", fallback="b")
        assert client.reward("news", "e1", 1.0).status == "queued"  # without a budget too
        assert [r.status for r in client.reward_many("news", {"e0": 0.0, "x": 1.0})] == [
            "queued",
            "queued",
        ]
        accepted: list[dict[str, Any]] = []
        script.answers[:] = [accepting(accepted)]
        assert client.flush() == 0
    assert [one["event_id"] for one in accepted] == ["e0", "e1", "e1", "e0", "x"]
    assert [one["played"] for one in accepted[:2]] == ["b", "b"]


def test_a_request_that_is_refused_for_good_is_answered_and_not_queued(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    refused = (422, problem("x must have 3 numbers", "invalid", "$.arms[0].x"))
    with scripted(refused) as script, make(script.url) as client:
        assert client.decide("news", ARMS, fallback="b").arm == "b"
        assert client.reward("news", "e1", 1.0, budget=5.0).status == "refused"
        assert client.unsent == 0
    assert "x must have 3 numbers" in caplog.text


@pytest.mark.parametrize(
    "strange",
    [
        (200, b"<html>Welcome to the hotel's network</html>"),
        (404, b"<html>no such site here</html>"),
        (401, problem("no such key", "unknown_key")),
        (429, problem("later", "rate")),
    ],
)
def test_what_may_be_otherwise_later_is_queued(make: Any, strange: Any) -> None:
    with scripted(strange) as script, make(script.url) as client:
        assert client.decide("news", ARMS, fallback="b").caller_decided
        assert client.reward("news", "other", 1.0, budget=0.2).status == "queued"
        assert client.unsent == 2
        script.answers[:] = [(200, {**DECISION, **LEARNED})]
        assert client.flush() == 0


def test_one_bad_item_does_not_keep_the_others(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A batch that is refused as a whole is sent one by one."""
    busy = (503, problem("overloaded", "overloaded"), {"retry-after": "9"})
    malformed = (422, problem("x must have 3 numbers", "invalid", "$.decisions[1].arms[0].x"))
    with scripted(busy) as script, make(script.url) as client:
        for i in range(3):
            client.decide("news", ARMS, event_id=f"e{i}", fallback="b", budget=0.05)
        script.answers[:] = [malformed, (200, DECISION), malformed, (200, DECISION)]
        first = len(script.requests)
        wait_until(lambda: client.flush(0.1) == 0)
        sent = [body for _, _, body in script.requests[first:]]
    assert [one["event_id"] for one in sent[-3:]] == ["e0", "e1", "e2"]
    assert caplog.text.count("was refused") == 1


def test_a_spool_that_cannot_be_written_stops_nobody(
    make: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with scripted((503, problem("later", "overloaded"))) as script:
        client = make(script.url, spool=folder / "spool")
        with client:
            client.decide("news", ARMS, fallback="b", budget=0.05)
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
            script.answers[:] = [(200, DECISION)]
            assert client.flush() == 0
            assert not client.decide("news", ARMS, fallback="b").caller_decided
    assert "the spool cannot be written" in caplog.text


def test_a_spool_is_written_anew_when_most_of_it_was_sent(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    box = Queue(10_000, spool)
    for i in range(3000):
        box.put(Item("reward", "news", f"e{i}", b"{}"))
    box.done(("reward", "news"), 2990)
    assert len(spool.read_bytes().splitlines()) == 10
    box.put(Item("decision", "news", "last", b'{"a": 1}'))
    box.close()
    again = Queue(10_000, spool)
    assert len(again) == 11
    assert again.has_decision("news", "last")
    assert again.first(most=5, most_bytes=100) == [Item("decision", "news", "last", b'{"a": 1}')]
    again.close()


def test_wrong_arguments_are_told_at_once(make: Any) -> None:
    with make(AWAY) as client:
        for options, said in (
            ({"fallback": "z"}, "fallback must be the id of an arm"),
            ({"fallback": "baseline"}, "fallback must be the id of an arm"),
            ({"fallback": "a", "n": 2}, "fallback is one arm"),
            ({"fallback": "a", "budget": 0.0}, "budget must be"),
            ({"budget": 1.0}, "budget must not be given without fallback"),
        ):
            with pytest.raises(ValueError, match=said):
                client.decide("news", ARMS, **options)
        with pytest.raises(ValueError, match="budget must be"):
            client.reward("news", "e1", 1.0, budget=-1.0)
