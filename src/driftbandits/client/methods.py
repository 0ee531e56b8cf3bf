"""The methods of both clients, each written once: what it asks, and what it makes of the answer."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

import msgspec
from msgspec import UNSET

from driftbandits import api
from driftbandits.api import Arm, Configuration, ExplainedDecision, PolicySummary, operations
from driftbandits.checks import number
from driftbandits.client.calls import (
    Call,
    ServiceError,
    SomeRefused,
    StandIn,
    call,
    encoded,
    error_of,
    refusal,
)
from driftbandits.client.queue import Fallback, Item

if TYPE_CHECKING:
    from driftbandits.client.clients import AsyncClient, Client

Decision = api.DecisionAnswer
Digest = api.DigestAnswer
Erasure = api.ErasureAnswer
Event = api.EventAnswer
Events = api.EventsAnswer
PolicyState = api.PolicyAnswer
Reward = api.RewardAnswer
Shadow = api.ShadowAnswer

Given = ParamSpec("Given")
Answer_co = TypeVar("Answer_co", covariant=True)


class Method(Protocol[Given, Answer_co]):
    """The type of a method: `Client` waits for its answer, `AsyncClient` is awaited."""

    @overload
    def __get__(self, client: None, kind: type) -> Callable[Concatenate[Any, Given], Any]: ...
    @overload
    def __get__(self, client: Client, kind: type) -> Callable[Given, Answer_co]: ...
    @overload
    def __get__(
        self, client: AsyncClient, kind: type
    ) -> Callable[Given, Coroutine[Any, Any, Answer_co]]: ...


def method(
    describe: Callable[Concatenate[Any, Given], Call[Answer_co]],
) -> Method[Given, Answer_co]:
    """A method that makes the call which `describe` returns."""

    @functools.wraps(describe)
    def run(client: Any, /, *given: Given.args, **options: Given.kwargs) -> Any:
        return client._run(functools.partial(describe, client, *given, **options))

    return cast(Method[Given, Answer_co], run)


BUDGET_S = 0.25
"""The default budget of a call with a fallback."""

_QUEUED, _REFUSED = "queued", "refused"


class Health(msgspec.Struct):
    """The readiness of the service; `status` says why it is not ready."""

    ready: bool
    status: str


class Methods:
    """The methods that both clients share."""

    _fallback: Fallback

    @method
    def put_policy(self, /, policy: str, name: str, **arguments: Any) -> Call[PolicyState]:
        """Make a policy, or change its configuration; the arguments are those of `db.policy`.

        features are `db.Features`, or the plain data of them.

        Further ones say how it is served: mode, reward_wait_s, default_reward, half_life_s,
        window_s, seed, control, shares, budget, limit_window.

        What was learned is kept: carried over, or learned again from the log, which `change` of the
        answer shows while it goes on. fresh=True starts from nothing; dry_run=True changes nothing
        and says in `change` what would happen.
        """
        return call(operations.CONFIGURE, policy=policy, body=_configuration(name, arguments))

    @method
    def restore(
        self, policy: str, version: int, *, fresh: bool = False, dry_run: bool = False
    ) -> Call[PolicyState]:
        """Bring the configuration of a version back, by the rules of `put_policy`."""
        body = api.RestoreRequest(fresh, dry_run)
        return call(operations.RESTORE, policy=policy, version=str(version), body=body)

    @method
    def retire(self, policy: str) -> Call[PolicyState]:
        """Let a policy decide no more; its log stays, and open decisions take their rewards."""
        return call(operations.RETIRE, policy=policy)

    @method
    def bring_back(self, policy: str) -> Call[PolicyState]:
        """Let a retired policy decide again."""
        return call(operations.BRING_BACK, policy=policy)

    @method
    def put_shadow(
        self, /, policy: str, shadow: str, name: str, **arguments: Any
    ) -> Call[list[Shadow]]:
        """Let a configuration decide beside the one that is played, under the name `shadow`.

        The arguments are those of `put_policy`. Returns all shadows of the policy.
        """
        body = _configuration(name, arguments)
        asked = call(operations.PUT_SHADOW, policy=policy, shadow=shadow, body=body)
        return asked.then(lambda answer: answer.shadows)

    @method
    def shadows(self, policy: str) -> Call[list[Shadow]]:
        """Return how often shadows agree with what was played, and what they would have earned."""
        return call(operations.SHADOWS, policy=policy).then(lambda answer: answer.shadows)

    @method
    def promote(self, policy: str, shadow: str) -> Call[PolicyState]:
        """Let a shadow be played from now on, with all that it has learned."""
        return call(operations.PROMOTE, policy=policy, shadow=shadow)

    @method
    def drop_shadow(self, policy: str, shadow: str) -> Call[list[Shadow]]:
        """Let a shadow decide no more."""
        asked = call(operations.DROP_SHADOW, policy=policy, shadow=shadow)
        return asked.then(lambda answer: answer.shadows)

    @method
    def decide(
        self,
        policy: str,
        arms: Any,
        *,
        context: Any = None,
        n: int | None = None,
        event_id: str | None = None,
        baseline: str | None = None,
        fallback: str | None = None,
        budget: float | None = None,
        unit: str | None = None,
        exclude: Sequence[str] | None = None,
    ) -> Call[Decision]:
        """Choose one of `arms`: {id: x, ...}, or a list of Arm or {"id": ..., "x": ...}.

        Where the policy has features, `context` is a dict of columns and values, and so is what
        stands for the x of an arm. Separate arms may be given by their ids, with the `context` that
        they share. With n the answer has a `ranking` of so many, each place with an event_id and a
        reward of its own. `unit` is on whose behalf it is, as a user: where a policy has controls,
        all decisions of a unit are, or none is. Arms that `exclude` lists are not played.

        With `fallback`, the id of an arm or "baseline", this never takes longer than the `budget`,
        .25 seconds unless given, and raises nothing that the service says: where no decision came,
        the answer is the fallback, with `caller_decided` true, and the service learns of it later.
        """
        more = {"baseline": baseline, "n": n, "unit": unit}
        body = _decision(arms, event_id=event_id, context=context, exclude=exclude, **more)
        asked = call(operations.DECIDE, policy=policy, body=body)
        if fallback is None:
            if budget is not None:
                raise ValueError("budget must not be given without fallback")
            return asked
        return replace(asked, stand_in=_fallback(policy, body, fallback, budget))

    @method
    def decide_many(
        self, policy: str, requests: Iterable[Mapping[str, Any]]
    ) -> Call[list[Decision]]:
        """Decide for several requests, one after the other.

        Each is {"arms", "event_id"?, "baseline"?, "context"?, "n"?, "unit"?, "exclude"?}.
        """
        body = api.DecisionsRequest([_one_of_many(i, one) for i, one in enumerate(requests)])
        many = call(operations.DECIDE_MANY, policy=policy, body=body)
        return many.then(lambda answer: _all_or_raise(answer.results, "decision"))

    @method
    def reward(
        self, policy: str, event_id: str, value: float, *, budget: float | None = None
    ) -> Call[Reward]:
        """Report what came of a decision.

        With a `budget` in seconds it takes no longer than that: a reward that could not be reported
        is `queued` and sent later, and one that the service refuses is `refused`, with a warning.
        One whose decision is still to be sent is `queued` in any case.
        """
        body = api.RewardRequest(event_id, value)
        asked = call(operations.REWARD, policy=policy, body=body)
        # one whose decision is still to be sent is sent behind it
        if budget is None and not self._fallback.queue.has_decision(policy, event_id):
            return asked
        later = [Item("reward", policy, event_id, encoded(body))]
        within = BUDGET_S if budget is None else number("budget", budget, above=0)
        given = StandIn(within, Reward(_QUEUED), Reward(_REFUSED), later)
        return replace(asked, stand_in=given)

    @method
    def reward_many(self, policy: str, rewards: Mapping[str, float]) -> Call[list[Reward]]:
        """Report what came of several decisions: {event_id: value, ...}.

        If the decision of one of them is still to be sent, all are `queued` behind it.
        """
        each = [api.RewardRequest(*pair) for pair in rewards.items()]
        many = call(operations.REWARD_MANY, policy=policy, body=api.RewardsRequest(each))
        asked = many.then(lambda answer: _all_or_raise(answer.results, "reward"))
        if not any(self._fallback.queue.has_decision(policy, one.event_id) for one in each):
            return asked
        later = [Item("reward", policy, one.event_id, encoded(one)) for one in each]
        queued = [Reward(_QUEUED) for _ in each]
        return replace(asked, stand_in=StandIn(BUDGET_S, queued, queued, later))

    @method
    def withdraw(self, policy: str, event_id: str) -> Call[api.WithdrawalAnswer]:
        """Take back a decision that was never shown; of a list, each place by itself."""
        body = api.WithdrawalRequest(event_id)
        return call(operations.WITHDRAW, policy=policy, body=body)

    @method
    def freeze(self, policy: str) -> Call[PolicyState]:
        """Let a policy decide with what it has learned so far, and learn and forget nothing."""
        return call(operations.FREEZE, policy=policy)

    @method
    def thaw(self, policy: str) -> Call[PolicyState]:
        """Let a frozen policy learn again, in the mode that it had before."""
        return call(operations.THAW, policy=policy)

    @method
    def policies(self) -> Call[list[PolicySummary]]:
        """The policies that the key may see."""
        return call(operations.POLICIES).then(lambda answer: answer.policies)

    @method
    def policy(self, policy: str) -> Call[PolicyState]:
        """A policy's estimate, radius, effective sample size, detections and counts."""
        return call(operations.POLICY, policy=policy)

    @method
    def events(self, policy: str, *, after: int = 0, limit: int | None = None) -> Call[Events]:
        """A part of the policy's log."""
        return call(operations.EVENTS, policy=policy, query={"after": after, "limit": limit})

    @method
    def versions(self, policy: str) -> Call[list[Configuration]]:
        """Every configuration the policy has had, oldest first."""
        return call(operations.VERSIONS, policy=policy).then(lambda answer: answer.versions)

    @method
    def lift(self, policy: str) -> Call[api.LiftAnswer]:
        """The policy beside its control: means, difference and relative lift, in all and by day."""
        return call(operations.LIFT, policy=policy)

    @method
    def history(self, policy: str) -> Call[api.HistoryAnswer]:
        """The last day by the minute of the decision, and what was played of each arm."""
        return call(operations.HISTORY, policy=policy)

    @method
    def digest(self, policy: str) -> Call[Digest]:
        """The fingerprint of the policy's state, to compare with a replay."""
        return call(operations.DIGEST, policy=policy)

    @method
    def explanation(self, policy: str, event_id: str) -> Call[ExplainedDecision]:
        """A decision of the log: what each arm was worth, and what came of it."""
        asked = call(operations.EXPLANATION, policy=policy, event_id=event_id)
        return asked.then(lambda answer: answer.decision)

    @method
    def erase(
        self,
        policy: str,
        *,
        event_ids: Sequence[str] | None = None,
        prefix: str | None = None,
        older_than_days: float | None = None,
    ) -> Call[Erasure]:
        """Take the content out of events, by id, prefix of ids or age; what was learned stays."""
        body = api.ErasureRequest(event_ids, prefix, older_than_days)
        return call(operations.ERASE, policy=policy, body=body)

    @method
    def health(self) -> Call[Health]:
        """Ask once whether the service is ready."""
        ready = operations.READINESS
        return Call(ready, ready.path, None, _health, retried=False)


def _configuration(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    body = {"name": name, **arguments}
    if hasattr(body.get("features"), "to_dict"):
        body["features"] = body["features"].to_dict()
    return body


def _decision(
    arms: Any,
    *,
    event_id: str | None = None,
    context: Any = None,
    exclude: Sequence[str] | None = None,
    **more: Any,
) -> api.DecisionRequest:
    if hasattr(context, "to_dict"):  # a row of a pandas frame
        context = context.to_dict()
    return api.DecisionRequest(
        os.urandom(16).hex() if event_id is None else event_id,
        _arms(arms),
        context=context,
        exclude=None if exclude is None else list(exclude),
        **more,
    )


def _fallback(
    policy: str, body: api.DecisionRequest, fallback: str, budget: float | None
) -> StandIn[Decision]:
    names = [
        arm if isinstance(arm, str) else arm.get("id") if isinstance(arm, Mapping) else arm.id
        for arm in body.arms
    ]
    arm = body.baseline if fallback == "baseline" and fallback not in names else fallback
    if arm is None or arm not in names:
        raise ValueError(f"fallback must be the id of an arm, or 'baseline'; got {fallback!r}")
    if body.n is not None:
        raise ValueError("fallback is one arm: n must not be given with it")
    told = msgspec.structs.replace(body, played=arm)
    answer = Decision(body.event_id, arm, names.index(arm), 0, 1.0, [], 0, caller_decided=True)
    later = [Item("decision", policy, body.event_id, encoded(told))]
    within = BUDGET_S if budget is None else number("budget", budget, above=0)
    return StandIn(within, answer, answer, later)


def _arms(arms: Any) -> list[Any]:
    """Arms as the service wants them: from {id: x}, or a list of Arm, {"id", "x"} or ids."""
    if isinstance(arms, Mapping):
        return [
            api.OfferedArm(name, features=dict(given))
            if isinstance(given, Mapping)
            else api.OfferedArm(name, UNSET if given is None else given)
            for name, given in arms.items()
        ]
    listed = isinstance(arms, Sequence) and not isinstance(arms, str)
    if listed and all(isinstance(arm, (Arm, Mapping, str)) for arm in arms):
        return list(arms)
    raise ValueError(
        'arms must be {id: x, ...}, or a list of Arm, {"id": ..., "x": ...} or ids; '
        f"got {type(arms).__name__}"
    )


def _one_of_many(i: int, request: Mapping[str, Any]) -> api.DecisionRequest:
    optional = {"event_id", "baseline", "context", "n", "unit", "exclude"}
    if not {"arms"} <= request.keys() <= {"arms", *optional}:
        raise ValueError(
            f"requests[{i}] must have arms, and may have event_id, baseline, context, n, unit and "
            f"exclude; got {', '.join(map(str, request))}"
        )
    return _decision(**request)


def _all_or_raise(
    results: Sequence[api.DecisionResult | api.RewardResult], field: str
) -> list[Any]:
    """The answers of a batch; if some were refused, an exception that has all of them."""
    answers = [
        getattr(result, field) or error_of(result.status, result.error) for result in results
    ]
    if any(isinstance(answer, ServiceError) for answer in answers):
        raise SomeRefused(answers)
    return answers


def _health(status: int, content: bytes) -> Health:
    ready = status == 200
    return Health(ready, "ok" if ready else str(refusal(status, content)))
