"""One path of the service as an ASGI application.

An endpoint checks key, role, limits and body once, calls the route of the request's method, and
sends its response. Every refusal has the same form, whoever raises it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
from starlette.types import Receive, Scope, Send

from driftbandits.api import ID_PATTERN, NAME_PATTERN, ErrorAnswer
from driftbandits.api.operations import Role
from driftbandits.service.auth import NOBODY, READER, Caller
from driftbandits.service.bodies import decoded
from driftbandits.service.journal import new_request_id
from driftbandits.service.refusals import Refused, unavailable
from driftbandits.store import StoreError

if TYPE_CHECKING:
    from driftbandits.service.serving import Service

logger = logging.getLogger("driftbandits.service")

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

_REQUEST_ID = b"x-request-id"
_encode = msgspec.json.Encoder().encode


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

    @property
    def announced(self) -> int:
        """Bytes of the body as its head says; 0 where only its end will tell."""
        size = self.headers.get(b"content-length", b"")
        return int(size) if size.isdigit() and len(size) < 19 else 0


class Response(NamedTuple):
    """The answer to a request."""

    body: Any  # a struct, or bytes
    status: int = 200
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


Serve = Callable[["Service", Request], Awaitable[Any]]


class Route(NamedTuple):
    """A function that answers with a struct or a response, and what it asks of a request."""

    serve: Serve
    role: Role | None = READER  # None: open to all
    decoder: msgspec.json.Decoder[Any] | None = None
    query: Collection[str] = ()
    limited: bool = True  # whether it counts against the rate of a key


_COUNTED = ("GET", "HEAD", "POST", "PUT", "DELETE")
"""Methods that metrics tell apart; a caller may invent others."""


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
                self._hold(request, request.announced)
                body = await self._received(request, receive)
                if body is None:  # the caller went away
                    return
                if len(body) <= LARGE_BODY:
                    request.body = decoded(body, route.decoder)
                else:
                    request.body = await self._service.decoded(body, route.decoder)
            answer = await route.serve(self._service, request)
            response = answer if isinstance(answer, Response) else Response(answer)
        except Refused as refused:
            response = self._refusal(refused)
        except Exception as error:
            response = self._failure(request, error)
        finally:
            self._service.room.give_back(request.caller.key, request.held)
        await self._send(request, response, send, began)

    def _admit(self, request: Request) -> Route:
        """Return the route of a request whose caller may use it; its body has not come yet."""
        service = self._service
        if not self._routes:
            raise Refused(404, "not_found", "there is nothing at this path; see /openapi.json")
        route = self._routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            raise Refused(405, "no_such_method", f"allowed here: {', '.join(self._routes)}")
        _check_names(request)
        if route.role is not None:
            request.caller = service.caller(request.scope, request.headers)
            request.caller.check(route.role, request.policy or None)
            if route.limited and service.rate is not None:
                service.rate.take(request.caller.key)
        if request.scope["query_string"]:
            request.query = _query(request.scope["query_string"], route.query)
        if route.decoder is not None and request.announced > service.limits.body_bytes:
            raise _too_large(service.limits.body_bytes)
        return route

    def _hold(self, request: Request, size: int) -> None:
        """Reserve room for a body of this size."""
        if size > request.held:
            self._service.room.take(request.caller.key, size - request.held)
            request.held = size

    async def _received(self, request: Request, receive: Receive) -> bytes | None:
        """The body, for which there is room; None if its caller went away."""
        body, most = bytearray(), self._service.limits.body_bytes
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > most:
                    raise _too_large(most)
                self._hold(request, len(body))
                if not message.get("more_body", False):
                    return bytes(body)
        except Refused as refused:
            refused.is_last = True  # the rest of the body is not wanted
            raise

    def _refusal(self, refused: Refused) -> Response:
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

    def _failure(self, request: Request, error: Exception) -> Response:
        request.id = request.id or new_request_id()
        about = {"request_id": request.id}
        if isinstance(error, StoreError):
            logger.error("%s", error, extra=about)
            refused = unavailable("storage_unavailable", "the log cannot be read at present")
        else:
            place = f"{request.method} {self._path}"
            logger.error("%s failed", place, exc_info=error, extra=about)
            refused = Refused(500, "internal", "the request failed")
        return self._refusal(refused)

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


def _check_names(request: Request) -> None:
    """Refuse what names nothing; an encoded slash is part of a name, and only ids have one."""
    path: bytes = request.scope.get("raw_path") or b""
    if b"%" in path and b"%2f" in path.partition(b"/explanations/")[0].lower():
        raise Refused(404, "not_found", "an encoded slash is no part of a path or a name")
    for kind, name in request.names.items():
        if not _PATTERNS[kind].match(name):
            message = f"{kind} must match {_PATTERNS[kind].pattern}; got {name!r}"
            raise Refused(422, "invalid", message, path=kind)


def _query(raw: bytes, known: Collection[str]) -> dict[str, str]:
    """The parameters of a query, each of them known and given once."""
    found = {}
    for name, values in parse_qs(raw.decode("latin-1"), keep_blank_values=True).items():
        if name not in known or len(values) > 1:
            allowed = ", ".join(known) or "none"
            raise Refused(422, "invalid", f"query parameters here, once each: {allowed}", path=name)
        found[name] = values[0]
    return found


def _too_large(most: int) -> Refused:
    return Refused(413, "too_large", f"a body may have {most} bytes", is_last=True)
