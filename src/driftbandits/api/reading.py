"""Structs for reading history: by the minute, by decision, by event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from driftbandits.api.decisions import Arm
from driftbandits.api.policies import Configuration
from driftbandits.api.values import Answer, EventId, Request


class Minute(Answer):
    """The decisions of the minute that began `at`, and their outcomes so far.

    Sums are over rewards as they were learned, defaults among them, whenever they came. `pending`
    are decisions whose outcome is open. `theta` is the estimate as the minute began, and `round`
    how many decisions there were before.
    """

    at: str
    decisions: int
    rewards: int
    reward_sum: float
    reward_square_sum: float
    theta: list[float]
    pending: int = 0
    round: int = 0


class ArmCounts(Answer):
    """The plays of an arm and their outcomes."""

    decisions: int
    rewards: int
    reward_sum: float


class ArmsPart(Answer):
    """Some minutes from `at` on, by arm; `others` are those that were played least."""

    at: str
    minutes: int
    arms: dict[str, ArmCounts]
    others: ArmCounts | None = None


class HistoryAnswer(Answer):
    """The last day, minutes without events left out; as of event `seq`."""

    policy: str
    minutes: list[Minute]
    seq: int = 0
    arms: list[ArmsPart] = []


class ScoredArm(Answer):
    """Score = mean + width, null where the log does not have them.

    `parts` of features, by name, as long as the policy remembers the decision.
    """

    id: str
    score: float
    mean: float | None = None
    width: float | None = None
    features: dict[str, Any] | UnsetType = UNSET
    parts: dict[str, float] | UnsetType = UNSET


class Outcome(Answer):
    """The outcome of a decision; `kind` is reward, default, late or withdrawn.

    A withdrawn decision has no value, and an erased one has lost it.
    """

    kind: str
    value: float | None
    at: str


class ExplainedDecision(Answer):
    """`index` was played, `suggested` is what the policy would have played by itself.

    `caller_decided`: the caller had played by itself.
    """

    event_id: str
    seq: int
    at: str
    version: int
    round: int
    index: int
    suggested: int
    baseline: int | None
    propensity: float
    arms: list[ScoredArm]
    outcome: Outcome | None
    context: list[float] | dict[str, Any] | UnsetType = UNSET
    caller_decided: bool = False
    control: bool = False
    conditional: float | None = None
    reason: str | None = None
    excluded: list[str] = []
    why: str = ""


class ExplanationAnswer(Answer):
    """One decision of the log, as of event `seq`."""

    policy: str
    seq: int
    decision: ExplainedDecision


class ExplanationsAnswer(Answer):
    """Newest first, as of event `seq`."""

    policy: str
    seq: int
    decisions: list[ExplainedDecision]


class EventAnswer(Answer, omit_defaults=True):
    """A line of the log; which fields it has depends on its kind."""

    seq: int
    at: str
    kind: str
    event_id: str = ""
    erased: bool = False
    version: int | None = None
    arms: list[Arm] | None = None
    context: list[float] | dict[str, Any] | None = None
    baseline: str | None = None
    arm: str | None = None
    index: int | None = None
    suggested: int | None = None
    round: int | None = None
    propensity: float | None = None
    caller_decided: bool = False
    scores: list[float] | None = None
    place: int | None = None
    value: float | None = None
    what: str | None = None
    configuration: Configuration | None = None
    seqs: list[int] | None = None
    reason: str | None = None
    control: bool | None = None
    conditional: float | None = None
    unit: str | None = None
    excluded: list[str] | None = None
    name: str | None = None
    retired: bool | None = None


class EventsAnswer(Answer):
    """`next` is what to give as `after` for the events that follow."""

    events: list[EventAnswer]
    next: int


class ErasureRequest(Request):
    """Which events lose their content: by id, by the prefix of ids, or by age in days."""

    event_ids: Annotated[Sequence[EventId], Meta(max_length=10_000)] | None = None
    prefix: EventId | None = None
    older_than_days: Annotated[float, Meta(ge=0, le=36_600)] | None = None


class ErasureAnswer(Answer):
    """The number of events whose content was erased."""

    erased: int


class HealthAnswer(Answer):
    """`ok`, or why not."""

    status: str
