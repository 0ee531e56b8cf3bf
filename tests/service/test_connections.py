"""Requests as they come over the wire: in order, in pieces, slowly, and too large."""

import json
import socket
import time
from urllib.parse import urlsplit

import pytest
from calls import NEWS, arms, configure, decide, ok, problem, raw, reward

from driftbandits.service import connections
from driftbandits.service.limits import Limits
from servers import Served


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


def test_a_long_row_of_requests_is_answered_to_the_end(served):
    """Each is refused at once; none stands on the shoulders of the one before."""
    row = spoken("GET", "/nothing") * 3000 + spoken("GET", "/healthz", b"", "connection: close")
    answers = heard(served, row)
    assert [status for status, _ in answers] == [404] * 3000 + [200]


def test_bytes_that_are_no_request_are_the_last(served):
    """Who sent good ones before gets their answers."""
    asked = json.dumps({"event_id": "n1", "arms": arms()}).encode()
    good = spoken("POST", f"{NEWS}/decisions", asked)
    ((status, content),) = heard(served, b"no request\r\n\r\n")
    assert (status, json.loads(content)["error"]["code"]) == (400, "malformed")
    assert [status for status, _ in heard(served, good + b"no request\r\n\r\n")] == [200]
    assert [status for status, _ in heard(served, good, b"no request\r\n\r\n")] == [200, 400]
    chunked = spoken("POST", f"{NEWS}/decisions", asked, "transfer-encoding: chunked")
    broken = chunked.removesuffix(b"0\r\n\r\n") + b"no chunk\r\n"
    assert [status for status, _ in heard(served, broken)] == [400]
    assert [status for status, _ in heard(served, good + broken)] == [200]


def test_nothing_is_upgraded(served):
    asked = spoken("GET", "/healthz", b"", "upgrade: websocket", "connection: upgrade")
    answers = heard(served, asked + b"\x00\x01\x02")
    assert [status for status, _ in answers] == [200]


def test_an_old_version_gets_one_answer(served):
    request = spoken("GET", "/healthz").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert [status for status, _ in heard(served, request * 2)] == [200]


def test_who_may_not_come_in_is_told_before_the_body(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db", with_keys=True) as service:
        whole = spoken("POST", f"{NEWS}/decisions:batch", b" " * 1_000_000, "connection: close")
        head, _, _ = whole.partition(b"\r\n\r\n")
        assert [status for status, _ in heard(service, head + b"\r\n\r\n")] == [401]


def test_a_body_in_many_pieces(served):
    """A chunk a byte."""
    body = json.dumps({"event_id": "c1", "arms": arms()}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    headers = ("transfer-encoding: chunked", "connection: close")
    head, _, _ = spoken("POST", f"{NEWS}/decisions", b"", *headers).partition(b"\r\n\r\n")
    assert [status for status, _ in heard(served, head + b"\r\n\r\n" + chunks)] == [200]


def test_who_sends_all_before_it_reads_hears_why_it_was_refused(served):
    """As proxies do: a closed door would take the answer away with what was still being sent."""
    address = urlsplit(served.address)
    body = b" " * 6_000_000
    for _ in range(20):
        with socket.create_connection((address.hostname, address.port), timeout=20.0) as caller:
            caller.sendall(spoken("POST", f"{NEWS}/decisions", body))
            assert caller.makefile("rb").read().startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(("most_bytes", "longest_s"), [(1_000_000, 60.0), (1 << 60, 0.2)])
def test_a_refused_caller_is_not_listened_to_for_ever(served, monkeypatch, most_bytes, longest_s):
    monkeypatch.setattr(connections, "MOST_DISCARDED_BYTES", most_bytes)
    monkeypatch.setattr(connections, "LONGEST_DISCARDING_S", longest_s)
    address = urlsplit(served.address)
    with socket.create_connection((address.hostname, address.port), timeout=20.0) as caller:
        head = f"POST {NEWS}/decisions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000000"
        caller.sendall(f"{head}\r\n\r\n".encode())

        def send_for_ever():
            while True:
                caller.sendall(b" " * 1000)

        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send_for_ever()
