"""The two clients: the same calls, one waiting and one to be awaited."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import httpx

from driftbandits.api import operations
from driftbandits.checks import number
from driftbandits.client.calls import Call, NoAnswer, ServiceError, Tries, call, error_of
from driftbandits.client.methods import Methods
from driftbandits.client.queue import Fallback, Item, Lane, Queue, is_passing

logger = logging.getLogger("driftbandits.client")

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

MOST_AT_ONCE, _MOST_BYTES = 100, 500_000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0

_KEPT_S = 0.01
"""The part of a budget that is kept for the client's own answer."""

_MARGIN_S = 0.05
"""Beyond its budget a call waits for the thread that asks, where that has no turn."""

_LAST_FLUSH_S = 1.0
_LOOK_EVERY_S = 0.01

_OPERATIONS: dict[str, tuple[operations.Operation[Any], operations.Operation[Any]]] = {
    "decision": (operations.DECIDE, operations.DECIDE_MANY),
    "reward": (operations.REWARD, operations.REWARD_MANY),
}


class _Sender:
    """Asks, and sends the queue, in the event loop where it is used."""

    def __init__(self, settings: dict[str, Any], fallback: Fallback) -> None:
        self._http = httpx.AsyncClient(**settings)
        self._fallback = fallback
        self._sending: asyncio.Task[None] | None = None

    async def ask(self, call: Call[Answer]) -> Answer:
        """The service's answer if it comes within the budget, or the client's own."""
        given, fallback = call.stand_in, self._fallback
        assert given is not None
        try:
            if fallback.must_wait(given):
                return fallback.stand_in(call)
            try:
                patience = max(given.budget - _KEPT_S, given.budget / 2)
                async with asyncio.timeout(patience):
                    answer = await self.tried(call, patience=patience)
            except TimeoutError:
                return fallback.stand_in(call, NoAnswer(f"no answer within {given.budget:g} s"))
            except ServiceError as error:
                return fallback.stand_in(call, error)
            fallback.note_answer()
            return answer
        finally:
            self.send()

    async def tried(self, call: Call[Answer], *, patience: float) -> Answer:
        """The answer to a call, tried again until patience ends."""
        tries = Tries(call, patience=patience)
        while True:
            try:
                answer = await self._http.request(call.method, call.path, content=call.body)
            except httpx.TransportError as error:
                await asyncio.sleep(tries.failed(error))
                continue
            wait = tries.answered(answer.status_code, answer.headers.get("retry-after"))
            if wait is None:
                return call.read(answer.status_code, answer.content)
            await asyncio.sleep(wait)

    def send(self) -> None:
        """See to it that the queue is sent."""
        if len(self._fallback.queue) and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def end(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        await self._http.aclose()

    async def _send_all(self) -> None:
        queue = self._fallback.queue
        pause, one_by_one = _FIRST_PAUSE, 0
        while run := queue.first(most=1 if one_by_one else MOST_AT_ONCE, most_bytes=_MOST_BYTES):
            began = time.monotonic()
            try:
                results = await self._send(run)
            except httpx.TransportError:
                results = [NoAnswer("no answer")]
            except ServiceError as error:
                results = [error]
                if len(run) > 1 and not is_passing(error):
                    one_by_one = len(run)  # one of them is to blame
                    continue
            taken = self._settle(run[0].lane, results)
            one_by_one = max(0, one_by_one - taken)
            if taken == len(run):
                self._fallback.note_answer(time.monotonic() - began)
                pause = _FIRST_PAUSE
            else:
                queue.postpone(run[0].lane)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2.0 * pause, _LONGEST_PAUSE)
        self._fallback.note_answer()  # slow or not, it answers: the next callers will tell

    def _settle(self, lane: Lane, results: Sequence[ServiceError | None]) -> int:
        """Return the number of first items of a lane that are done."""
        for taken, error in enumerate(results):
            if error is not None and is_passing(error):
                return taken
            if error is not None:
                logger.warning("a %s of policy %s was refused: %s", *lane, error)
            self._fallback.queue.done(lane)
        return len(results)

    async def _send(self, run: Sequence[Item]) -> list[ServiceError | None]:
        """Return for each item None, or the error that the service answered."""
        kind, policy = run[0].lane
        is_one = len(run) == 1
        sent = call(_OPERATIONS[kind][0 if is_one else 1], policy=policy)
        bodies = b",".join(item.body for item in run)
        body = bodies if is_one else b'{"%ss":[%b]}' % (kind.encode(), bodies)
        answer = await self._http.request("POST", sent.path, content=body)
        said = sent.read(answer.status_code, answer.content)
        if is_one:
            return [None]
        if len(said.results) != len(run):
            raise ServiceError(f"{len(said.results)} answers came to a batch of {len(run)}")
        return [
            None if 200 <= each.status < 300 else error_of(each.status, each.error)
            for each in said.results
        ]


class _Background:
    """An event loop in a thread, which makes calls with a budget for the blocking client."""

    def __init__(self, settings: dict[str, Any], fallback: Fallback) -> None:
        self.sender = _Sender(settings, fallback)
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
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self) -> None:
        self.run(self.sender.end()).result()
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
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://; got {url!r}")
        if key is not None and (not isinstance(key, str) or not key):
            raise ValueError(f"key must be a text, or None; got {type(key).__name__}")
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._patience = number("patience", patience, at_least=0)
        self._settings: dict[str, Any] = {
            "base_url": url,
            "headers": {"content-type": "application/json", **headers},
            "timeout": number("timeout", timeout, above=0),
            "verify": httpx.create_ssl_context(),  # takes a while, and two may need it
        }
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
        self._http = httpx.Client(**self._settings)
        self._lock = threading.Lock()
        self._background: _Background | None = None
        if self.unsent:
            self._send_later()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def flush(self, patience: float = 60.0) -> int:
        """Wait until everything was sent, or patience ends; how many are left."""
        end = time.monotonic() + number("patience", patience, at_least=0)
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
        background = self._running()
        asked = background.run(background.sender.ask(call))
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
        self._sender = _Sender(self._settings, self._fallback)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def flush(self, patience: float = 60.0) -> int:
        """Wait until everything was sent, or patience ends; how many are left."""
        end = time.monotonic() + number("patience", patience, at_least=0)
        while self.unsent and time.monotonic() < end:
            self._sender.send()
            await asyncio.sleep(_LOOK_EVERY_S)
        return self.unsent

    async def close(self) -> None:
        if self.unsent:
            await self.flush(_LAST_FLUSH_S)
        await self._sender.end()
        self._fallback.queue.close()

    async def _run(self, describe: Callable[[], Call[Answer]]) -> Answer:
        call = describe()
        self._sender.send()  # what an earlier process has left
        if call.stand_in is not None:
            return await self._sender.ask(call)
        return await self._sender.tried(call, patience=self._patience)
