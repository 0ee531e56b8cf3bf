"""Connections that send no request, or send it a byte at a time, are not kept for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_TIMEOUT_S = 30.0
"""How long the first lines of a request may take; bodies have a limit of their own."""


class Connection(HttpToolsProtocol):
    """uvicorn's, with a limit where it has none: between the connection and the end of headers."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._limit = self.loop.call_later(HEADERS_TIMEOUT_S, transport.close)

    def on_message_begin(self) -> None:
        self._unlimit()
        self._limit = self.loop.call_later(HEADERS_TIMEOUT_S, self.transport.close)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._unlimit()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unlimit()
        super().connection_lost(exc)

    def _unlimit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
