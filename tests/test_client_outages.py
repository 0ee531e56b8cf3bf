"""A shop whose decision service is killed, paused, slow or strange."""

import importlib.util
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from driftbandits.client import Client
from driftbandits.client.queue import FAILURES
from scripts import Waited, problem, scripted
from servers import wait_until

_spec = importlib.util.spec_from_file_location(
    "outages", Path(__file__).parents[1] / "benchmarks" / "outages.py"
)
assert _spec is not None
assert _spec.loader is not None
outages: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(outages)

ARMS = {"a": [1.0, 0.0], "b": [0.0, 0.5]}
DECISION = {
    "event_id": "e1",
    "arm": "a",
    "index": 0,
    "round": 1,
    "propensity": 1.0,
    "scores": [0.5, 0.75],
    "model_seq": 1,
}
LEARNED = {"status": "learned"}
HANGS_S = 30.0
"""benchmarks/outages.py measures how closely a budget is kept; here nobody may hang."""
AWAY = "http://127.0.0.1:9"  # nobody listens to the port of `discard`


@pytest.fixture(params=[Client, Waited], ids=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


# --- real servers --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    server = outages.Server(tmp_path_factory.mktemp("shop"))
    with Client(server.url) as client:
        client.put_policy(outages.POLICY, "D-GLUCB", dim=2, discount=0.99, epsilon=0.1)
    yield server
    server.kill()


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("what", ["killed", "paused", "slow"])
def test_no_call_waits_longer_than_its_budget_and_nothing_is_lost(
    server: Any, what: str, asynchronous: bool
) -> None:
    shop = outages.Shop(what)
    proxy = outages.Proxy(server.port)
    begin, end = {
        "killed": (server.kill, server.start),
        "paused": (server.pause, server.go_on),
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

    url = proxy.url if what == "slow" else server.url
    left = outages.run(shop, url, trouble, visitors=4, asynchronous=asynchronous)
    proxy.close()
    lost = outages.lost(shop, server.url)
    assert (left, lost["decisions"], lost["rewards"]) == (0, 0, 0)
    assert set(shop.shown) == set(shop.brought)
    # benchmarks/outages.py measures how closely the budget is kept; here nobody may hang.
    assert max(shop.seconds) < HANGS_S
    if what == "slow":  # every answer came, and too late
        assert lost["corrected"]


def test_what_an_ended_process_could_not_send_the_next_one_sends(
    server: Any, make: Any, tmp_path: Path
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
    with make(server.url, spool=spool) as client:
        client.health()
        assert client.flush() == 0
        explained = client.explanation(outages.POLICY, event)
        assert (explained.index, explained.caller_decided) == (1, True)
        assert explained.outcome.value == 1.0
    assert spool.read_bytes() == b""


def test_a_process_that_was_forked_has_a_background_of_its_own(server: Any) -> None:
    program = (
        "import os, sys\n"
        "from driftbandits.client import Client\n"
        f"client = Client({server.url!r})\n"
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
    from driftbandits.client.queue import Item, Queue

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
