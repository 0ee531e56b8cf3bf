"""What each request does: from a checked body to a command, from its result to a reply."""

from __future__ import annotations

import asyncio
import functools
from itertools import chain
from typing import Any

import numpy as np

from driftbandits import operations, wire
from driftbandits.operations import PARQUET, PROMETHEUS
from driftbandits.service import commands, looking
from driftbandits.service.configuring import CONFIGURE, wanted_policy
from driftbandits.service.endpoints import Call, Gate, Reply, whole_number
from driftbandits.service.explaining import MOST_EXPLANATIONS, explained, last_decisions
from driftbandits.service.fold import Offer
from driftbandits.service.logs import event_answer, parquet
from driftbandits.service.metrics import Scrape
from driftbandits.service.problems import Refused, invalid, unknown_policy
from driftbandits.service.readiness import ready
from driftbandits.service.routes import Routes
from driftbandits.store import Event
from driftbandits.store.records import Configured

MOST_EVENTS = 10_000
MOST_PARQUET_EVENTS = 100_000

ROUTES = Routes()


def _or_raise(result: Any) -> Any:
    if isinstance(result, Refused):
        raise result
    return result


async def _done(gate: Gate, command: commands.Command) -> Any:
    return _or_raise(await gate.engine.do(command))


# -- decisions and rewards -----------------------------------------------------------------------


@ROUTES.serve(operations.DECIDE)
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


@ROUTES.serve(operations.DECIDE_MANY)
async def decide_many(gate: Gate, call: Call) -> Reply:
    work = []
    for i, request in enumerate(call.body.decisions):
        try:
            work.append(_decide(gate, call, request))
        except Refused as refused:
            path = (refused.problem.path or "$").removeprefix("$")
            refused.problem.path = f"$.decisions[{i}]{path}"
            raise
    results = await _done(gate, commands.Many(call.policy, work))
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


@ROUTES.serve(operations.REWARD)
def reward(gate: Gate, call: Call) -> commands.Reward:
    return _reward(call, call.body)


def _reward(call: Call, request: wire.RewardRequest) -> commands.Reward:
    return commands.Reward(call.policy, request.event_id, request.value, key=call.caller.key)


@ROUTES.serve(operations.REWARD_MANY)
async def reward_many(gate: Gate, call: Call) -> Reply:
    work = [_reward(call, request) for request in call.body.rewards]
    results = await _done(gate, commands.Many(call.policy, work))
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


@ROUTES.serve(operations.POLICY)
def policy(gate: Gate, call: Call) -> commands.Look:
    return commands.Look(call.policy, looking.policy_answer)


@ROUTES.serve(CONFIGURE)
async def configure(gate: Gate, call: Call) -> Reply:
    request = call.body
    policy = wanted_policy(request)
    if gate.engine.ready:  # the writer shall not wait for a compiler
        await asyncio.to_thread(ready, policy)
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
    changed, answer = await _done(gate, command)
    return Reply(answer, 201 if changed and answer.version == 1 else 200)


@ROUTES.serve(operations.POLICIES)
async def policies(gate: Gate, call: Call) -> Reply:
    store = gate.engine.store

    def names() -> list[str]:
        with store.read() as session:
            return session.policies()

    summaries = []
    for name in await asyncio.to_thread(names):
        if call.caller.may_see(name):
            result = await gate.engine.do(commands.Look(name, looking.summary))
            if not isinstance(result, Refused):
                summaries.append(result)
    return Reply(wire.PoliciesAnswer(summaries))


@ROUTES.serve(operations.VERSIONS)
def versions(gate: Gate, call: Call) -> commands.Look:
    return commands.Look(call.policy, looking.versions_answer)


@ROUTES.serve(operations.DIGEST)
def digest(gate: Gate, call: Call) -> commands.Look:
    return commands.Look(call.policy, looking.digest_answer)


@ROUTES.serve(operations.HISTORY)
def history(gate: Gate, call: Call) -> commands.Look:
    after_s = whole_number(call.query, "after", default=0, most=2**40)
    return commands.Look(call.policy, functools.partial(looking.history_answer, after_s=after_s))


@ROUTES.serve(operations.EXPLANATIONS)
async def explanations(gate: Gate, call: Call) -> Reply:
    limit = max(1, whole_number(call.query, "limit", default=10, most=MOST_EXPLANATIONS))
    logged = await asyncio.to_thread(last_decisions, gate.engine.store, call.policy, limit)
    look = functools.partial(explained, logged=logged)
    return Reply(await _done(gate, commands.Look(call.policy, look)))


# -- the log -------------------------------------------------------------------------------------


@ROUTES.serve(operations.EVENTS)
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


@ROUTES.serve(operations.ERASE)
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


@ROUTES.serve(operations.HEALTH)
async def health(gate: Gate, call: Call) -> Reply:
    if gate.engine.dead:
        raise Refused(503, "writer_died", "the writer has ended", retry_after_s=1)
    return Reply(wire.HealthAnswer("ok"))


@ROUTES.serve(operations.READINESS)
async def readiness(gate: Gate, call: Call) -> Reply:
    if not gate.engine.ready:
        raise Refused(
            503, "starting", "kernels are compiled and the log is replayed", retry_after_s=1
        )
    return Reply(wire.HealthAnswer("ok"))


@ROUTES.serve(operations.METRICS)
async def metrics(gate: Gate, call: Call) -> Reply:
    engine = gate.engine
    folds = [fold for fold in list(engine.folds.values()) if call.caller.may_see(fold.policy)]
    scrape = Scrape(gate.metrics, folds, waiting=engine.waiting, ready=engine.ready)
    return Reply(scrape.text(), media_type=PROMETHEUS)
