"""What the service answers, under the names that users of the client know."""

from __future__ import annotations

import msgspec

from driftbandits.wire import (
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
from driftbandits.wire import DecisionAnswer as Decision
from driftbandits.wire import DigestAnswer as Digest
from driftbandits.wire import ErasureAnswer as Erasure
from driftbandits.wire import EventAnswer as Event
from driftbandits.wire import EventsAnswer as Events
from driftbandits.wire import PolicyAnswer as PolicyState
from driftbandits.wire import RewardAnswer as Reward
from driftbandits.wire import ShadowAnswer as Shadow

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
    """Whether the service is ready to decide; `status` says why not."""

    ready: bool
    status: str
