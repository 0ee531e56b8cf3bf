"""A client of the decision service. It imports nothing of the library, and nothing heavy."""

from driftbandits import checks

checks.needed("Clients", "msgspec", extra="client")

from driftbandits.api import (
    Arm,
    Configuration,
    Counts,
    Detection,
    Hypothesis,
    PolicySummary,
)
from driftbandits.api import DecisionAnswer as Decision
from driftbandits.api import DigestAnswer as Digest
from driftbandits.api import ErasureAnswer as Erasure
from driftbandits.api import EventAnswer as Event
from driftbandits.api import EventsAnswer as Events
from driftbandits.api import PolicyAnswer as PolicyState
from driftbandits.api import RewardAnswer as Reward
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
from driftbandits.client.methods import Health

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
