"""The service that every request passes, and one path of it as an ASGI application.

A request passes an endpoint, which checks key, role, limits and body once; the route of its method,
which makes a command of it; a transaction of the engine, which runs the command and commits; and
the endpoint again, which sends the response. Every refusal has one form, whoever raises it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar
from urllib.parse import parse_qs

import msgspec
from starlette.types import Receive, Scope, Send

from driftbandits import store
from driftbandits.api import ID_PATTERN, NAME_PATTERN, ErrorAnswer
from driftbandits.api.operations import Role
from driftbandits.service.auth import (
    NOBODY,
    READER,
    REFRESH_EVERY_S,
    Caller,
    Keyring,
    Limits,
    RateLimit,
    Room,
    make_first_admin_key,
)
from driftbandits.service.bodies import decoded
from driftbandits.service.engine import Engine
from driftbandits.service.journal import ACCESS, new_request_id
from driftbandits.service.refusals import Refused, unavailable
from driftbandits.service.transactions import Command

logger = logging.getLogger("driftbandits.service")

LONG_READS = 2
"""Exports at a time, in threads of their own, so that other requests do not wait for them."""

MOST_WAITING_READS = 8

LARGE_BODY = 64 * 1024
"""A body above this size is decoded in a thread, one at a time."""

JSON = b"application/json"

_PATTERNS = {
    "policy": re.compile(NAME_PATTERN),
    "shadow": re.compile(NAME_PATTERN),
    "version": re.compile(r"[0-9]{1,9}\Z"),
    "event_id": re.compile(ID_PATTERN),
}
"""Patterns of the names that a path fills in."""

_COUNTED = ("GET", "HEAD", "POST", "PUT", "DELETE")
"""Methods that metrics tell apart; a caller may invent others."""

_REQUEST_ID = b"x-request-id"
_encode = msgspec.json.Encoder().encode

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
        self.keyring, self.first_key = Keyring(None), None
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
        self.metrics = self.engine.metrics
        # Only one thread decodes, so the loop waits for no more.
        self.bodies = ThreadPoolExecutor(1, thread_name_prefix="bodies")
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
            self.bodies.shutdown(wait=False, cancel_futures=True)
            self._reads.shutdown(wait=False, cancel_futures=True)
            await self.engine.stop()
            self._release()

    async def _refresh_keys(self) -> None:
        """Read the keys again and again, in a thread of their own.

        So a long export cannot keep a revoked key valid.
        """
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="keys") as thread:
            while self.keyring.store is not None:
                await asyncio.sleep(REFRESH_EVERY_S)
                try:
                    await loop.run_in_executor(thread, self.keyring.refresh)
                except store.StoreError as error:
                    logger.warning("the keys cannot be read: %s", error)

    async def do(self, command: Command) -> Any:
        """The answer of a command once it is durable; a refusal is raised."""
        answer = await self.engine.do(command)
        if isinstance(answer, Refused):
            raise answer
        return answer

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


class Request:
    """A request, as its route sees it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.names: Mapping[str, str] = scope.get("path_params", {})
        self.policy = self.names.get("policy", "")
        self.query: Mapping[str, str] = {}
        self.caller: Caller = NOBODY
        self.body: Any = None  # the struct that the operation asks for
        self.held = 0  # bytes of the room for bodies
        given = self.headers.get(_REQUEST_ID, b"").decode("latin-1")
        self.id = given if given and _PATTERNS["event_id"].match(given) else ""


class Response(NamedTuple):
    """The answer to a request."""

    body: Any  # a struct, or bytes
    status: int = 200
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


Serve = Callable[[Service, Request], Awaitable[Any]]


class Route(NamedTuple):
    """A function that answers with a struct or a response, and what it asks of a request."""

    serve: Serve
    role: Role | None = READER  # None: open to all
    decoder: msgspec.json.Decoder[Any] | None = None
    query: Collection[str] = ()
    limited: bool = True  # whether it counts against the rate of a key


class Endpoint:
    """Serve one path; without routes there is nothing at it."""

    def __init__(self, service: Service, path: str, routes: Mapping[str, Route]) -> None:
        self._service = service
        self._path = path
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = Request(scope)
        try:
            route = self._admit(request)
            if route.decoder is not None:
                request.body = await self._body(request, route.decoder, receive)
                if request.body is None:
                    return
            answer = await route.serve(self._service, request)
            response = answer if isinstance(answer, Response) else Response(answer)
        except Exception as error:
            response = self._refusal(request, error)
        finally:
            self._service.room.give_back(request.caller.key, request.held)
        await self._send(request, response, send, began)

    def _admit(self, request: Request) -> Route:
        """Return the route of a request whose caller may use it; its body has not come yet."""
        if not self._routes:
            raise Refused(404, "not_found", "there is nothing at this path; see /openapi.json")
        route = self._routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            raise Refused(405, "no_such_method", f"allowed here: {', '.join(self._routes)}")
        path: bytes = request.scope.get("raw_path") or b""
        if b"%" in path and b"%2f" in path.partition(b"/explanations/")[0].lower():
            # an encoded slash is part of a name, and only ids have one
            raise Refused(404, "not_found", "an encoded slash is no part of a path or a name")
        for kind, name in request.names.items():
            if not _PATTERNS[kind].match(name):
                message = f"{kind} must match {_PATTERNS[kind].pattern}; got {name!r}"
                raise Refused(422, "invalid", message, path=kind)
        if route.role is not None:
            service, authorization = self._service, request.headers.get(b"authorization", b"")
            request.caller = service.keyring.caller(request.scope["headers"], authorization)
            request.caller.check(route.role, request.policy)
            if route.limited and service.rate is not None:
                service.rate.take(request.caller.key)
        if request.scope["query_string"]:
            request.query = _query(request.scope["query_string"], route.query)
        return route

    async def _body(
        self, request: Request, decoder: msgspec.json.Decoder[Any], receive: Receive
    ) -> Any:
        """The struct of a body for which there is room; None if its caller went away."""
        service, most = self._service, self._service.limits.body_bytes
        announced = request.headers.get(b"content-length", b"")
        size = int(announced) if announced.isdigit() and len(announced) < 19 else 0
        body, more = bytearray(), True
        try:
            while True:
                size = max(size, len(body))
                if size > most:
                    raise Refused(413, "too_large", f"a body may have {most} bytes")
                if size > request.held:
                    service.room.take(request.caller.key, size - request.held)
                    request.held = size
                if not more:
                    break
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                more = message.get("more_body", False)
        except Refused as refused:
            refused.is_last = True  # the rest of the body is not wanted
            raise
        if len(body) <= LARGE_BODY:
            return decoded(bytes(body), decoder)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(service.bodies, decoded, bytes(body), decoder)

    def _refusal(self, request: Request, error: Exception) -> Response:
        """Return the one form of every refusal, whoever raised it."""
        if isinstance(error, Refused):
            refused = error
        else:
            request.id = request.id or new_request_id()
            about = {"request_id": request.id}
            if isinstance(error, store.StoreError):
                logger.error("%s", error, extra=about)
                refused = unavailable("storage_unavailable", "the log cannot be read at present")
            else:
                place = f"{request.method} {self._path}"
                logger.error("%s failed", place, exc_info=error, extra=about)
                refused = Refused(500, "internal", "the request failed")
        headers: list[tuple[bytes, bytes]] = []
        if refused.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % refused.retry_after_s))
        if refused.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if refused.status == 405:
            headers.append((b"allow", ", ".join(self._routes).encode()))
        if refused.is_last:
            headers.append((b"connection", b"close"))
        return Response(ErrorAnswer(refused.problem), refused.status, headers=tuple(headers))

    async def _send(self, request: Request, response: Response, send: Send, began: float) -> None:
        """Send, count and log a response; it has the id of its request, if that has one."""
        content = response.body if isinstance(response.body, bytes) else _encode(response.body)
        headers = [
            (b"content-type", response.media_type),
            (b"content-length", b"%d" % len(content)),
            *response.headers,
        ]
        service, seconds = self._service, time.perf_counter() - began
        method = request.method if request.method in _COUNTED else "other"
        service.metrics.request(method, self._path, response.status, seconds)
        if service.access is not None:
            request.id = request.id or new_request_id()
            policy = request.policy if _PATTERNS["policy"].match(request.policy) else ""
            about = {
                "request_id": request.id,
                "method": method,
                "route": self._path,
                "status": response.status,
                "ms": round(1e3 * seconds, 3),
                "policy": policy,
                "key": request.caller.key,
            }
            service.access.info("%s %s %d", method, self._path, response.status, extra=about)
        if request.id:
            headers.append((_REQUEST_ID, request.id.encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _query(raw: bytes, known: Collection[str]) -> dict[str, str]:
    """The parameters of a query, each of them known and given once."""
    found = {}
    for name, values in parse_qs(raw.decode("latin-1"), keep_blank_values=True).items():
        if name not in known or len(values) > 1:
            allowed = ", ".join(known) or "none"
            raise Refused(422, "invalid", f"query parameters here, once each: {allowed}", path=name)
        found[name] = values[0]
    return found
