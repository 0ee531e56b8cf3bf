"""Structs for the configuration of a policy and for its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from driftbandits.api.comparing import Detection, Hypothesis, Lift, ShadowAnswer
from driftbandits.api.values import (
    LARGEST_INTEGER,
    LARGEST_MAGNITUDE,
    MOST_ARMS,
    Answer,
    ArmId,
    Mode,
    Request,
    Value,
    one_of,
)

Share = Annotated[float, Meta(ge=0, le=1)]
Shares = Annotated[list[Share], Meta(min_length=2, max_length=2, description="min, max")]
Seconds = Annotated[float, Meta(gt=0, le=10 * 366 * 86400)]
How = Literal["fresh", "carried", "relearned"]


class PolicyRequest(Request):
    """The configuration of a policy. The service adds the arguments of `driftbandits.policy`."""

    mode: Mode = "online"
    reward_wait_s: Seconds | None = None
    default_reward: Value | None = None
    half_life_s: Seconds | None = None
    window_s: Seconds | None = None
    seed: Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)] | None = None
    fresh: bool = False
    control: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    shares: Annotated[dict[ArmId, Shares], Meta(max_length=MOST_ARMS)] | None = None
    budget: Annotated[float, Meta(gt=0, le=LARGEST_MAGNITUDE)] | None = None
    limit_window: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    dry_run: bool = False


class Configuration(Answer):
    """One version of a policy; it decided from `since_seq` on.

    `how` it began: `fresh`, without what was learned before, or with the outcomes that it had been
    `learned_from`, `carried` over as they were or `relearned` from the log.
    """

    version: int
    since_seq: int
    since: str
    arguments: dict[str, Any]
    seed: int
    mode: Annotated[str, one_of(Mode)]
    reward_wait_s: float | None
    default_reward: float | None
    half_life_s: float | None
    window_s: float | None
    fresh: bool
    how: Annotated[str, one_of(How)] | None = None
    learned_from: int | None = None
    control: float = 0.0
    shares: Mapping[str, Sequence[float]] | None = None
    budget: float | None = None
    limit_window: int = 1000


class Accounts(Answer, omit_defaults=True):
    """The accounts of a policy's guardrails: the balance of its budget, and by arm how much its
    least and its largest share have been undercut so far, in decisions.
    """

    balance: float = 0.0
    credits: Mapping[str, Sequence[float]] = {}


class Counts(Answer, omit_defaults=True):
    """Events of all versions, by kind; `rewards` are those that were learned or recorded.

    `refused` are decisions with a reward out of range, `clipped` rewards learned from its end.
    `caller_decided` are decisions that callers had made by themselves, `corrected` those among them
    that the service had made as well, `withdrawn` those that were never shown.
    """

    decisions: int
    rewards: int
    defaults: int
    late: int
    duplicates: int
    conflicts: int
    erased: int
    refused: int = 0
    clipped: int = 0
    caller_decided: int = 0
    corrected: int = 0
    withdrawn: int = 0


class Change(Answer, omit_defaults=True):
    """A version to come: `how`, and what differs that the estimate depends on.

    While it is `relearned` it has learned the log up to event `seq` `of` so many, from as many
    outcomes as `learned_from` says; `skipped` are decisions that it cannot read. It is `held` while
    the policy is frozen, and takes over when that is thawed. With `dry_run` nothing was changed,
    and `none` would be. `failed` says why it cannot be learned.
    """

    how: str
    version: int
    arguments: list[str] = []
    seq: int = 0
    of: int = 0
    learned_from: int = 0
    skipped: int = 0
    dry_run: bool = False
    held: bool = False
    failed: str | None = None


class LimitedColumn(Answer):
    """A column that had numbers far beyond what it had shown: how many, and the last one.

    The column is its name where the policy has features, else its place.
    """

    column: str | int
    count: int
    last: float


class PolicyAnswer(Answer, omit_defaults=True):
    """A policy as of its event `seq`.

    The estimate of separate arms is given by their ids, up to a hundred of them. `names` are those
    of its coordinates, where the policy has features. `beliefs` are those of `auto`, the most
    probable first; separate arms have them in common. `limited` are columns of `auto` that had
    numbers far beyond what they had shown.
    """

    policy: str
    version: int
    seq: int
    at: str
    configuration: Configuration
    round: int
    theta_hat: list[float] | dict[str, list[float]]
    theta: list[float] | dict[str, list[float]]
    radius: float
    effective_sample_size: float
    detections: list[Detection]
    pending: int
    counts: Counts
    names: list[str] | None = None
    beliefs: list[Hypothesis] = []
    limited: list[LimitedColumn] = []
    accounts: Accounts | None = None
    lift: Lift | None = None
    notes: list[str] = []  # what who runs this policy should know
    change: Change | None = None
    retired: bool = False
    shadows: list[ShadowAnswer] = []


class PolicySummary(Answer, omit_defaults=True):
    """A line of the list of policies."""

    policy: str
    name: str
    version: int
    mode: Annotated[str, one_of(Mode)]
    seq: int
    pending: int
    counts: Counts
    retired: bool = False


class PoliciesAnswer(Answer):
    """The policies that a key may see."""

    policies: list[PolicySummary]


class VersionsAnswer(Answer):
    """Oldest first."""

    versions: list[Configuration]


class RestoreRequest(Request):
    """A request to bring a version back."""

    fresh: bool = False
    dry_run: bool = False


class DigestAnswer(Answer):
    """A fingerprint of the state that the first `seq` events make."""

    policy: str
    seq: int
    digest: str
