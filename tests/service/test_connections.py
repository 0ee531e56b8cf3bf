"""Requests as they come over the wire: in order, in pieces, slowly, and too large."""

import json
import socket

import pytest
from calls import NEWS, arms, configure, decide, ok, problem, raw, reward

from driftbandits.service import Limits, server
from servers import Served, wait_until
from wire import LAST, answers_of, connected, spoken


def asking(event_id, *headers):
    body = json.dumps({"event_id": event_id, "arms": arms()}).encode()
    return spoken("POST", f"{NEWS}/decisions", body, *headers)


def heard(served, *parts, half_closed=False):
    """What a connection answers to these parts, each of which it parses before the next comes."""
    with connected(served) as caller:
        for part in parts:
            caller.sendall(part)
            served.client.get("/healthz")  # which a turn of the loop answers
        if half_closed:
            caller.shutdown(socket.SHUT_WR)
        return answers_of(caller)


def statuses(served, *parts, **more):
    return [status for status, _ in heard(served, *parts, **more)]


def connections_of(served):
    return served.server.uvicorn.server_state.connections


def at(served, later_s):
    """Let the server look at the clock when it is so much later."""
    loop = served.service.engine._loop

    def look():
        for connection in list(connections_of(served)):
            connection.look_at_the_clock(loop.time() + later_s)

    loop.call_soon_threadsafe(look)


# -- order -----------------------------------------------------------------------------------------


def test_requests_of_one_connection_are_answered_in_their_order(served):
    told = b'{"event_id": "p1", "value": 1}'
    requests = [
        asking("p1"),
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


def test_who_ends_its_side_hears_all_answers(served):
    """In their order, and then the connection ends."""
    row = b"".join(asking(f"h{i}") for i in range(40))
    answers = heard(served, row, half_closed=True)
    assert [json.loads(content)["event_id"] for _, content in answers] == [
        f"h{i}" for i in range(40)
    ]
    assert statuses(served, asking("i1") + asking("i2")[:-5], half_closed=True) == [200]
    assert statuses(served, half_closed=True) == []


def test_a_long_row_of_requests_is_answered_to_the_end(served):
    row = spoken("GET", "/nothing") * 3000 + LAST
    assert statuses(served, row) == [404] * 3000 + [200]


def test_bytes_that_are_no_request_are_the_last(served):
    """Who sent good ones before gets their answers."""
    for noise in (b"no request", b"\x00\x01\x02", b"GET", b"\x16\x03\x01\x02"):
        ((status, content),) = heard(served, noise + b"\r\n\r\n")
        assert (status, json.loads(content)["error"]["code"]) == (400, "malformed")
    good = asking("n1")
    assert statuses(served, good + b"no request\r\n\r\n") == [200]
    with connected(served) as caller:
        caller.sendall(good)
        assert caller.recv(65536).startswith(b"HTTP/1.1 200 ")
        caller.sendall(b"no request\r\n\r\n")
        assert [status for status, _ in answers_of(caller)] == [400]
    chunked = asking("n1", "transfer-encoding: chunked")
    broken = chunked.removesuffix(b"0\r\n\r\n") + b"no chunk\r\n"
    assert statuses(served, broken) == [400]
    assert statuses(served, good + broken) == [200]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (["host: a", "host: a"], "malformed"),
        ([], "malformed"),
        (["host: a", "transfer-encoding: gzip, chunked"], "malformed"),
        (["host: a", "transfer-encoding: gzip"], "malformed"),
        (["host: a", "transfer-encoding: chunked", "content-length: 5"], "malformed"),
        (["host: a", "content-length: 5", "content-length: 6"], "malformed"),
    ],
)
def test_heads_that_mean_two_things(served, headers, code):
    """A proxy before the service may read them otherwise."""
    lines = [f"POST {NEWS}/rewards HTTP/1.1", *headers, "", ""]
    ((status, content),) = heard(served, "\r\n".join(lines).encode())
    assert (status, json.loads(content)["error"]["code"]) == (400, code)


def test_an_encoded_slash_is_part_of_a_name(served):
    ok(decide(served.client, "a/b"))
    for path in (f"{NEWS}%2Fdecisions", f"/v1%2fpolicies/{NEWS}", f"{NEWS}%2F..%2Folds/digest"):
        assert served.client.post(path, json={}).status_code == 404
    for event_id in ("a/b", "a%2Fb"):
        found = ok(served.client.get(f"{NEWS}/explanations/{event_id}"))
        assert found["decision"]["event_id"] == "a/b"


def test_an_old_version_gets_one_answer(served):
    request = spoken("GET", "/healthz").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert statuses(served, request * 2) == [200]


def test_a_caller_may_wait_for_leave_to_send_its_body(served):
    whole = asking("w1", "expect: 100-continue", "connection: close")
    head, _, body = whole.partition(b"\r\n\r\n")
    assert statuses(served, head + b"\r\n\r\n", body) == [100, 200]


def test_a_body_in_many_pieces(served):
    """A chunk a byte."""
    body = json.dumps({"event_id": "c1", "arms": arms()}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    headers = ("transfer-encoding: chunked", "connection: close")
    head, _, _ = spoken("POST", f"{NEWS}/decisions", b"", *headers).partition(b"\r\n\r\n")
    assert statuses(served, head + b"\r\n\r\n" + chunks) == [200]


# -- other protocols -------------------------------------------------------------------------------

OFFERS = (
    ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQ"),
    ("connection: upgrade", "upgrade: websocket"),
)


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("cut", [None, "head", "middle"])
def test_an_offer_to_upgrade_is_ignored(served, offer, cut):
    """The body belongs to the request, in whichever pieces it comes."""
    whole = asking("u1", *offer)
    at = {None: len(whole), "head": whole.index(b"\r\n\r\n") + 4, "middle": len(whole) - 20}[cut]
    answers = heard(served, whole[:at], whole[at:], LAST)
    assert [status for status, _ in answers] == [200, 200]
    assert json.loads(answers[0][1])["event_id"] == "u1"


def test_a_body_is_never_run_as_a_request(served):
    inner = spoken("GET", "/nothing")
    outer = spoken("POST", f"{NEWS}/decisions", inner, *OFFERS[0])
    assert statuses(served, outer[: -len(inner)], outer[-len(inner) :], LAST) == [400, 200]


def test_many_offers_in_a_row(served):
    row = spoken("GET", "/nothing", b"", *OFFERS[1]) * 500
    assert statuses(served, row + LAST) == [404] * 500 + [200]


def test_nothing_is_tunnelled(served):
    asked = b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n"
    assert statuses(served, asked) == [400]


# -- size ------------------------------------------------------------------------------------------


def test_limits_each_with_its_own_answer(tmp_path):
    limits = Limits(body_bytes=5000, pending_per_key=2, rate_per_key=None)
    with Served(f"sqlite:///{tmp_path}/log.db", limits=limits) as service:
        client = service.client
        configure(client)
        refused = problem(raw(client, " " * 5001), 413)
        assert refused["code"] == "too_large"
        assert "5000" in refused["message"]

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


def test_who_may_not_come_in_is_told_before_the_body(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db", with_keys=True) as service:
        whole = spoken("POST", f"{NEWS}/decisions:batch", b" " * 1_000_000, "connection: close")
        head, _, _ = whole.partition(b"\r\n\r\n")
        assert statuses(service, head + b"\r\n\r\n") == [401]


def test_who_sends_all_before_it_reads_hears_why_it_was_refused(served):
    """As proxies do: a closed door would take the answer away with what was still being sent."""
    body = b" " * 6_000_000
    for _ in range(5):
        with connected(served) as caller:
            caller.sendall(spoken("POST", f"{NEWS}/decisions", body))
            ((status, content),) = answers_of(caller)
            assert (status, json.loads(content)["error"]["code"]) == (413, "too_large")


def test_a_refused_caller_is_not_listened_to_for_ever(served, monkeypatch):
    monkeypatch.setattr(server, "MOST_DISCARDED_BYTES", 1_000_000)
    with connected(served) as caller:
        head = f"POST {NEWS}/decisions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000000"
        caller.sendall(f"{head}\r\n\r\n".encode())
        with pytest.raises((ConnectionResetError, BrokenPipeError)):  # noqa: PT012
            while True:
                caller.sendall(b" " * 1000)


# -- time ------------------------------------------------------------------------------------------


def test_who_is_slow_is_cut_off(served):
    """Silent callers, dripped heads, and who listens to nothing after its last answer."""
    whole = asking("s1")
    with connected(served) as silent, connected(served) as slow, connected(served) as refused:
        slow.sendall(whole[:40])
        refused.sendall(b"no request\r\n\r\n" + b" " * 100)
        wait_until(lambda: len(connections_of(served)) >= 4)
        served.client.get("/healthz")
        at(served, server.LONGEST_DISCARDING_S + 1.0)
        assert [status for status, _ in answers_of(refused)] == [400]
        at(served, server.REQUEST_TIMEOUT_S - 1.0)
        slow.sendall(whole[40:50])  # a byte now and then gives no more time
        at(served, server.REQUEST_TIMEOUT_S + 1.0)
        assert silent.recv(10) == slow.recv(10) == b""
    ok(decide(served.client, "e1"))


def test_who_rests_too_long_is_cut_off(served):
    with connected(served) as caller:
        caller.sendall(spoken("GET", "/healthz"))
        assert caller.recv(65536).startswith(b"HTTP/1.1 200 ")
        at(served, server.KEEP_ALIVE_S - 1.0)
        caller.sendall(spoken("GET", "/healthz"))
        assert caller.recv(65536).startswith(b"HTTP/1.1 200 ")
        at(served, server.KEEP_ALIVE_S + 1.0)
        assert caller.recv(10) == b""


def test_a_slow_body_is_refused(served):
    with connected(served) as caller:
        caller.sendall(asking("s1")[:-10])
        wait_until(lambda: any(not each._is_in_head for each in connections_of(served)))
        at(served, server.REQUEST_TIMEOUT_S - 1.0)
        at(served, server.REQUEST_TIMEOUT_S + 1.0)
        ((status, content),) = answers_of(caller)
    assert (status, json.loads(content)["error"]["code"]) == (408, "too_slow")
    with served.connect(None) as another:  # the first one has rested too long
        ok(decide(another, "e1"))


def test_who_is_late_with_the_second_request_still_gets_the_first_answer(served, monkeypatch):
    """Nobody is cut off while an answer is on its way."""
    begun = served.service.engine
    do, held = begun.do, []

    def hold(command):
        held.append(command)
        return do(command)

    monkeypatch.setattr(begun, "do", hold)
    with connected(served) as caller:
        caller.sendall(asking("l1") + asking("l2")[:-1])
        wait_until(lambda: bool(held))
        at(served, server.REQUEST_TIMEOUT_S + 1.0)
        caller.shutdown(socket.SHUT_WR)
        first, *others = (status for status, _ in answers_of(caller))
    assert first == 200
    assert others in ([], [408])  # 408 if the first answer was out before the time was up
