"""Callers that want more than their share: of memory, of the loop, of everybody's patience.

Each case is counted in bytes, requests and turns; seconds only guard against hanging.
"""

import json
import re
import socket
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from calls import NEWS, configure, decide, ok, problem
from test_connections import connections_of, heard

from driftbandits import api
from driftbandits.service import bodies, server
from driftbandits.service.auth import Limits, Room
from driftbandits.service.refusals import Refused
from servers import Process, Served, wait_until
from wire import connected, spoken

# -- heads -----------------------------------------------------------------------------------------


def pushed(served, beginning, again, most):
    """What one who sends `again` and again is told, and how many bytes were taken from it."""
    with connected(served) as caller:
        sent = len(beginning)
        with suppress(OSError):
            caller.sendall(beginning)
            while sent < most:
                caller.sendall(again)
                sent += len(again)
            caller.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            return caller.recv(65536), sent
        return b"", sent


MEGABYTES = 30_000_000
CHUNKED = f"POST {NEWS}/decisions HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"
ENDLESS = {
    "url": (b"GET /", b"a" * 65536),
    "one header": (b"GET / HTTP/1.1\r\nhost: ", b"a" * 65536),
    "header name": (b"GET / HTTP/1.1\r\n", b"a" * 65536),
    "many headers": (b"GET / HTTP/1.1\r\nhost: a\r\n", b"a: b\r\n" * 10_000),
    "chunk extension": (CHUNKED.encode() + b"1;", b"a" * 65536),
    "trailers": (CHUNKED.encode() + b"0\r\n", b"a: b\r\n" * 10_000),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_never_ends_is_refused(served, name):
    """Long before the sockets' own buffers could hold what is still to come."""
    told, sent = pushed(served, *ENDLESS[name], MEGABYTES)
    assert sent < MEGABYTES
    assert told[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 400", b"")
    ok(decide(served.client, "after"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((f"a: {'b' * (server.MOST_HEAD_BYTES // 2)}",), 200),
        ((f"a: {'b' * 2 * server.MOST_HEAD_BYTES}",), 431),
        (tuple(f"a{i}: b" for i in range(server.MOST_HEADERS - 3)), 200),
        (tuple(f"a{i}: b" for i in range(server.MOST_HEADERS + 1)), 431),
    ],
)
def test_heads_have_a_size(served, headers, status):
    request = spoken("GET", "/healthz", b"", *headers, "connection: close")
    ((given, content),) = heard(served, request)
    assert given == status
    if status != 200:
        assert json.loads(content)["error"]["code"] == "head_too_large"


# -- bodies ----------------------------------------------------------------------------------------


def nested(depth, key):
    """A decision whose context is nested."""
    context = f'{{"{key}": ' * depth + "1" + "}" * depth
    return f'{{"event_id": "e", "arms": ["a", "b"], "context": {context}}}'.encode()


def peak_kb(process):
    text = Path(f"/proc/{process._process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1])


def test_a_nested_body_takes_no_memory(tmp_path):
    """Three at once, each of 1.8 MB in 900 objects, from a writer."""
    process = Process(f"sqlite:///{tmp_path}/log.db", "--no-auth")
    try:
        body = nested(900, "k" * 2000)
        before = peak_kb(process)
        request = spoken("POST", f"{NEWS}/decisions", body, "connection: close")
        address = process.address.removeprefix("http://").split(":")
        callers = [socket.create_connection((address[0], int(address[1]))) for _ in range(3)]
        for caller in callers:
            caller.sendall(request)
        for caller in callers:
            assert caller.recv(65536).startswith(b"HTTP/1.1 400 ")
            caller.close()
        assert peak_kb(process) - before < 60_000
    finally:
        process.kill()


@pytest.mark.parametrize("within", ['"{{{{"', '"]]]]\\""', '"\\\\"'])
def test_depth_is_counted_without_strings(within):
    """What stands in texts opens and closes nothing."""
    decoder = msgspec.json.Decoder(api.DecisionRequest)
    for depth, is_refused in ((bodies.MOST_DEPTH - 1, False), (bodies.MOST_DEPTH, True)):
        inner = f"[{', '.join([within] * 40)}]"
        around = depth - 1
        context = '{"k": ' * around + inner + "}" * around
        text = f'{{"event_id": "e", "arms": ["a"], "context": {context}}}'
        if is_refused:
            with pytest.raises(Refused, match="deep"):
                bodies.decoded(text.encode(), decoder)
        else:
            bodies.decoded(text.encode(), decoder)


def test_texts_that_do_not_end_take_one_pass():
    """A pattern that looked again from every quote would not come back."""
    raw = b'{"a": [' + b"[" * 100 + b'"' + b'\\"' * 500_000
    with pytest.raises(Refused):
        bodies.decoded(raw, msgspec.json.Decoder(api.DecisionRequest))


@pytest.mark.parametrize(
    ("text", "is_fine"),
    [
        ('{"event_id": "e", "arms": ["a"], "context": {"k": "\\"", "l": ["x", null]}}', True),
        (
            '{"event_id": "e", "arms": ["a"], "baseline": null, "context": {"k\\\\": "\\u00e9"}}',
            True,
        ),
        ('{"event_id": "e", "arms": ["a"], "context": {"k": 1, "\\u006b": 2}}', False),
        ('{"event_id": "e", "arms": ["a"], "context": {"k": {"l": "m"}, "k": 1}}', False),
    ],
)
def test_equal_keys_are_found_in_free_forms(text, is_fine, monkeypatch):
    """And the slow decoder is asked for nothing that is in order."""
    decoder = msgspec.json.Decoder(api.DecisionRequest)
    if is_fine:
        monkeypatch.setattr(bodies, "_refuse_flaws", None)
        bodies.decoded(text.encode(), decoder)
    else:
        with pytest.raises(Refused, match="stands twice"):
            bodies.decoded(text.encode(), decoder)
        padded = text.replace("}}", "}" + " " * 100_000 + "}").encode()
        with pytest.raises(Refused, match="stands twice"):
            bodies.decoded(padded, decoder)


def test_invalid_bodies_do_not_hold_the_loop(served, monkeypatch):
    """They are decoded one at a time beside it, and nobody looks for long what is wrong."""
    names, decoded = [], bodies.decoded

    def noted(*arguments):
        names.append(threading.current_thread().name)
        return decoded(*arguments)

    monkeypatch.setattr("driftbandits.service.endpoints.decoded", noted)
    monkeypatch.setattr(bodies.json, "loads", None)
    body = b'{"event_id": "e", "arms": [' + b"[1, 2], " * 250_000 + b"NaN]}"
    request = spoken("POST", f"{NEWS}/decisions", body)
    callers = [connected(served) for _ in range(3)]
    for caller in callers:
        caller.sendall(request)
        assert served.client.get("/healthz").status_code == 200
    for caller in callers:
        assert caller.recv(65536).startswith(b"HTTP/1.1 4")
        caller.close()
    assert set(names) == {"bodies_0"}


def test_room_is_counted_in_bytes():
    room = Room(1000)
    room.take("a", 5000)  # one body always has room
    with pytest.raises(Refused, match="5000 bytes of other requests"):
        room.take("b", 1)
    room.give_back("a", 5000)
    room.take("a", 400)
    with pytest.raises(Refused, match="400 bytes of this key"):
        room.take("a", 101)
    room.take("b", 500)
    room.give_back("a", 400)
    room.give_back("b", 500)
    assert room.taken == 0


def test_bodies_that_wait_have_a_limit(tmp_path):
    """As many as there is room for are let in; the rest is told to come again."""
    limits = Limits(body_bytes=100_000, waiting_bytes=200_000)
    with Served(f"sqlite:///{tmp_path}/log.db", limits=limits) as service:
        configure(service.client)
        room = service.service.room
        head = spoken("POST", f"{NEWS}/decisions").replace(b"length: 0", b"length: 90000")
        callers = [connected(service) for _ in range(4)]
        first, *others = callers
        first.sendall(head)
        wait_until(lambda: room.taken == 90_000)
        for other in others:  # without keys all of them are one caller
            other.sendall(head)
            answer = other.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 1" in answer
        first.close()
        wait_until(lambda: room.taken == 0)
        for other in others:
            other.close()
        ok(decide(service.client, "e1"))
        assert room.taken == 0


# -- a share of the loop ---------------------------------------------------------------------------


def test_a_row_of_requests_takes_a_turn_each(served):
    """Others are answered while one caller's row is; few of it are parsed before."""
    rows, waiting = spoken("GET", "/nothing") * 20_000, []
    with connected(served) as caller:
        caller.setblocking(False)
        sent = answered = 0
        while answered < 20_000:
            with suppress(BlockingIOError):
                sent += caller.send(rows[sent:])
            with suppress(BlockingIOError):
                answered += caller.recv(1 << 20).count(b"HTTP/1.1 404")
            if answered < 20_000:
                assert served.client.get("/healthz").status_code == 200
                waiting += [len(connection.pipeline) for connection in list(connections_of(served))]
    assert max(waiting) <= server._SLICE_OF_HEADS // len(spoken("GET", "/nothing")) + 1


def test_who_does_not_read_holds_little(served):
    """What the server holds for a caller that takes no answer is what its buffers hold."""
    with connected(served) as caller:
        caller.settimeout(0.5)
        with suppress(TimeoutError):
            for _ in range(20_000):
                caller.sendall(spoken("GET", "/openapi.json"))
        held = list(connections_of(served))
        assert max(each.wire.get_write_buffer_size() for each in held) < 1_000_000
        assert max(len(each.unparsed) for each in held) < 1_000_000
        loop = served.service.engine._loop

        def look(later_s):
            for each in held:
                each.look_at_the_clock(loop.time() + later_s)

        loop.call_soon_threadsafe(look, 0.0)
        loop.call_soon_threadsafe(look, server.REQUEST_TIMEOUT_S + 1.0)
        wait_until(lambda: not any(each.flow.write_paused for each in connections_of(served)))
    ok(decide(served.client, "after"))


def test_refusals_have_one_form(served):
    """Whoever says no: the parser, the endpoint, the route."""
    asked = [b"no request\r\n\r\n", spoken("GET", "/none"), spoken("POST", NEWS, b"{}")]
    for request in asked:
        with connected(served) as caller:
            caller.sendall(request)
            head, _, content = caller.recv(65536).partition(b"\r\n\r\n")
            assert b"content-type: application/json" in head
            assert set(json.loads(content)["error"]) >= {"code", "message"}
    assert problem(served.client.post("/v1/policies", json={}), 405)
