"""Requests that no client of ours would send: none makes the service fail, none makes it wait."""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from load import POLICY, asking, configure, size_of_test
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from driftbandits.service.openapi import document
from driftbandits.service.routes import OPERATIONS
from servers import Served
from wire import answers_of, connected, spoken

pytestmark = pytest.mark.compiled

EXAMPLES = size_of_test("EXAMPLES", short=12)
IDLE = size_of_test("IDLE", short=300)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Served(f"sqlite:///{tmp_path_factory.mktemp('hostile')}/log.db") as served:
        configure(served.address)
        yield served


@pytest.fixture
def client(service):
    yield service.client
    answer = service.client.post(f"{POLICY}/decisions", json=asking(f"e{time.time_ns()}", 1))
    assert answer.status_code == 200, answer.text  # it serves on


# -- what the document allows, and what it does not ------------------------------------------------


interface = schemathesis.openapi.from_dict(document(OPERATIONS))


@pytest.fixture
def requests(record_property):
    """Counted over all examples of a test."""
    count = Counter()
    yield count
    record_property("requests", count["requests"])


@interface.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_the_document_is_kept(service, case, requests):
    """Answers to whatever can be made of it have the statuses, types and shapes that it says."""
    requests["requests"] += 1
    case.call_and_validate(
        base_url=service.address,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )


# -- bodies ----------------------------------------------------------------------------------------

ARMS = '[{"id": "a", "x": [0.1, 0.2]}]'
BODIES = {
    "nothing": b"",
    "not text": b"\xff\xfe\x00",
    "byte order mark": b"\xef\xbb\xbf{}",
    "null": b"null",
    "cut off": b'{"event_id": "e", "arms": [{"id"',
    "lone surrogate": b'{"event_id": "\\ud800", "value": 1}',
    "a key twice": f'{{"event_id": "e", "event_id": "f", "arms": {ARMS}}}'.encode(),
    "a key twice within": b'{"event_id": "e", "arms": [{"id": "a", "x": [1], "x": [0.1, 0.2]}]}',
    "NaN": b'{"event_id": "e", "arms": [{"id": "a", "x": [NaN, 0.2]}]}',
    "infinity": b'{"event_id": "e", "arms": [{"id": "a", "x": [-Infinity, 0.2]}]}',
    "1e999": b'{"event_id": "e", "arms": [{"id": "a", "x": [1e999, 0.2]}]}',
    "5000 digits": b'{"event_id": "e", "arms": [{"id": "a", "x": [%s, 0.2]}]}' % (b"1" * 5000),
    "a text for a number": b'{"event_id": "e", "arms": [{"id": "a", "x": ["0.1", 0.2]}]}',
    "a line end in an id": f'{{"event_id": "e\\n", "arms": {ARMS}}}'.encode(),
    **{f"{depth} deep": b"[" * depth + b"]" * depth for depth in (900, 990, 1000, 1100, 500_000)},
    "deep objects": b'{"arms": ' * 990 + b"1" + b"}" * 990,
    "many keys": json.dumps({f"k{i}": i for i in range(50_000)}).encode(),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", ["/decisions", "/rewards:batch", "/erasures", ""])
def test_malformed_bodies_are_refused(client, name, path):
    answer = client.request("POST" if path else "PUT", POLICY + path, content=BODIES[name])
    assert answer.status_code in (400, 413, 422), answer.text
    assert answer.json()["error"]["path"].startswith("$")


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "x", ""])
def test_the_content_type_decides_nothing(client, kind):
    """A body is JSON or it is refused, whatever its label says."""
    good = json.dumps(asking(f"t{time.time_ns()}", 1))
    for content, status in ((good, 200), ("a=1&b=2", 400)):
        answer = client.post(f"{POLICY}/decisions", content=content, headers={"content-type": kind})
        assert answer.status_code == status, answer.text


# -- bytes on the wire -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/policies", ["host: ["]),
        ("/v1/policies", ["origin: http://["]),
        ("/page/a%00b", []),
        ("/page/" + "a" * 5000, []),
        ("/page/%ff%2e%2e/app.py", []),
        ("/v1/policies/news%0A", []),
        ("/v1/policies/%ff%fe", []),
        ("/v1/policies/\xff", []),
        (f"{POLICY}/events?after=%ff", []),
        (f"{POLICY}/events?" + "&".join(f"a{i}=1" for i in range(2000)), []),
        (f"{POLICY}/rewards", ["content-length: -5"]),
        (f"{POLICY}/rewards", ["content-length: " + "9" * 5000]),
        ("*", []),
    ],
    ids=range(13),
)
def test_strange_lines_are_refused(service, client, path, headers):
    with connected(service) as caller:
        caller.sendall(spoken("GET", path, b"", *headers, "connection: close"))
        ((status, _),) = answers_of(caller)
        assert 400 <= status < 500


# -- slow clients ----------------------------------------------------------------------------------


def test_others_do_not_wait_for_slow_clients(service, client, record_property):
    """Hundreds connect and say nothing, or drip headers, or drip a body, or never read."""
    body = json.dumps(asking("slow", 1)).encode()
    whole = spoken("POST", f"{POLICY}/decisions", body)
    with ExitStack() as stack:
        callers = [stack.enter_context(connected(service)) for _ in range(IDLE)]
        for i, caller in enumerate(callers):
            caller.sendall(whole[: (0, 20, len(whole) - 10, len(whole))[i % 4]])
        with ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(
                    lambda i: client.post(f"{POLICY}/decisions", json=asking(f"quick{i}", i)),
                    range(40),
                )
            )
    assert {answer.status_code for answer in answers} == {200}
    record_property("callers", IDLE)
