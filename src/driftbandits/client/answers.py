"""What the service answers. Fields that a later service adds are ignored."""

from __future__ import annotations

from typing import Any

import msgspec


class Arm(msgspec.Struct, gc=False):
    """A choice and its features."""

    id: str
    x: Any  # a list of numbers; anything with tolist(), as arrays have, is sent as that list


class Decision(msgspec.Struct, gc=False):
    """One choice. `propensity` is the probability it had, `model_seq` the last event it knew of."""

    event_id: str
    arm: str
    index: int
    round: int
    propensity: float
    scores: list[float]
    model_seq: int


class Reward(msgspec.Struct, gc=False):
    """What became of a reward: learned, late, duplicate, or recorded by a frozen policy."""

    status: str


class Configuration(msgspec.Struct):
    """One version of a policy; it decided from `since_seq` on."""

    version: int
    since_seq: int
    since: str
    arguments: dict[str, Any]
    seed: int
    mode: str
    reward_wait_s: float | None
    default_reward: float | None
    half_life_s: float | None
    window_s: float | None
    fresh: bool


class Counts(msgspec.Struct):
    """Events of all versions, by kind."""

    decisions: int = 0
    rewards: int = 0
    defaults: int = 0
    late: int = 0
    duplicates: int = 0
    conflicts: int = 0
    erased: int = 0


class Detection(msgspec.Struct):
    """A change that the policy noticed."""

    round: int
    at: str
    statistic: float
    threshold: float
    change: int | None


class PolicyState(msgspec.Struct):
    """A policy as of its event `seq`."""

    policy: str
    version: int
    seq: int
    at: str
    configuration: Configuration
    round: int
    theta_hat: list[float]
    theta: list[float]
    radius: float
    effective_sample_size: float
    detections: list[Detection]
    pending: int
    counts: Counts


class PolicySummary(msgspec.Struct):
    """A line of the list of policies."""

    policy: str
    name: str
    version: int
    mode: str
    seq: int
    pending: int
    counts: Counts


class Event(msgspec.Struct):
    """A line of the log; which fields it has depends on its kind."""

    seq: int
    at: str
    kind: str
    event_id: str = ""
    erased: bool = False
    version: int | None = None
    arms: list[Arm] | None = None
    baseline: str | None = None
    arm: str | None = None
    index: int | None = None
    suggested: int | None = None
    round: int | None = None
    propensity: float | None = None
    scores: list[float] | None = None
    value: float | None = None
    what: str | None = None
    configuration: Configuration | None = None
    seqs: list[int] | None = None
    reason: str | None = None


class Events(msgspec.Struct):
    """A part of the log; `next` is what to give as `after` for the events that follow."""

    events: list[Event]
    next: int


class Digest(msgspec.Struct):
    """A fingerprint of the state that the first `seq` events make."""

    policy: str
    seq: int
    digest: str


class Erasure(msgspec.Struct):
    """How many events lost their content."""

    erased: int


class Health(msgspec.Struct):
    """Whether the service is ready to decide; `status` says why not."""

    ready: bool
    status: str


class Problem(msgspec.Struct):
    """Why something was refused; `path` leads to the field at fault."""

    code: str = ""
    message: str = ""
    path: str | None = None


class Refusal(msgspec.Struct):
    """The body of every answer that is no success."""

    error: Problem


class DecisionResult(msgspec.Struct):
    """One of a batch."""

    status: int
    decision: Decision | None = None
    error: Problem | None = None


class RewardResult(msgspec.Struct):
    """One of a batch."""

    status: int
    reward: Reward | None = None
    error: Problem | None = None


class DecisionResults(msgspec.Struct):
    """A batch, in the order of the request."""

    results: list[DecisionResult]


class RewardResults(msgspec.Struct):
    """A batch, in the order of the request."""

    results: list[RewardResult]


class Versions(msgspec.Struct):
    """Oldest first."""

    versions: list[Configuration]


class Policies(msgspec.Struct):
    """The policies that a key may see."""

    policies: list[PolicySummary]
