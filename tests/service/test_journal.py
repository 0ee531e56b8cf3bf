"""Messages of the service: JSON lines without content, and the ids of requests."""

import io
import json
import logging
import re
import subprocess
import sys
from types import SimpleNamespace

import httpx
import pytest
from calls import NEWS, arms, configure, decide, ok, problem, reward
from click.testing import CliRunner

from driftbandits.cli.commands import group
from driftbandits.service import commands, server
from driftbandits.service.journal import JsonLines, journal
from servers import Served, wait_until, wait_until_ready

SECRET = "visit-of-jane-doe"
FIELDS = {"at", "level", "logger", "message", "request_id", "method", "route", "status", "ms"}


@pytest.fixture
def told(tmp_path):
    """A service with an access log, and the lines that it writes."""
    stream = io.StringIO()
    url = f"sqlite:///{tmp_path}/log.db"
    with journal("json", stream=stream), Served(url, with_keys=True, access_log=True) as service:
        configure(service.client)
        service.lines = lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
        service.text = stream.getvalue
        yield service


def line_of(service, request_id):
    def found():
        return [line for line in service.lines() if line.get("request_id") == request_id]

    wait_until(lambda: bool(found()))
    return found()


def test_a_request_has_one_line_with_its_id_and_nothing_of_its_content(told):
    client = told.client
    given = client.post(
        f"{NEWS}/decisions",
        json={"event_id": SECRET, "arms": arms()},
        headers={"x-request-id": "shop-17"},
    )
    assert given.headers["x-request-id"] == "shop-17"
    (line,) = line_of(told, "shop-17")
    assert line.keys() == FIELDS | {"policy", "key"}
    assert (line["method"], line["status"], line["policy"]) == ("POST", 200, "news")
    assert line["route"] == "/v1/policies/{policy}/decisions"
    assert (line["level"], line["logger"]) == ("info", "driftbandits.access")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["at"])

    made = ok_with_id(reward(client, SECRET, 1))
    assert re.fullmatch("[0-9a-f]{24}", made)
    assert line_of(told, made)[0]["status"] == 200
    ok_with_id(client.get(f"{NEWS}/explanations/{SECRET}"))
    refused = reward(client, "nobody-" + SECRET, 1)
    assert line_of(told, refused.headers["x-request-id"])[0]["status"] == 404
    for word in (SECRET, told.key, told.key.split("_", 2)[2], "left"):
        assert word not in told.text()


def ok_with_id(answer):
    return answer.headers["x-request-id"]


def test_an_id_that_is_none_is_replaced(told):
    strange = told.client.get(NEWS, headers={"x-request-id": "a b" + "x" * 200})
    assert re.fullmatch("[0-9a-f]{24}", strange.headers["x-request-id"])
    other = told.client.get(NEWS)
    assert other.headers["x-request-id"] != strange.headers["x-request-id"]


def test_a_failure_has_the_id_of_its_answer_and_no_message(told, monkeypatch):
    def fail(self, work):
        raise ValueError(f"the content was {SECRET}")

    monkeypatch.setattr(commands.View, "run", fail)
    answer = told.client.get(f"{NEWS}/digest")
    assert problem(answer, 500)["code"] == "internal"
    wait_until(lambda: any("exception" in line for line in told.lines()))
    (line,) = [line for line in told.lines() if "exception" in line]
    assert (line["level"], line["exception"]) == ("error", "ValueError")
    assert line["where"][-1].endswith(" fail")
    assert SECRET not in told.text()


def test_without_an_access_log_only_given_ids_come_back(served):
    assert "x-request-id" not in served.client.get(NEWS).headers
    ids = {"x-request-id": "shop-1"}
    assert served.client.get(NEWS, headers=ids).headers["x-request-id"] == "shop-1"
    assert ok(decide(served.client, "e1"))


def test_a_pipe_that_nobody_reads_stops_nobody():
    class Stuck(io.StringIO):
        def write(self, text):
            wait_until(lambda: released)
            return super().write(text)

    released = []
    stream = Stuck()
    with journal("json", stream=stream):
        log = logging.getLogger("driftbandits.access")
        for i in range(20_000):
            log.info("line %d", i)
        released.append(True)
        wait_until(lambda: stream.getvalue().count("\n") >= 10_000)
    written = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert written[:3] == ["line 0", "line 1", "line 2"]
    assert 10_000 <= len(written) < 20_000  # the others were dropped


def test_json_lines_hold_one_object_each():
    record = logging.LogRecord("a", logging.WARNING, "f", 1, 'two\nlines "%s"', ("x",), None)
    line = JsonLines().format(record)
    assert "\n" not in line
    assert json.loads(line)["message"] == 'two\nlines "x"'


@pytest.mark.parametrize("options", [["--log", "json", "--access-log"], ["--access-log"]])
def test_the_command_writes_them_to_stderr(tmp_path, options):
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "driftbandits", "serve", "--no-auth", "--port", "0"),
            *("--store", f"sqlite:///{tmp_path}/log.db", *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    address = re.search(r"http://\S+", process.stdout.readline())[0]
    wait_until_ready(address)
    httpx.get(f"{address}/v1/policies", headers={"x-request-id": "shop-1"}).raise_for_status()
    process.terminate()
    _, errors = process.communicate(timeout=30)
    (line,) = [line for line in errors.splitlines() if "/v1/policies " in line]
    if "json" in options:
        assert json.loads(line)["request_id"] == "shop-1"
    else:
        assert "INFO driftbandits.access: GET /v1/policies 200" in line


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://a:b@host/x", "postgresql://a:***@host/x"),
        ("postgresql://a@host/x", "postgresql://a@host/x"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
    ],
)
def test_a_password_is_not_announced(monkeypatch, url, told):
    silent = SimpleNamespace(first_key=None)
    made = SimpleNamespace(address="http://here", service=silent, run=lambda: 0)
    monkeypatch.setattr(server, "Server", lambda *_: made)
    result = CliRunner().invoke(group, ["serve", "--no-auth", "--store", url])
    assert f"data: {told}\n" in result.output
