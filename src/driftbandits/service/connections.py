"""Connections that send no request, or send it a byte at a time, are not kept for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from driftbandits.service.problems import Refused
from driftbandits.service.wire import ErrorAnswer

REQUEST_TIMEOUT_S = 30.0
"""How long a request may take to arrive, from the connection or its first byte to its last."""

_LOOKS = 8  # within that time; a timer for every request would cost more than the rest of this


class Connection(HttpToolsProtocol):
    """uvicorn's, with a limit where it has none."""

    _since: float | None = None  # when the request that is arriving began
    _watch: asyncio.TimerHandle

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

    def _look_later(self) -> None:
        self._watch = self.loop.call_later(REQUEST_TIMEOUT_S / _LOOKS, self._look)

    def _look(self) -> None:
        if self._since is None or self.loop.time() - self._since < REQUEST_TIMEOUT_S:
            self._look_later()
            return
        if self.cycle is not None and not self.cycle.response_started:
            self.transport.write(_too_slow())  # its headers came, its body does not
        self.transport.close()


def _too_slow() -> bytes:
    message = f"the body did not come within {REQUEST_TIMEOUT_S:g} s"
    body = msgspec.json.encode(ErrorAnswer(Refused(408, "too_slow", message).problem))
    head = (
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
