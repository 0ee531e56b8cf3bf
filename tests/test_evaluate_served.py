"""Logs that the service wrote, whatever the policy: evaluated, or refused kindly."""

import json
import math
from pathlib import Path

import numpy as np
import polars
import pytest
from click.testing import CliRunner

from driftbandits import store
from driftbandits.cli.commands import group
from driftbandits.evaluate import Log, evaluate, policy_for, read_log, read_stored
from driftbandits.evaluate.log import log_by_arm
from servers import Served

POLICIES = {
    "long": {"name": "auto", "dim": 3, "epsilon": 0.4},
    "cost": {"name": "auto", "dim": 3, "epsilon": 0.4, "reward": "cost:0..50"},
    "amount": {"name": "auto", "dim": 3, "epsilon": 0.4, "reward": "amount"},
    "separate": {"name": "auto", "dim": 3, "epsilon": 0.4, "arms": "separate"},
    "tables": {
        "name": "auto",
        "epsilon": 0.4,
        "features": {"context": {"c": "category"}, "arm": {"k": "category"}},
    },
    "alone": {
        "name": "auto",
        "epsilon": 0.4,
        "arms": "separate",
        "features": {"context": {"c": "category"}},
    },
    "certain": {"name": "D-LinUCB", "dim": 3, "L": 100.0, "discount": 0.99},
}
EXPORT = {"format": "parquet", "limit": 1000}
RANGES = {"cost": (0.0, 50.0), "amount": (-math.inf, math.inf)}
"""Of rewards that are no clicks."""


def offer(policy, rng, i):
    x = 4.0 * rng.normal(size=(3, 3))
    if policy == "separate":
        return {"context": x[0].tolist(), "arms": ["a", "b", "c"]}
    if policy == "tables":
        rows = [{"id": k, "features": {"k": k}} for k in "abc"]
        return {"context": {"c": "xyz"[i % 3]}, "arms": rows}
    if policy == "alone":
        return {"context": {"c": "xyz"[i % 3]}, "arms": ["a", "b", "c"]}
    return {"arms": [{"id": k, "x": row.tolist()} for k, row in zip("abc", x, strict=True)]}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Sixty decisions of each policy; a pays more than the others."""
    rng = np.random.default_rng(0)
    url = f"sqlite:///{tmp_path_factory.mktemp('served')}/log.db"
    with Served(url) as service:
        for policy, settings in POLICIES.items():
            path = f"/v1/policies/{policy}"
            service.client.put(path, json={"seed": 1, **settings}).raise_for_status()
            for i in range(60):
                body = {"event_id": f"e{i}", **offer(policy, rng, i)}
                told = service.client.post(f"{path}/decisions", json=body).json()
                paid = float(rng.random() < (0.8 if told["arm"] == "a" else 0.2))
                value = {"cost": 20.0, "amount": 20.0}.get(policy, 1.0) * paid
                reward = {"event_id": f"e{i}", "value": value}
                service.client.post(f"{path}/rewards", json=reward).raise_for_status()
            exported = service.client.get(f"{path}/events", params={**EXPORT, "after": 11})
            events_file(url, policy).write_bytes(exported.raise_for_status().content)
    return url


def events_file(url, policy):
    """The events behind the eleventh as the service gives them: not the one that configured."""
    return Path(url.removeprefix("sqlite:///")).with_name(f"{policy}.parquet")


def log_of(url, policy):
    with store.open(url) as opened, opened.read() as session:
        return read_stored(session, policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_log_can_be_evaluated(logs, policy):
    log = log_of(logs, policy)
    linear = policy in ("cost", "tables", "alone", "certain")
    name, more = ("D-LinUCB", {"discount": 0.99}) if linear else ("auto", {})
    result = evaluate(log, policy_for(log, name, **more), windows=3)
    assert result.overall["logged"].value == pytest.approx(np.mean(log.reward))
    low, high = RANGES.get(policy, (0.0, 1.0))
    for value in result.overall.values():
        if not math.isnan(value.low):
            assert low <= value.low
            assert value.high <= high
            assert value.rounds >= 10


def test_rewards_mean_what_they_meant_to_the_service(logs):
    log = log_of(logs, "cost")
    assert policy_for(log, "auto").reward.text == "cost:0..50"
    assert policy_for(log, "auto", reward="amount:0..50").reward.text == "amount:0..50"
    ranged = policy_for(log_of(logs, "amount"), "D-LinUCB", discount=0.9).reward.range
    assert (ranged.low, ranged.high) == (0.0, pytest.approx(20.0))
    longest = max(float(np.linalg.norm(arms, axis=1).max()) for arms in log.arms)
    assert pytest.approx(longest) == policy_for(log, "D-LinUCB", discount=0.9).L
    assert policy_for(log, "D-LinUCB", discount=0.9, L=500.0).L == 500.0


@pytest.mark.parametrize("policy", ["cost", "separate", "tables"])
def test_a_file_says_what_the_store_says(logs, policy, tmp_path):
    """Events that the service gave, and a log that was exported: no option has to repeat it."""
    stored = log_of(logs, policy)
    lines = tmp_path / "lines.parquet"
    done = CliRunner().invoke(group, ["log", "export", logs, str(lines), "--policy", policy])
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(read_log(lines).played, stored.played)
    assert read_log(lines).event_id == stored.event_id
    given = read_log(events_file(logs, policy))
    assert given.event_id == stored.event_id[5:]
    assert given.reward.tolist() == stored.reward[5:].tolist()
    assert given.propensity.tolist() == stored.propensity[5:].tolist()
    if stored.tables is not None:
        assert given.tables == stored.tables[5:]
    for log in (read_log(lines), given):
        assert log.served["name"] == POLICIES[policy]["name"]
        asked = policy_for(log, "auto")
        assert (asked.reward, asked.link) == (
            policy_for(stored, "auto").reward,
            policy_for(stored, "auto").link,
        )
        result = evaluate(log, asked, windows=3)
        assert result.overall["logged"].value == pytest.approx(np.mean(log.reward))


def test_a_file_that_does_not_say_what_rewards_are_holds_amounts(logs, tmp_path):
    path = tmp_path / "silent.parquet"
    polars.read_parquet(events_file(logs, "cost")).write_parquet(path)
    assert read_log(path).served is None
    said = str(events_file(logs, "cost"))
    told = run(said, "--policy", "auto", "--windows", "3")
    assert told.exit_code == 0, told.output
    amounts = run(str(path), "--policy", "auto", "--windows", "3")
    assert amounts.exit_code == 0, "a cost of 20 is no click, but an amount"
    assert amounts.output != told.output
    by_hand = run(str(path), "--policy", "auto", "--windows", "3", "--reward-kind", "cost:0..50")
    assert by_hand.output == told.output


def test_the_version_in_a_file_is_that_of_its_last_event(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service:
        client, path = service.client, "/v1/policies/news"
        for reward in ("amount:0..10", "amount:0..20"):
            settings = {"name": "auto", "dim": 1, "reward": reward, "fresh": True}
            client.put(path, json=settings).raise_for_status()
            body = {"event_id": f"of-{reward[-2:]}", "arms": [{"id": "a", "x": [1.0]}]}
            client.post(f"{path}/decisions", json=body).raise_for_status()
        for limit, reward in ((2, "amount:0..10"), (9, "amount:0..20")):
            answer = client.get(f"{path}/events", params={**EXPORT, "limit": limit})
            file = tmp_path / f"{limit}.parquet"
            file.write_bytes(answer.raise_for_status().content)
            assert read_log(file).served["reward"] == reward
        unknown = client.get("/v1/policies/none/events", params=EXPORT)
        assert unknown.status_code == 404


def test_separate_arms_have_coordinates_of_their_own():
    log = Log(
        ["u", "v"],
        [1, 2],
        [[[1.0, 2.0], [1.0, 2.0]], [[3.0, 4.0]]],
        [0, 0],
        [0.5, 1],
        [1, 0],
        arm_ids=[["a", "b"], ["b"]],
    )
    wide = log_by_arm(log)
    assert wide.arms[0].tolist() == [[1, 2, 1, 0, 0, 0], [0, 0, 0, 1, 2, 1]]
    assert wide.arms[1].tolist() == [[0, 0, 0, 3, 4, 1]]
    many = [[f"arm-{i}" for i in range(400)]]
    large = Log(["u"], [1], [np.ones((400, 2))], [0], [1], [1], arm_ids=many)
    with pytest.raises(ValueError, match="400 separate arms with 2 features"):
        log_by_arm(large)


def run(*arguments):
    return CliRunner().invoke(group, ["evaluate", *arguments])


def test_what_was_computed_is_kept_if_a_policy_fails(logs):
    options = [logs, "--of", "long", "--windows", "3", "--discount", "0.99", "--L", "1"]
    options += ["--policy", "D-LinUCB", "--policy", "auto"]
    done = run(*options)
    assert done.exit_code == 2
    assert "auto    IPS" in done.output
    assert "Error: D-LinUCB could not be evaluated: actions of round" in done.output
    good, bad = json.loads(run(*options, "--json").stdout)
    assert (good["target"], bad["target"]) == ("auto", "D-LinUCB")
    assert "longer than L" in bad["error"]


def test_a_log_without_chance_gives_no_numbers(logs):
    done = run(logs, "--of", "certain", "--policy", "random", "--windows", "3")
    assert done.exit_code == 0, done.output
    assert "the log never tried what the target chooses" in done.output
    assert "nan" not in done.output
