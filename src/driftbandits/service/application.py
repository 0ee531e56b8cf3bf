"""The service as an ASGI application: its routes, its pages, its start and its end."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import mimetypes
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from starlette import routing
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from driftbandits.service.auth import Limits
from driftbandits.service.endpoints import (
    Endpoint,
    Request,
    Response,
    Route,
    Serve,
    Service,
    Settings,
)
from driftbandits.service.openapi import document
from driftbandits.service.refusals import Refused
from driftbandits.service.routes import OPERATIONS, ROUTES

__all__ = ["Limits", "Settings", "app"]

PAGE = Path(__file__).parent / "page"

_VIEWER = ("swagger-ui.css", "swagger-ui-bundle.js")
"""The files of the viewer behind /docs; the package swagger-ui-py carries them."""

_OWN_FILES = (
    "default-src 'none'; script-src 'self'; style-src 'self'{styles}; img-src 'self'{images}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class _Name(StringConvertor):
    """A part of a path up to a slash or a verb; the endpoint checks it."""

    regex = "[^/:]+"


register_url_convertor("name", _Name())


class _Application(Starlette):
    """Leave Starlette's own middleware out: endpoints answer every exception themselves."""

    def build_middleware_stack(self) -> ASGIApp:
        return super().build_middleware_stack() if self.user_middleware else self.router


def app(settings: Settings, *, on_death: Callable[[], None] = lambda: None) -> Starlette:
    """Return the decision service as an ASGI application.

    Serve it with any ASGI server, or mount it in another application and enter its lifespan there:
    `app.router.lifespan_context(app)`. `app.state.service` has the first admin key, if one was
    made. `on_death` is called, in any thread, when the log can be written no more.
    """
    service = Service(settings, on_death=on_death)
    nothing = Endpoint(service, "other", {})

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield

    async def missing(scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = WebSocketClose() if scope["type"] == "websocket" else nothing
        await answer(scope, receive, send)

    made = _Application(routes=_routes(service), lifespan=lifespan)
    made.router.redirect_slashes = False
    made.router.default = missing
    made.state.service = service
    return made


def _routes(service: Service) -> list[routing.BaseRoute]:
    """Return the routes of the operations, the most frequent first, and of the pages."""
    served: list[routing.BaseRoute] = []
    for path, methods in ROUTES.items():
        template = path.replace("{event_id}", "{event_id:path}")
        for name in ("policy", "shadow", "version"):
            template = template.replace(f"{{{name}}}", f"{{{name}:name}}")
        served.append(routing.Route(template, Endpoint(service, path, methods)))
    files = {"/": PAGE / "index.html", "/docs": PAGE / "docs.html"}
    files |= {f"/page/{path.name}": path for path in PAGE.iterdir()}
    viewer = importlib.util.find_spec("swagger_ui")  # whose own code is not imported
    for folder in [] if viewer is None else viewer.submodule_search_locations or []:
        files |= {f"/docs/{name}": Path(folder) / "static" / name for name in _VIEWER}
    pages: dict[str, Serve] = {"/openapi.json": _openapi}
    pages |= {at: functools.partial(_file, path=path) for at, path in files.items()}
    for at, serve in pages.items():
        # All files count as one path: what is counted by path stays small.
        shown = at if at in ("/openapi.json", "/docs") else "/"
        route = Route(serve, role=None, limited=False)
        served.append(routing.Route(at, Endpoint(service, shown, {"GET": route})))
    return served


@functools.cache
def _document(root: str, count: int) -> bytes:
    """The document, written once for as many operations as there are."""
    return msgspec.json.encode(document(OPERATIONS, root=root))


async def _openapi(service: Service, request: Request) -> Response:
    return Response(_document(request.scope.get("root_path", ""), len(OPERATIONS)))


async def _file(service: Service, request: Request, *, path: Path) -> Response:
    """A file of a page, which asks for its data like any other client."""
    is_viewer = path.name == "docs.html"
    own = _OWN_FILES.format(
        styles=" 'unsafe-inline'" if is_viewer else "", images=" data:" if is_viewer else ""
    )
    try:
        content = await asyncio.to_thread(path.read_bytes)
    except FileNotFoundError:
        raise Refused(404, "not_found", "this file is not installed") from None
    headers = (
        (b"cache-control", b"no-cache"),
        (b"content-security-policy", own.encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
    )
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Response(content, 200, kind.encode(), headers)
