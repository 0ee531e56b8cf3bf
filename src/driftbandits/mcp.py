"""The decision service as tools of the Model Context Protocol, for agents that ask and decide.

Every operation of the service that only reads a policy is a tool, made of its row in `operations`:
what a later release serves can be asked for without another line here.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from driftbandits import extras, operations
from driftbandits.client import AsyncClient, ServiceError
from driftbandits.client.calls import call
from driftbandits.operations import JSON, Operation

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

Tool = Callable[..., Awaitable[dict[str, Any]]]

_ABOUT = (
    "Policies choose between arms (offers, texts, models) and learn from rewards. Begin with "
    "`policies`. `explanation` says why one decision was made, by its event_id; `explanations` has "
    "the last ones; `compare_versions` says what was changed, `lift` whether a policy earns more "
    "than the caller's own rule, `shadows` what candidates would play. `decide` and `reward` "
    "change a policy: use them only if you are asked to."
)
_SETTINGS = ("mode", "seed", "reward_wait_s", "default_reward", "half_life_s", "window_s")


def reading() -> Iterator[Operation[Any]]:
    """The operations that change nothing and answer in JSON."""
    for operation in vars(operations).values():
        is_one = isinstance(operation, Operation) and operation.method == "GET"
        if is_one and operation.role is not None and JSON in operation.media_types:
            yield operation


def server(url: str, key: str | None) -> MCPServer[Any]:
    """The tools of a running service."""
    kit = extras.load("mcp.server.mcpserver", "An MCP server needs mcp", extra="mcp")
    types = extras.load("mcp_types", "An MCP server needs mcp", extra="mcp")
    client = AsyncClient(url, key, patience=5.0)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with client:
            yield

    made: MCPServer[Any] = kit.MCPServer(
        "driftbandits", instructions=_ABOUT, lifespan=lifespan, log_level="WARNING"
    )

    def add(tool: Tool, **about: Any) -> None:
        @functools.wraps(tool)
        async def run(*given: Any, **named: Any) -> dict[str, Any]:
            try:
                return await tool(*given, **named)
            except (ServiceError, ValueError) as error:  # what an agent can do something about
                raise kit.exceptions.ToolError(str(error)) from None

        made.tool(**about)(run)

    looks = types.ToolAnnotations(read_only_hint=True)
    acts = types.ToolAnnotations(read_only_hint=False, idempotent_hint=True)
    for operation in reading():
        about = {"name": operation.id, "description": operation.summary}
        add(_tool(client, operation), annotations=looks, **about)
    add(_comparison(client), annotations=looks)
    for tool in _acting(client):
        add(tool, annotations=acts)
    return made


def _plain(answer: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(answer)
    return plain


def _tool(client: AsyncClient, operation: Operation[Any]) -> Tool:
    """A function with the parameters of an operation."""
    names = re.findall(r"\{(\w+)\}", operation.path)
    counts = [name for name, of in operation.query.items() if of.schema.get("type") == "integer"]

    async def ask(**given: Any) -> dict[str, Any]:
        query = {name: given.get(name) for name in counts}
        described = functools.partial(
            call, operation, query=query, **{name: given[name] for name in names}
        )
        return _plain(await client._run(described))

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(inspect.Parameter(name, keyword, annotation=str) for name in names),
        *(inspect.Parameter(name, keyword, annotation=int | None, default=None) for name in counts),
    ]
    ask.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        parameters, return_annotation=dict[str, Any]
    )
    return ask


def _comparison(client: AsyncClient) -> Tool:
    async def compare_versions(policy: str) -> dict[str, Any]:
        """What each version of a policy has changed, and since when it decided."""
        versions = [_plain(version) for version in await client.versions(policy)]
        changes, before = [], dict[str, Any]()
        for version in versions:
            settings = {**version["arguments"], **{name: version[name] for name in _SETTINGS}}
            names = sorted(settings.keys() | before.keys()) if before else []
            changes.append(
                {
                    "version": version["version"],
                    "since": version["since"],
                    "since_seq": version["since_seq"],
                    "began_without_what_was_learned": version["fresh"],
                    "changed": {
                        name: {"from": before.get(name), "to": settings.get(name)}
                        for name in names
                        if before.get(name) != settings.get(name)
                    },
                }
            )
            before = settings
        return {"policy": policy, "settings": before, "versions": changes}

    return compare_versions


def _acting(client: AsyncClient) -> Iterator[Tool]:
    async def decide(
        policy: str,
        arms: list[dict[str, Any] | str],
        context: dict[str, Any] | list[float] | None = None,
        event_id: str | None = None,
    ) -> dict[str, Any]:
        """Choose one of the arms; the policy then waits for the reward of this event_id.

        Each arm is {"id", "x"} or {"id", "features"}, as the policy wants it, or an id alone. The
        same event_id again gives the same answer.
        """
        return _plain(await client.decide(policy, arms, context=context, event_id=event_id))

    async def reward(policy: str, event_id: str, value: float) -> dict[str, Any]:
        """Report what came of a decision; the policy learns from it."""
        return _plain(await client.reward(policy, event_id, value))

    yield decide
    yield reward
