"""The service's answers, under the names that users of the client know."""

from __future__ import annotations

import msgspec

from driftbandits.api import (
    Arm,
    Change,
    Configuration,
    Counts,
    Detection,
    ExplainedDecision,
    Hypothesis,
    Place,
    PolicySummary,
)
from driftbandits.api import DecisionAnswer as Decision
from driftbandits.api import DigestAnswer as Digest
from driftbandits.api import ErasureAnswer as Erasure
from driftbandits.api import EventAnswer as Event
from driftbandits.api import EventsAnswer as Events
from driftbandits.api import PolicyAnswer as PolicyState
from driftbandits.api import RewardAnswer as Reward
from driftbandits.api import ShadowAnswer as Shadow

__all__ = [
    "Arm",
    "Change",
    "Configuration",
    "Counts",
    "Decision",
    "Detection",
    "Digest",
    "Erasure",
    "Event",
    "Events",
    "ExplainedDecision",
    "Health",
    "Hypothesis",
    "Place",
    "PolicyState",
    "PolicySummary",
    "Reward",
    "Shadow",
]


class Health(msgspec.Struct):
    """The readiness of the service; `status` says why it is not ready."""

    ready: bool
    status: str
