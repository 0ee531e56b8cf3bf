"""A server process: uvicorn, with limits on what a caller may send and how long it may take.

uvicorn reads a head however long it is, waits for a silent caller for ever, begins every request of
a row that arrived at once, forgets the answers of a caller that has ended its side, and says no in
plain text. `Connection` is uvicorn's own connection without these. It has a share of the loop: in
each turn it parses one slice of what has come, and while requests wait to be answered nothing more
is parsed or read.

A caller that is refused before it has sent everything is listened to for a moment: to close at once
would take the answer away from it, because what comes to a closed socket resets it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import httptools
import msgspec
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from driftbandits.api import ErrorAnswer
from driftbandits.service.application import app
from driftbandits.service.auth import is_loopback
from driftbandits.service.endpoints import Service, Settings
from driftbandits.service.refusals import Refused

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

MOST_HEAD_BYTES = 32 * 1024
"""The most bytes of a head or of anything else that is no body: chunk extensions, trailers."""

MOST_HEADERS = 100

REQUEST_TIMEOUT_S = 30.0
"""The longest time for a request to arrive, and for an answer to lie unread."""

KEEP_ALIVE_S = 5.0
"""The longest pause of a caller between an answer and its next request."""

LONGEST_END_S = 10.0
"""The time for open requests to be answered once the server ends."""

MOST_UNREAD_BYTES = 64 * 1024
"""Bytes of unsent answers above which no request is begun."""

LONGEST_DISCARDING_S = 2.0
MOST_DISCARDED_BYTES = 16 * 1024 * 1024
"""Bytes that are read and dropped after the last answer."""

_SLICE_OF_HEADS = 4 * 1024
_SLICE_OF_BODY = 64 * 1024
_OFFERS = (b"upgrade", b"http2-settings")
_BACKLOG = 2048
_SWITCH_S = 0.0005
"""The time for which one thread may keep the interpreter from another."""


class _Flow(FlowControl):
    """Read on only when everything that was read is parsed."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.wire)
        self._connection = connection

    def resume_reading(self) -> None:
        if not self._connection.unparsed:
            super().resume_reading()


class Connection(HttpToolsProtocol):
    """A connection of uvicorn's, with the limits above."""

    wire: asyncio.Transport

    def connection_made(self, wire: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(wire)
        wire.set_write_buffer_limits(MOST_UNREAD_BYTES)
        self.wire = wire
        self.flow = _Flow(self)
        closing = self.end_after_answer  # in place of a close that would cut the answer off
        seen = SimpleNamespace(write=self._write, is_closing=wire.is_closing, close=closing)
        self.transport = cast(asyncio.Transport, seen)
        self.unparsed = bytearray()  # of what has come
        self._awaits_turn = False
        self._is_in_head = True  # and not in a body
        self._has_news = False  # since the parser was fed
        self._without_news = 0
        self.running: RequestResponseCycle | None = None  # the last one that was begun
        self._answered: RequestResponseCycle | None = None  # the last one whose head was written
        self._head = b""  # of an answer whose body comes next
        self._is_deaf = False  # what still comes cannot be understood
        self._has_ended = False  # the caller sends no more
        self._must_end = False  # the server ends
        self._discarded: int | None = None  # bytes, since nothing more is wanted
        self._deadline: float | None = self.loop.time() + REQUEST_TIMEOUT_S
        self._unsent: tuple[int, float] | None = None  # how much, and since when

    def connection_lost(self, exc: Exception | None) -> None:
        if self.running is not None:
            self.running.disconnected = True
            self.running.message_event.set()
        self.pipeline.clear()
        self.unparsed.clear()
        super().connection_lost(exc)

    # -- from bytes to requests ------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED_BYTES:
                self.wire.abort()
        elif not self._is_deaf:
            if not self.unparsed and not self.pipeline and len(data) <= _SLICE_OF_HEADS:
                self._feed(data)
                return
            self.unparsed += data
            self.flow.pause_reading()
            self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        if not self._awaits_turn and not self.pipeline:
            self._awaits_turn = True
            self.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Parse a slice, unless requests wait to be answered."""
        self._awaits_turn = False
        if self.pipeline or self.wire.is_closing() or not self.unparsed:
            return
        size = _SLICE_OF_HEADS if self._is_in_head else _SLICE_OF_BODY
        data = bytes(self.unparsed[:size])
        del self.unparsed[:size]
        self._feed(data)
        if self.unparsed:
            self._ask_for_turn()
        elif self._discarded is None and not self.pipeline:
            self.flow.resume_reading()
        self._look_for_end()

    def _feed(self, data: bytes) -> None:
        self._has_news = False
        size = len(data)
        try:
            while data:
                try:
                    self.parser.feed_data(data)
                    break
                except httptools.HttpParserUpgrade as upgrade:
                    data = data[upgrade.args[0] :]
                    self._read_head_again()
            self._without_news = 0 if self._has_news else self._without_news + size
            if self._without_news > MOST_HEAD_BYTES:
                raise _head_too_large(f"{MOST_HEAD_BYTES} bytes")
        except httptools.HttpParserCallbackError as error:
            refused = error.__context__
            self._refuse_rest(refused if isinstance(refused, Refused) else _malformed())
        except httptools.HttpParserError:
            self._refuse_rest(_malformed())
        except Refused as refused:
            self._refuse_rest(refused)

    def _read_head_again(self) -> None:
        """Nothing is upgraded: give the head to a new parser without the offer.

        The old one would take the body for the other protocol.
        """
        lines = [b"%b %b HTTP/1.1" % (self.parser.get_method(), self.url)]
        keeps = b"keep-alive" if self.parser.should_keep_alive() else b"close"
        for name, value in self.headers:
            if name not in _OFFERS:
                lines.append(b"%b: %b" % (name, keeps if name == b"connection" else value))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"\r\n".join([*lines, b"", b""]))

    def on_message_begin(self) -> None:
        self._has_news = True
        self._deadline = self.loop.time() + REQUEST_TIMEOUT_S
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MOST_HEADERS:
            raise _head_too_large(f"{MOST_HEADERS} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_news = True
        hosts = 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding" and value.lower() != b"chunked":
                raise Refused(400, "malformed", "Transfer-Encoding must be chunked")
        if hosts != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            raise Refused(400, "malformed", f"one Host is needed; got {hosts}")
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise Refused(400, "malformed", "nothing is tunnelled here")
            return
        super().on_headers_complete()
        self._is_in_head = False

    def on_body(self, body: bytes) -> None:
        self._has_news = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._is_in_head = True
        self._deadline = None
        if self.cycle.response_complete:
            self._rest()
        super().on_message_complete()

    # -- from answers to the end -----------------------------------------------------------------

    @property
    def _last(self) -> RequestResponseCycle | None:
        """The last request that was begun or waits to be, if it is not answered."""
        if self.pipeline:
            return self.pipeline[0][0]
        return None if self.running is None or self.running.response_complete else self.running

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self._discarded is not None or self.wire.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._is_in_head and self._deadline is None:
            self._rest()
        if self.unparsed:
            self._ask_for_turn()
        else:
            self.flow.resume_reading()
            self._look_for_end()

    def _write(self, data: bytes) -> None:
        """Write an answer; one call of the system sends its head and its body."""
        running, head = self.running, self._head
        self._head = b""
        if running is not None and running is not self._answered and running.response_started:
            self._answered = running
            if running.scope["method"] != "HEAD":
                self._head = data
                return
        self.wire.write(head + data)

    def _rest(self) -> None:
        self._deadline = self.loop.time() + KEEP_ALIVE_S

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether the connection stays: the caller may still wait for answers."""
        self._has_ended = True
        self._look_for_end()
        return self._discarded is None and not self.wire.is_closing()

    def shutdown(self) -> None:
        """Answer what has come, and close."""
        self._must_end = True
        self._look_for_end()

    def _look_for_end(self) -> None:
        """Close if nothing is left to do, or see to it that this follows the last answer."""
        if not (self._has_ended or self._must_end) or self.unparsed:
            return
        last = self._forget_incoming() if self._has_ended else self._last
        if last is None:
            self.wire.close()
        else:
            last.keep_alive = False

    def _forget_incoming(self) -> RequestResponseCycle | None:
        """Give up a request whose body will not come, and return the last one before it."""
        last = self._last
        if self._is_in_head or last is None or last is not self.cycle:
            return last
        if self.pipeline:
            self.pipeline.popleft()
            return self._last
        last.disconnected = True
        last.message_event.set()
        return None

    def _refuse_rest(self, refused: Refused) -> None:
        """Refuse the request at hand, which nothing can follow; those before it are answered."""
        self._is_deaf = True
        self.unparsed.clear()
        last = self._forget_incoming()
        if last is not None:
            last.keep_alive = False
            return
        if self._is_in_head or not self.cycle.response_complete:
            self.wire.write(_written(refused))
        self._is_in_head = False
        self.end_after_answer()

    def end_after_answer(self) -> None:
        """Close, as soon as the caller has stopped sending or its time has passed."""
        if self._discarded is not None or self.wire.is_closing():
            return
        has_all = self._is_in_head and self._deadline is None and not self._is_deaf
        if self._has_ended or (has_all and not self.unparsed and not self.flow.read_paused):
            self.wire.close()
            return
        self.wire.write_eof()
        self.unparsed.clear()
        self._discarded = 0
        self._deadline = self.loop.time() + LONGEST_DISCARDING_S
        self.flow.resume_reading()

    def look_at_the_clock(self, now: float) -> None:
        """Give up on a caller that has let its time pass."""
        if self.flow.write_paused or self.wire.is_closing():
            size = self.wire.get_write_buffer_size()
            if self._unsent is None or size < self._unsent[0]:
                self._unsent = size, now
            elif now - self._unsent[1] >= REQUEST_TIMEOUT_S:
                self.wire.abort()
            return
        self._unsent = None
        if self._deadline is None or now < self._deadline:
            return
        if self._discarded is not None or self._last is None:
            self.wire.close()
        elif not self._is_in_head:
            late = f"the request did not come within {REQUEST_TIMEOUT_S:g} s"
            self._refuse_rest(Refused(408, "too_slow", late))


def _malformed() -> Refused:
    return Refused(400, "malformed", "this is no HTTP request")


def _head_too_large(most: str) -> Refused:
    message = f"what comes before or after a body may have {most}"
    return Refused(431, "head_too_large", message)


def _written(refused: Refused) -> bytes:
    """A refusal that no application has seen, as it goes over the wire."""
    content = msgspec.json.encode(ErrorAnswer(refused.problem))
    head = b"%bcontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    return head % (STATUS_LINE[refused.status], len(content)) + content


class _Uvicorn(uvicorn.Server):
    """uvicorn's server, which looks at the clock for all its connections."""

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.look_at_the_clock(now)
        return await super().on_tick(counter)


class Server:
    """Serve the application of these settings on one address until a signal or `stop` ends it."""

    def __init__(self, settings: Settings, host: str = "127.0.0.1", port: int = 0) -> None:
        if not settings.with_keys and not is_loopback(host):
            raise ValueError(
                f"host must be a loopback address when there are no keys; got {host!r}. "
                "Leave out --no-auth, or serve on 127.0.0.1."
            )
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:  # before the store and its first key are made, and so that the port is known
            self._listener = socket.create_server(
                (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=":" in host
            )
        except OSError as error:
            raise ValueError(f"port {port} of {host} cannot be used: {error}") from None
        try:
            application = app(settings, on_death=self.stop)
        except BaseException:
            self._listener.close()
            raise
        self.service: Service = application.state.service
        host, port = self._listener.getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        config = uvicorn.Config(
            application,
            http=Connection,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            date_header=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(LONGEST_END_S),
        )
        self.uvicorn = _Uvicorn(config)

    def run(self) -> int:
        """Serve, and return the exit code; a signal that ended it is raised again."""
        sys.setswitchinterval(_SWITCH_S)
        self.uvicorn.run(sockets=[self._listener])
        return 1 if self.service.engine.dead else 0

    def stop(self) -> None:
        """Answer what has come, and end; from any thread."""
        self.uvicorn.should_exit = True
