"""Asking within a budget, and sending the queue, in an event loop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from driftbandits.api import operations
from driftbandits.client.calls import Call, Tries, call
from driftbandits.client.errors import NoAnswer, ServiceError, error_of
from driftbandits.client.fallback import Fallback, is_passing
from driftbandits.client.queue import Item, Lane

if TYPE_CHECKING:
    import httpx

Answer = TypeVar("Answer")

MOST_AT_ONCE, _MOST_BYTES = 100, 500_000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_KEPT_S = 0.01
"""The part of a budget that is kept for the client's own answer."""


class Sender:
    """Asks and sends, in the event loop where it is used."""

    def __init__(self, http: httpx.AsyncClient, fallback: Fallback) -> None:
        self._http = http
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
            fallback.breaker.close()
            return answer
        finally:
            self.send()

    async def tried(self, call: Call[Answer], *, patience: float) -> Answer:
        """The answer to a call, tried again until patience ends."""
        import httpx as kinds

        tries = Tries(call, patience=patience)
        while True:
            try:
                answer = await self._http.request(call.method, call.path, content=call.body)
            except kinds.TransportError as error:
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

    async def _send_all(self) -> None:
        import httpx as kinds

        queue, breaker = self._fallback.queue, self._fallback.breaker
        pause, one_by_one = _FIRST_PAUSE, 0
        while run := queue.first(most=1 if one_by_one else MOST_AT_ONCE, most_bytes=_MOST_BYTES):
            began = time.monotonic()
            try:
                results = await self._send(run)
            except kinds.TransportError:
                results = [NoAnswer("no answer")]
            except ServiceError as error:
                results = [error]
                if len(run) > 1 and not is_passing(error):
                    one_by_one = len(run)  # one of them is to blame
                    continue
            taken = self._settle(run[0].lane, results)
            one_by_one = max(0, one_by_one - taken)
            if taken == len(run):
                breaker.answered(time.monotonic() - began)
                pause = _FIRST_PAUSE
            else:
                queue.postpone(run[0].lane)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2.0 * pause, _LONGEST_PAUSE)
        breaker.close()  # slow or not, it answers: the next callers will tell

    def _settle(self, lane: Lane, results: Sequence[ServiceError | None]) -> int:
        """Return the number of first items of a lane that are done."""
        for taken, error in enumerate(results):
            if error is None:
                self._fallback.queue.done(lane)
            elif is_passing(error):
                return taken
            else:
                self._fallback.queue.refuse(lane, str(error))
        return len(results)

    async def _send(self, run: Sequence[Item]) -> list[ServiceError | None]:
        """Return for each item None, or the error that the service answered."""
        kind, policy = run[0].lane
        one, many = _OPERATIONS[kind]
        if len(run) == 1:
            sent = call(one, policy=policy)
            body = run[0].body
        else:
            sent = call(many, policy=policy)
            body = b'{"%ss":[%b]}' % (kind.encode(), b",".join(item.body for item in run))
        answer = await self._http.request("POST", sent.path, content=body)
        said = sent.read(answer.status_code, answer.content)
        if len(run) == 1:
            return [None]
        if len(said.results) != len(run):
            raise ServiceError(f"{len(said.results)} answers came to a batch of {len(run)}")
        return [
            None if 200 <= each.status < 300 else error_of(each.status, each.error)
            for each in said.results
        ]


_OPERATIONS: dict[str, tuple[operations.Operation[Any], operations.Operation[Any]]] = {
    "decision": (operations.DECIDE, operations.DECIDE_MANY),
    "reward": (operations.REWARD, operations.REWARD_MANY),
}
