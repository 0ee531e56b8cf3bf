"""What each request does: from a checked body to a command, from its result to a reply."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from driftbandits import operations, wire
from driftbandits.operations import PARQUET, PROMETHEUS
from driftbandits.policies import Policy
from driftbandits.service import commands, views
from driftbandits.service.auth import ADMIN
from driftbandits.service.changing import (
    BeginShadow,
    Configure,
    DropShadow,
    Promote,
    Rename,
    Restore,
    Retire,
    Shadows,
    Wanted,
)
from driftbandits.service.configuring import CONFIGURE, PUT_SHADOW, wanted_policy, wanted_record
from driftbandits.service.costs import check_cost
from driftbandits.service.endpoints import Call, Gate, whole_number
from driftbandits.service.erasing import Erase, Task
from driftbandits.service.explaining import (
    MOST_EXPLANATIONS,
    explained,
    last_decisions,
    one_decision,
    one_explained,
)
from driftbandits.service.fold import CHANGE, Version, policy_of
from driftbandits.service.freezing import Freeze
from driftbandits.service.kernels import make_policy_ready
from driftbandits.service.logs import json_events, parquet
from driftbandits.service.metrics import Scrape
from driftbandits.service.offering import offer_from
from driftbandits.service.refusals import Refused, invalid, unknown_policy
from driftbandits.service.replies import Reply
from driftbandits.service.routes import Routes

MOST_EVENTS = 10_000
MOST_PARQUET_EVENTS = 100_000
MOST_EVENT_BYTES = 4 * 1024 * 1024
MOST_PARQUET_BYTES = 16 * 1024 * 1024
"""Of stored events in one answer, which says where to go on; one event may be larger."""


_PATIENCE_S = 1.0
"""With another process that is asked for its part of an answer."""
_SHORT_CHANGE_S = 2.0
"""So long a change is waited for; one that takes longer goes on, and its answer is 202."""
_LOOK_EVERY_S = 0.02
_NAME = re.compile(wire.NAME_PATTERN)

ROUTES = Routes()

Result = TypeVar("Result", wire.DecisionResult, wire.RewardResult)


async def _do(gate: Gate, command: commands.Command) -> Any:
    result = await gate.engine.do(command)
    if isinstance(result, Refused):
        raise result
    return result


# -- decisions and rewards -----------------------------------------------------------------------


@ROUTES.serve(operations.DECIDE)
def decide(gate: Gate, call: Call) -> commands.Decide:
    return _decide(gate, call, call.body)


def _decide(gate: Gate, call: Call, request: wire.DecisionRequest) -> commands.Decide:
    offer = offer_from(request, call.caller.key)
    return commands.Decide(
        call.policy,
        request.event_id,
        offer,
        unit=request.unit or "",
        most_pending=gate.limits.pending_per_key,
    )


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
    results = await _do(gate, commands.Many(call.policy, work))
    return Reply(wire.DecisionsAnswer(_results(wire.DecisionResult, results)))


def _results(struct: type[Result], results: list[Any]) -> list[Result]:
    """Of a batch: what each request would have answered by itself."""
    return [
        struct(result.status, error=result.problem)
        if isinstance(result, Refused)
        else struct(200, result)
        for result in results
    ]


@ROUTES.serve(operations.REWARD)
def reward(gate: Gate, call: Call) -> commands.Reward:
    return _reward(call, call.body)


def _reward(call: Call, request: wire.RewardRequest) -> commands.Reward:
    return commands.Reward(call.policy, request.event_id, request.value, key=call.caller.key)


@ROUTES.serve(operations.REWARD_MANY)
async def reward_many(gate: Gate, call: Call) -> Reply:
    work = [_reward(call, request) for request in call.body.rewards]
    results = await _do(gate, commands.Many(call.policy, work))
    return Reply(wire.RewardsAnswer(_results(wire.RewardResult, results)))


@ROUTES.serve(operations.WITHDRAW)
def withdraw(gate: Gate, call: Call) -> commands.Withdraw:
    return commands.Withdraw(call.policy, call.body.event_id, key=call.caller.key)


# -- policies ------------------------------------------------------------------------------------


@ROUTES.serve(operations.POLICY)
def policy(gate: Gate, call: Call) -> commands.View:
    look = functools.partial(views.policy_answer, followers=gate.engine.followers)
    return commands.View(call.policy, look)


@ROUTES.serve(CONFIGURE)
async def configure(gate: Gate, call: Call) -> Reply:
    wanted = await _wanted(gate, call)
    return await _changed(gate, call, Configure(call.policy, wanted))


async def _wanted(gate: Gate, call: Call) -> Wanted:
    """What a `PolicyRequest` asks for, if there is room for it; its kernels are ready then."""
    policy = wanted_policy(call.body)
    record = wanted_record(call.body, policy, key=call.caller.key)
    if gate.engine.ready:
        others = list(_others(gate, call))
        await asyncio.to_thread(check_cost, policy, others, gate.limits)
        await asyncio.to_thread(make_policy_ready, policy)  # the writer waits for no compiler
    body = call.body
    return Wanted(record, body.seed, fresh=body.fresh, dry_run=body.dry_run)


def _others(gate: Gate, call: Call) -> Iterator[Policy]:
    """What else a key has configured: versions that decide, and those that learn beside them."""
    for fold in list(gate.engine.folds.values()):
        replaced = call.item if fold.policy == call.policy else None  # "": the version itself
        if fold.versions and fold.version.record.key == call.caller.key and replaced != CHANGE:
            yield fold.playing.policy
        for name, candidate in fold.candidates.items():
            if candidate.record.key == call.caller.key and name != replaced:
                yield policy_of(candidate.record)


async def _changed(gate: Gate, call: Call, command: commands.Command) -> Reply:
    """What came of a change; one that is learned again is waited for a little."""
    how, answer = await _do(gate, command)
    deadline = time.monotonic() + _SHORT_CHANGE_S
    while answer.change is not None and not answer.change.dry_run:
        if time.monotonic() > deadline:
            return Reply(answer, 202)
        await asyncio.sleep(_LOOK_EVERY_S)
        answer = await _do(gate, policy(gate, call))
    return Reply(answer, 201 if how and answer.version == 1 and answer.change is None else 200)


@ROUTES.serve(operations.RESTORE)
async def restore(gate: Gate, call: Call) -> Reply:
    body: wire.RestoreRequest = call.body
    if not call.item.isdecimal() or len(call.item) > 9:
        raise invalid(f"version must be a number; got {call.item!r}", "version")
    command = Restore(
        call.policy,
        int(call.item),
        key=call.caller.key,
        fresh=body.fresh,
        dry_run=body.dry_run,
    )
    return await _changed(gate, call, command)


@ROUTES.serve(operations.RETIRE)
def retire(gate: Gate, call: Call) -> Retire:
    return Retire(call.policy, True, key=call.caller.key)


@ROUTES.serve(operations.BRING_BACK)
def bring_back(gate: Gate, call: Call) -> Retire:
    return Retire(call.policy, False, key=call.caller.key)


@ROUTES.serve(operations.RENAME)
def rename(gate: Gate, call: Call) -> Rename:
    to = call.body.to
    call.caller.check(ADMIN, to)
    return Rename(call.policy, to, key=call.caller.key)


@ROUTES.serve(operations.SHADOWS)
def shadows(gate: Gate, call: Call) -> Shadows:
    return Shadows(call.policy)


@ROUTES.serve(PUT_SHADOW)
async def put_shadow(gate: Gate, call: Call) -> Reply:
    if not _NAME.match(call.item):
        raise invalid(f"shadow must match {wire.NAME_PATTERN}; got {call.item!r}", "shadow")
    wanted = await _wanted(gate, call)
    changed, answer = await _do(gate, BeginShadow(call.policy, call.item, wanted))
    return Reply(answer, 201 if changed and not wanted.dry_run else 200)


@ROUTES.serve(operations.DROP_SHADOW)
def drop_shadow(gate: Gate, call: Call) -> DropShadow:
    return DropShadow(call.policy, call.item, key=call.caller.key)


@ROUTES.serve(operations.PROMOTE)
def promote(gate: Gate, call: Call) -> Promote:
    return Promote(call.policy, call.item or " ", key=call.caller.key)


@ROUTES.serve(operations.FREEZE)
def freeze(gate: Gate, call: Call) -> Freeze:
    return Freeze(call.policy, True, key=call.caller.key)


@ROUTES.serve(operations.THAW)
def thaw(gate: Gate, call: Call) -> Freeze:
    return Freeze(call.policy, False, key=call.caller.key)


@ROUTES.serve(operations.POLICIES)
async def policies(gate: Gate, call: Call) -> Reply:
    """Those of this process, and what the others say about theirs."""
    told = {} if call.envelope.was_sent_on else await _told_by_others(gate, call)

    def is_wanted(policy: str) -> bool:
        if call.envelope.was_sent_on and not gate.owners.owns(policy):
            return False
        return policy not in told and call.caller.may_see(policy)

    for summary in await _do(gate, commands.ViewAll(views.summary, may_see=is_wanted)):
        told[summary.policy] = summary
    return Reply(wire.PoliciesAnswer([told[name] for name in sorted(told)]))


async def _told_by_others(gate: Gate, call: Call) -> dict[str, wire.PolicySummary]:
    """The policies of the other processes, as far as they answer soon."""
    replies = await asyncio.gather(
        *(
            gate.forwarding.ask(peer, call.envelope.request_to(peer, b""), patience_s=_PATIENCE_S)
            for peer in gate.owners.peers.values()
        )
    )
    told = {}
    for reply in replies:
        if reply is not None and reply.status == 200:
            for summary in msgspec.json.decode(reply.body, type=wire.PoliciesAnswer).policies:
                told[summary.policy] = summary
    return told


@ROUTES.serve(operations.VERSIONS)
def versions(gate: Gate, call: Call) -> commands.View:
    return commands.View(call.policy, views.versions_answer)


@ROUTES.serve(operations.DIGEST)
def digest(gate: Gate, call: Call) -> commands.View:
    return commands.View(call.policy, views.digest_answer)


@ROUTES.serve(operations.LIFT)
def lift(gate: Gate, call: Call) -> commands.View:
    return commands.View(call.policy, views.lift_answer)


@ROUTES.serve(operations.HISTORY)
def history(gate: Gate, call: Call) -> commands.View:
    after_s = whole_number(call.query, "after", default=0, most=2**40)
    since = whole_number(call.query, "since", default=0, most=2**62)
    look = functools.partial(views.history_answer, after_s=after_s, since=since)
    return commands.View(call.policy, look)


@ROUTES.serve(operations.EXPLANATIONS)
async def explanations(gate: Gate, call: Call) -> Reply:
    limit = max(1, whole_number(call.query, "limit", default=10, most=MOST_EXPLANATIONS))
    logged = await asyncio.to_thread(last_decisions, gate.engine.store, call.policy, limit)
    look = functools.partial(explained, logged=logged)
    return Reply(await _do(gate, commands.View(call.policy, look)))


@ROUTES.serve(operations.EXPLANATION)
async def explanation(gate: Gate, call: Call) -> Reply:
    logged = await asyncio.to_thread(one_decision, gate.engine.store, call.policy, call.item)
    look = functools.partial(one_explained, logged=logged)
    return Reply(await _do(gate, commands.View(call.policy, look)))


# -- the log -------------------------------------------------------------------------------------


@ROUTES.serve(operations.EVENTS, anywhere=True)
async def events(gate: Gate, call: Call) -> Reply:
    as_parquet = call.query.get("format", "") == "parquet" or PARQUET in call.accept
    if call.query.get("format", "json") not in ("json", "parquet"):
        raise Refused(422, "invalid", "format must be json or parquet", path="format")
    most = MOST_PARQUET_EVENTS if as_parquet else MOST_EVENTS
    after = whole_number(call.query, "after", default=0, most=2**62)
    limit = max(1, whole_number(call.query, "limit", default=min(1000, most), most=most))
    versions = await _versions(gate, call.policy) if as_parquet else []
    return await gate.exports.run(_events, gate, call.policy, after, limit, as_parquet, versions)


async def _versions(gate: Gate, policy: str) -> list[Version]:
    """None of a log that is damaged: what it has is given nevertheless."""
    try:
        found: list[Version] = await _do(
            gate, commands.View(policy, lambda fold: list(fold.versions))
        )
    except Refused as refused:
        if refused.status != 500:
            raise
        return []
    return found


def _events(
    gate: Gate, policy: str, after: int, limit: int, as_parquet: bool, versions: list[Version]
) -> Reply:
    store = gate.engine.store
    with store.read() as session:
        if session.head(policy) is None:
            raise unknown_policy(policy)
        most_bytes = MOST_PARQUET_BYTES if as_parquet else MOST_EVENT_BYTES
        found = session.page(policy, after=after, limit=limit, most_bytes=most_bytes)
    following = found[-1].seq if found else after
    if as_parquet:
        version = next((one for one in reversed(versions) if one.seq <= following), None)
        return Reply(
            parquet(found, version=version),
            media_type=PARQUET,
            headers=((b"x-next", str(following).encode()),),
        )
    return Reply(json_events(found, following))


@ROUTES.serve(operations.ERASE)
def erase(gate: Gate, call: Call) -> Erase:
    request: wire.ErasureRequest = call.body
    if request.event_ids is None and request.prefix is None and request.older_than_days is None:
        raise invalid("give event_ids, prefix or older_than_days", "$")
    days = request.older_than_days
    task = Task(
        event_ids=request.event_ids or (),
        prefix=request.prefix,
        older_than_ns=None if days is None else int(days * 86_400e9),
    )
    return Erase(call.policy, task, key=call.caller.key)


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
    sees_all = call.caller.may_see("")
    scrape = Scrape(
        gate.metrics, folds, waiting=engine.waiting, ready=engine.ready, of_all=sees_all
    )
    return Reply(scrape.text(), media_type=PROMETHEUS)
