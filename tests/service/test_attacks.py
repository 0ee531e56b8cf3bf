"""Callers that want more than their share: of memory, of the loop, of everybody's patience.

Each case is counted in bytes, requests and turns; seconds only guard against hanging.
"""

import asyncio
import json
import socket
from urllib.parse import urlsplit

import pytest
from calls import NEWS, arms, configure, decide, ok, problem
from test_connections import heard, spoken

from driftbandits.service import connections, parsing
from driftbandits.service.limits import Limits, Room
from driftbandits.service.refusals import Refused
from servers import Served, wait_until

# -- heads -----------------------------------------------------------------------------------------


def connected(served):
    address = urlsplit(served.address)
    return socket.create_connection((address.hostname, address.port), timeout=60.0)


def pushed(served, beginning, again, most):
    """What one who sends `again` and again is told, and how many bytes were taken from it."""
    with connected(served) as caller:
        sent = len(beginning)
        try:
            caller.sendall(beginning)
            while sent < most:
                caller.sendall(again)
                sent += len(again)
            caller.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        try:
            return caller.recv(65536), sent
        except OSError:
            return b"", sent


MEGABYTES = 30_000_000
ENDLESS = {
    "url": (b"GET /", b"a" * 65536),
    "one header": (b"GET / HTTP/1.1\r\nhost: ", b"a" * 65536),
    "header name": (b"GET / HTTP/1.1\r\n", b"a" * 65536),
    "many headers": (b"GET / HTTP/1.1\r\nhost: a\r\n", b"a: b\r\n" * 10_000),
    "chunk extension": (
        f"POST {NEWS}/decisions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        "transfer-encoding: chunked\r\n\r\n1;".encode(),
        b"a" * 65536,
    ),
    "trailers": (
        f"POST {NEWS}/decisions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        "transfer-encoding: chunked\r\n\r\n0\r\n".encode(),
        b"a: b\r\n" * 10_000,
    ),
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
        ((f"a: {'b' * (parsing.MOST_HEAD_BYTES // 2)}",), 200),
        ((f"a: {'b' * 2 * parsing.MOST_HEAD_BYTES}",), 431),
        (tuple(f"a{i}: b" for i in range(parsing.MOST_HEADERS - 3)), 200),
        (tuple(f"a{i}: b" for i in range(parsing.MOST_HEADERS + 1)), 431),
    ],
)
def test_heads_have_a_size(served, headers, status):
    request = spoken("GET", "/healthz", b"", *headers, "connection: close")
    ((given, content),) = heard(served, request)
    assert given == status
    if status != 200:
        assert json.loads(content)["error"]["code"] == "head_too_large"


# -- a share of the loop ---------------------------------------------------------------------------


class Written(asyncio.Transport):
    """A transport whose other end reads, or takes nothing unless told to."""

    def __init__(self, *, is_read):
        super().__init__()
        self.held = b""
        self.answers = 0
        self.is_read = is_read
        self.is_paused = False
        self.protocol = None

    def set_write_buffer_limits(self, high=None, low=None):
        self.high = high

    def get_write_buffer_size(self):
        return len(self.held)

    def write(self, data):
        self.answers += data.startswith(b"HTTP/1.1 ")
        self.held = b"" if self.is_read else self.held + data
        if len(self.held) > self.high:
            self.protocol.pause_writing()

    def let_go(self):
        held, self.held = self.held, b""
        if len(held) > self.high:
            self.protocol.resume_writing()
        return held

    def pause_reading(self):
        self.is_paused = True

    def resume_reading(self):
        self.is_paused = False

    def is_closing(self):
        return False

    def close(self):
        raise AssertionError("nobody asked for that")


def talked(application, scenario, *, is_read=True):
    """Run a scenario(connection, transport) in a loop of its own."""

    async def run():
        connection = connections.Connection(application, set())
        transport = Written(is_read=is_read)
        transport.protocol = connection
        connection.connection_made(transport)
        await scenario(connection, transport)

    asyncio.run(run())


def application_of(served):
    return served.service._server._application


def test_a_row_of_requests_takes_a_turn_each(served):
    """Between two of one connection everybody else has a turn of the loop."""

    async def scenario(connection, transport):
        connection.data_received(spoken("DELETE", "/healthz") * 2000)
        for turn in range(1, 2000):
            assert transport.answers <= turn, "more than one in a turn"
            assert transport.is_paused, "more is read while some wait"
            await asyncio.sleep(0)
        for _ in range(200):  # those in which a slice is parsed
            await asyncio.sleep(0)
        assert transport.answers == 2000
        assert not transport.is_paused

    talked(application_of(served), scenario)


def test_heads_are_parsed_a_slice_at_a_time(served):
    """However much comes at once, few of it become requests before others have had their turn."""

    async def scenario(connection, transport):
        request = spoken("DELETE", "/healthz")
        connection.data_received(request * 7000)
        most = connections._SLICE_OF_HEADS // len(request) + 1
        assert len(connection._waiting) <= most
        while transport.answers < 7000:
            await asyncio.sleep(0)
            assert len(connection._waiting) <= most

    talked(application_of(served), scenario)


@pytest.mark.parametrize("path", ["/openapi.json", "/nothing"])
def test_who_does_not_read_is_not_answered(served, path):
    """What waits for it stays below the limit and one answer."""

    async def scenario(connection, transport):
        connection.data_received(spoken("GET", path) * 2000)
        for _ in range(4000):
            await asyncio.sleep(0)
        first = len(transport.held)
        one = len(transport.held) // transport.held.count(b"HTTP/1.1 ")
        assert connections.MOST_UNREAD_BYTES < first <= connections.MOST_UNREAD_BYTES + one
        assert transport.is_paused
        answers = 0
        while answers < 2000:
            answers += transport.let_go().count(b"HTTP/1.1 ")
            for _ in range(50):
                await asyncio.sleep(0)
            assert len(transport.held) <= connections.MOST_UNREAD_BYTES + one
        assert answers == 2000

    talked(application_of(served), scenario, is_read=False)


def test_who_does_not_read_holds_little(served):
    """The same over a real socket: what the server holds is what its buffers hold."""
    connection_of = served.service._server._connections
    with connected(served) as caller:
        caller.settimeout(0.5)
        try:
            for _ in range(20_000):
                caller.sendall(spoken("GET", "/openapi.json"))
        except TimeoutError:
            pass
        sizes = [each._transport.get_write_buffer_size() for each in list(connection_of)]
        unparsed = [len(each._unparsed) for each in list(connection_of)]
    assert max(sizes) < 1_000_000
    assert max(unparsed) < 1_000_000
    ok(decide(served.client, "after"))


def test_refusals_stand_on_no_shoulders(served):
    """A transport that resumes while it writes: the depth of calls does not grow with the row."""

    class Resuming(Written):
        def write(self, data):
            self.answers += 1
            self.protocol.pause_writing()
            self.protocol.resume_writing()

    async def scenario(connection, transport):
        transport.__class__ = Resuming
        connection.data_received(spoken("DELETE", "/healthz") * 5000)
        for _ in range(6000):
            await asyncio.sleep(0)
        assert transport.answers == 5000

    talked(application_of(served), scenario)


# -- bytes that wait -------------------------------------------------------------------------------


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
        room = application_of(service)._endpoints["/v1/policies/{policy}/decisions"]._gate.room
        head = spoken("POST", f"{NEWS}/decisions").replace(b"length: 0", b"length: 90000")
        callers = [connected(service) for _ in range(4)]
        first, *others = callers
        first.sendall(head)
        wait_until(lambda: room.taken == 90_000)
        for other in others:  # without keys all of them are one caller
            other.sendall(head)
            assert other.recv(65536).startswith(b"HTTP/1.1 503")
        first.close()
        wait_until(lambda: room.taken == 0)
        for other in others:
            other.close()
        ok(decide(service.client, "e1"))
        assert room.taken == 0


# -- upgrades --------------------------------------------------------------------------------------

OFFERS = (
    ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQ"),
    ("connection: upgrade", "upgrade: websocket"),
)


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("cut", [None, "head", "middle"])
def test_an_offer_to_upgrade_is_ignored(served, offer, cut):
    """The body belongs to the request, in whichever pieces it comes."""
    asked = json.dumps({"event_id": "u1", "arms": arms()}).encode()
    whole = spoken("POST", f"{NEWS}/decisions", asked, *offer)
    at = {None: len(whole), "head": whole.index(b"\r\n\r\n") + 4, "middle": len(whole) - 20}[cut]
    last = spoken("GET", "/healthz", b"", "connection: close")
    answers = heard(served, whole[:at], whole[at:], last)
    assert [status for status, _ in answers] == [200, 200]
    assert json.loads(answers[0][1])["event_id"] == "u1"


def test_a_body_is_never_run_as_a_request(served):
    inner = spoken("GET", "/nothing")
    outer = spoken("POST", f"{NEWS}/decisions", inner, *OFFERS[0])
    last = spoken("GET", "/healthz", b"", "connection: close")
    answers = heard(served, outer[: -len(inner)], outer[-len(inner) :], last)
    assert [status for status, _ in answers] == [400, 200]


def test_many_offers_in_a_row(served):
    row = spoken("GET", "/nothing", b"", *OFFERS[1]) * 500
    answers = heard(served, row + spoken("GET", "/healthz", b"", "connection: close"))
    assert [status for status, _ in answers] == [404] * 500 + [200]


def test_nothing_is_tunnelled(served):
    answers = heard(served, b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n")
    assert [status for status, _ in answers] == [400]


# -- time ------------------------------------------------------------------------------------------


def test_who_is_late_with_the_second_request_still_gets_the_first_answer(served, monkeypatch):
    """Nobody is told of a request that is whole that it did not come."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.0)

    async def scenario(connection, transport):
        answers = []
        endpoint = application_of(served)._endpoints["/v1/policies/{policy}/decisions"]
        monkeypatch.setattr(endpoint, "begin", lambda *a: answers.append(a[2]))
        first = spoken("POST", f"{NEWS}/decisions", b"{}")
        second = spoken("POST", f"{NEWS}/decisions", b"{}")
        connection.data_received(first + second[:-1])
        connection.look_at_the_clock()
        assert transport.held == b""
        assert len(answers) == 1

    talked(application_of(served), scenario, is_read=False)


def test_problems_of_size_name_the_figure(tmp_path):
    limits = Limits(body_bytes=5000)
    with Served(f"sqlite:///{tmp_path}/log.db", limits=limits) as service:
        answer = service.client.post(f"{NEWS}/decisions", content=" " * 5001)
        assert "5000" in problem(answer, 413)["message"]
