"""The operations: each is served, described, and called by a client under one name."""

import asyncio
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from driftbandits import api
from driftbandits.api import operations
from driftbandits.api.operations import Operation
from driftbandits.client import AsyncClient, Client
from driftbandits.client.methods import Methods
from driftbandits.client.queue import Fallback, Queue
from driftbandits.service.auth import ROLES
from driftbandits.service.openapi import document
from driftbandits.service.routes import OPERATIONS, ROUTES
from servers import Served

ROWS = [value for value in vars(operations).values() if isinstance(value, Operation)]
ARMS = {"a": [1.0, 0.0], "b": [0.0, 0.5]}

GIVEN: dict[str, Any] = {
    "policy": "news",
    "name": "greedy",
    "arms": ARMS,
    "requests": [{"arms": ARMS}],
    "event_id": "e1",
    "value": 1.0,
    "rewards": {"e1": 1.0},
    "version": 3,
    "shadow": "bold",
    "to": "news-2025",
}
"""What methods of a client are called with, by the names of their arguments."""


class Described(Methods):
    """A client that makes no calls, and shows them."""

    _fallback = Fallback(Queue(1))

    def _run(self, describe: Any) -> Any:
        return describe()


def described() -> dict[str, Any]:
    return document(OPERATIONS)


def operations_of(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Method and path of every operation, by its id."""
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


# -- the document --------------------------------------------------------------------------------


def test_the_document_is_openapi():
    OpenAPIV31SpecValidator(described()).validate()


def test_every_operation_is_served_and_has_a_name_of_its_own():
    found = operations_of(described())
    assert found == {row.id: (row.method, row.path) for row in ROWS}
    assert len(found) == len(ROWS) == sum(map(len, ROUTES.values()))


def test_roles_are_those_of_keys():
    assert {row.role for row in ROWS} == {None, *ROLES}


# -- the client ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in vars(Methods) if not name.startswith("_")])
def test_every_method_of_a_client_calls_an_operation_that_is_there(name):
    method = getattr(Described(), name)
    wanted = inspect.signature(method).parameters
    call = method(**{argument: GIVEN[argument] for argument in wanted if argument in GIVEN})
    path = call.operation.path.format(**GIVEN)
    assert operations_of(described())[call.operation.id] == (call.method, call.operation.path)
    assert call.path.partition("?")[0] == path
    assert (call.body is None) == (call.operation.request is None)


# -- adding an endpoint --------------------------------------------------------------------------


@pytest.fixture
def guide(monkeypatch):
    """The lines that CONTRIBUTING.md adds to modules, added to them."""
    before, count = dict(ROUTES), len(OPERATIONS)
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
    section = text.partition("## Adding an endpoint")[2].partition("\n## ")[0]
    try:
        for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            add(block, monkeypatch)
        yield
    finally:
        ROUTES.clear()
        ROUTES.update(before)
        del OPERATIONS[count:]


def add(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = re.match(r"# (\S+)\.py\n", block)[1].replace("/", ".")
    module = importlib.import_module(f"driftbandits.{place}")
    names = dict(vars(module))
    exec(compile(block, place, "exec"), names)
    homes = [Methods if place == "client.methods" else module]
    if place.startswith("api."):
        homes.append(api)  # which takes all that its modules have
    for name in names.keys() - vars(module).keys():
        for home in homes:
            monkeypatch.setattr(home, name, names[name], raising=False)


def test_a_row_a_handler_and_a_method_are_an_endpoint(guide, tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service, Client(service.address) as client:
        client.put_policy("news", "greedy", dim=2)
        client.decide("news", ARMS, event_id="e1")
        client.decide("news", ARMS, event_id="e2")
        client.reward("news", "e1", 1.0)
        waiting = client.pending("news")
        assert (waiting.policy, waiting.pending) == ("news", 1)

        async def ask():
            async with AsyncClient(service.address) as other:
                return await other.pending("news")

        assert asyncio.run(ask()) == waiting
        served = service.client.get("/openapi.json").json()
        assert served == document(OPERATIONS)
        OpenAPIV31SpecValidator(served).validate()
        assert operations_of(served)["pending"] == ("GET", "/v1/policies/{policy}/pending")
