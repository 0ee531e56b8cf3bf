"""From a request to its handler: key, role, limits, body; and from its result to a reply."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from driftbandits.service.auth import NOBODY, READER, Caller, Keyring, RateLimit
from driftbandits.service.bodies import decoded
from driftbandits.service.commands import Command
from driftbandits.service.engine import Engine
from driftbandits.service.exports import Exports
from driftbandits.service.forwarding import FORWARDED, Forwarding, head_for, was_moved
from driftbandits.service.hosts import is_loopback
from driftbandits.service.journal import ACCESS, new_request_id
from driftbandits.service.limits import Limits, Room
from driftbandits.service.metrics import Metrics
from driftbandits.service.refusals import Elsewhere, Refused, too_large, unavailable
from driftbandits.service.replies import Reply, refusal
from driftbandits.store import StoreError
from driftbandits.store.leases import Peer
from driftbandits.wire import ID_PATTERN, NAME_PATTERN

logger = logging.getLogger("driftbandits.service")

_NAME, _ID = re.compile(NAME_PATTERN), re.compile(ID_PATTERN)


_LARGE_BODY = 64 * 1024
REQUEST_ID = b"x-request-id"
_LONGEST_SEARCH_S = 8.0
_SEARCH_EVERY_S = 0.05


class Call(NamedTuple):
    """What a handler is given."""

    caller: Caller
    policy: str  # "" where the path names none
    item: str  # the event, version or shadow that it names, likewise
    path: str
    query: Mapping[str, str]
    accept: str
    body: Any
    envelope: Envelope


Handler = Callable[["Gate", Call], Awaitable[Reply]]
Answer = Callable[[Reply], None]


class Action:
    """A handler with what it asks for; or only a command, whose result is the reply."""

    def __init__(
        self,
        handler: Handler | None = None,
        *,
        command: Callable[[Gate, Call], Command] | None = None,
        role: str | None = READER,
        request: type | None = None,
        query: Collection[str] = (),
        limited: bool = True,
        anywhere: bool = False,
    ) -> None:
        self.handler = handler
        self.command = command
        self.role = role  # None: open to all
        self.query = query  # the names of its parameters
        self.limited = limited
        self.anywhere = anywhere  # whether any process may answer, and not only the owner
        self.decoder: msgspec.json.Decoder[Any] | None = (
            None if request is None else msgspec.json.Decoder(request)
        )


class Envelope:
    """What comes before the body of a request. A caller may repeat it, and is known then."""

    __slots__ = (
        "accept",
        "action",
        "admitted",
        "endpoint",
        "headers",
        "item",
        "method",
        "path",
        "policy",
        "query_string",
        "request_id",
        "sent_on",
        "target",
    )

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        method: str,
        path: str,
        policy: str,
        item: str,
        query_string: bytes,
        target: bytes,
        headers: Mapping[bytes, bytes],
    ) -> None:
        self.endpoint = endpoint
        self.action = endpoint.action(method)
        self.method = method
        self.path = path
        self.policy = policy  # "" where the path names none
        self.item = item  # likewise
        self.query_string = query_string
        self.target = target  # path and query as they came
        self.headers = headers
        given = headers.get(REQUEST_ID, b"").decode("latin-1")
        self.request_id = given if _ID.match(given) else ""
        self.accept = headers.get(b"accept", b"").decode("latin-1")
        self.admitted: tuple[int, Caller] | None = None  # by which edition of the keys
        self.sent_on: tuple[str, bytes] | None = None  # to whom, and what comes before the length

    @property
    def wants_body(self) -> bool:
        return self.action is not None and self.action.decoder is not None

    @property
    def was_sent_on(self) -> bool:
        """Whether it comes from another process: then it is answered, and not sent on again."""
        return FORWARDED in self.headers

    @property
    def wants_redirect(self) -> bool:
        """Whether the caller goes to the owner by itself."""
        return self.headers.get(b"prefer", b"").lower() == b"redirect"

    def request_to(self, peer: Peer, raw: bytes) -> bytes:
        """The same request for another process."""
        if self.sent_on is None or self.sent_on[0] != peer.id:
            method = "GET" if self.method == "HEAD" else self.method
            head = head_for(peer, method=method, target=self.target, headers=self.headers)
            self.sent_on = peer.id, head
        return b"%b%d\r\n\r\n%b" % (self.sent_on[1], len(raw), raw)


class Gate:
    """What all endpoints share."""

    def __init__(
        self,
        engine: Engine,
        *,
        keyring: Keyring | None,
        limits: Limits,
        metrics: Metrics,
        access_log: bool = False,
    ) -> None:
        self.engine = engine
        self.keyring = keyring
        self.limits = limits
        self.metrics = metrics
        self.access = logging.getLogger(ACCESS) if access_log else None
        self.tasks: set[asyncio.Task[None]] = set()  # the loop itself does not hold them
        self.room = Room(limits.waiting_bytes)
        self.exports = Exports()
        self.owners = engine.owners
        self.forwarding = Forwarding(lives=lambda id: id in engine.owners.peers)
        engine.when_given_up = self.forwarding.drop
        rate = limits.rate_per_key
        self.rate = RateLimit(rate) if rate is not None and keyring is not None else None

    @property
    def edition(self) -> int:
        """Changes when a caller who was let in may no longer be."""
        return 0 if self.keyring is None else self.keyring.edition

    def check_keys_are_fresh(self) -> None:
        if self.keyring is not None and self.keyring.is_old:
            raise unavailable("storage_unavailable", "the keys cannot be read at present")

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
    if not is_loopback(name or ""):
        raise Refused(403, "other_host", "without keys only a loopback address is answered")
    if site != host:
        raise Refused(403, "other_origin", "without keys no other site's page is answered")


class Endpoint:
    """One path: an action for each method, and perhaps one for whatever method comes."""

    def __init__(
        self,
        gate: Gate,
        route: str,
        actions: Mapping[str, Action],
        *,
        otherwise: Action | None = None,
    ) -> None:
        self._gate = gate
        self._route = route
        self._actions = actions
        self._otherwise = otherwise
        self._allow = ", ".join(actions).encode()
        self.most = gate.limits.body_bytes

    def action(self, method: str) -> Action | None:
        return self._actions.get("GET" if method == "HEAD" else method, self._otherwise)

    def admit(self, envelope: Envelope, size: int) -> None:
        """Let a request in, before its body of this size is here, or raise why not."""
        action, gate = envelope.action, self._gate
        if action is None:
            raise Refused(405, "no_such_method", f"allowed here: {self._allow.decode()}")
        if action.role is not None:
            gate.check_keys_are_fresh()
        if envelope.admitted is None or envelope.admitted[0] != gate.edition:
            envelope.admitted = gate.edition, self._caller(action, envelope)
        if gate.rate is not None and action.limited and action.role is not None:
            gate.rate.take(envelope.admitted[1].key)
        if size > self.most and action.decoder is not None:
            raise too_large(self.most)

    def take_room(self, envelope: Envelope, size: int) -> None:
        """Have room for so much of an admitted request's body, or raise why not."""
        assert envelope.admitted is not None
        self._gate.room.take(envelope.admitted[1].key, size)

    def give_room_back(self, envelope: Envelope, size: int) -> None:
        assert envelope.admitted is not None
        self._gate.room.give_back(envelope.admitted[1].key, size)

    def _caller(self, action: Action, envelope: Envelope) -> Caller:
        if envelope.policy and not _NAME.match(envelope.policy):
            raise Refused(422, "invalid", f"policy must match {NAME_PATTERN}", path="policy")
        if envelope.item and not _ID.match(envelope.item):
            raise Refused(422, "invalid", f"event_id must match {ID_PATTERN}", path="event_id")
        if action.role is None:
            return NOBODY
        caller = self._gate.caller(envelope.headers)
        caller.check(action.role, envelope.policy or None)
        return caller

    def begin(self, envelope: Envelope, raw: bytes, answer: Answer) -> None:
        """Do what an admitted request asks for, or let the owner of its policy do it.

        `answer` is called with the reply.
        """
        if self._gate.owners.peers and not envelope.was_sent_on:
            peer = self._owner_elsewhere(envelope)
            if peer is not None:
                self._send_on(peer, envelope, raw, answer)
                return
        self._begin_here(envelope, raw, answer, partial(self._search, envelope, raw, answer))

    def _begin_here(
        self, envelope: Envelope, raw: bytes, answer: Answer, moved: Callable[[], None]
    ) -> None:
        action = envelope.action
        assert action is not None
        if action.decoder is not None and len(raw) > _LARGE_BODY:
            self._start(self._begin_large(action, envelope, raw, answer, moved))
            return
        try:
            self._go_on(action, envelope, _call(action, envelope, raw), answer, moved)
        except Exception as error:
            answer(self.refusal(envelope, error))

    async def _begin_large(
        self,
        action: Action,
        envelope: Envelope,
        raw: bytes,
        answer: Answer,
        moved: Callable[[], None],
    ) -> None:
        """To look at a large body takes time, above all where something is wrong with it."""
        try:
            call = await asyncio.to_thread(_call, action, envelope, raw)
            self._go_on(action, envelope, call, answer, moved)
        except Exception as error:
            answer(self.refusal(envelope, error))

    def _go_on(
        self,
        action: Action,
        envelope: Envelope,
        call: Call,
        answer: Answer,
        moved: Callable[[], None],
    ) -> None:
        def give(result: Any) -> None:
            if not isinstance(result, Refused):
                answer(Reply(result))
            elif isinstance(result, Elsewhere) and not envelope.was_sent_on:
                moved()
            else:
                answer(self.refusal(envelope, result))

        if action.command is not None:
            self._gate.engine.begin(action.command(self._gate, call), give)
        else:
            self._start(self._handle(action, envelope, call, answer, give))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._gate.tasks.add(task)
        task.add_done_callback(self._gate.tasks.discard)

    async def _handle(
        self,
        action: Action,
        envelope: Envelope,
        call: Call,
        answer: Answer,
        give: Callable[[Any], None],
    ) -> None:
        assert action.handler is not None
        try:
            reply = await action.handler(self._gate, call)
        except Refused as refused:
            give(refused)
        except Exception as error:
            answer(self.refusal(envelope, error))
        else:
            answer(reply)

    # -- to the owner ----------------------------------------------------------------------------

    def _owner_elsewhere(self, envelope: Envelope) -> Peer | None:
        action = envelope.action
        if not envelope.policy or (action is not None and action.anywhere):
            return None
        return self._gate.owners.elsewhere(envelope.policy)

    def _send_on(self, peer: Peer, envelope: Envelope, raw: bytes, answer: Answer) -> None:
        def done(reply: Reply | None) -> None:
            if reply is None or was_moved(reply):
                self._search(envelope, raw, answer)
            else:
                answer(reply)

        if envelope.wants_redirect:
            location = peer.address.encode() + envelope.target
            answer(Reply(b"", 307, headers=((b"location", location),)))
        else:
            self._gate.metrics.forwarded += 1
            self._gate.forwarding.send(peer, envelope.request_to(peer, raw), done)

    def _search(self, envelope: Envelope, raw: bytes, answer: Answer) -> None:
        """The owner has changed, or does not answer."""
        self._start(self._ask_until_answered(envelope, raw, answer))

    async def _ask_until_answered(self, envelope: Envelope, raw: bytes, answer: Answer) -> None:
        """Ask who owns the policy by now; this process, where it can take it.

        What was done before the owner was lost is not done again: it is as if the caller had sent
        its request a second time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _LONGEST_SEARCH_S
        while loop.time() < deadline:
            await asyncio.sleep(_SEARCH_EVERY_S)
            found: asyncio.Future[Reply | None] = loop.create_future()
            peer = self._owner_elsewhere(envelope)
            if peer is None:
                self._begin_here(envelope, raw, found.set_result, partial(found.set_result, None))
            else:
                request = envelope.request_to(peer, raw)
                self._gate.forwarding.send(peer, request, found.set_result)
            reply = await found
            if reply is not None and not was_moved(reply):
                answer(reply)
                return
        answer(self.refusal(envelope, Elsewhere(envelope.policy)))

    def refusal(self, envelope: Envelope, error: Exception) -> Reply:
        """What to answer where something was raised."""
        if isinstance(error, Refused):
            return refusal(error, allow=self._allow)
        id = envelope.request_id or new_request_id()
        about = {"request_id": id}
        if isinstance(error, StoreError):
            logger.error("%s", error, extra=about)
            refused = unavailable("storage_unavailable", "the log cannot be read at present")
        else:
            logger.error("%s %s failed", envelope.method, self._route, exc_info=error, extra=about)
            refused = Refused(500, "internal", "the request failed")
        return refusal(refused).with_header(REQUEST_ID, id.encode())

    def finish(self, envelope: Envelope, reply: Reply, seconds: float) -> Reply:
        """Count and log an answer; the reply as it leaves, with the id of its request if any."""
        method = envelope.method if envelope.method in self._actions else "other"
        self._gate.metrics.request(method, self._route, reply.status, seconds)
        access = self._gate.access
        if access is None and not envelope.request_id:
            return reply
        known = dict(reply.headers).get(REQUEST_ID, b"").decode()
        id = known or envelope.request_id or new_request_id()
        if access is not None:
            about = {
                "request_id": id,
                "method": method,
                "route": self._route,
                "status": reply.status,
                "ms": round(1e3 * seconds, 3),
                "policy": envelope.policy if _NAME.match(envelope.policy) else "",
                "key": envelope.admitted[1].key if envelope.admitted else "",
            }
            access.info("%s %s %d", method, self._route, reply.status, extra=about)
        return reply if known else reply.with_header(REQUEST_ID, id.encode())


def _call(action: Action, envelope: Envelope, raw: bytes) -> Call:
    assert envelope.admitted is not None
    body = None if action.decoder is None else decoded(raw, action.decoder)
    query = _query(envelope.query_string, action.query) if envelope.query_string else {}
    return Call(
        envelope.admitted[1],
        envelope.policy,
        envelope.item,
        envelope.path,
        query,
        envelope.accept,
        body,
        envelope,
    )


def _query(raw: bytes, known: Collection[str]) -> dict[str, str]:
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
