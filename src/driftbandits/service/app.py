"""The routes, and the application that serves them."""

from __future__ import annotations

import asyncio
import gc
import mimetypes
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httptools

from driftbandits.service import handlers, wire
from driftbandits.service.auth import ADMIN, READER, REFRESH_EVERY_S, WRITER, Keyring
from driftbandits.service.endpoints import (
    Action,
    Call,
    Endpoint,
    Envelope,
    Gate,
    Limits,
    logger,
)
from driftbandits.service.engine import Engine
from driftbandits.service.openapi import document
from driftbandits.service.refusals import Refused
from driftbandits.service.replies import Reply
from driftbandits.store import StoreError

PAGE = Path(__file__).parent / "page"

_POLICIES = "/v1/policies/"
_POLICY = _POLICIES + "{policy}"
_PAGE_FILES = "/page/"
_BUSY = (429, 503)
_ONLY_OUR_OWN = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: its own files, and no script or style within them."""

ROUTES: Mapping[str, Mapping[str, Action]] = {
    f"{_POLICY}/decisions": {
        "POST": Action(
            command=handlers.decide,
            role=WRITER,
            request=wire.DecisionRequest,
            answer=wire.DecisionAnswer,
            statuses=(404, 409, 410, *_BUSY),
            summary="Choose an arm; the same request again gives the same answer",
        )
    },
    f"{_POLICY}/rewards": {
        "POST": Action(
            command=handlers.reward,
            role=WRITER,
            request=wire.RewardRequest,
            answer=wire.RewardAnswer,
            statuses=(404, 409, 410, *_BUSY),
            summary="Report what came of a decision",
        )
    },
    f"{_POLICY}/decisions:batch": {
        "POST": Action(
            handlers.decide_many,
            role=WRITER,
            request=wire.DecisionsRequest,
            answer=wire.DecisionsAnswer,
            statuses=(404, *_BUSY),
            summary="Make many decisions, one after the other",
        )
    },
    f"{_POLICY}/rewards:batch": {
        "POST": Action(
            handlers.reward_many,
            role=WRITER,
            request=wire.RewardsRequest,
            answer=wire.RewardsAnswer,
            statuses=(404, *_BUSY),
            summary="Report many rewards, one after the other",
        )
    },
    "/v1/policies": {
        "GET": Action(
            handlers.policies,
            answer=wire.PoliciesAnswer,
            statuses=_BUSY,
            summary="The policies that this key may see",
        )
    },
    _POLICY: {
        "GET": Action(
            command=handlers.policy,
            answer=wire.PolicyAnswer,
            statuses=(404, *_BUSY),
            summary="Estimate, radius, memory and counts of a policy",
        ),
        "PUT": Action(
            handlers.configure,
            role=ADMIN,
            request=wire.PolicyRequest,
            answer=wire.PolicyAnswer,
            statuses=(201, *_BUSY),
            summary="Configure a policy; a change makes a new version",
        ),
    },
    f"{_POLICY}/versions": {
        "GET": Action(
            command=handlers.versions,
            answer=wire.VersionsAnswer,
            statuses=(404, *_BUSY),
            summary="Every configuration the policy has had",
        )
    },
    f"{_POLICY}/history": {
        "GET": Action(
            command=handlers.history,
            answer=wire.HistoryAnswer,
            statuses=(404, *_BUSY),
            query={"after": "give the minutes that began later, in seconds since 1970"},
            summary="The last day by the minute",
        )
    },
    f"{_POLICY}/explanations": {
        "GET": Action(
            handlers.explanations,
            answer=wire.ExplanationsAnswer,
            statuses=(404, *_BUSY),
            query={"limit": "how many at most"},
            summary="The last decisions with mean, width and score of every arm",
        )
    },
    f"{_POLICY}/digest": {
        "GET": Action(
            command=handlers.digest,
            answer=wire.DigestAnswer,
            statuses=(404, *_BUSY),
            summary="The fingerprint of the state, to compare with a replay",
        )
    },
    f"{_POLICY}/events": {
        "GET": Action(
            handlers.events,
            answer=wire.EventsAnswer,
            statuses=(404, *_BUSY),
            query={
                "after": "give the events with a greater seq",
                "limit": "how many at most",
                "format": "json or parquet",
            },
            media_types=("application/json", handlers.PARQUET),
            summary="The log",
        )
    },
    f"{_POLICY}/erasures": {
        "POST": Action(
            command=handlers.erase,
            role=ADMIN,
            request=wire.ErasureRequest,
            answer=wire.ErasureAnswer,
            statuses=(404, *_BUSY),
            summary="Take the content out of events; what was learned stays",
        )
    },
    "/healthz": {
        "GET": Action(
            handlers.health,
            role=None,
            answer=wire.HealthAnswer,
            statuses=(503,),
            summary="Is the process alive?",
        )
    },
    "/readyz": {
        "GET": Action(
            handlers.readiness,
            role=None,
            answer=wire.HealthAnswer,
            statuses=(503,),
            summary="Are the kernels compiled and the log replayed?",
        )
    },
    "/metrics": {
        "GET": Action(
            handlers.metrics,
            role=READER,
            limited=False,
            media_types=("text/plain; version=0.0.4; charset=utf-8",),
            summary="Counts and times for Prometheus",
        )
    },
}


async def _openapi(gate: Gate, call: Call) -> Reply:
    return Reply(document(ROUTES))


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
        missing = Action(_nothing_here, summary="", **public)
        self._missing = Endpoint(gate, "other", {"GET": missing}, otherwise=missing)
        malformed = Action(_no_request, summary="", **public)
        self._malformed = Endpoint(gate, "other", {"GET": malformed}, otherwise=malformed)

    def envelope(self, method: str, target: bytes, headers: Mapping[bytes, bytes]) -> Envelope:
        """What the head of a request says, and the endpoint that it is for."""
        path, policy, query = "", "", b""
        try:
            url = httptools.parse_url(target)
            path = unquote((url.path or b"").decode("ascii"))
            query = url.query or b""
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            endpoint = self._malformed
        else:
            endpoint, policy = self._endpoint(path)
        return Envelope(
            endpoint,
            method=method,
            path=path,
            policy=policy,
            query_string=query,
            headers=headers,
        )

    def _endpoint(self, path: str) -> tuple[Endpoint, str]:
        """Which one serves a path, and the policy that the path names."""
        policy = ""
        if path.startswith(_POLICIES):
            policy, slash, rest = path[len(_POLICIES) :].partition("/")
            path = _POLICY + slash + rest if policy else path
        return self._endpoints.get(path, self._missing), policy

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let the engine run, and what goes on beside it; at the end finish what waits."""
        self._engine.start(asyncio.get_running_loop())
        beside = [asyncio.create_task(_freeze_when_ready(self._engine))]
        if self._keyring is not None:
            beside.append(asyncio.create_task(_keep_fresh(self._keyring)))
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await self._engine.stop()


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
