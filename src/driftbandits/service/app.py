"""The application that serves the routes."""

from __future__ import annotations

import asyncio
import gc
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftbandits.service.auth import REFRESH_EVERY_S, Keyring
from driftbandits.service.endpoints import (
    Action,
    Call,
    Endpoint,
    Gate,
    Head,
    Limits,
    Receive,
    Reply,
    Scope,
    Send,
    logger,
)
from driftbandits.service.engine import Engine
from driftbandits.service.handlers import ROUTES
from driftbandits.service.openapi import document
from driftbandits.service.problems import Refused
from driftbandits.store import StoreError

PAGE = Path(__file__).parent / "page"

_POLICIES = "/v1/policies/"
_POLICY = _POLICIES + "{policy}"
_PAGE_FILES = "/page/"
_ONLY_OUR_OWN = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: its own files, and no script or style within them."""


async def _openapi(gate: Gate, call: Call) -> Reply:
    return Reply(document(ROUTES.operations))


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


class Anything(dict[str, Action]):
    """One action for whatever method comes."""

    def __init__(self, action: Action) -> None:
        super().__init__({"GET": action})
        self._action = action

    def get(self, method: str, default: Any = None) -> Action:
        return self._action


class Application:
    """The service for an ASGI server; without a keyring everybody may do everything."""

    def __init__(
        self, engine: Engine, *, keyring: Keyring | None = None, limits: Limits | None = None
    ) -> None:
        self._engine = engine
        self._keyring = keyring
        gate = Gate(engine, keyring=keyring, limits=limits or Limits(), metrics=engine.metrics)
        public: Mapping[str, Any] = {"role": None, "limited": False}
        page = {"GET": Action(_page, summary="A page for people, and its files", **public)}
        routes = {
            **ROUTES,
            "/openapi.json": {"GET": Action(_openapi, summary="This interface", **public)},
            "/": page,
        }
        self._endpoints = {path: Endpoint(gate, path, actions) for path, actions in routes.items()}
        for file in PAGE.iterdir():
            self._endpoints[_PAGE_FILES + file.name] = self._endpoints["/"]
        missing = Anything(Action(_nothing_here, summary="", **public))
        self._missing = Endpoint(gate, "other", missing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        endpoint, head = self.find(scope)
        await endpoint(head, receive, send)

    def find(self, scope: Scope) -> tuple[Endpoint, Head]:
        """The endpoint of a request, and what its head says."""
        path, policy = scope["path"], ""
        if path.startswith(_POLICIES):
            policy, slash, rest = path[len(_POLICIES) :].partition("/")
            path = _POLICY + slash + rest if policy else path
        return self._endpoints.get(path, self._missing), Head(scope, policy)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._engine.start(asyncio.get_running_loop())
        beside = [asyncio.create_task(_freeze_when_ready(self._engine))]
        if self._keyring is not None:
            beside.append(asyncio.create_task(_keep_fresh(self._keyring)))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in beside:
            task.cancel()
        await self._engine.stop()
        await send({"type": "lifespan.shutdown.complete"})


async def _freeze_when_ready(engine: Engine) -> None:
    """What recovery has made stays: the collector need not look at it again and again."""
    await asyncio.to_thread(engine.recovered.wait)
    gc.collect()
    gc.freeze()


async def _keep_fresh(keyring: Keyring) -> None:
    """Read the keys again and again, beside the requests: they would all wait for it."""
    while True:
        await asyncio.sleep(REFRESH_EVERY_S)
        try:
            await asyncio.to_thread(keyring.refresh)
        except StoreError as error:
            logger.warning("the keys cannot be read: %s", error)
