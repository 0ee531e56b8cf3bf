"""The log as others read it, and copies of it."""

import io

import polars
import pytest
from calls import NEWS, arms, digest, events, ok, play, problem, reward, verified
from click.testing import CliRunner

from driftbandits.cli.commands import group


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
