"""A client of the decision service. It imports nothing of the library, and nothing heavy."""

from typing import TYPE_CHECKING, Any

from driftbandits import checks

checks.needed("Clients", "httpx", "msgspec", extra="client")

from driftbandits.api import Arm, Configuration, Counts, Detection, Hypothesis, PolicySummary
from driftbandits.client.calls import (
    BadRequest,
    Conflict,
    NoAnswer,
    NotAllowed,
    NotFound,
    ServiceError,
    SomeRefused,
    TooMany,
    Unavailable,
)
from driftbandits.client.methods import (
    Decision,
    Digest,
    Erasure,
    Event,
    Events,
    Health,
    PolicyState,
    Reward,
)

if TYPE_CHECKING:
    from driftbandits.client.clients import AsyncClient, Client

__all__ = [
    "Arm",
    "AsyncClient",
    "BadRequest",
    "Client",
    "Configuration",
    "Conflict",
    "Counts",
    "Decision",
    "Detection",
    "Digest",
    "Erasure",
    "Event",
    "Events",
    "Health",
    "Hypothesis",
    "NoAnswer",
    "NotAllowed",
    "NotFound",
    "PolicyState",
    "PolicySummary",
    "Reward",
    "ServiceError",
    "SomeRefused",
    "TooMany",
    "Unavailable",
]


def __getattr__(name: str) -> Any:
    """Import late what needs an event loop and HTTP: it takes longer than everything else here."""
    if name not in ("AsyncClient", "Client"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from driftbandits.client import clients

    return getattr(clients, name)
