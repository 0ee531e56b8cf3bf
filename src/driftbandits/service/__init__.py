"""The decision service: HTTP over a durable log, as an ASGI application.

`app(Settings("sqlite:///driftbandits.db"))` is the application.
"""

from typing import TYPE_CHECKING, Any

from driftbandits import checks

checks.needed(
    "Servers", "apsw", "msgspec", "prometheus_client", "starlette", "uvicorn", extra="service"
)

if TYPE_CHECKING:
    from driftbandits.service.application import app
    from driftbandits.service.auth import Limits
    from driftbandits.service.endpoints import Settings

__all__ = ["Limits", "Settings", "app"]


def __getattr__(name: str) -> Any:
    """Import late: commands that only look at a store need no application."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from driftbandits.service import application

    return getattr(application, name)
