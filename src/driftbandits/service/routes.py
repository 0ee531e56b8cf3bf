"""Operations and the functions that serve them: from a checked request to a command."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from driftbandits import api
from driftbandits.api import operations
from driftbandits.api.operations import PARQUET, PROMETHEUS, Operation
from driftbandits.policies import Policy
from driftbandits.service import views
from driftbandits.service.commands import Decide, Many, Reward, View, ViewAll, Withdraw
from driftbandits.service.configuration import (
    CONFIGURE,
    PUT_SHADOW,
    check_cost,
    wanted_policy,
    wanted_record,
)
from driftbandits.service.endpoints import Request, Response, Route, Serve, Service
from driftbandits.service.erasure import Erase, Task
from driftbandits.service.kernels import make_policy_ready
from driftbandits.service.logs import json_events, parquet
from driftbandits.service.metrics import Scrape
from driftbandits.service.offers import offer_from
from driftbandits.service.refusals import Refused, invalid, unavailable, unknown_policy
from driftbandits.service.state import CHANGE, Name, Version, policy_of
from driftbandits.service.transactions import Command
from driftbandits.service.versions import (
    BeginShadow,
    Configure,
    DropShadow,
    Freeze,
    Promote,
    Restore,
    Retire,
    Shadows,
    Wanted,
)
from driftbandits.store import Store

MOST_EVENTS = 10_000
MOST_PARQUET_EVENTS = 100_000
MOST_EVENT_BYTES = 4 * 1024 * 1024
MOST_PARQUET_BYTES = 16 * 1024 * 1024
"""The most bytes of stored events in one answer; one event may be larger."""

SHORT_CHANGE_S = 2.0
"""The time that a request waits for a change; a longer change goes on and is answered 202."""

ROUTES: dict[str, dict[str, Route]] = {}
"""The routes of each path, by method."""

OPERATIONS: list[Operation[Any]] = []
"""Everything that is served, in the order of the document."""


def serves(operation: Operation[Any]) -> Callable[[Serve], Serve]:
    """Let the function below serve an operation."""

    def enter(serve: Serve) -> Serve:
        asked = operation.request
        decoder: Any = None if asked is None else msgspec.json.Decoder(asked)
        route = Route(serve, operation.role, decoder, tuple(operation.query), operation.limited)
        ROUTES.setdefault(operation.path, {})[operation.method] = route
        OPERATIONS.append(operation)
        return serve

    return enter


def runs(operation: Operation[Any], command: Callable[[Request], Command]) -> None:
    """Let the command that a request describes serve an operation."""

    async def serve(service: Service, request: Request) -> Any:
        return await service.do(command(request))

    serves(operation)(serve)


# -- decisions and rewards -----------------------------------------------------------------------


@serves(operations.DECIDE)
async def decide(service: Service, request: Request) -> Any:
    return await service.do(_decide(service, request, request.body))


def _decide(service: Service, request: Request, body: api.DecisionRequest) -> Decide:
    return Decide(
        request.policy,
        body.event_id,
        offer_from(body, request.caller.key),
        unit=body.unit or "",
        most_pending=service.limits.pending_per_key,
    )


@serves(operations.DECIDE_MANY)
async def decide_many(service: Service, request: Request) -> api.DecisionsAnswer:
    commands = []
    for i, body in enumerate(request.body.decisions):
        try:
            commands.append(_decide(service, request, body))
        except Refused as refused:
            refused.problem.path = f"$.decisions[{i}]{(refused.problem.path or '$')[1:]}"
            raise
    results = await service.do(Many(request.policy, commands))
    return api.DecisionsAnswer(_results(api.DecisionResult, results))


def _results(struct: Callable[..., Any], results: Sequence[Any]) -> list[Any]:
    """Answer each request of a batch as if it had come by itself."""
    return [
        struct(one.status, error=one.problem) if isinstance(one, Refused) else struct(200, one)
        for one in results
    ]


runs(operations.REWARD, lambda r: _reward(r, r.body))


def _reward(request: Request, body: api.RewardRequest) -> Reward:
    return Reward(request.policy, body.event_id, body.value, key=request.caller.key)


@serves(operations.REWARD_MANY)
async def reward_many(service: Service, request: Request) -> api.RewardsAnswer:
    commands = [_reward(request, body) for body in request.body.rewards]
    results = await service.do(Many(request.policy, commands))
    return api.RewardsAnswer(_results(api.RewardResult, results))


runs(operations.WITHDRAW, lambda r: Withdraw(r.policy, r.body.event_id, key=r.caller.key))


# -- policies ------------------------------------------------------------------------------------


@serves(operations.POLICIES)
async def policies(service: Service, request: Request) -> api.PoliciesAnswer:
    found = await service.do(ViewAll("", views.summary, request.caller.may_see))
    return api.PoliciesAnswer(found)


@serves(operations.POLICY)
async def policy(service: Service, request: Request) -> Any:
    look = functools.partial(views.policy_answer, followers=service.engine.followers)
    return await service.do(View(request.policy, look))


@serves(CONFIGURE)
async def configure(service: Service, request: Request) -> Response:
    wanted = await _wanted(service, request, replaced=CHANGE)
    return await _changed(service, request, Configure(request.policy, wanted))


async def _wanted(service: Service, request: Request, *, replaced: Name) -> Wanted:
    """Return the requested configuration if there is room for it, with its kernels compiled.

    `replaced` is the shadow whose place it will take, or CHANGE for the version that is played.
    """
    body = request.body
    policy = wanted_policy(body)
    record = wanted_record(body, policy, key=request.caller.key)
    if service.engine.ready:
        others = list(_others(service, request, replaced))
        await asyncio.to_thread(check_cost, policy, others, service.limits)
        await asyncio.to_thread(make_policy_ready, policy)  # the writer waits for no compiler
    return Wanted(record, body.seed, fresh=body.fresh, dry_run=body.dry_run)


def _others(service: Service, request: Request, replaced: Name) -> Iterator[Policy]:
    """Return the bytes of a key's other policies and of the versions that learn beside them."""
    key = request.caller.key
    for state in list(service.engine.states.values()):
        is_here = state.policy == request.policy
        is_replaced = is_here and replaced is CHANGE
        if state.versions and state.version.record.key == key and not is_replaced:
            yield state.playing.policy
        for name, candidate in state.candidates.items():
            if candidate.record.key == key and not (is_here and name == replaced):
                yield policy_of(candidate.record)


async def _changed(service: Service, request: Request, command: Command) -> Response:
    """Answer a change; wait a little for one that learns the log again."""
    how, answer = await service.do(command)
    if answer.change is not None and not answer.change.dry_run:
        await service.engine.settled(request.policy, SHORT_CHANGE_S)
        answer = await policy(service, request)
        if answer.change is not None:
            return Response(answer, 202)
    return Response(answer, 201 if how and answer.version == 1 and answer.change is None else 200)


@serves(operations.RESTORE)
async def restore(service: Service, request: Request) -> Response:
    body: api.RestoreRequest = request.body
    command = Restore(
        request.policy,
        int(request.names["version"]),
        key=request.caller.key,
        fresh=body.fresh,
        dry_run=body.dry_run,
    )
    return await _changed(service, request, command)


runs(operations.RETIRE, lambda r: Retire(r.policy, True, key=r.caller.key))
runs(operations.BRING_BACK, lambda r: Retire(r.policy, False, key=r.caller.key))
runs(operations.FREEZE, lambda r: Freeze(r.policy, True, key=r.caller.key))
runs(operations.THAW, lambda r: Freeze(r.policy, False, key=r.caller.key))
runs(operations.SHADOWS, lambda r: Shadows(r.policy))


@serves(PUT_SHADOW)
async def put_shadow(service: Service, request: Request) -> Response:
    name = request.names["shadow"]
    wanted = await _wanted(service, request, replaced=name)
    changed, answer = await service.do(BeginShadow(request.policy, name, wanted))
    return Response(answer, 201 if changed and not wanted.dry_run else 200)


runs(operations.DROP_SHADOW, lambda r: DropShadow(r.policy, r.names["shadow"], key=r.caller.key))
runs(operations.PROMOTE, lambda r: Promote(r.policy, r.names["shadow"]))


# -- what was learned and why --------------------------------------------------------------------


runs(operations.VERSIONS, lambda r: View(r.policy, views.versions_answer))
runs(operations.DIGEST, lambda r: View(r.policy, views.digest_answer))
runs(operations.LIFT, lambda r: View(r.policy, views.lift_answer))


@serves(operations.HISTORY)
async def history(service: Service, request: Request) -> Any:
    after_s = _whole_number(request.query, "after", default=0, most=2**40)
    since = _whole_number(request.query, "since", default=0, most=2**62)
    look = functools.partial(views.history_answer, after_s=after_s, since=since)
    return await service.do(View(request.policy, look))


@serves(operations.EXPLANATIONS)
async def explanations(service: Service, request: Request) -> Any:
    limit = max(1, _whole_number(request.query, "limit", default=10, most=views.MOST_EXPLANATIONS))
    log = service.engine.store
    logged = await asyncio.to_thread(views.last_decisions, log, request.policy, limit)
    look = functools.partial(views.explained, logged=logged)
    return await service.do(View(request.policy, look))


@serves(operations.EXPLANATION)
async def explanation(service: Service, request: Request) -> Any:
    event_id, log = request.names["event_id"], service.engine.store
    logged = await asyncio.to_thread(views.one_decision, log, request.policy, event_id)
    look = functools.partial(views.one_explained, logged=logged)
    return await service.do(View(request.policy, look))


# -- the log -------------------------------------------------------------------------------------


@serves(operations.EVENTS)
async def events(service: Service, request: Request) -> Any:
    kind = request.query.get("format", "")
    if kind not in ("", "json", "parquet"):
        raise Refused(422, "invalid", "format must be json or parquet", path="format")
    as_parquet = kind == "parquet" or PARQUET.encode() in request.headers.get(b"accept", b"")
    most = MOST_PARQUET_EVENTS if as_parquet else MOST_EVENTS
    after = _whole_number(request.query, "after", default=0, most=2**62)
    limit = max(1, _whole_number(request.query, "limit", default=min(1000, most), most=most))
    versions = await _versions(service, request.policy) if as_parquet else None
    return await service.read(
        _events, service.engine.store, request.policy, after=after, limit=limit, versions=versions
    )


async def _versions(service: Service, policy: str) -> list[Version]:
    """Return none of a log that is damaged: what it has is given nevertheless."""
    try:
        found: list[Version] = await service.do(View(policy, lambda state: list(state.versions)))
    except Refused as refused:
        if refused.status != 500:
            raise
        return []
    return found


def _events(
    log: Store, policy: str, *, after: int, limit: int, versions: Sequence[Version] | None
) -> Response:
    """A page of the log: as JSON, or as Parquet that names the version of its last event."""
    most_bytes = MOST_EVENT_BYTES if versions is None else MOST_PARQUET_BYTES
    with log.read() as session:
        if session.head(policy) is None:
            raise unknown_policy(policy)
        found = session.page(policy, after=after, limit=limit, most_bytes=most_bytes)
    following = found[-1].seq if found else after
    if versions is None:
        return Response(json_events(found, following))
    version = next((one for one in reversed(versions) if one.seq <= following), None)
    content = parquet(found, version=version)
    return Response(content, 200, PARQUET.encode(), ((b"x-next", b"%d" % following),))


@serves(operations.ERASE)
async def erase(service: Service, request: Request) -> Any:
    body: api.ErasureRequest = request.body
    if body.event_ids is None and body.prefix is None and body.older_than_days is None:
        raise invalid("give event_ids, prefix or older_than_days", "$")
    days = body.older_than_days
    task = Task(
        event_ids=body.event_ids or (),
        prefix=body.prefix,
        older_than_ns=None if days is None else int(days * 86_400e9),
    )
    return await service.do(Erase(request.policy, task, key=request.caller.key))


# -- the process ---------------------------------------------------------------------------------


@serves(operations.HEALTH)
async def health(service: Service, request: Request) -> api.HealthAnswer:
    if service.engine.dead:
        raise unavailable("writer_died", "the writer has ended")
    return api.HealthAnswer("ok")


@serves(operations.READINESS)
async def readiness(service: Service, request: Request) -> api.HealthAnswer:
    if not service.engine.ready:
        raise unavailable("starting", "the service compiles kernels and replays the log")
    failed = sum(service.engine.failed().values())
    more = f", but {failed} candidate{'s have' if failed > 1 else ' has'} failed" if failed else ""
    return api.HealthAnswer(f"ok{more}")


@serves(operations.METRICS)
async def metrics(service: Service, request: Request) -> Response:
    engine, caller = service.engine, request.caller
    scrape = Scrape(
        service.metrics,
        [state for state in list(engine.states.values()) if caller.may_see(state.policy)],
        waiting=engine.waiting,
        ready=engine.ready,
        of_all=caller.may_see(""),
        failed={k: n for k, n in engine.failed().items() if caller.may_see(k)},
    )
    return Response(scrape.text(), 200, PROMETHEUS.encode())


def _whole_number(query: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    """A query parameter that counts."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) > most:
        raise Refused(
            422, "invalid", f"{name} must be an integer from 0 to {most}; got {text!r}", path=name
        )
    return int(text)
