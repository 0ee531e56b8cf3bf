"""The service behind the routes: settings, start, callers and end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar

import msgspec
from starlette.types import Scope

from driftbandits import store
from driftbandits.service.auth import (
    NOBODY,
    REFRESH_EVERY_S,
    Caller,
    Keyring,
    RateLimit,
    check_local,
    make_first_admin_key,
)
from driftbandits.service.bodies import decoded
from driftbandits.service.engine import Engine
from driftbandits.service.journal import ACCESS
from driftbandits.service.limits import Limits, Room
from driftbandits.service.metrics import Metrics
from driftbandits.service.refusals import Refused, unavailable
from driftbandits.service.transactions import Command

logger = logging.getLogger("driftbandits.service")

LONG_READS = 2
"""Exports at a time, in threads of their own, so that other requests do not wait for them."""

MOST_WAITING_READS = 8

P = ParamSpec("P")
R = TypeVar("R")


class Settings(NamedTuple):
    """The settings of a service."""

    store: str
    with_keys: bool = True
    limits: Limits = Limits()
    queue_limit: int = 2000
    snapshot_every: int = 20_000
    retention_days: float | None = None
    access_log: bool = False
    vfs: str | None = None
    clock: Callable[[], int] = time.time_ns


class Service:
    """The engine with the keys, limits and counts that every request passes."""

    def __init__(self, settings: Settings, *, on_death: Callable[[], None]) -> None:
        self._release = store.claim(settings.store)
        self.keyring, self.first_key = None, None
        if settings.with_keys:
            keys = store.open(settings.store, vfs=settings.vfs)
            self.first_key = make_first_admin_key(keys, now_ns=settings.clock())
            self.keyring = Keyring(keys)
            self.keyring.refresh()
        self.limits = settings.limits
        self.room = Room(settings.limits.waiting_bytes)
        rate = settings.limits.rate_per_key
        self.rate = RateLimit(rate) if rate is not None and settings.with_keys else None
        self.access = logging.getLogger(ACCESS) if settings.access_log else None
        self.engine = Engine(
            lambda: store.open(settings.store, vfs=settings.vfs),
            clock=settings.clock,
            queue_limit=settings.queue_limit,
            snapshot_every=settings.snapshot_every,
            retention_days=settings.retention_days,
            on_death=on_death,
        )
        self.metrics: Metrics = self.engine.metrics
        self._bodies = ThreadPoolExecutor(1, thread_name_prefix="bodies")
        self._reads = ThreadPoolExecutor(LONG_READS, thread_name_prefix="reads")
        self._reading = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let the engine run and the keys be read again; at the end finish what waits."""
        loop = asyncio.get_running_loop()
        self.engine.start(loop)
        refreshing = loop.create_task(self._refresh_keys())
        try:
            yield
        finally:
            refreshing.cancel()
            self._bodies.shutdown(wait=False, cancel_futures=True)
            self._reads.shutdown(wait=False, cancel_futures=True)
            await self.engine.stop()
            self._release()

    async def _refresh_keys(self) -> None:
        """Read the keys again and again, in a thread of their own.

        So a long export cannot keep a revoked key valid.
        """
        if self.keyring is None:
            return
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="keys") as thread:
            while True:
                await asyncio.sleep(REFRESH_EVERY_S)
                try:
                    await loop.run_in_executor(thread, self.keyring.refresh)
                except store.StoreError as error:
                    logger.warning("the keys cannot be read: %s", error)

    def caller(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Caller:
        """Return the caller of a request, or refuse it."""
        if self.keyring is None:
            check_local(scope["headers"])
            return NOBODY
        return self.keyring.caller(headers.get(b"authorization", b"").decode("latin-1"))

    async def do(self, command: Command) -> Any:
        """The answer of a command once it is durable; a refusal is raised."""
        answer = await self.engine.do(command)
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def decoded(self, raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
        """The struct of a large body. Only one thread decodes, so the loop waits for no more."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._bodies, decoded, raw, decoder)

    async def read(self, work: Callable[P, R], *arguments: P.args, **more: P.kwargs) -> R:
        """Return the result of long work in the log; refuse too much of it at a time."""
        if self._reading >= LONG_READS + MOST_WAITING_READS:
            waiting = f"{self._reading} exports are under way or wait already"
            raise unavailable("overloaded", waiting)
        self._reading += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._reads, lambda: work(*arguments, **more))
        finally:
            self._reading -= 1
