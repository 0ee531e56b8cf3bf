"""What each request does: from a checked body to a command, from its result to a reply."""

from __future__ import annotations

import asyncio
import functools
import inspect
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from driftbandits.policies import Policy
from driftbandits.policies import policy as make_policy
from driftbandits.service import commands, views, wire
from driftbandits.service.endpoints import Call, Gate, whole_number
from driftbandits.service.explaining import MOST_EXPLANATIONS, explained, last_decisions
from driftbandits.service.fold import Offer
from driftbandits.service.forgetting import arguments_by_time
from driftbandits.service.kernels import make_policy_ready
from driftbandits.service.logs import event_answer, parquet
from driftbandits.service.refusals import Refused, invalid, unknown_policy
from driftbandits.service.replies import Reply
from driftbandits.store import Event
from driftbandits.store.records import Configured

MOST_EVENTS = 10_000
MOST_PARQUET_EVENTS = 100_000
PARQUET = "application/vnd.apache.parquet"


def _or_raise(result: Any) -> Any:
    if isinstance(result, Refused):
        raise result
    return result


async def _do(gate: Gate, command: commands.Command) -> Any:
    return _or_raise(await gate.engine.do(command))


# -- decisions and rewards -----------------------------------------------------------------------


def decide(gate: Gate, call: Call) -> commands.Decide:
    return _decide(gate, call, call.body)


def _decide(gate: Gate, call: Call, request: wire.DecisionRequest) -> commands.Decide:
    arms = tuple([arm.id for arm in request.arms])
    if len(set(arms)) < len(arms):
        twice = next(i for i, arm in enumerate(arms) if arm in arms[:i])
        raise invalid(f"the arm {arms[twice]!r} is there twice", f"$.arms[{twice}].id")
    baseline = -1
    if request.baseline is not None:
        if request.baseline not in arms:
            raise invalid(
                f"baseline must be the id of an arm; got {request.baseline!r}", "$.baseline"
            )
        baseline = arms.index(request.baseline)
    rows = [arm.x for arm in request.arms]
    sizes = list(map(len, rows))
    size = sizes[0]
    if sizes.count(size) < len(sizes):
        i = next(i for i, other in enumerate(sizes) if other != size)
        raise invalid(
            f"x must be as long as that of the first arm, {size}; got {sizes[i]} numbers",
            f"$.arms[{i}].x",
        )
    numbers = chain.from_iterable(rows)
    x = np.fromiter(numbers, np.float64, len(arms) * size).reshape(len(arms), size)
    offer = Offer(arms, x, baseline, call.caller.key)
    most_pending = gate.limits.pending_per_key
    return commands.Decide(call.policy, request.event_id, offer, most_pending=most_pending)


async def decide_many(gate: Gate, call: Call) -> Reply:
    work = []
    for i, request in enumerate(call.body.decisions):
        try:
            work.append(_decide(gate, call, request))
        except Refused as refused:
            path = (refused.problem.path or "$").removeprefix("$")
            refused.problem.path = f"$.decisions[{i}]{path}"
            raise
    results = await _do(gate, commands.Many(call.policy, work))
    return Reply(
        wire.DecisionsAnswer(
            [
                wire.DecisionResult(r.status, error=r.problem)
                if isinstance(r, Refused)
                else wire.DecisionResult(200, decision=r)
                for r in results
            ]
        )
    )


def reward(gate: Gate, call: Call) -> commands.Reward:
    return _reward(call, call.body)


def _reward(call: Call, request: wire.RewardRequest) -> commands.Reward:
    return commands.Reward(call.policy, request.event_id, request.value, key=call.caller.key)


async def reward_many(gate: Gate, call: Call) -> Reply:
    work = [_reward(call, request) for request in call.body.rewards]
    results = await _do(gate, commands.Many(call.policy, work))
    return Reply(
        wire.RewardsAnswer(
            [
                wire.RewardResult(r.status, error=r.problem)
                if isinstance(r, Refused)
                else wire.RewardResult(200, reward=r)
                for r in results
            ]
        )
    )


# -- policies ------------------------------------------------------------------------------------

_ARGUMENTS = tuple(inspect.signature(make_policy).parameters)


async def configure(gate: Gate, call: Call) -> Reply:
    request = call.body
    policy = _policy(request)
    if gate.engine.ready:  # the writer shall not wait for a compiler
        await asyncio.to_thread(make_policy_ready, policy)
    if request.default_reward is not None and request.reward_wait_s is None:
        raise invalid("default_reward needs reward_wait_s", "$.default_reward")
    default = request.default_reward or 0.0
    low, high = policy.reward_range()
    if request.reward_wait_s is not None and not low <= default <= high:
        raise invalid(
            f"default_reward must be in [{low:g}, {high:g}] for this policy; got {default!r}",
            "$.default_reward",
        )
    record = Configured(
        version=0,
        arguments=policy.arguments,
        seed=0,
        mode=request.mode,
        reward_wait_s=request.reward_wait_s,
        default_reward=default,
        half_life_s=request.half_life_s,
        window_s=request.window_s,
        fresh=True,
        key=call.caller.key,
    )
    command = commands.Configure(call.policy, record, seed=request.seed)
    changed, answer = await _do(gate, command)
    return Reply(answer, 201 if changed and answer.version == 1 else 200)


def _policy(request: Any) -> Policy:
    given = {
        name: value
        for name, value in msgspec.structs.asdict(request).items()
        if name in _ARGUMENTS and value is not msgspec.UNSET
    }
    for name, value in given.items():
        if isinstance(value, int) and abs(value) > wire.LARGEST_INTEGER:
            raise invalid(
                f"{name} must be at most {wire.LARGEST_INTEGER}; got {value}", f"$.{name}"
            )
    if request.dim > wire.MOST_DIMENSIONS:
        raise invalid(f"dim must be at most {wire.MOST_DIMENSIONS}; got {request.dim}", "$.dim")
    by_time = {"half_life_s": "discount", "window_s": "window"}
    for name, argument in by_time.items():
        if getattr(request, name) is not None and given.get(argument) is not None:
            raise invalid(f"give {name} or {argument}, not both", f"$.{name}")
    given |= arguments_by_time(half_life_s=request.half_life_s, window_s=request.window_s)
    try:
        policy = make_policy(**given)
    except (ValueError, TypeError, OverflowError) as error:
        first = str(error).split(" ", 1)[0]
        raise invalid(str(error), f"$.{first}" if first in _ARGUMENTS else "$") from None
    for name, argument in by_time.items():
        if getattr(request, name) is not None and getattr(policy, argument) is None:
            raise invalid(f"{policy.name} forgets by no {argument}", f"$.{name}")
    return policy


async def policies(gate: Gate, call: Call) -> Reply:
    command = commands.ViewAll(views.summary, may_see=call.caller.may_see)
    return Reply(wire.PoliciesAnswer(await _do(gate, command)))


def policy(gate: Gate, call: Call) -> commands.View:
    return commands.View(call.policy, views.policy_answer)


def versions(gate: Gate, call: Call) -> commands.View:
    return commands.View(call.policy, views.versions_answer)


def digest(gate: Gate, call: Call) -> commands.View:
    return commands.View(call.policy, views.digest_answer)


def history(gate: Gate, call: Call) -> commands.View:
    after_s = whole_number(call.query, "after", default=0, most=2**40)
    return commands.View(call.policy, functools.partial(views.history_answer, after_s=after_s))


async def explanations(gate: Gate, call: Call) -> Reply:
    limit = max(1, whole_number(call.query, "limit", default=10, most=MOST_EXPLANATIONS))
    logged = await asyncio.to_thread(last_decisions, gate.engine.store, call.policy, limit)
    look = functools.partial(explained, logged=logged)
    return Reply(await _do(gate, commands.View(call.policy, look)))


# -- the log -------------------------------------------------------------------------------------


async def events(gate: Gate, call: Call) -> Reply:
    as_parquet = call.query.get("format", "") == "parquet" or PARQUET in call.accept
    if call.query.get("format", "json") not in ("json", "parquet"):
        raise Refused(422, "invalid", "format must be json or parquet", path="format")
    most = MOST_PARQUET_EVENTS if as_parquet else MOST_EVENTS
    after = whole_number(call.query, "after", default=0, most=2**62)
    limit = max(1, whole_number(call.query, "limit", default=min(1000, most), most=most))
    return await asyncio.to_thread(_events, gate, call.policy, after, limit, as_parquet)


def _events(gate: Gate, policy: str, after: int, limit: int, as_parquet: bool) -> Reply:
    store = gate.engine.store
    with store.read() as session:
        if session.head(policy) is None:
            raise unknown_policy(policy)
        found: list[Event] = session.events(policy, after=after, limit=limit)
    following = found[-1].seq if found else after
    if as_parquet:
        return Reply(
            parquet(found),
            media_type=PARQUET,
            headers=((b"x-next", str(following).encode()),),
        )
    return Reply(wire.EventsAnswer([event_answer(event) for event in found], following))


def erase(gate: Gate, call: Call) -> commands.Erase:
    request: wire.ErasureRequest = call.body
    if request.event_ids is None and request.prefix is None and request.older_than_days is None:
        raise invalid("give event_ids, prefix or older_than_days", "$")
    days = request.older_than_days
    return commands.Erase(
        call.policy,
        event_ids=request.event_ids or (),
        prefix=request.prefix,
        older_than_ns=None if days is None else int(days * 86_400e9),
        key=call.caller.key,
    )


# -- the process ---------------------------------------------------------------------------------


async def health(gate: Gate, call: Call) -> Reply:
    if gate.engine.dead:
        raise Refused(503, "writer_died", "the writer has ended", retry_after_s=1)
    return Reply(wire.HealthAnswer("ok"))


async def readiness(gate: Gate, call: Call) -> Reply:
    if not gate.engine.ready:
        raise Refused(
            503, "starting", "kernels are compiled and the log is replayed", retry_after_s=1
        )
    return Reply(wire.HealthAnswer("ok"))


async def metrics(gate: Gate, call: Call) -> Reply:
    engine = gate.engine
    folds = [fold for fold in list(engine.folds.values()) if call.caller.may_see(fold.policy)]
    text = gate.metrics.text(folds, waiting=engine.waiting, ready=engine.ready)
    return Reply(text.encode(), media_type="text/plain; version=0.0.4; charset=utf-8")
