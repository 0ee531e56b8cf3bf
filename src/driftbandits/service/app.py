"""The application that serves the routes."""

from __future__ import annotations

import asyncio
import functools
import mimetypes
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httptools
import msgspec

from driftbandits.service.auth import REFRESH_EVERY_S, Keyring
from driftbandits.service.endpoints import (
    Action,
    Call,
    Endpoint,
    Envelope,
    Gate,
    logger,
)
from driftbandits.service.engine import Engine
from driftbandits.service.handlers import ROUTES
from driftbandits.service.limits import Limits
from driftbandits.service.openapi import document
from driftbandits.service.refusals import Refused
from driftbandits.service.replies import Reply
from driftbandits.store import StoreError

PAGE = Path(__file__).parent / "page"

_POLICIES = "/v1/policies/"
_POLICY = _POLICIES + "{policy}"
_ITEMS = {"explanations": "{event_id}", "shadows": "{shadow}", "versions": "{version}"}
"""What a path may name of a policy."""
_PAGE_FILES = "/page/"
_ONLY_OUR_OWN = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: its own files, and no script or style within them."""


@functools.cache
def _document(count: int) -> bytes:
    """The interface, written once for as many operations as there are."""
    return msgspec.json.encode(document(ROUTES.operations))


async def _openapi(gate: Gate, call: Call) -> Reply:
    return Reply(_document(len(ROUTES.operations)))


async def _page(gate: Gate, call: Call) -> Reply:
    """A file of the page for people; it asks for its data like any other client."""
    path = PAGE / (call.path.removeprefix(_PAGE_FILES).strip("/") or "index.html")
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    headers = (
        (b"cache-control", b"no-cache"),
        (b"content-security-policy", _ONLY_OUR_OWN),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
    )
    return Reply(path.read_bytes(), media_type=kind, headers=headers)


async def _nothing_here(gate: Gate, call: Call) -> Reply:
    raise Refused(404, "not_found", "there is nothing at this path; see /openapi.json")


async def _no_request(gate: Gate, call: Call) -> Reply:
    raise Refused(400, "malformed", "the request asks for no path")


class Application:
    """What is served; without a keyring everybody may do everything."""

    def __init__(
        self,
        engine: Engine,
        *,
        keyring: Keyring | None = None,
        limits: Limits | None = None,
        access_log: bool = False,
    ) -> None:
        self._engine = engine
        self._keyring = keyring
        self._gate = gate = Gate(
            engine,
            keyring=keyring,
            limits=limits or Limits(),
            metrics=engine.metrics,
            access_log=access_log,
        )
        public: Mapping[str, Any] = {"role": None, "limited": False}
        page = {"GET": Action(_page, **public)}
        routes = {
            **ROUTES,
            "/openapi.json": {"GET": Action(_openapi, **public)},
            "/": page,
        }
        self._endpoints = {path: Endpoint(gate, path, actions) for path, actions in routes.items()}
        for file in PAGE.iterdir():
            self._endpoints[_PAGE_FILES + file.name] = self._endpoints["/"]
        missing = Action(_nothing_here, **public)
        self._missing = Endpoint(gate, "other", {"GET": missing}, otherwise=missing)
        malformed = Action(_no_request, **public)
        self._malformed = Endpoint(gate, "other", {"GET": malformed}, otherwise=malformed)

    def envelope(self, method: str, target: bytes, headers: Mapping[bytes, bytes]) -> Envelope:
        """What the head of a request says, and the endpoint that it is for."""
        path, policy, item, query = "", "", "", b""
        try:
            url = httptools.parse_url(target)
            path = unquote((url.path or b"").decode("ascii"))
            query = url.query or b""
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            endpoint = self._malformed
        else:
            endpoint, policy, item = self._endpoint(path)
        return Envelope(
            endpoint,
            method=method,
            path=path,
            policy=policy,
            item=item,
            query_string=query,
            target=target,
            headers=headers,
        )

    def _endpoint(self, path: str) -> tuple[Endpoint, str, str]:
        """Which one serves a path, and the policy and what of it the path names."""
        policy = item = ""
        if path.startswith(_POLICIES):
            policy, slash, rest = path[len(_POLICIES) :].partition("/")
            policy, colon, verb = policy.partition(":")
            within, _, named = rest.partition("/")
            if named and within in _ITEMS:
                if within == "explanations":  # whose ids may have slashes and colons of their own
                    item, rest = named, f"{within}/{_ITEMS[within]}"
                else:
                    item, *verbs = named.split(":", 1)
                    rest = ":".join([f"{within}/{_ITEMS[within]}", *verbs])
            path = _POLICY + colon + verb + slash + rest if policy else path
        return self._endpoints.get(path, self._missing), policy, item

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let the engine run, and what goes on beside it; at the end finish what waits."""
        self._engine.start(asyncio.get_running_loop())
        beside = list[asyncio.Task[None]]()
        if self._keyring is not None:
            beside.append(asyncio.create_task(_keep_fresh(self._keyring)))
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            self._gate.exports.end()
            self._gate.forwarding.end()
            await self._engine.stop()


async def _keep_fresh(keyring: Keyring) -> None:
    """Read the keys again and again, beside the requests: they would all wait for it.

    In a thread that nobody else uses: a key that was revoked is not let in because others read.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="keys") as thread:
        while True:
            await asyncio.sleep(REFRESH_EVERY_S)
            try:
                await loop.run_in_executor(thread, keyring.refresh)
            except StoreError as error:
                logger.warning("the keys cannot be read: %s", error)
