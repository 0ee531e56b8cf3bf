"""The JSON of every request and answer, written once for the service and its client.

The service refuses what a request does not list. The client reads answers as leniently as it can:
fields and words that a later service adds do not disturb it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

# A `$` alone would let a line end follow.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@/+=-]{0,127}$(?!\n)"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\n)"
LARGEST_INTEGER = 2**63 - 1

MOST_ARMS = 1000
MOST_DIMENSIONS = 1000
MOST_IN_A_BATCH = 1000
MOST_PLACES = 100
LARGEST_MAGNITUDE = 1e9

EventId = Annotated[str, Meta(pattern=ID_PATTERN, description="chosen by the caller")]
ArmId = Annotated[str, Meta(pattern=ID_PATTERN)]
UnitId = Annotated[str, Meta(pattern=ID_PATTERN, description="as of a user; a hash of it is kept")]
Feature = Annotated[float, Meta(ge=-LARGEST_MAGNITUDE, le=LARGEST_MAGNITUDE)]
Vector = Annotated[list[Feature], Meta(min_length=1, max_length=MOST_DIMENSIONS)]
# The client sends whatever has tolist(), as arrays do.
AnyVector = Annotated[Any, Meta(extra_json_schema={"type": "array", "items": {"type": "number"}})]
Value = Annotated[float, Meta(ge=-LARGEST_MAGNITUDE, le=LARGEST_MAGNITUDE)]
Share = Annotated[float, Meta(ge=0, le=1)]
Shares = Annotated[list[Share], Meta(min_length=2, max_length=2, description="min, max")]
Seconds = Annotated[float, Meta(gt=0, le=10 * 366 * 86400)]
Mode = Literal["online", "apprentice", "frozen"]
RewardStatus = Literal["learned", "late", "duplicate", "recorded"]
WithdrawalStatus = Literal["withdrawn", "duplicate"]
How = Literal["fresh", "carried", "relearned"]
Path = Literal["constant", "wandering", "turning"]


def _one_of(words: Any) -> Meta:
    """What the document says of a text in an answer; who reads it takes any other as well."""
    return Meta(extra_json_schema={"enum": list(get_args(words))})


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A body; a field that is not listed is refused."""

    @property
    def strings(self) -> int:
        """How many strings its shortest JSON has, keys and texts; -1: nobody has counted."""
        return -1


class Answer(msgspec.Struct, gc=False):
    """A body; a field that is not listed is ignored."""


# -- decisions -----------------------------------------------------------------------------------


class Arm(Answer):
    """A choice and its features."""

    id: str
    x: AnyVector = UNSET
    features: dict[str, Any] | UnsetType = UNSET


class OfferedArm(Arm, forbid_unknown_fields=True):
    """An arm of a request, held to the limits.

    It has an `x`, or `features` where the policy has them. Separate arms may have neither.
    """

    id: ArmId
    x: Vector | UnsetType = UNSET


class DecisionRequest(Request):
    """Which of these arms?

    `context` is an object of columns and values where the policy has features, and a vector that
    separate arms have in common, in place of an `x` of each; arms that need no more may be given by
    their ids alone. `n` asks for a ranked list of so many. `baseline` is the id of the arm that the
    caller would play by itself. `played` is what it has played by itself already, without an answer
    of the service, with `propensity` if it drew it: that is recorded, learned from like a baseline,
    and takes the place of what the service may have decided for the same request. `unit` is on
    whose behalf it is: where there are controls, all decisions of a unit are, or none is. What
    `exclude` lists is scored, and not played.
    """

    event_id: EventId
    arms: Annotated[list[OfferedArm | ArmId], Meta(min_length=1, max_length=MOST_ARMS)]
    baseline: ArmId | None = None
    context: Vector | dict[str, Any] | None = None
    n: Annotated[int, Meta(ge=1, le=MOST_PLACES)] | None = None
    played: ArmId | None = None
    propensity: Annotated[float, Meta(gt=0, le=1)] | None = None
    unit: UnitId | None = None
    exclude: Annotated[list[ArmId], Meta(max_length=MOST_ARMS)] | None = None

    @property
    def strings(self) -> int:
        named = [arm for arm in self.arms if not isinstance(arm, str)]
        if isinstance(self.context, dict) or any(arm.features is not UNSET for arm in named):
            return -1
        more = 2 * (self.baseline is not None) + (self.context is not None) + (self.n is not None)
        more += 2 * (self.played is not None) + (self.propensity is not None)
        more += 2 * (self.unit is not None)
        more += 0 if self.exclude is None else 1 + len(self.exclude)
        vectors = sum([arm.x is not UNSET for arm in named])
        return 3 + len(self.arms) + len(named) + vectors + more


class Place(Answer):
    """A place of a ranked list, which has a reward of its own."""

    event_id: str
    arm: str
    index: int
    round: int
    propensity: float


class DecisionAnswer(Answer, omit_defaults=True):
    """`propensity` is the probability the choice had, `model_seq` the last event it knew of.

    Where `n` was given there is a `ranking`, whose first place is the decision itself. `told`: it
    is what the caller has played by itself. In a `control` the policy has no say. `reason` says by
    what another arm was played than the policy would have played by itself.
    """

    event_id: str
    arm: str
    index: int
    round: int
    propensity: float
    scores: list[float]
    model_seq: int
    ranking: list[Place] | None = None
    told: bool = False
    control: bool = False
    reason: str | None = None


class DecisionsRequest(Request):
    """Many decisions, made one after the other."""

    decisions: Annotated[list[DecisionRequest], Meta(min_length=1, max_length=MOST_IN_A_BATCH)]

    @property
    def strings(self) -> int:
        counted = [decision.strings for decision in self.decisions]
        return -1 if -1 in counted else 1 + sum(counted)


# -- rewards -------------------------------------------------------------------------------------


class RewardRequest(Request):
    """What came of a decision."""

    event_id: EventId
    value: float  # its range is the policy's, and a refusal of it an event

    @property
    def strings(self) -> int:
        return 3


class RewardAnswer(Answer):
    """A frozen policy answers `recorded`: the outcome is kept, and nothing is learned from it."""

    status: Annotated[str, _one_of(RewardStatus)]


class RewardsRequest(Request):
    """Many rewards, learned one after the other."""

    rewards: Annotated[list[RewardRequest], Meta(min_length=1, max_length=MOST_IN_A_BATCH)]

    @property
    def strings(self) -> int:
        return 1 + 3 * len(self.rewards)


class WithdrawalRequest(Request):
    """A decision that was never shown; of a list, each place by itself."""

    event_id: EventId

    @property
    def strings(self) -> int:
        return 2


class WithdrawalAnswer(Answer):
    """`withdrawn`, or `duplicate` if it was before."""

    status: Annotated[str, _one_of(WithdrawalStatus)]


# -- errors --------------------------------------------------------------------------------------


class Problem(Answer, omit_defaults=True):
    """`path` leads to the field at fault, as in `$.arms[1].x[0]`."""

    code: str
    message: str
    path: str | None = None


class ErrorAnswer(Answer):
    """What every refusal looks like."""

    error: Problem


class DecisionResult(Answer):
    """One of a batch: what the single request would have answered."""

    status: int
    decision: DecisionAnswer | None = None
    error: Problem | None = None


class DecisionsAnswer(Answer):
    """In the order of the request."""

    results: list[DecisionResult]


class RewardResult(Answer):
    """One of a batch: what the single request would have answered."""

    status: int
    reward: RewardAnswer | None = None
    error: Problem | None = None


class RewardsAnswer(Answer):
    """In the order of the request."""

    results: list[RewardResult]


# -- policies ------------------------------------------------------------------------------------


class PolicyRequest(Request):
    """How a policy is served. The service adds the arguments of `driftbandits.policy` to these."""

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
    mode: Annotated[str, _one_of(Mode)]
    reward_wait_s: float | None
    default_reward: float | None
    half_life_s: float | None
    window_s: float | None
    fresh: bool
    how: Annotated[str, _one_of(How)] | None = None
    learned_from: int | None = None
    control: float = 0.0
    shares: dict[str, list[float]] | None = None
    budget: float | None = None
    limit_window: int = 1000


class Accounts(Answer, omit_defaults=True):
    """What the limits of a policy are kept by: the balance of its budget, and by arm how much its
    least and its largest share have been undercut so far, in decisions.
    """

    balance: float = 0.0
    credits: dict[str, list[float]] = {}


class Counts(Answer, omit_defaults=True):
    """Events of all versions, by kind; `rewards` are those that were learned or recorded.

    `refused` are decisions with a reward out of range, `clipped` rewards learned from its end.
    `told` are decisions that callers had made by themselves, `corrected` those among them that the
    service had made as well, `withdrawn` those that were never shown.
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
    told: int = 0
    corrected: int = 0
    withdrawn: int = 0


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
    """What may be true of the parameter, and how probable that is.

    A constant one is what it is since the round `since`, or always, and `prior` says how tight its
    prior was, as a share of lam. One that is wandering or turning goes its own way within `rounds`.
    """

    path: Annotated[str, _one_of(Path)]
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
    """The same of the decisions of one day, UTC; each day has an interval of its own."""

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
    """As of event `seq`; null where there never was a control. The last days, oldest first."""

    policy: str
    seq: int
    lift: Lift | None
    days: list[LiftOfDay]


class Change(Answer, omit_defaults=True):
    """A version to come: `how`, and what differs that the estimate depends on.

    While it is `relearned` it has learned the log up to event `seq` `of` so many, from as many
    outcomes as `learned_from` says; `skipped` are decisions that it cannot read. With `dry_run`
    nothing was changed, and `none` would be.
    """

    how: str
    version: int
    arguments: list[str] = []
    seq: int = 0
    of: int = 0
    learned_from: int = 0
    skipped: int = 0
    dry_run: bool = False


class ShadowAnswer(Answer):
    """A configuration that decides beside the one that is played, as of event `seq` `of` so many.

    It has seen `decisions`, and would have played the same arm in `agreed` of them. In `rounds`,
    those with a reward in which every arm had a chance, it would have earned `value`, and what was
    played earned `played_value`; `effective_rounds` of them tell as much if all told the same.
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


class FormerName(Answer):
    """What a policy was called, and until when."""

    name: str
    until: str


class PolicyAnswer(Answer, omit_defaults=True):
    """A policy as of its event `seq`.

    The estimate of separate arms is given by their ids, up to a hundred of them. `names` are those
    of its coordinates, where the policy has features. `beliefs` are those of `auto`, the most
    probable first; separate arms have them in common.
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
    accounts: Accounts | None = None
    lift: Lift | None = None
    notes: list[str] = []  # what who runs this policy should know
    change: Change | None = None
    retired: bool = False
    shadows: list[ShadowAnswer] = []
    chain: str | None = None  # the name that its log and its archives keep, where it is another
    former_names: list[FormerName] = []


class PolicySummary(Answer, omit_defaults=True):
    """A line of the list of policies."""

    policy: str
    name: str
    version: int
    mode: Annotated[str, _one_of(Mode)]
    seq: int
    pending: int
    counts: Counts
    retired: bool = False
    chain: str | None = None  # as in `PolicyAnswer`


class PoliciesAnswer(Answer):
    """The policies that a key may see."""

    policies: list[PolicySummary]


class VersionsAnswer(Answer):
    """Oldest first."""

    versions: list[Configuration]


class RestoreRequest(Request):
    """How a version is brought back."""

    fresh: bool = False
    dry_run: bool = False


class RenameRequest(Request):
    """What a policy shall be called."""

    to: Annotated[str, Meta(pattern=NAME_PATTERN)]


class ShadowsAnswer(Answer):
    """By name."""

    shadows: list[ShadowAnswer]


class DigestAnswer(Answer):
    """A fingerprint of the state that the first `seq` events make."""

    policy: str
    seq: int
    digest: str


class Minute(Answer):
    """What was decided in the minute that began `at`, and what has come of it so far.

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
    """How often an arm was played, and what has come of it."""

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


# -- why -----------------------------------------------------------------------------------------


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
    """What came of a decision; `kind` is reward, default, late or withdrawn. A withdrawn one has no
    value, and one that was erased has lost it.
    """

    kind: str
    value: float | None
    at: str


class ExplainedDecision(Answer):
    """`index` was played, `suggested` is what the policy would have played by itself.

    `told`: the caller had played by itself.
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
    told: bool = False
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


# -- the log -------------------------------------------------------------------------------------


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
    told: bool = False
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
    before: str | None = None


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
    """How many events lost their content."""

    erased: int


class HealthAnswer(Answer):
    """`ok`, or why not."""

    status: str
