"""How a request gets to its handler: key, role, limits, body; and how an answer leaves.

An endpoint is a plain ASGI application, so nothing stands between the server and the handler.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from driftbandits.service.auth import NOBODY, READER, Caller, Keyring, RateLimit
from driftbandits.service.bodies import decoded
from driftbandits.service.commands import Command
from driftbandits.service.engine import Engine
from driftbandits.service.metrics import Metrics
from driftbandits.service.problems import Refused, unavailable
from driftbandits.store import StoreError
from driftbandits.wire import NAME_PATTERN, ErrorAnswer

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

logger = logging.getLogger("driftbandits.service")

SHORT = 60_000
"""Bytes of a body that uvicorn takes in without being asked for them."""

_NAME = re.compile(NAME_PATTERN)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_encode = msgspec.json.Encoder().encode
_STATUS_LINES = {
    int(status): f"HTTP/1.1 {int(status)} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_OK = _STATUS_LINES[200] + b"content-type: application/json\r\ncontent-length: "


class Limits(NamedTuple):
    """What a deployment may set."""

    body_bytes: int = 2 * 1024 * 1024
    pending_per_key: int = 100_000
    rate_per_key: float | None = None


class Head:
    """What comes before the body of a request. A caller may repeat it, and is known then."""

    __slots__ = ("accept", "admitted", "headers", "method", "path", "policy", "query_string")

    def __init__(self, scope: Scope, policy: str) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.policy = policy  # "" where the path names none
        self.query_string: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.accept = self.headers.get(b"accept", b"").decode("latin-1")
        self.admitted: tuple[int, Caller] | None = None  # by which edition of the keys


class Call(NamedTuple):
    """What a handler is given."""

    caller: Caller
    policy: str  # "" where the path names none
    path: str
    query: Mapping[str, str]
    accept: str
    body: Any


class Reply(NamedTuple):
    """What a handler gives back."""

    body: Any  # a struct, or bytes
    status: int = 200
    media_type: str = "application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


Handler = Callable[["Gate", Call], Awaitable[Reply]]


class Action:
    """A handler with what it asks for; or only a command, whose result is the reply."""

    def __init__(
        self,
        handler: Handler | None = None,
        *,
        command: Callable[[Gate, Call], Command] | None = None,
        role: str | None = READER,
        request: type | None = None,
        answer: type | None = None,
        statuses: tuple[int, ...] = (),
        query: Mapping[str, str] | None = None,
        summary: str,
        media_types: tuple[str, ...] = ("application/json",),
        limited: bool = True,
    ) -> None:
        self.handler = handler or self._obey
        self.command = command
        self.role = role  # None: open to all
        self.request = request
        self.answer = answer
        self.statuses = statuses
        self.query = query or {}
        self.summary = summary
        self.media_types = media_types
        self.limited = limited
        self.decoder: msgspec.json.Decoder[Any] | None = (
            None if request is None else msgspec.json.Decoder(request)
        )

    async def _obey(self, gate: Gate, call: Call) -> Reply:
        assert self.command is not None
        result = await gate.engine.do(self.command(gate, call))
        if isinstance(result, Refused):
            raise result
        return Reply(result)


class Gate:
    """What all endpoints share."""

    def __init__(
        self,
        engine: Engine,
        *,
        keyring: Keyring | None,
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self.engine = engine
        self.keyring = keyring
        self.limits = limits
        self.metrics = metrics
        rate = limits.rate_per_key
        self.rate = RateLimit(rate) if rate is not None and keyring is not None else None

    @property
    def must_refresh(self) -> bool:
        """Whether the keys have to be read again before a caller can be told."""
        return self.keyring is not None and self.keyring.is_old

    @property
    def edition(self) -> int:
        """Changes when a caller who was let in may no longer be."""
        return 0 if self.keyring is None else self.keyring.edition

    async def refresh(self) -> None:
        if self.keyring is not None:
            await asyncio.to_thread(self.keyring.refresh)

    def caller(self, headers: Mapping[bytes, bytes]) -> Caller:
        if self.keyring is None:
            _check_local(headers)
            return NOBODY
        return self.keyring.caller(headers.get(b"authorization", b"").decode("latin-1"))


def _check_local(headers: Mapping[bytes, bytes]) -> None:
    """Without keys, pages of other sites must not reach the service through a browser."""
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin")
    try:
        name = urlsplit(f"//{host}").hostname
        site = host if origin is None else urlsplit(origin.decode("latin-1")).netloc
    except ValueError as error:
        raise Refused(400, "malformed", f"Host or Origin is no address: {error}") from None
    if name not in _LOOPBACK:
        raise Refused(403, "other_host", "without keys only a loopback address is answered")
    if site != host:
        raise Refused(403, "other_origin", "without keys no other site's page is answered")


class Endpoint:
    """One path: an action for each method."""

    def __init__(self, gate: Gate, route: str, actions: Mapping[str, Action]) -> None:
        self._gate = gate
        self._route = route
        self._actions = actions
        self._allow = ", ".join(actions).encode()
        self._most = gate.limits.body_bytes
        self.most_short = min(self._most, SHORT)

    async def __call__(self, head: Head, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        reply = await self._reply(head, receive)
        if reply is None:
            return
        await _send(send, reply, bodiless=head.method == "HEAD")
        self._count(head, reply.status, began)

    def is_quick(self, head: Head) -> bool:
        """Whether `begin` may be called for a request: no part of it has to be waited for."""
        action = self._actions.get(head.method)
        return action is not None and action.command is not None and not self._gate.must_refresh

    def begin(self, head: Head, raw: bytes, answer: Callable[[bytes], None]) -> None:
        """Begin a request that is here as a whole; `answer` is called with the reply's bytes."""
        began = time.perf_counter()

        def give(result: Any) -> None:
            if isinstance(result, Refused):
                reply = self._refusal(result)
                answer(_written(reply))
                self._count(head, reply.status, began)
            else:
                body = _encode(result)
                answer(b"%b%d\r\n\r\n%b" % (_OK, len(body), body))
                self._count(head, 200, began)

        try:
            action = self._actions[head.method]
            call = self._call(action, self._admitted(action, head), head, raw)
            assert action.command is not None
            self._gate.engine.begin(action.command(self._gate, call), give)
        except Exception as error:
            give(self._refused(head, error))

    def _count(self, head: Head, status: int, began: float) -> None:
        seconds = time.perf_counter() - began
        method = head.method if head.method in self._actions else "other"
        self._gate.metrics.request(method, self._route, status, seconds)

    async def _reply(self, head: Head, receive: Receive) -> Reply | None:
        try:
            action = self._actions.get("GET" if head.method == "HEAD" else head.method)
            if action is None:
                raise Refused(405, "no_such_method", f"allowed here: {self._allow.decode()}")
            if action.role is not None and self._gate.must_refresh:
                await self._gate.refresh()
            caller = self._admitted(action, head)
            raw = b""
            if action.decoder is not None:
                whole = await _body(receive, head.headers, self._most)
                if whole is None:
                    return None
                raw = whole
            return await action.handler(self._gate, self._call(action, caller, head, raw))
        except Exception as error:
            return self._refusal(self._refused(head, error))

    def _admitted(self, action: Action, head: Head) -> Caller:
        gate = self._gate
        if head.admitted is None or head.admitted[0] != gate.edition:
            head.admitted = gate.edition, self._checked(action, head)
        caller = head.admitted[1]
        if gate.rate is not None and action.limited and action.role is not None:
            gate.rate.take(caller.key)
        return caller

    def _checked(self, action: Action, head: Head) -> Caller:
        if head.policy and not _NAME.match(head.policy):
            raise Refused(422, "invalid", f"policy must match {NAME_PATTERN}", path="policy")
        if action.role is None:
            return NOBODY
        caller = self._gate.caller(head.headers)
        caller.check(action.role, head.policy or None)
        return caller

    def _call(self, action: Action, caller: Caller, head: Head, raw: bytes) -> Call:
        body = None if action.decoder is None else decoded(raw, action.decoder)
        query = _query(head.query_string, action.query)
        return Call(caller, head.policy, head.path, query, head.accept, body)

    def _refused(self, head: Head, error: Exception) -> Refused:
        if isinstance(error, Refused):
            return error
        if isinstance(error, StoreError):
            logger.error("%s", error)
            return unavailable("storage_unavailable", "the log cannot be read at present")
        logger.error("%s %s failed", head.method, self._route, exc_info=error)
        return Refused(500, "internal", "the request failed")

    def _refusal(self, refused: Refused) -> Reply:
        headers: list[tuple[bytes, bytes]] = []
        if refused.retry_after_s is not None:
            headers.append((b"retry-after", str(refused.retry_after_s).encode()))
        if refused.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if refused.status == 405:
            headers.append((b"allow", self._allow))
        if refused.status == 413:
            headers.append((b"connection", b"close"))  # the rest of the body is not wanted
        return Reply(ErrorAnswer(refused.problem), refused.status, headers=tuple(headers))


def _headers_and_body(reply: Reply) -> tuple[list[tuple[bytes, bytes]], bytes]:
    body = reply.body if isinstance(reply.body, bytes) else _encode(reply.body)
    headers = [
        (b"content-type", reply.media_type.encode()),
        (b"content-length", b"%d" % len(body)),
        *reply.headers,
    ]
    return headers, body


async def _send(send: Send, reply: Reply, *, bodiless: bool) -> None:
    headers, body = _headers_and_body(reply)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if bodiless else body})


def _written(reply: Reply) -> bytes:
    """The reply as it goes over the wire."""
    headers, body = _headers_and_body(reply)
    lines = b"".join([b"%b: %b\r\n" % header for header in headers])
    return b"%b%b\r\n%b" % (_STATUS_LINES[reply.status], lines, body)


async def _body(receive: Receive, headers: Mapping[bytes, bytes], most: int) -> bytes | None:
    """The body, counted as it comes; None if the caller went away."""
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False) and len(body) <= most:
        message = await receive()
        body += message.get("body", b"")
    if message["type"] == "http.disconnect":
        return None
    if len(body) > most:
        raise _too_large(most)
    return body


def _too_large(most: int) -> Refused:
    return Refused(413, "too_large", f"a body may have {most} bytes")


def _query(raw: bytes, known: Mapping[str, str]) -> dict[str, str]:
    if not raw:
        return {}
    query = {}
    for name, values in parse_qs(raw.decode("latin-1"), keep_blank_values=True).items():
        if name not in known or len(values) > 1:
            allowed = ", ".join(known) or "none"
            raise Refused(422, "invalid", f"query parameters here, once each: {allowed}", path=name)
        query[name] = values[0]
    return query


def whole_number(query: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    """A query parameter that counts."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) > most:
        raise Refused(
            422, "invalid", f"{name} must be an integer from 0 to {most}; got {text!r}", path=name
        )
    return int(text)
