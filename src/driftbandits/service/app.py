"""The routes, and the application that serves them."""

from __future__ import annotations

import asyncio
import gc
import mimetypes
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.routing import Route, Router

from driftbandits.service import handlers, wire
from driftbandits.service.auth import ADMIN, READER, WRITER, Keyring
from driftbandits.service.endpoints import Action, Call, Endpoint, Gate, Limits, Reply
from driftbandits.service.engine import Engine
from driftbandits.service.openapi import document
from driftbandits.service.problems import Refused

PAGE = Path(__file__).parent / "page"

_POLICY = "/v1/policies/{policy}"
_BUSY = (429, 503)
_ONLY_OUR_OWN = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: its own files, and no script or style within them."""

ROUTES: Mapping[str, Mapping[str, Action]] = {
    f"{_POLICY}/decisions": {
        "POST": Action(
            handlers.decide,
            role=WRITER,
            request=wire.DecisionRequest,
            answer=wire.DecisionAnswer,
            statuses=(404, 409, 410, *_BUSY),
            summary="Choose an arm; the same request again gives the same answer",
        )
    },
    f"{_POLICY}/rewards": {
        "POST": Action(
            handlers.reward,
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
            handlers.policy,
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
            handlers.versions,
            answer=wire.VersionsAnswer,
            statuses=(404, *_BUSY),
            summary="Every configuration the policy has had",
        )
    },
    f"{_POLICY}/history": {
        "GET": Action(
            handlers.history,
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
            handlers.digest,
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
            handlers.erase,
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
    name = call.path.get("file", "index.html")
    path = PAGE / name
    if name not in {file.name for file in PAGE.iterdir()}:
        raise Refused(404, "not_found", "there is no such file")
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


def application(
    engine: Engine, *, keyring: Keyring | None = None, limits: Limits | None = None
) -> Router:
    """The service as an ASGI application; without a keyring everybody may do everything."""
    gate = Gate(engine, keyring=keyring, limits=limits or Limits(), metrics=engine.metrics)
    public = {"role": None, "limited": False}
    others = {
        "/openapi.json": Action(_openapi, summary="This interface", **public),  # type: ignore[arg-type]
        "/": Action(_page, summary="A page for people", **public),  # type: ignore[arg-type]
        "/page/{file:path}": Action(_page, summary="Its files", **public),  # type: ignore[arg-type]
    }
    routes = {**ROUTES, **{path: {"GET": action} for path, action in others.items()}}
    missing = Anything(Action(_nothing_here, summary="", **public))  # type: ignore[arg-type]

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        engine.start(asyncio.get_running_loop())
        freezing = asyncio.create_task(_freeze_when_ready(engine))
        yield
        freezing.cancel()
        await asyncio.to_thread(engine.stop)

    fallback = Endpoint(gate, "other", missing)

    async def default(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await fallback({**scope, "path_params": {}}, receive, send)

    return Router(
        [Route(path, Endpoint(gate, path, actions)) for path, actions in routes.items()],
        default=default,
        redirect_slashes=False,
        lifespan=lifespan,
    )


async def _freeze_when_ready(engine: Engine) -> None:
    """What recovery has made stays: the collector need not look at it again and again."""
    await asyncio.to_thread(engine.recovered.wait)
    gc.collect()
    gc.freeze()
