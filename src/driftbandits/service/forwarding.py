"""Requests on their way to the process that owns their policy, and the answers back.

The bytes of a body are handed on as they came, with the caller's own key: the owner lets it in or
not, as if it had come by itself. A request that was handed on says so, which grants it nothing; it
is only never handed on a second time.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import cast
from urllib.parse import urlsplit

from driftbandits.service.refusals import MOVED
from driftbandits.service.replies import Reply
from driftbandits.store.leases import Peer
from driftbandits.wire import ErrorAnswer

FORWARDED = b"x-driftbandits-forwarded"
_HANDED_ON = (b"authorization", b"accept", b"content-type", b"x-request-id")
_MOVED = b'"code":"%b"' % MOVED.encode()
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_OF_THE_CONNECTION = (b"content-length", b"connection", b"date", b"server", b"keep-alive")

Done = Callable[[Reply | None], None]
"""Called with the answer, or with None if none will come."""


def head_for(peer: Peer, *, method: str, target: bytes, headers: Mapping[bytes, bytes]) -> bytes:
    """What comes before the length of the body."""
    host = urlsplit(peer.address).netloc.encode()
    lines = [b"%b %b HTTP/1.1" % (method.encode(), target), b"host: " + host]
    lines += [b"%b: %b" % (name, headers[name]) for name in _HANDED_ON if name in headers]
    return b"\r\n".join([*lines, FORWARDED + b": 1", b"content-length: "])


def was_moved(reply: Reply) -> bool:
    """Whether who was asked does not own the policy any more."""
    if reply.status != 503:
        return False
    if isinstance(reply.body, ErrorAnswer):
        return reply.body.error.code == MOVED
    return _MOVED in reply.body


class _Wire(asyncio.Protocol):
    """A connection to another process: one request at a time, kept for the next."""

    def __init__(self, free: Callable[[_Wire], None], lost: Callable[[_Wire], None]) -> None:
        self._done: Done | None = None
        self._free = free
        self._lost = lost
        self._received = b""
        self._whole = 0  # how long the answer will be
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def send(self, request: bytes, done: Done) -> None:
        self._done = done
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._whole:
            end = self._received.find(_END) + len(_END)
            length = _LENGTH.search(self._received, 0, end)
            if length is None:
                if end >= len(_END):  # not what our servers answer
                    self.close()
                return
            self._whole = end + int(length[1])
        if len(self._received) < self._whole or self._done is None:
            return
        reply, keeps = _reply(self._received)
        done, self._done = self._done, None
        self._received, self._whole = b"", 0
        if keeps:
            self._free(self)
        else:
            self.close()
        done(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._lost(self)
        done, self._done = self._done, None
        if done is not None:
            done(None)

    def close(self) -> None:
        self._transport.abort()


def _reply(data: bytes) -> tuple[Reply, bool]:
    """An answer, and whether its connection may be used again."""
    head, _, body = data.partition(_END)
    status, *lines = head.split(b"\r\n")
    media_type, keeps, headers = "application/json", True, []
    for line in lines:
        name, _, value = line.partition(b": ")
        name = name.lower()
        if name == b"content-type":
            media_type = value.decode("latin-1")
        elif name == b"connection":
            keeps = value.lower() != b"close"
        elif name not in _OF_THE_CONNECTION:
            headers.append((name, value))
    return Reply(body, int(status[9:12]), media_type, tuple(headers)), keeps


def _place(peer: Peer) -> tuple[str, int]:
    address = urlsplit(peer.address)
    return address.hostname or "", address.port or 80


class Forwarding:
    """Connections to the other processes that live."""

    def __init__(self, lives: Callable[[str], bool]) -> None:
        self._lives = lives
        self._idle: defaultdict[str, list[_Wire]] = defaultdict(list)
        self._all: defaultdict[str, set[_Wire]] = defaultdict(set)
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, peer: Peer, request: bytes, done: Done) -> None:
        """Ask a process; `done` is called once, whatever happens."""
        idle = self._idle[peer.id]
        while idle:
            wire = idle.pop()
            if wire.is_open:
                wire.send(request, done)
                return
        task = asyncio.create_task(self._connect(peer, request, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def ask(self, peer: Peer, request: bytes, *, patience_s: float) -> Reply | None:
        """The same, for who can wait; None where no answer came in time."""
        answered: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()

        def done(reply: Reply | None) -> None:
            if not answered.done():
                answered.set_result(reply)

        self.send(peer, request, done)
        try:
            return await asyncio.wait_for(answered, patience_s)
        except TimeoutError:
            return None

    async def _connect(self, peer: Peer, request: bytes, done: Done) -> None:
        host, port = _place(peer)
        wire = _Wire(self._idle[peer.id].append, self._all[peer.id].discard)
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: wire, host, port)
        except OSError:
            done(None)
            return
        if not self._lives(peer.id):  # it was given up meanwhile
            wire.close()
            done(None)
            return
        self._all[peer.id].add(wire)
        wire.send(request, done)

    def drop(self, peer: Peer) -> None:
        """Wait no longer for a process that was given up."""
        self._idle.pop(peer.id, None)
        for wire in list(self._all.pop(peer.id, ())):
            wire.close()

    def end(self) -> None:
        for wires in list(self._all.values()):
            for wire in list(wires):
                wire.close()
        for task in list(self._tasks):
            task.cancel()
