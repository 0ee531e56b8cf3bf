"""What uvicorn's connections do not do: give up on slow callers, and hurry for short requests.

A connection that sends no request, or sends it a byte at a time, is not kept for ever.

Decisions and rewards are short, and most of what there is to do. For a short request that needs
nothing but a command to the writer there is no task and no message between server and application:
it begins when its last byte has come, and its answer is written in one piece. And callers repeat
themselves: what comes before the body differs from the last time in nothing but the body's length,
so it is parsed once.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, NamedTuple

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from driftbandits.service.endpoints import Endpoint, Head
from driftbandits.service.problems import Refused
from driftbandits.wire import ErrorAnswer

REQUEST_TIMEOUT_S = 30.0
"""How long a request may take to arrive, from the connection or its first byte to its last."""

_LOOK_EVERY_S = 4.0  # a timer for every request would cost more than the rest of this
_MOST_KNOWN = 8
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,5})\r\n", re.IGNORECASE)


class Short(NamedTuple):
    """A short request, which begins when its last byte has come."""

    cycle: Any
    endpoint: Endpoint
    head: Head


Repeated = tuple[bytes, bytes]
"""What callers repeat of a request: its head, before and after the length of the body."""


class Connection(HttpToolsProtocol):
    """uvicorn's, with limits where it has none."""

    _deadline: float | None = None  # until when the caller has to have done something
    _watch: asyncio.TimerHandle
    _arriving = False  # a request, and not all of it is here
    _short: Short | None = None
    _came: Repeated | None = None  # of the request that the parser was given, if it came alone
    _known: dict[Repeated, Short]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._known = {}
        self._deadline = self.loop.time() + REQUEST_TIMEOUT_S
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_repetition(data):
            super().data_received(data)

    def _is_repetition(self, data: bytes) -> bool:
        """Whether this is a request that differs from an earlier one in its body alone; begun."""
        self._came = None
        if self._arriving or not (self.cycle is None or self.cycle.response_complete):
            return False
        repeated, body = _divided(data)
        self._came = repeated
        if repeated is None or (short := self._known.get(repeated)) is None:
            return False
        cycle, endpoint, head = short
        if len(body) > endpoint.most_short or not endpoint.is_quick(head):
            return False
        self._deadline = None
        self.cycle = cycle
        cycle.response_started = cycle.response_complete = False
        endpoint.begin(head, body, partial(self._answer, cycle))
        return True

    def on_message_begin(self) -> None:
        self._arriving = True
        self._deadline = self.loop.time() + REQUEST_TIMEOUT_S
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._arriving = False
        self._deadline = None
        super().on_message_complete()
        short = self._short
        if short is not None and short.cycle is self.cycle:
            if self._came is not None and len(self._known) < _MOST_KNOWN:
                self._known[self._came] = short
            self._begin()

    def on_response_complete(self) -> None:
        """What uvicorn does, but for its timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif not self._arriving:
            self._deadline = self.loop.time() + self.timeout_keep_alive

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        endpoint, head = app.find(cycle.scope)
        if not (_is_short(cycle, endpoint.most_short) and endpoint.is_quick(head)):
            super()._start_asgi_task(cycle, app)
            return
        self._short = Short(cycle, endpoint, head)
        if not cycle.more_body:  # it came behind another one, which has been answered now
            self._begin()

    def _begin(self) -> None:
        assert self._short is not None
        (cycle, endpoint, head), self._short = self._short, None
        body, cycle.body = bytes(cycle.body), b""
        endpoint.begin(head, body, partial(self._answer, cycle))

    def _answer(self, cycle: Any, content: bytes) -> None:
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        if cycle.keep_alive:
            self.transport.write(content)
        else:  # the server is about to end
            self.transport.write(content.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
            self.transport.close()
        self.on_response_complete()

    def _look_later(self) -> None:
        self._watch = self.loop.call_later(_LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        if self._deadline is None or self.loop.time() < self._deadline:
            self._look_later()
            return
        if self._arriving and self.cycle is not None and not self.cycle.response_started:
            self.transport.write(_too_slow())  # its headers came, its body does not
        self.transport.close()


def _divided(data: bytes) -> tuple[Repeated | None, bytes]:
    """The data as one whole request, if that is what it is, and its body."""
    end = data.find(_END) + len(_END)
    length = _LENGTH.search(data, 0, end)
    if length is None or len(data) - end != int(length[1]):
        return None, b""
    start, stop = length.span(1)
    return (data[:start], data[stop:end]), data[end:]


def _is_short(cycle: Any, most: int) -> bool:
    if cycle.waiting_for_100_continue or not cycle.keep_alive:
        return False
    length = 0
    for name, value in cycle.scope["headers"]:
        if name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            return False
    return length <= most


def _too_slow() -> bytes:
    message = f"the body did not come within {REQUEST_TIMEOUT_S:g} s"
    body = msgspec.json.encode(ErrorAnswer(Refused(408, "too_slow", message).problem))
    head = (
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
