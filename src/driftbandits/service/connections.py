"""One connection: from bytes to requests, in their order, and from replies to bytes.

Callers repeat themselves: what comes before a body differs from the last time in nothing but the
body's length, so it is parsed once. A request that was recognised and one that was parsed go the
same way from there on.

A connection has a share of the loop: in each turn it parses one slice of what has come, or begins
one request. What else has come waits, and until it is gone nothing more is read; nor is it from a
caller that does not read its answers. A connection that sends no request, or sends it a byte at a
time, is not kept for ever.

A caller that is refused before it has sent everything is heard out for a moment: to close at once
would take the answer away from under it, because what comes to a closed socket resets it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from functools import partial
from typing import cast

from driftbandits.service.app import Application
from driftbandits.service.endpoints import Envelope
from driftbandits.service.parsing import Head, RequestParser
from driftbandits.service.refusals import Refused, too_large
from driftbandits.service.replies import Reply, refusal, written

REQUEST_TIMEOUT_S = 30.0
"""How long a request may take to arrive, from the connection or its first byte to its last."""

KEEP_ALIVE_S = 5.0
"""How long a caller may rest between an answer and its next request."""

MOST_UNREAD_BYTES = 64 * 1024
"""Of answers that wait to be sent: above it nothing is begun."""

LONGEST_DISCARDING_S = 2.0
MOST_DISCARDED_BYTES = 16 * 1024 * 1024
"""Of what a caller still sends after its last answer."""

_SLICE_OF_HEADS = 4 * 1024
_SLICE_OF_BODY = 64 * 1024
_MOST_KNOWN = 8
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,5})\r\n", re.IGNORECASE)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Repeated = tuple[bytes, bytes]
"""What callers repeat of a request: its bytes before and after the length of the body."""


class Exchange:
    """A request and its answer."""

    __slots__ = (
        "began",
        "body",
        "envelope",
        "is_answered",
        "is_at_work",
        "is_whole",
        "keep_alive",
        "room",
        "size",
    )

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
        self.is_at_work = False
        self.is_answered = False
        self.room = 0  # that it has taken
        self.began = 0.0

    @property
    def asks_for_leave(self) -> bool:
        """Whether the caller sends no body before it is told to."""
        return self.envelope.headers.get(b"expect", b"").lower() == b"100-continue"

    def take_room(self) -> None:
        """For what is here of the body and what is announced."""
        more = max(self.size, len(self.body)) - self.room
        if more > 0 and self.envelope.wants_body:
            self.envelope.endpoint.take_room(self.envelope, more)
            self.room += more

    def give_room_back(self) -> None:
        if self.room:
            self.envelope.endpoint.give_room_back(self.envelope, self.room)
            self.room = 0


class Connection(asyncio.Protocol):
    """Requests are answered one after the other; those that come meanwhile wait."""

    _transport: asyncio.Transport

    def __init__(self, application: Application, connections: set[Connection]) -> None:
        self._application = application
        self._connections = connections  # all there are
        self._loop = asyncio.get_running_loop()
        self._parser = RequestParser(self)
        self._known: dict[Repeated, Envelope] = {}
        self._came: Repeated | None = None  # of the bytes that the parser was given
        self._unparsed = bytearray()  # of what has come
        self._arriving = False  # a request, and not all of it is here
        self._incoming: Exchange | None = None  # what the parser works on
        self._current: Exchange | None = None  # what is or will be answered next
        self._waiting: deque[Exchange] = deque()
        self._has_begun = False  # a request, in this turn
        self._awaits_turn = False
        self._is_clogged = False  # the caller does not read its answers
        self._unsent: tuple[int, float] | None = None  # how much, and since when
        self._is_paused = False
        self._is_deaf = False  # what still comes cannot be understood
        self._is_ending = False
        self._discarded: int | None = None  # bytes, since nothing more is wanted
        self._deadline: float | None = None  # until when the caller has to have done something

    # -- the transport's calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by descent
        self._transport.set_write_buffer_limits(MOST_UNREAD_BYTES)
        self._connections.add(self)
        self._deadline = self._loop.time() + REQUEST_TIMEOUT_S

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._waiting.clear()
        self._unparsed.clear()
        if self._current is not None and not self._current.is_at_work:
            self._current.give_room_back()

    def data_received(self, data: bytes) -> None:
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED_BYTES:
                self._transport.close()
            return
        if self._is_free and not self._arriving and not self._unparsed:
            repeated, body = _divided(data)
            envelope = self._known.get(repeated) if repeated is not None else None
            if envelope is not None:
                size = len(body)
                self._begin(Exchange(envelope, body, size=size, is_whole=True, keep_alive=True))
                return
            self._came = repeated
        else:
            self._came = None
        self._unparsed += data
        if not self._awaits_turn:
            self._take_turn()

    def pause_writing(self) -> None:
        self._is_clogged = True

    def resume_writing(self) -> None:
        self._is_clogged = False
        self._ask_for_turn()

    def finish(self) -> None:
        """Answer what has come, and close."""
        self._is_ending = True
        if self._discarded is not None:
            self._transport.close()
        else:
            self._close_at_end()

    def abort(self) -> None:
        self._transport.abort()

    def look_at_the_clock(self) -> None:
        """Give up on a caller that has let its time pass."""
        if self._is_clogged or self._transport.is_closing():
            self._look_at_reader()
            return
        self._unsent = None
        if self._deadline is None or self._loop.time() < self._deadline:
            return
        exchange = self._current
        if exchange is None or exchange.is_answered:
            self._transport.close()
        elif not exchange.is_whole and not exchange.is_at_work:
            message = f"the body did not come within {REQUEST_TIMEOUT_S:g} s"
            refused = Refused(408, "too_slow", message, is_last=True)
            self._answer(exchange, refusal(refused))

    def _look_at_reader(self) -> None:
        """Give up on a caller that has taken nothing of its answers for a while."""
        size, now = self._transport.get_write_buffer_size(), self._loop.time()
        if self._unsent is None or size < self._unsent[0]:
            self._unsent = size, now
        elif now - self._unsent[1] >= REQUEST_TIMEOUT_S:
            self._transport.abort()

    # -- turns -----------------------------------------------------------------------------------

    def _ask_for_turn(self) -> None:
        """Go on later, after others."""
        if not self._awaits_turn:
            self._awaits_turn = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Begin a request that waits, or parse a slice of what has come."""
        self._awaits_turn = self._has_begun = False
        if self._is_over:
            return
        if self._waiting:
            if self._current is None and not self._is_clogged:
                self._begin(self._waiting.popleft())
        elif self._unparsed and self._may_parse:
            self._parse_slice()
        if self._is_over:
            return
        if self._can_go_on:
            self._ask_for_turn()
        self._regulate_reading()
        if self._is_ending:
            self._close_at_end()

    @property
    def _may_parse(self) -> bool:
        """Whether what the parser finds now can be used."""
        return self._incoming is not None or (self._current is None and not self._is_clogged)

    @property
    def _can_go_on(self) -> bool:
        if self._waiting:
            return self._current is None and not self._is_clogged
        return bool(self._unparsed) and self._may_parse

    def _parse_slice(self) -> None:
        size = _SLICE_OF_HEADS if self._parser.is_in_head else _SLICE_OF_BODY
        data = bytes(self._unparsed[:size])
        del self._unparsed[:size]
        try:
            self._parser.feed(data)
        except Refused as refused:
            self._is_deaf = True
            self._unparsed.clear()
            self._refuse_rest(refused)

    def _regulate_reading(self) -> None:
        """A caller whose requests wait, or who does not read, is not read from."""
        pause = bool(self._waiting or self._unparsed or self._is_clogged or self._is_deaf)
        if pause == self._is_paused or self._is_over:
            return
        self._is_paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    @property
    def _is_over(self) -> bool:
        """Whether the last answer was given."""
        return self._discarded is not None or self._transport.is_closing()

    def _end_after_answer(self) -> None:
        """Close, as soon as the caller has stopped sending or its time has passed."""
        self._transport.write_eof()
        self._unparsed.clear()
        self._discarded = 0
        self._deadline = self._loop.time() + LONGEST_DISCARDING_S
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _close_at_end(self) -> None:
        if self._current is None and not self._waiting and not self._unparsed:
            self._transport.close()

    # -- the parser's calls ----------------------------------------------------------------------

    def begin_message(self) -> None:
        self._arriving = True
        self._deadline = self._loop.time() + REQUEST_TIMEOUT_S

    def take_head(self, head: Head) -> None:
        envelope = self._application.envelope(head.method, head.target, head.headers)
        exchange = Exchange(
            envelope, bytearray(), size=head.size, is_whole=False, keep_alive=head.keep_alive
        )
        self._incoming = exchange
        if self._is_free and not self._has_begun:
            self._begin(exchange)
        else:
            self._waiting.append(exchange)

    def take_body(self, body: bytes) -> None:
        exchange = self._incoming
        assert exchange is not None
        if exchange.is_answered or not exchange.envelope.wants_body:
            return
        exchange.body += body
        if exchange is not self._current:
            return
        most = exchange.envelope.endpoint.most
        try:
            if len(exchange.body) > most:
                raise too_large(most)
            exchange.take_room()
        except Refused as refused:
            refused.is_last = True  # the rest of the body is not wanted
            self._answer(exchange, refusal(refused))

    def end_message(self) -> None:
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
        elif not exchange.is_at_work:
            self._act(exchange)

    def _remember(self, repeated: Repeated, envelope: Envelope) -> None:
        if len(self._known) < _MOST_KNOWN:
            self._known[repeated] = envelope

    def _refuse_rest(self, refused: Refused) -> None:
        """The request at hand will not be, and nothing follows it.

        Those before it get their answers.
        """
        if self._incoming is not None and self._incoming in self._waiting:
            self._waiting.remove(self._incoming)
        exchange = self._current
        if self._waiting or (exchange is not None and exchange.is_whole):
            self._is_ending = True
            return
        reply = refusal(refused)
        if exchange is None:
            self._transport.write(written(reply, closing=True, bodiless=False))
        elif not exchange.is_answered:
            self._answer(exchange, reply)
        if not self._is_over:
            self._end_after_answer()

    # -- from a request to its answer ------------------------------------------------------------

    @property
    def _is_free(self) -> bool:
        """Whether a request that comes now can be begun at once."""
        if self._current or self._waiting or self._is_clogged:
            return False
        return not self._is_over

    def _begin(self, exchange: Exchange) -> None:
        """Let a request in, and act as soon as what it needs is here."""
        self._current = exchange
        self._has_begun = True
        if exchange.is_whole:
            self._deadline = None
        exchange.began = time.perf_counter()
        envelope = exchange.envelope
        try:
            envelope.endpoint.admit(envelope, max(exchange.size, len(exchange.body)))
            exchange.take_room()
        except Exception as error:
            self._answer(exchange, envelope.endpoint.refusal(envelope, error))
            return
        if exchange.is_whole or not envelope.wants_body:
            self._act(exchange)
        elif exchange.asks_for_leave:
            self._transport.write(_CONTINUE)

    def _act(self, exchange: Exchange) -> None:
        exchange.is_at_work = True
        envelope, body = exchange.envelope, bytes(exchange.body)
        exchange.body = b""
        envelope.endpoint.begin(envelope, body, partial(self._answer, exchange))

    def _answer(self, exchange: Exchange, reply: Reply) -> None:
        if exchange.is_answered:  # it was cut off meanwhile
            return
        exchange.is_answered = True
        exchange.body = b""
        exchange.give_room_back()
        envelope = exchange.envelope
        reply = envelope.endpoint.finish(envelope, reply, time.perf_counter() - exchange.began)
        ends = reply.is_last or not exchange.keep_alive or self._is_last
        if not self._is_over:
            bodiless = envelope.method == "HEAD"
            self._transport.write(written(reply, closing=ends, bodiless=bodiless))
            if ends and exchange.is_whole and not self._unparsed and not self._is_paused:
                self._transport.close()
            elif ends:
                self._end_after_answer()
        if exchange.is_whole and not ends:
            self._end_exchange()

    @property
    def _is_last(self) -> bool:
        """Whether nothing comes after the request that is being answered."""
        return self._is_ending and not self._waiting and not self._unparsed

    def _end_exchange(self) -> None:
        """What had to be read was read and what had to be written was written: the next one."""
        self._current = None
        patience_s = REQUEST_TIMEOUT_S if self._arriving else KEEP_ALIVE_S
        self._deadline = self._loop.time() + patience_s
        if self._waiting or self._unparsed or self._is_paused:
            self._ask_for_turn()
        elif self._is_ending:
            self._close_at_end()


def _divided(data: bytes) -> tuple[Repeated | None, bytes]:
    """The data as one whole request, if that is what it is, and its body."""
    end = data.find(_END) + len(_END)
    length = _LENGTH.search(data, 0, end)
    if length is None or len(data) - end != int(length[1]):
        return None, b""
    start, stop = length.span(1)
    return (data[:start], data[stop:end]), data[end:]
