"""Structs for the configuration of a policy, for its state, and for reading its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from driftbandits.api.decisions import (
    LARGEST_INTEGER,
    LARGEST_MAGNITUDE,
    MOST_ARMS,
    Answer,
    Arm,
    ArmId,
    EventId,
    Mode,
    Request,
    Value,
    one_of,
)

Path = Literal["constant", "wandering", "turning"]
Share = Annotated[float, Meta(ge=0, le=1)]
Shares = Annotated[list[Share], Meta(min_length=2, max_length=2, description="min, max")]
Seconds = Annotated[float, Meta(gt=0, le=10 * 366 * 86400)]
How = Literal["fresh", "carried", "relearned"]


# -- what is compared: changes of a policy's world, its lift over a control, its shadows ----------


class Moved(Answer):
    """A coefficient, or the mean reward of an arm, before and after a change."""

    name: str
    before: float
    after: float


class Detection(Answer):
    """A change that the policy noticed in `round`, and believes to have come before `change`.

    Of `auto` the statistic is the probability of a change, and `size` by how much mean rewards have
    changed. `since` is when that was, to the minute, and `moved` and `arms` are the coefficients
    and the mean rewards of arms that differ most, where the last day still tells.
    """

    round: int
    at: str
    statistic: float
    threshold: float
    change: int | None
    size: float | None = None
    since: str | None = None
    moved: list[Moved] = []
    arms: list[Moved] = []


class Hypothesis(Answer, omit_defaults=True):
    """A hypothesis about the parameter and its posterior probability.

    A constant one is what it is since the round `since`, or always, and `prior` says how tight its
    prior was, as a share of lam. One that is wandering or turning goes its own way within `rounds`.
    """

    path: Annotated[str, one_of(Path)]
    probability: float
    since: int | None = None
    rounds: float | None = None
    prior: float | None = None


class Interval(Answer):
    """An estimate and where the truth lies, watched at any time; null where that is not known."""

    value: float
    low: float | None
    high: float | None


class Side(Answer):
    """Decisions of one side, and the rewards that count so far; the mean is of all decisions."""

    decisions: int
    rewards: int
    mean: Interval | None


class LiftOfDay(Answer):
    """The lift of one day's decisions (UTC), with an interval of its own."""

    day: str
    policy: Side
    control: Side
    difference: Interval | None


class Lift(Answer):
    """The policy beside its control since event `since_seq`, averages over that time.

    `until` is where the decisions end that are counted, null where all with a known outcome are.
    `pending` are not counted yet, `unknown` never will. `relative` is the difference as a share of
    the control's mean. `method` is bounded, where intervals hold for any number of rewards, or
    asymptotic, for many of them. `better` says which rewards are: higher, or lower ones of a cost.
    """

    since: str
    since_seq: int
    until: str | None
    share: float
    level: float
    method: str
    better: str
    policy: Side
    control: Side
    difference: Interval | None
    relative: Interval | None
    pending: int
    unknown: int


class LiftAnswer(Answer):
    """The lift as of event `seq`, with its last days, oldest first; null without a control."""

    policy: str
    seq: int
    lift: Lift | None
    days: list[LiftOfDay]


class ShadowAnswer(Answer):
    """A configuration that decides beside the one that is played, as of event `seq` `of` so many.

    It has seen `decisions`, and would have played the same arm in `agreed` of them. In `rounds`,
    those with a reward in which every arm had a chance, it would have earned `value`, and what was
    played earned `played_value`; `effective_rounds` of them tell as much if all told the same. The
    estimate is doubly robust: what its model expected, corrected by what came.
    `failed` says why it learns no more.
    """

    name: str
    since: str
    arguments: dict[str, Any]
    seed: int
    half_life_s: float | None
    window_s: float | None
    seq: int
    of: int
    learned_from: int
    skipped: int
    decisions: int
    agreed: int
    rounds: int
    effective_rounds: float
    value: Interval | None
    played_value: float | None
    difference: Interval | None
    failed: str | UnsetType = UNSET


class ShadowsAnswer(Answer):
    """Shadows, sorted by name."""

    shadows: list[ShadowAnswer]


# -- a policy --------------------------------------------------------------------------------------


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


# -- its history: by the minute, by decision, by event ---------------------------------------------


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
