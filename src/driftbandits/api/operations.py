"""The operations of the service, one row each.

The service serves these rows, its document describes them, and the client calls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from driftbandits import api

Answer = TypeVar("Answer")
Role = Literal["reader", "writer", "admin"]
"""Each may do what those before it may."""

JSON = "application/json"
PARQUET = "application/vnd.apache.parquet"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

_POLICY = "/v1/policies/{policy}"
_BUSY = (429, 503)
# of requests that are done once for an event_id, whatever comes later
_ONCE = (404, 409, 410, *_BUSY)


class Parameter(NamedTuple):
    """A parameter of a query; a whole number unless its schema says otherwise."""

    description: str
    schema: Mapping[str, Any] = {"type": "integer", "minimum": 0}


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[Answer]):
    """A row.

    id           unique, what the document calls the operation
    path         the parts in braces are for the caller to fill in
    role         that a key must have; None: open to all
    request      the struct of the body, if there is one
    answer       the struct of the answer; bytes where it is no JSON
    done         the statuses with that answer
    refused      those of refusals, beside what its role, body and query can bring about
    media_types  of the answer, to choose from
    limited      whether it counts against the rate of a key
    """

    id: str
    summary: str
    path: str
    method: Literal["GET", "POST", "PUT", "DELETE"] = "GET"
    role: Role | None = "reader"
    request: type | None = None
    query: Mapping[str, Parameter] = field(default_factory=dict)
    answer: type[Answer]
    done: tuple[int, ...] = (200,)
    refused: tuple[int, ...] = (404, *_BUSY)
    media_types: tuple[str, ...] = (JSON,)
    limited: bool = True


# -- decisions and rewards -----------------------------------------------------------------------

DECIDE = Operation(
    id="decide",
    summary="Choose an arm; the same request again gives the same answer",
    method="POST",
    path=f"{_POLICY}/decisions",
    role="writer",
    request=api.DecisionRequest,
    answer=api.DecisionAnswer,
    refused=_ONCE,
)
DECIDE_MANY = Operation(
    id="decide_many",
    summary="Make many decisions, one after the other",
    method="POST",
    path=f"{_POLICY}/decisions:batch",
    role="writer",
    request=api.DecisionsRequest,
    answer=api.DecisionsAnswer,
)
REWARD = Operation(
    id="reward",
    summary="Report what came of a decision",
    method="POST",
    path=f"{_POLICY}/rewards",
    role="writer",
    request=api.RewardRequest,
    answer=api.RewardAnswer,
    refused=_ONCE,
)
REWARD_MANY = Operation(
    id="reward_many",
    summary="Report many rewards, one after the other",
    method="POST",
    path=f"{_POLICY}/rewards:batch",
    role="writer",
    request=api.RewardsRequest,
    answer=api.RewardsAnswer,
)

WITHDRAW = Operation(
    id="withdraw",
    summary="Take back a decision that was never shown",
    method="POST",
    path=f"{_POLICY}/withdrawals",
    role="writer",
    request=api.WithdrawalRequest,
    answer=api.WithdrawalAnswer,
    refused=_ONCE,
)

# -- policies ------------------------------------------------------------------------------------

POLICIES = Operation(
    id="policies",
    summary="The policies that this key may see",
    path="/v1/policies",
    answer=api.PoliciesAnswer,
    refused=_BUSY,
)
POLICY = Operation(
    id="policy",
    summary="Estimate, radius, memory and counts of a policy",
    path=_POLICY,
    answer=api.PolicyAnswer,
)
CONFIGURE = Operation(
    id="configure",
    summary="Configure a policy; a change makes a new version",
    method="PUT",
    path=_POLICY,
    role="admin",
    request=api.PolicyRequest,
    answer=api.PolicyAnswer,
    done=(200, 201, 202),
)
FREEZE = Operation(
    id="freeze",
    summary="Decide with what was learned so far, and learn and forget nothing",
    method="POST",
    path=f"{_POLICY}:freeze",
    role="admin",
    answer=api.PolicyAnswer,
)
THAW = Operation(
    id="thaw",
    summary="Learn again, in the mode before it was frozen",
    method="POST",
    path=f"{_POLICY}:thaw",
    role="admin",
    answer=api.PolicyAnswer,
)
RETIRE = Operation(
    id="retire",
    summary="Let a policy decide no more; its log stays, and open decisions take their rewards",
    method="DELETE",
    path=_POLICY,
    role="admin",
    answer=api.PolicyAnswer,
)
BRING_BACK = Operation(
    id="bring_back",
    summary="Let a retired policy decide again",
    method="POST",
    path=f"{_POLICY}:restore",
    role="admin",
    answer=api.PolicyAnswer,
)
RESTORE = Operation(
    id="restore",
    summary="Bring the configuration of a version back",
    method="POST",
    path=f"{_POLICY}/versions/{{version}}:restore",
    role="admin",
    request=api.RestoreRequest,
    answer=api.PolicyAnswer,
    done=(200, 202),
)
SHADOWS = Operation(
    id="shadows",
    summary="What configurations beside the one that is played would have done",
    path=f"{_POLICY}/shadows",
    answer=api.ShadowsAnswer,
)
PUT_SHADOW = Operation(
    id="put_shadow",
    summary="Let a configuration decide beside the one that is played",
    method="PUT",
    path=f"{_POLICY}/shadows/{{shadow}}",
    role="admin",
    request=api.PolicyRequest,
    answer=api.ShadowsAnswer,
    done=(200, 201),
    refused=(404, 409, *_BUSY),
)
DROP_SHADOW = Operation(
    id="drop_shadow",
    summary="Let a shadow decide no more",
    method="DELETE",
    path=f"{_POLICY}/shadows/{{shadow}}",
    role="admin",
    answer=api.ShadowsAnswer,
)
PROMOTE = Operation(
    id="promote",
    summary="Let a shadow be played, as a new version",
    method="POST",
    path=f"{_POLICY}/shadows/{{shadow}}:promote",
    role="admin",
    answer=api.PolicyAnswer,
)
VERSIONS = Operation(
    id="versions",
    summary="Every configuration the policy has had",
    path=f"{_POLICY}/versions",
    answer=api.VersionsAnswer,
)
LIFT = Operation(
    id="lift",
    summary="The policy beside its control, with intervals that may be looked at at any time",
    path=f"{_POLICY}/lift",
    answer=api.LiftAnswer,
)
HISTORY = Operation(
    id="history",
    summary="The last day by the minute",
    path=f"{_POLICY}/history",
    query={
        "after": Parameter("give the minutes that began later, in seconds since 1970"),
        "since": Parameter("of these only what has changed since this event"),
    },
    answer=api.HistoryAnswer,
)
EXPLANATIONS = Operation(
    id="explanations",
    summary="The last decisions with mean, width and score of every arm",
    path=f"{_POLICY}/explanations",
    query={"limit": Parameter("how many at most")},
    answer=api.ExplanationsAnswer,
)
EXPLANATION = Operation(
    id="explanation",
    summary="A decision of the log, however old",
    path=f"{_POLICY}/explanations/{{event_id}}",
    answer=api.ExplanationAnswer,
    refused=(404, 410, *_BUSY),
)
DIGEST = Operation(
    id="digest",
    summary="The fingerprint of the state, to compare with a replay",
    path=f"{_POLICY}/digest",
    answer=api.DigestAnswer,
)

# -- the log -------------------------------------------------------------------------------------

EVENTS = Operation(
    id="events",
    summary="The log",
    path=f"{_POLICY}/events",
    query={
        "after": Parameter("give the events with a greater seq"),
        "limit": Parameter("how many at most"),
        "format": Parameter("json or parquet", {"enum": ["json", "parquet"]}),
    },
    answer=api.EventsAnswer,
    media_types=(JSON, PARQUET),
)
ERASE = Operation(
    id="erase",
    summary="Take the content out of events; what was learned stays",
    method="POST",
    path=f"{_POLICY}/erasures",
    role="admin",
    request=api.ErasureRequest,
    answer=api.ErasureAnswer,
)

# -- the process ---------------------------------------------------------------------------------

HEALTH = Operation(
    id="health",
    summary="Is the process alive?",
    path="/healthz",
    role=None,
    answer=api.HealthAnswer,
    refused=(503,),
)
READINESS = Operation(
    id="readiness",
    summary="Are the kernels compiled and the log replayed?",
    path="/readyz",
    role=None,
    answer=api.HealthAnswer,
    refused=(503,),
)
METRICS = Operation(
    id="metrics",
    summary="Counts and times for Prometheus",
    path="/metrics",
    answer=bytes,
    refused=(),
    media_types=(PROMETHEUS,),
    limited=False,
)
