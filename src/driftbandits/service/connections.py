"""One connection: from bytes to requests, in their order, and from replies to bytes.

Callers repeat themselves: what comes before a body differs from the last time in nothing but the
body's length, so it is parsed once. A request that was recognised and one that was parsed go the
same way from there on.

A connection that sends no request, or sends it a byte at a time, is not kept for ever.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from functools import partial
from typing import cast

import httptools

from driftbandits.service.app import Application
from driftbandits.service.endpoints import Envelope
from driftbandits.service.refusals import Refused, too_large
from driftbandits.service.replies import Reply, refusal, written

REQUEST_TIMEOUT_S = 30.0
"""How long a request may take to arrive, from the connection or its first byte to its last."""

KEEP_ALIVE_S = 5.0
"""How long a caller may rest between an answer and its next request."""

_MOST_KNOWN = 8
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,5})\r\n", re.IGNORECASE)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Repeated = tuple[bytes, bytes]
"""What callers repeat of a request: its bytes before and after the length of the body."""


class Exchange:
    """A request and its answer."""

    __slots__ = ("began", "body", "envelope", "is_answered", "is_whole", "keep_alive", "size")

    def __init__(
        self,
        envelope: Envelope,
        body: bytes | bytearray,
        *,
        size: int,
        is_whole: bool,
        keep_alive: bool,
    ) -> None:
        self.envelope = envelope
        self.body = body
        self.size = size  # of the body, as announced; 0 where only the end will tell
        self.is_whole = is_whole  # all of it has come
        self.keep_alive = keep_alive
        self.is_answered = False
        self.began = 0.0

    @property
    def asks_for_leave(self) -> bool:
        """Whether the caller sends no body before it is told to."""
        return self.envelope.headers.get(b"expect", b"").lower() == b"100-continue"


class Connection(asyncio.Protocol):
    """Requests are answered one after the other; those that come meanwhile wait."""

    _transport: asyncio.Transport

    def __init__(self, application: Application, connections: set[Connection]) -> None:
        self._application = application
        self._connections = connections  # all there are
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._known: dict[Repeated, Envelope] = {}
        self._came: Repeated | None = None  # of the bytes that the parser was given
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._arriving = False  # a request, and not all of it is here
        self._incoming: Exchange | None = None  # what the parser works on
        self._current: Exchange | None = None  # what is or will be answered next
        self._waiting: deque[Exchange] = deque()
        self._is_clogged = False  # the caller does not read its answers
        self._is_paused = False
        self._is_ending = False
        self._deadline: float | None = None  # until when the caller has to have done something

    # -- the transport's calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by descent
        self._connections.add(self)
        self._deadline = self._loop.time() + REQUEST_TIMEOUT_S

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        self._came = None
        if self._is_free and not self._arriving:
            repeated, body = _divided(data)
            envelope = self._known.get(repeated) if repeated is not None else None
            if envelope is not None:
                size = len(body)
                self._begin(Exchange(envelope, body, size=size, is_whole=True, keep_alive=True))
                return
            self._came = repeated
        self._parse(data)

    def pause_writing(self) -> None:
        self._is_clogged = True
        self._regulate_reading()

    def resume_writing(self) -> None:
        self._is_clogged = False
        self._proceed()

    def finish(self) -> None:
        """Answer what has come, and close."""
        self._is_ending = True
        if self._current is None and not self._waiting:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def look_at_the_clock(self) -> None:
        """Give up on a caller that has let its time pass."""
        if self._deadline is None or self._loop.time() < self._deadline:
            return
        exchange = self._current
        if exchange is None or exchange.is_answered:
            self._transport.close()
        elif not exchange.is_whole:
            message = f"the body did not come within {REQUEST_TIMEOUT_S:g} s"
            refused = Refused(408, "too_slow", message, is_last=True)
            self._answer(exchange, refusal(refused))

    # -- the parser's calls ----------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # answered like any other, and nothing follows
            self.finish()
        except httptools.HttpParserError:
            self._refuse_noise()

    def on_message_begin(self) -> None:
        self._arriving = True
        self._target, self._headers = b"", {}
        self._deadline = self._loop.time() + REQUEST_TIMEOUT_S

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        method = self._parser.get_method().decode("ascii")
        headers, self._headers = self._headers, {}  # what still comes are trailers, for nobody
        envelope = self._application.envelope(method, self._target, headers)
        keeps = self._parser.get_http_version() != "1.0" and self._parser.should_keep_alive()
        size = int(headers.get(b"content-length", 0))
        exchange = Exchange(envelope, bytearray(), size=size, is_whole=False, keep_alive=keeps)
        self._incoming = exchange
        if self._is_free:
            self._begin(exchange)
        else:
            self._waiting.append(exchange)
            self._regulate_reading()

    def on_body(self, body: bytes) -> None:
        exchange = self._incoming
        assert exchange is not None
        if not exchange.is_answered and exchange.envelope.wants_body:
            exchange.body += body
            most = exchange.envelope.endpoint.most
            if exchange is self._current and len(exchange.body) > most:
                self._answer(exchange, refusal(too_large(most)))

    def on_message_complete(self) -> None:
        self._arriving = False
        self._deadline = None
        exchange, self._incoming = self._incoming, None
        assert exchange is not None
        exchange.is_whole = True
        if self._came is not None and exchange.keep_alive and not exchange.asks_for_leave:
            self._remember(self._came, exchange.envelope)
        if exchange is not self._current:
            return
        if exchange.is_answered:
            self._end_exchange()
        elif exchange.envelope.wants_body:
            self._act(exchange)

    def _remember(self, repeated: Repeated, envelope: Envelope) -> None:
        if len(self._known) < _MOST_KNOWN:
            self._known[repeated] = envelope

    def _refuse_noise(self) -> None:
        """What comes is not HTTP: the request that it belongs to will not be, and nothing follows.

        Those before it get their answers.
        """
        if self._incoming is not None and self._incoming in self._waiting:
            self._waiting.remove(self._incoming)
        exchange = self._current
        if self._waiting or (exchange is not None and exchange.is_whole):
            self._is_ending = True
            return
        reply = refusal(Refused(400, "malformed", "this is no HTTP request", is_last=True))
        if exchange is None:
            self._transport.write(written(reply, closing=True, bodiless=False))
        elif not exchange.is_answered:
            self._answer(exchange, reply)
        self._transport.close()

    # -- from a request to its answer ------------------------------------------------------------

    @property
    def _is_free(self) -> bool:
        """Whether a request that comes now can be begun at once."""
        if self._current or self._waiting or self._is_clogged:
            return False
        return not self._transport.is_closing()

    def _begin(self, exchange: Exchange) -> None:
        """Let a request in, and act as soon as what it needs is here."""
        self._current = exchange
        if exchange.is_whole:
            self._deadline = None
        exchange.began = time.perf_counter()
        envelope = exchange.envelope
        try:
            envelope.endpoint.admit(envelope, max(exchange.size, len(exchange.body)))
        except Exception as error:
            self._answer(exchange, envelope.endpoint.refusal(envelope, error))
            return
        if exchange.is_whole or not envelope.wants_body:
            self._act(exchange)
        elif exchange.asks_for_leave:
            self._transport.write(_CONTINUE)

    def _act(self, exchange: Exchange) -> None:
        envelope = exchange.envelope
        envelope.endpoint.begin(envelope, bytes(exchange.body), partial(self._answer, exchange))

    def _answer(self, exchange: Exchange, reply: Reply) -> None:
        if exchange.is_answered:  # it was cut off meanwhile
            return
        exchange.is_answered = True
        envelope = exchange.envelope
        ends = reply.is_last or not exchange.keep_alive or (self._is_ending and not self._waiting)
        if not self._transport.is_closing():
            bodiless = envelope.method == "HEAD"
            self._transport.write(written(reply, closing=ends, bodiless=bodiless))
            if ends:
                self._transport.close()
        envelope.endpoint.count(envelope, reply.status, time.perf_counter() - exchange.began)
        if exchange.is_whole and not ends:
            self._end_exchange()

    def _end_exchange(self) -> None:
        """What had to be read was read and what had to be written was written: the next one."""
        self._current = None
        patience_s = REQUEST_TIMEOUT_S if self._arriving else KEEP_ALIVE_S
        self._deadline = self._loop.time() + patience_s
        if self._waiting:
            self._loop.call_soon(self._proceed)

    def _proceed(self) -> None:
        """Begin with one that waits, if its turn has come."""
        if self._transport.is_closing():
            return
        if self._waiting and self._current is None and not self._is_clogged:
            self._begin(self._waiting.popleft())
        self._regulate_reading()

    def _regulate_reading(self) -> None:
        """A caller whose requests wait, or who does not read, is not read from."""
        pause = bool(self._waiting) or self._is_clogged
        if pause == self._is_paused or self._transport.is_closing():
            return
        self._is_paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


def _divided(data: bytes) -> tuple[Repeated | None, bytes]:
    """The data as one whole request, if that is what it is, and its body."""
    end = data.find(_END) + len(_END)
    length = _LENGTH.search(data, 0, end)
    if length is None or len(data) - end != int(length[1]):
        return None, b""
    start, stop = length.span(1)
    return (data[:start], data[stop:end]), data[end:]
