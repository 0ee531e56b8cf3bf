"""The two clients: the same calls, one waiting and one to be awaited.

Event loops and HTTP are imported late: who imports this module may never need them.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from driftbandits.client.calls import Call, Tries, seconds
from driftbandits.client.errors import NoAnswer
from driftbandits.client.fallback import Fallback
from driftbandits.client.methods import Methods
from driftbandits.client.queue import Queue

if TYPE_CHECKING:
    from concurrent.futures import Future

    import httpx

Answer = TypeVar("Answer")

_ABOUT = """

    url       of the service, as http://127.0.0.1:8080
    key       an API key of the service; None where it runs without
    timeout   seconds that one try may take
    patience  seconds for which a call is tried again where no answer came, the service was
              overloaded or failed. That is safe: the service does nothing twice for one event_id,
              which is drawn at random where none is given. 0: never try again
    queue     how many fallback decisions and rewards may wait for the service; further ones are
              lost, which is logged
    spool     a file that keeps them when the process ends, for this client alone; without one they
              are in memory only

    Calls with a `fallback` or a `budget` have that budget in place of timeout and patience. What
    they could not say is sent in the background. `unsent` says how much that is, `flush` waits for
    it, and `close` gives it one more second.
    """

_MARGIN_S = 0.05
"""Beyond its budget a call waits for the thread that asks, where that has no turn."""

_LAST_FLUSH_S = 1.0
_LOOK_EVERY_S = 0.01


def _httpx() -> Any:
    """Imported late: it takes longer than everything else here."""
    try:
        import httpx
    except ModuleNotFoundError:
        raise ImportError("The client needs httpx: pip install 'driftbandits[client]'") from None
    return httpx


def _settings(url: str, key: str | None, timeout: float) -> dict[str, Any]:
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ValueError(f"url must begin with http:// or https://; got {url!r}")
    if key is not None and (not isinstance(key, str) or not key):
        raise ValueError(f"key must be a text, or None; got {type(key).__name__}")
    headers = {"content-type": "application/json"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    return {
        "base_url": url,
        "headers": headers,
        "timeout": seconds("timeout", timeout),
        "verify": _httpx().create_ssl_context(),  # takes a while, and two clients may need it
    }


class _Background:
    """An event loop in a thread, which makes calls with a budget for the blocking client."""

    def __init__(self, settings: dict[str, Any], fallback: Fallback) -> None:
        import asyncio

        from driftbandits.client.sender import Sender

        self._http: httpx.AsyncClient = _httpx().AsyncClient(**settings)
        self.sender = Sender(self._http, fallback)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="driftbandits-client", daemon=True
        )
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """It is not in a process that was forked from the one where it began."""
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        import asyncio

        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self) -> None:
        self.run(self.sender.end()).result()
        self.run(self._http.aclose()).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class _BothClients(Methods, ABC):
    """The arguments of a client, and the queue of what the service has not received yet."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 10.0,
        patience: float = 60.0,
        queue: int = 50_000,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        self._patience = seconds("patience", patience, or_zero=True)
        self._settings = _settings(url, key, timeout)
        self._fallback = Fallback(Queue(queue, spool))
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Make what sends requests."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings['base_url']!r})"

    @property
    def unsent(self) -> int:
        """Return the number of fallback decisions and rewards that are not sent yet."""
        return len(self._fallback.queue)


class Client(_BothClients):
    """Decisions and rewards over HTTP. May be used by several threads."""

    __doc__ += _ABOUT

    def _begin(self) -> None:
        self._http: httpx.Client = _httpx().Client(**self._settings)
        self._lock = threading.Lock()
        self._background: _Background | None = None
        if self.unsent:
            self._send_later()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def flush(self, patience: float = 60.0) -> int:
        """Wait until everything was sent, or patience ends; how many are left."""
        end = time.monotonic() + seconds("patience", patience, or_zero=True)
        while self.unsent and time.monotonic() < end:
            self._send_later()
            time.sleep(_LOOK_EVERY_S)
        return self.unsent

    def close(self) -> None:
        if self.unsent:
            self.flush(_LAST_FLUSH_S)
        with self._lock:
            background, self._background = self._background, None
        if background is not None and background.is_alive:
            background.close()
        self._fallback.queue.close()
        self._http.close()

    def _running(self) -> _Background:
        with self._lock:
            if self._background is None or not self._background.is_alive:
                self._background = _Background(self._settings, self._fallback)
            return self._background

    def _send_later(self) -> None:
        background = self._running()
        background.loop.call_soon_threadsafe(background.sender.send)

    def _run(self, describe: Callable[[], Call[Answer]]) -> Answer:
        call = describe()
        if call.stand_in is not None:
            return self._run_within(call, call.stand_in.budget)
        httpx = _httpx()
        tries = Tries(call, patience=self._patience)
        while True:
            try:
                answer = self._http.request(call.method, call.path, content=call.body)
            except httpx.TransportError as error:
                time.sleep(tries.failed(error))
                continue
            wait = tries.answered(answer.status_code, answer.headers.get("retry-after"))
            if wait is None:
                return call.read(answer.status_code, answer.content)
            time.sleep(wait)

    def _run_within(self, call: Call[Answer], budget: float) -> Answer:
        assert call.stand_in is not None
        if self._fallback.must_wait(call.stand_in):
            answer = self._fallback.stand_in(call)
            self._send_later()
            return answer
        asked = self._running().run(self._running().sender.ask(call))
        try:
            return asked.result(budget + _MARGIN_S)
        except TimeoutError:
            asked.cancel()
            answer = self._fallback.stand_in(call, NoAnswer(f"no answer within {budget:g} s"))
            self._send_later()
            return answer


class AsyncClient(_BothClients):
    """Decisions and rewards over HTTP, for asyncio: the methods of `Client`, to be awaited."""

    __doc__ += _ABOUT

    def _begin(self) -> None:
        from driftbandits.client.sender import Sender

        self._http: httpx.AsyncClient = _httpx().AsyncClient(**self._settings)
        self._sender = Sender(self._http, self._fallback)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def flush(self, patience: float = 60.0) -> int:
        """Wait until everything was sent, or patience ends; how many are left."""
        import asyncio

        end = time.monotonic() + seconds("patience", patience, or_zero=True)
        while self.unsent and time.monotonic() < end:
            self._sender.send()
            await asyncio.sleep(_LOOK_EVERY_S)
        return self.unsent

    async def close(self) -> None:
        if self.unsent:
            await self.flush(_LAST_FLUSH_S)
        await self._sender.end()
        self._fallback.queue.close()
        await self._http.aclose()

    async def _run(self, describe: Callable[[], Call[Answer]]) -> Answer:
        call = describe()
        self._sender.send()  # what an earlier process has left
        if call.stand_in is not None:
            return await self._sender.ask(call)
        return await self._sender.tried(call, patience=self._patience)
