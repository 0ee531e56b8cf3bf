"""What uvicorn's connections do not do: give up on slow callers, and hurry for short requests.

A connection that sends no request, or sends it a byte at a time, is not kept for ever.

Decisions and rewards are short, and most of what there is to do. For a short request that needs
nothing but a command to the writer there is no task and no message between server and application:
it begins when its last byte has come, and its answer is written in one piece.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NamedTuple

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from driftbandits.service.endpoints import Endpoint
from driftbandits.service.problems import Refused
from driftbandits.service.wire import ErrorAnswer

REQUEST_TIMEOUT_S = 30.0
"""How long a request may take to arrive, from the connection or its first byte to its last."""

SHORT = 60_000
"""Bytes of a body that uvicorn takes in without being asked for them."""

_LOOKS = 8  # within that time; a timer for every request would cost more than the rest of this


class Short(NamedTuple):
    """A short request, which begins when its last byte has come."""

    cycle: Any
    endpoint: Endpoint
    policy: str


class Connection(HttpToolsProtocol):
    """uvicorn's, with a limit where it has none."""

    _since: float | None = None  # when the request that is arriving began
    _watch: asyncio.TimerHandle
    _short: Short | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = self.loop.time()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._since = self.loop.time()
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._since = None
        super().on_message_complete()
        if self._short is not None and self._short.cycle is self.cycle:
            self._begin()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        endpoint, policy = app.find(cycle.scope["path"])
        if not (_is_short(cycle, endpoint.body_limit) and endpoint.is_quick(cycle.scope)):
            super()._start_asgi_task(cycle, app)
            return
        self._short = Short(cycle, endpoint, policy)
        if not cycle.more_body:  # it came behind another one, which has been answered now
            self._begin()

    def _begin(self) -> None:
        assert self._short is not None
        (cycle, endpoint, policy), self._short = self._short, None
        endpoint.begin(cycle.scope, policy, bytes(cycle.body), partial(self._answer, cycle))

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
        self._watch = self.loop.call_later(REQUEST_TIMEOUT_S / _LOOKS, self._look)

    def _look(self) -> None:
        if self._since is None or self.loop.time() - self._since < REQUEST_TIMEOUT_S:
            self._look_later()
            return
        if self.cycle is not None and not self.cycle.response_started:
            self.transport.write(_too_slow())  # its headers came, its body does not
        self.transport.close()


def _is_short(cycle: Any, most: int) -> bool:
    if cycle.waiting_for_100_continue or not cycle.keep_alive:
        return False
    length = 0
    for name, value in cycle.scope["headers"]:
        if name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            return False
    return length <= min(most, SHORT)


def _too_slow() -> bytes:
    message = f"the body did not come within {REQUEST_TIMEOUT_S:g} s"
    body = msgspec.json.encode(ErrorAnswer(Refused(408, "too_slow", message).problem))
    head = (
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
