"""Asking within a budget, and sending the outbox, in an event loop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from driftbandits import operations
from driftbandits.client.calls import Call, Tries, call
from driftbandits.client.desk import Desk, is_passing
from driftbandits.client.errors import NoAnswer, ServiceError, error_of
from driftbandits.client.outbox import Item, Lane

if TYPE_CHECKING:
    import httpx

Answer = TypeVar("Answer")

MOST_AT_ONCE, _MOST_BYTES = 100, 500_000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_KEPT_S = 0.01
"""Of a budget, for the client's own answer and the way back to who called."""


class Courier:
    """Asks and sends, in the event loop where it is used."""

    def __init__(self, http: httpx.AsyncClient, desk: Desk, *, timeout: float) -> None:
        self._http = http
        self._timeout = timeout
        self._desk = desk
        self._sending: asyncio.Task[None] | None = None

    async def ask(self, call: Call[Answer]) -> Answer:
        """The service's answer if it comes within the budget, or the client's own."""
        given, desk = call.stand_in, self._desk
        assert given is not None
        try:
            if desk.must_wait(given):
                return desk.stand_in(call)
            try:
                patience = max(given.budget - _KEPT_S, given.budget / 2)
                async with asyncio.timeout(patience):
                    answer = await self.tried(call, patience=patience)
            except TimeoutError:
                return desk.stand_in(call, NoAnswer(f"no answer within {given.budget:g} s"))
            except ServiceError as error:
                return desk.stand_in(call, error)
            desk.breaker.close()
            return answer
        finally:
            self.send()

    async def tried(self, call: Call[Answer], *, patience: float) -> Answer:
        """The answer to a call, tried again until patience ends."""
        import httpx as kinds

        tries = Tries(call, patience=patience)
        while True:
            try:
                answer = await self._asked(call.method, call.path, call.body)
            except kinds.TransportError as error:
                await asyncio.sleep(tries.failed(error))
                continue
            wait = tries.answered(answer.status_code, answer.headers.get("retry-after"))
            if wait is None:
                return call.read(answer.status_code, answer.content)
            await asyncio.sleep(wait)

    async def _asked(self, method: str, path: str, body: bytes | None) -> httpx.Response:
        """What a process says to one try, the owner of the policy where it is known."""
        with self._desk.owners.way(path) as way:
            while True:
                answer = await self._http.request(
                    method,
                    way.target,
                    content=body,
                    headers=way.headers,
                    timeout=way.timeout(self._timeout),
                )
                if way.ends(answer.status_code, answer.headers.get("location")):
                    return answer

    def send(self) -> None:
        """See to it that the outbox is sent."""
        if len(self._desk.outbox) and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def end(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send_all(self) -> None:
        import httpx as kinds

        outbox, breaker = self._desk.outbox, self._desk.breaker
        pause, one_by_one = _FIRST_PAUSE, 0
        while run := outbox.first(most=1 if one_by_one else MOST_AT_ONCE, most_bytes=_MOST_BYTES):
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
                outbox.postpone(run[0].lane)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2.0 * pause, _LONGEST_PAUSE)
        breaker.close()  # slow or not, it answers: the next callers will tell

    def _settle(self, lane: Lane, results: Sequence[ServiceError | None]) -> int:
        """How many of the first items of a lane are dealt with."""
        for taken, error in enumerate(results):
            if error is None:
                self._desk.outbox.done(lane)
            elif is_passing(error):
                return taken
            else:
                self._desk.outbox.refuse(lane, str(error))
        return len(results)

    async def _send(self, run: Sequence[Item]) -> list[ServiceError | None]:
        """What the service said to each: nothing, or why not."""
        kind, policy = run[0].lane
        one, many = _OPERATIONS[kind]
        if len(run) == 1:
            sent = call(one, policy=policy)
            body = run[0].body
        else:
            sent = call(many, policy=policy)
            body = b'{"%ss":[%b]}' % (kind.encode(), b",".join(item.body for item in run))
        answer = await self._asked("POST", sent.path, body)
        said = sent.read(answer.status_code, answer.content)
        if len(run) == 1:
            return [None]
        return [
            None if 200 <= each.status < 300 else error_of(each.status, each.error)
            for each in said.results
        ]


_OPERATIONS: dict[str, tuple[operations.Operation[Any], operations.Operation[Any]]] = {
    "decision": (operations.DECIDE, operations.DECIDE_MANY),
    "reward": (operations.REWARD, operations.REWARD_MANY),
}
