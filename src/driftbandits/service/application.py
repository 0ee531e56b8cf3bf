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
from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from driftbandits.service.endpoints import Endpoint, Request, Response, Route, Serve
from driftbandits.service.limits import Limits
from driftbandits.service.openapi import document
from driftbandits.service.refusals import Refused
from driftbandits.service.routes import OPERATIONS, ROUTES
from driftbandits.service.serving import Service, Settings

__all__ = ["Limits", "Settings", "app"]

PAGE = Path(__file__).parent / "page"

_VIEWER = ("swagger-ui.css", "swagger-ui-bundle.js")
"""The files of the viewer behind /docs; a package carries them."""

_OWN_FILES = (
    "default-src 'none'; script-src 'self'; style-src 'self'{styles}; img-src 'self'{images}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class _Name(Convertor[str]):
    """A part of a path up to a slash or a verb; the endpoint checks it."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _Id(_Name):
    """The rest of a path: ids of events may have slashes and colons."""

    regex = ".+"


register_url_convertor("name", _Name())
register_url_convertor("id", _Id())


class _Application(Starlette):
    """Without middleware of its own: endpoints answer every exception themselves."""

    def build_middleware_stack(self) -> ASGIApp:
        return super().build_middleware_stack() if self.user_middleware else self.router


def app(settings: Settings, *, on_death: Callable[[], None] = lambda: None) -> Starlette:
    """Return the decision service as an ASGI application.

    Serve it with any ASGI server, or mount it in another application and enter its lifespan there:
    `app.router.lifespan_context(app)`. `app.state.service` has the first admin key, if one was
    made. `on_death` is called, in any thread, when the log can be written no more.
    """
    service = Service(settings, on_death=on_death)

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield

    made = _Application(routes=_routes(service), lifespan=lifespan)
    made.router.redirect_slashes = False
    made.router.default = _nothing_at(Endpoint(service, "other", {}))
    made.state.service = service
    return made


def _routes(service: Service) -> list[routing.BaseRoute]:
    """Return the routes of the operations, the most frequent first, and of the pages."""
    served: list[routing.BaseRoute] = [
        routing.Route(_template(path), Endpoint(service, path, methods))
        for path, methods in ROUTES.items()
    ]
    pages: dict[str, Serve] = {
        "/openapi.json": _openapi,
        "/": functools.partial(_file, path=PAGE / "index.html"),
        "/docs": functools.partial(_file, path=PAGE / "docs.html", is_viewer=True),
    }
    for path in PAGE.iterdir():
        pages[f"/page/{path.name}"] = functools.partial(_file, path=path)
    for path in _viewer_files():
        pages[f"/docs/{path.name}"] = functools.partial(_file, path=path)
    for at, serve in pages.items():
        route = Route(serve, role=None, limited=False)
        # All files count as one path: what is counted by path stays small.
        shown = at if at in ("/openapi.json", "/docs") else "/"
        served.append(routing.Route(at, Endpoint(service, shown, {"GET": route})))
    return served


def _template(path: str) -> str:
    """The path of an operation with the kinds of names that Starlette is to look for."""
    path = path.replace("{event_id}", "{event_id:id}")
    for name in ("policy", "shadow", "version"):
        path = path.replace(f"{{{name}}}", f"{{{name}:name}}")
    return path


def _viewer_files() -> list[Path]:
    """Files of swagger-ui-py, whose own code is not imported."""
    found = importlib.util.find_spec("swagger_ui")
    if found is None or not found.submodule_search_locations:
        return []
    folder = Path(found.submodule_search_locations[0]) / "static"
    return [folder / name for name in _VIEWER]


def _nothing_at(endpoint: Endpoint) -> ASGIApp:
    async def missing(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await WebSocketClose()(scope, receive, send)
        else:
            await endpoint(scope, receive, send)

    return missing


@functools.cache
def _document(root: str, count: int) -> bytes:
    """The document, written once for as many operations as there are."""
    return msgspec.json.encode(document(OPERATIONS, root=root))


async def _openapi(service: Service, request: Request) -> Response:
    return Response(_document(request.scope.get("root_path", ""), len(OPERATIONS)))


async def _file(
    service: Service, request: Request, *, path: Path, is_viewer: bool = False
) -> Response:
    """A file of a page, which asks for its data like any other client."""
    more = (" 'unsafe-inline'", " data:") if is_viewer else ("", "")
    try:
        content = await asyncio.to_thread(path.read_bytes)
    except FileNotFoundError:
        raise Refused(404, "not_found", "this file is not installed") from None
    headers = (
        (b"cache-control", b"no-cache"),
        (b"content-security-policy", _OWN_FILES.format(styles=more[0], images=more[1]).encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
    )
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Response(content, 200, kind.encode(), headers)
