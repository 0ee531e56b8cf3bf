"""`driftbandits mcp`, asked by the kit's own client over stdin and stdout."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as Agent
from mcp import StdioServerParameters

from driftbandits import mcp as ours
from driftbandits import store
from driftbandits.client import Client
from driftbandits.service.auth import new_key
from servers import Served

ARMS = [{"id": "a", "x": [0.6, 0.1]}, {"id": "b", "x": [0.1, 0.7]}]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    url = f"sqlite:///{tmp_path_factory.mktemp('mcp')}/log.db"
    with Served(url, with_keys=True) as served:
        with Client(served.address, served.key) as client:
            client.put_policy("news", "D-GLUCB", dim=2, discount=0.99, epsilon=0.1)
            client.put_policy("news", "D-GLUCB", dim=2, discount=0.99, epsilon=0.1, mode="frozen")
            client.put_policy("news", "D-GLUCB", dim=2, discount=0.99, epsilon=0.1)
        with store.open(url) as log, log.write() as session:
            served.reader, key = new_key("reader", prefix="", label="", now_ns=1)
            session.add_key(key)
        yield served


def asked(service: Served, work: Callable[[Agent], Awaitable[Any]], *, key: str = "") -> Any:
    """What an agent finds out that starts the server as its own process."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "driftbandits", "mcp", "--url", service.address],
        env={"DRIFTBANDITS_KEY": key or service.key or "", "PYTHONPATH": str(Path("src"))},
    )

    async def run() -> Any:
        async with Agent(parameters) as agent:
            return await work(agent)

    return asyncio.run(run())


async def call(agent: Agent, tool: str, **given: Any) -> Any:
    answer = await agent.call_tool(tool, given)
    assert not answer.is_error, answer.content
    return answer.structured_content


def test_an_agent_decides_and_asks_why(service: Served) -> None:
    async def work(agent: Agent) -> None:
        (line,) = (await call(agent, "policies"))["policies"]
        assert (line["policy"], line["version"]) == ("news", 3)
        decision = await call(agent, "decide", policy="news", arms=ARMS, event_id="visit-1")
        assert decision["arm"] in ("a", "b")
        again = await call(agent, "decide", policy="news", arms=ARMS, event_id="visit-1")
        assert again == decision
        told = await call(agent, "reward", policy="news", event_id="visit-1", value=1)
        assert told == {"status": "learned"}
        why = (await call(agent, "explanation", policy="news", event_id="visit-1"))["decision"]
        assert why["arms"][why["index"]]["id"] == decision["arm"]
        assert why["outcome"]["value"] == 1.0
        last = await call(agent, "explanations", policy="news", limit=5)
        assert [one["event_id"] for one in last["decisions"]] == ["visit-1"]
        state = await call(agent, "policy", policy="news")
        assert state["counts"]["rewards"] == 1

    asked(service, work)


def test_versions_are_compared(service: Served) -> None:
    compared = asked(service, lambda agent: call(agent, "compare_versions", policy="news"))
    first, second, third = compared["versions"]
    assert first["changed"] == {}
    assert second["changed"] == {"mode": {"from": "online", "to": "frozen"}}
    assert third["changed"] == {"mode": {"from": "frozen", "to": "online"}}
    assert [first["began_without_what_was_learned"], third["began_without_what_was_learned"]] == [
        True,
        False,
    ]
    assert compared["settings"]["discount"] == 0.99


def test_every_reading_operation_is_a_tool_and_says_so(service: Served) -> None:
    async def work(agent: Agent) -> Any:
        return (await agent.list_tools()).tools

    tools = {tool.name: tool for tool in asked(service, work)}
    assert set(tools) == {
        "compare_versions",
        "decide",
        "reward",
        *(operation.id for operation in ours.reading()),
    }
    assert {"policies", "policy", "versions", "explanation", "history", "lift", "shadows"} <= set(
        tools
    )
    assert not {"metrics", "health"} & set(tools)
    looking = {name for name, tool in tools.items() if tool.annotations.read_only_hint}
    assert set(tools) - looking == {"decide", "reward"}
    wanted = tools["explanation"].input_schema
    assert set(wanted["properties"]) == set(wanted["required"]) == {"policy", "event_id"}
    assert tools["policy"].description


def test_refusals_are_told_to_the_agent(service: Served) -> None:
    async def work(agent: Agent) -> list[Any]:
        return [
            await agent.call_tool("policy", {"policy": "nobody"}),
            await agent.call_tool("decide", {"policy": "news", "arms": ARMS}),
            await agent.call_tool("policy", {"policy": "news"}),
        ]

    missing, forbidden, fine = asked(service, work, key=service.reader)
    assert missing.is_error
    assert "nobody" in missing.content[0].text
    assert forbidden.is_error
    assert "403" in forbidden.content[0].text
    assert not fine.is_error
