"""Patterns and limits; decisions, rewards and withdrawals, one by one and in batches; refusals."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

# A `$` alone would let a line end follow.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@/+=-]{0,127}$(?!\n)"
ID_RULE = "1 to 128 characters of A-Z a-z 0-9 . _ : @ / + = -, the first a letter or digit"
ARM_PATTERN = r"^[^|\s\x00-\x1f\x7f](?:[^|\x00-\x1f\x7f]{0,126}[^|\s\x00-\x1f\x7f])?$(?!\n)"
ARM_RULE = "1 to 128 characters, none of them a control character or |, and no space at either end"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\n)"
LARGEST_INTEGER = 2**63 - 1
MOST_ARMS = 1000
MOST_DIMENSIONS = 1000
MOST_IN_A_BATCH = 1000
MOST_PLACES = 100
LARGEST_MAGNITUDE = 1e9
EventId = Annotated[str, Meta(pattern=ID_PATTERN, description="chosen by the caller")]
ArmId = Annotated[str, Meta(pattern=ARM_PATTERN)]
Value = Annotated[float, Meta(ge=-LARGEST_MAGNITUDE, le=LARGEST_MAGNITUDE)]
Mode = Literal["online", "apprentice", "frozen"]


def one_of(words: Any) -> Meta:
    """A text in an answer, as the document describes it; clients accept any other text."""
    return Meta(extra_json_schema={"enum": list(get_args(words))})


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A body; a field that is not listed is refused."""


class Answer(msgspec.Struct, gc=False):
    """A body; a field that is not listed is ignored."""


UnitId = Annotated[str, Meta(pattern=ID_PATTERN, description="as of a user; a hash of it is kept")]
Feature = Annotated[float, Meta(ge=-LARGEST_MAGNITUDE, le=LARGEST_MAGNITUDE)]
Vector = Annotated[list[Feature], Meta(min_length=1, max_length=MOST_DIMENSIONS)]
# The client sends whatever has tolist(), as arrays do.
AnyVector = Annotated[Any, Meta(extra_json_schema={"type": "array", "items": {"type": "number"}})]
RewardStatus = Literal["learned", "late", "duplicate", "recorded"]
WithdrawalStatus = Literal["withdrawn", "duplicate"]


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


class Place(Answer):
    """A place of a ranked list, which has a reward of its own."""

    event_id: str
    arm: str
    index: int
    round: int
    propensity: float


class DecisionAnswer(Answer, omit_defaults=True):
    """`propensity` is the probability the choice had, `model_seq` the last event it knew of.

    Where `n` was given there is a `ranking`, whose first place is the decision itself. Where
    `caller_decided`, it is what the caller has played by itself. In a `control` the policy has no
    say. `reason` says by what another arm was played than the policy would have played by itself.
    """

    event_id: str
    arm: str
    index: int
    round: int
    propensity: float
    scores: list[float]
    model_seq: int
    ranking: list[Place] | None = None
    caller_decided: bool = False
    control: bool = False
    reason: str | None = None


class DecisionsRequest(Request):
    """Many decisions, made one after the other."""

    decisions: Annotated[list[DecisionRequest], Meta(min_length=1, max_length=MOST_IN_A_BATCH)]


class RewardRequest(Request):
    """The outcome of a decision."""

    event_id: EventId
    value: float  # its range is the policy's, and a refusal of it an event


class RewardAnswer(Answer, omit_defaults=True):
    """A frozen policy answers `recorded`: the outcome is kept, and nothing is learned from it.

    A value outside the range of the policy's rewards is `clipped`, and learned from the end of it.
    """

    status: Annotated[str, one_of(RewardStatus)]
    clipped: bool = False


class RewardsRequest(Request):
    """Many rewards, learned one after the other."""

    rewards: Annotated[list[RewardRequest], Meta(min_length=1, max_length=MOST_IN_A_BATCH)]


class WithdrawalRequest(Request):
    """A decision that was never shown; of a list, each place by itself."""

    event_id: EventId


class WithdrawalAnswer(Answer):
    """`withdrawn`, or `duplicate` if it was before."""

    status: Annotated[str, one_of(WithdrawalStatus)]


class Problem(Answer, omit_defaults=True):
    """`path` leads to the field at fault, as in `$.arms[1].x[0]`."""

    code: str
    message: str
    path: str | None = None


class ErrorAnswer(Answer):
    """The body of every refusal."""

    error: Problem


class DecisionResult(Answer):
    """One of a batch: what the single request would have answered."""

    status: int
    decision: DecisionAnswer | None = None
    error: Problem | None = None


class DecisionsAnswer(Answer):
    """Results in the order of the request."""

    results: list[DecisionResult]


class RewardResult(Answer):
    """One of a batch: what the single request would have answered."""

    status: int
    reward: RewardAnswer | None = None
    error: Problem | None = None


class RewardsAnswer(Answer):
    """Results in the order of the request."""

    results: list[RewardResult]
