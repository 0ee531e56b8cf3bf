"""What only reads: it waits for no lock, and sees everything that was acknowledged before."""

import io
import re
import time

import apsw
import numpy as np
import polars
import pytest
from calls import (
    NEWS,
    arms,
    configure,
    counts,
    decide,
    digest,
    events,
    ok,
    play,
    problem,
    reward,
    verified,
)
from click.testing import CliRunner

import driftbandits as db
from driftbandits.cli.commands import group
from driftbandits.client import Client, Hypothesis
from servers import Served

PATHS = (
    "/v1/policies",
    NEWS,
    f"{NEWS}/versions",
    f"{NEWS}/history",
    f"{NEWS}/digest",
    f"{NEWS}/explanations",
    f"{NEWS}/events",
)


def test_reading_takes_no_lock(tmp_path):
    """Another process writes for as long as it likes; who asks what is known gets an answer."""
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        configure(service.client)
        play(service.client, 5)
        before = [ok(service.client.get(path)) for path in PATHS]
        holder = apsw.Connection(f"{tmp_path}/log.db")
        holder.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert [ok(service.client.get(path)) for path in PATHS] == before
        assert time.monotonic() - began < 4.0  # or it would have waited for the lock
        holder.execute("ROLLBACK")
        holder.close()


def test_the_list_is_of_one_moment(tmp_path):
    """One transaction, however many policies there are."""
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        for i in range(5):
            configure(service.client, f"/v1/policies/p{i}")
        log, used = service.service.engine.store, []
        read = log.read

        def counted(**how):
            used.append("read")
            return read(**how)

        log.read, log.write = counted, None
        assert len(ok(service.client.get("/v1/policies"))["policies"]) == 5
        assert used == ["read"]
        del log.read, log.write


def test_a_reader_sees_what_was_answered_elsewhere(shared_url):
    with Served(shared_url) as one, Served(shared_url) as two:
        configure(one.client)
        for i in range(10):
            ok(decide(one.client, f"e{i}", i))
            assert counts(two.client)["decisions"] == i + 1
            ok(reward(two.client, f"e{i}", 1))
            assert counts(one.client)["rewards"] == i + 1
            (listed,) = ok(one.client.get("/v1/policies"))["policies"]
            assert listed["counts"] == counts(two.client)


def test_what_is_believed_is_told_and_changes_nothing(tmp_path):
    agent = db.Agent(db.policy("auto", dim=2, epsilon=0.2), seed=3)
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url) as service:
        configure(service.client, name="auto", discount=None)
        assert "beliefs" not in ok(service.client.get(NEWS))
        for i in range(40):
            ok(decide(service.client, f"e{i}", i))
            choice = agent.decide(np.array([arm["x"] for arm in arms(i)]))
            if i % 4:
                agent.update(choice, i % 2)
                ok(reward(service.client, f"e{i}", i % 2))
        before = digest(service.client)
        with Client(service.address) as client:
            told = client.policy("news").beliefs
        assert told == [Hypothesis(*one) for one in agent.beliefs]
        assert {one.path for one in told} == {"constant", "wandering", "turning"}
        assert digest(service.client) == before
        configure(service.client, name="LinUCB")
        assert "beliefs" not in ok(service.client.get(NEWS))
        live = digest(service.client)
    assert verified(url) == {"news": live}


# -- the log -------------------------------------------------------------------------------------


def test_the_log_as_json_and_as_parquet(client):
    play(client, 9)
    ok(reward(client, "e1", 1))
    told = events(client)
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    page = ok(client.get(f"{NEWS}/events?after=3&limit=2"))
    assert (page["events"], page["next"]) == (told[3:5], 5)
    for answer in (
        client.get(f"{NEWS}/events?format=parquet"),
        client.get(f"{NEWS}/events", headers={"accept": "application/vnd.apache.parquet"}),
    ):
        table = polars.read_parquet(io.BytesIO(answer.content))
        assert table["seq"].to_list() == [event["seq"] for event in told]
        assert table["scores"].to_list() == [event.get("scores") for event in told]
        assert table["value"].to_list() == [event.get("value") for event in told]
        assert answer.headers["x-next"] == str(len(told))
    first = next(event for event in told if event["kind"] == "decision")
    assert first["arms"] == arms(0)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=1e3", "limit=99999999", "form=a"])
def test_queries_that_make_no_sense(client, query):
    assert problem(client.get(f"{NEWS}/events?{query}"), 422)["path"] == query.split("=")[0]


def test_backup_of_a_store_in_use(served, tmp_path):
    play(served.client, 10)
    target = f"sqlite:///{tmp_path}/copy.db"
    run = CliRunner().invoke(group, ["backup", "--store", served.store, "--to", target])
    assert run.exit_code == 0, run.output
    assert verified(target) == {"news": digest(served.client)}


def test_commands_do_not_make_the_store_they_look_at(tmp_path):
    for command in (["verify"], ["keys", "list"], ["keys", "revoke", "x"]):
        run = CliRunner().invoke(group, [*command, "--store", f"sqlite:///{tmp_path}/no.db"])
        assert run.exit_code == 2
        assert "there is no store" in run.output
    assert not list(tmp_path.iterdir())


# -- the document, and the process itself ----------------------------------------------------------


def test_the_document_has_the_arguments_of_policies(client):
    schemas = ok(client.get("/openapi.json"))["components"]["schemas"]
    assert schemas["DecisionRequest"]["required"] == ["event_id", "arms"]
    arguments = schemas["PolicyRequest"]["properties"]
    assert {"name", "dim", "discount", "window", "mode", "half_life_s"} <= set(arguments)


def test_health_readiness_and_metrics(client):
    ok(decide(client, "e1"))
    assert ok(client.get("/healthz")) == {"status": "ok"}
    assert ok(client.get("/readyz")) == {"status": "ok"}
    assert client.head("/readyz").content == b""
    text = client.get("/metrics").text
    assert "driftbandits_ready 1" in text
    route = '{method="POST",route="/v1/policies/{policy}/decisions",status="200"} 1'
    assert f"driftbandits_requests_total{route}" in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r"\w+(\{.*\})? [-+.e\d]+", line), line
