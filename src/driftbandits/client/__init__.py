"""A client of the decision service. It imports nothing of the library, and nothing heavy."""

from driftbandits import checks

checks.needed("Clients", "msgspec", extra="client")

from driftbandits.client.answers import (
    Arm,
    Configuration,
    Counts,
    Decision,
    Detection,
    Digest,
    Erasure,
    Event,
    Events,
    Health,
    Hypothesis,
    PolicyState,
    PolicySummary,
    Reward,
)
from driftbandits.client.clients import AsyncClient, Client
from driftbandits.client.errors import (
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
