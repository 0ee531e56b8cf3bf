"""Work beside the requests that takes long: a few at a time, in threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from driftbandits.service.refusals import unavailable

AT_A_TIME = 2
MOST_WAITING = 8

P = ParamSpec("P")
R = TypeVar("R")


class Exports:
    """Threads for those who read the log. Nobody else waits for them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="exports")
        self._here = 0

    async def run(self, work: Callable[P, R], *arguments: P.args, **more: P.kwargs) -> R:
        """What the work gives, once one of the threads has done it; too many are refused."""
        if self._here >= AT_A_TIME + MOST_WAITING:
            raise unavailable("overloaded", f"{self._here} exports are under way or wait already")
        self._here += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, lambda: work(*arguments, **more))
        finally:
            self._here -= 1

    def end(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
