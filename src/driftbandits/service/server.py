"""A listening socket, its connections, and how all of them end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from driftbandits.service.app import Application
from driftbandits.service.connections import Connection

logger = logging.getLogger("driftbandits.service")

LONGEST_END_S = 10.0
"""How long requests that have come may take to be answered, once the server ends."""

_LOOK_EVERY_S = 4.0  # a timer for every request would cost more than the rest of its connection
_NOTICE_AFTER_S = 0.1
_BACKLOG = 2048
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections already, so that the address may be told."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ValueError(f"port {port} of {host} cannot be used: {error}") from None
    listener.listen(_BACKLOG)
    return listener


class Server:
    """Serves an application until a signal or `stop` ends it."""

    def __init__(self, application: Application, listener: socket.socket) -> None:
        self._application = application
        self._listener = listener
        self._connections: set[Connection] = set()
        self._must_end = False
        self._signals: list[int] = []

    def run(self) -> None:
        """Serve; a signal that ended it is raised again, for who started this process."""
        with self._taking_signals(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(self._serve())
        for number in reversed(self._signals):
            signal.raise_signal(number)

    def stop(self) -> None:
        """Answer what has come, and end; from any thread."""
        self._must_end = True

    @contextmanager
    def _taking_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._take_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _take_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)
        self.stop()

    async def _serve(self) -> None:
        async with self._application.running():
            server = await asyncio.get_running_loop().create_server(
                lambda: Connection(self._application, self._connections),
                sock=self._listener,
                backlog=_BACKLOG,
            )
            await self._watch()
            server.close()
            await self._end_connections()

    async def _watch(self) -> None:
        """Give up on callers that have let their time pass, until the server has to end."""
        loop = asyncio.get_running_loop()
        next_look = loop.time() + _LOOK_EVERY_S
        while not self._must_end:
            await asyncio.sleep(_NOTICE_AFTER_S)
            if loop.time() >= next_look:
                next_look = loop.time() + _LOOK_EVERY_S
                for connection in list(self._connections):
                    connection.look_at_the_clock()

    async def _end_connections(self) -> None:
        for connection in list(self._connections):
            connection.finish()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LONGEST_END_S
        while self._connections and loop.time() < deadline and len(self._signals) < 2:
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            logger.error("a connection ends without an answer")
            connection.abort()
        await asyncio.sleep(0)  # so that they are gone before the loop is


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ModuleNotFoundError:  # there is none for this system
        return asyncio.new_event_loop
    return uvloop.new_event_loop
