"""A policy is renamed aside: its log goes on under the new name, and the old one is free."""

import asyncio
import sqlite3
import time

import httpx
import msgspec
import pytest
from calls import (
    CONFIGURATION,
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

from driftbandits import store
from driftbandits.cli.commands import group
from driftbandits.client import AsyncClient, Client
from driftbandits.evaluate import read_stored
from driftbandits.service import unit_of_work
from driftbandits.service.archiving import archive
from driftbandits.service.auth import new_key
from driftbandits.service.changing import Configure, Rename, Wanted
from driftbandits.service.configuring import PolicyRequest, wanted_policy, wanted_record
from driftbandits.service.erasing import Erase, Task
from driftbandits.service.fold import Fold
from driftbandits.service.verifying import verify
from driftbandits.store import Corrupt
from servers import Clock, Served, wait_until

OLD = "/v1/policies/news-2025"


@pytest.fixture
def served(store_url):
    with Served(store_url) as service:
        configure(service.client)
        yield service


def rename(client, to="news-2025", policy=NEWS):
    return client.post(f"{policy}:rename", json={"to": to})


def chains(url):
    with store.open(url) as log, log.read() as session:
        return {policy: session.chain(policy) for policy in session.policies()}


def names(client):
    return [one["policy"] for one in ok(client.get("/v1/policies"))["policies"]]


def asked(client, policy, i):
    """A decision of a policy with controls and units, with its reward; what was answered."""
    told = ok(
        decide(client, f"e{i}", i, policy, baseline="stay", unit=f"user-{i % 7}", exclude=["right"])
    )
    ok(reward(client, f"e{i}", float(i % 3 == 0), policy))
    return {key: value for key, value in told.items() if key != "model_seq"}


# -- what stays ----------------------------------------------------------------------------------


def test_everything_is_kept_under_the_other_name(served, store_url):
    client = served.client
    configure(client, control=0.3)
    for i in range(40):
        asked(client, NEWS, i)
    ok(decide(client, "open", baseline="stay"))
    before = ok(client.get(NEWS))
    log, lift = events(client), ok(client.get(f"{NEWS}/lift"))
    versions = ok(client.get(f"{NEWS}/versions"))
    why = ok(client.get(f"{NEWS}/explanations/e5"))
    told = ok(rename(client))
    assert (told["policy"], told["chain"], told["seq"]) == ("news-2025", "news", before["seq"] + 1)
    (former,) = told["former_names"]
    assert former == {"name": "news", "until": told["at"]}
    same = ("version", "theta_hat", "pending", "counts", "configuration", "lift", "radius")
    assert {key: told[key] for key in same} == {key: before[key] for key in same}
    assert problem(client.get(NEWS), 404)["code"] == "unknown_policy"
    assert problem(decide(client, "e99"), 404)["code"] == "unknown_policy"
    assert names(client) == ["news-2025"]
    assert ok(client.get(f"{OLD}/versions")) == versions
    assert ok(client.get(f"{OLD}/lift"))["lift"] == lift["lift"]
    assert ok(client.get(f"{OLD}/explanations/e5"))["decision"] == why["decision"]
    assert events(client, OLD)[:-1] == log
    said = events(client, OLD)[-1]
    assert (said["kind"], said["before"], said["name"]) == ("renamed", "news", "news-2025")
    assert ok(decide(client, "open", policy=OLD, baseline="stay"))["event_id"] == "open"
    assert ok(reward(client, "open", 1, OLD)) == {"status": "learned"}
    assert verified(store_url) == {"news-2025": digest(client, OLD)}


def test_it_plays_on_as_if_nothing_had_happened(store_url, tmp_path):
    """Draws, sides and units follow the log and not the name: answer for answer."""
    plain = f"sqlite:///{tmp_path}/plain.db"
    with (
        Served(store_url, clock=Clock()) as service,
        Served(plain, clock=Clock()) as witness,
    ):
        for client in (service.client, witness.client):
            configure(client, control=0.3, shares={"stay": [0.2, 0.6]})
        policy = NEWS
        for i in range(60):
            if i == 20:
                ok(rename(service.client))
                policy = OLD
                configure(service.client, epsilon=0.5)  # another policy has the name now
            assert asked(service.client, policy, i) == asked(witness.client, NEWS, i)
        assert any(event.get("control") for event in events(witness.client)[-50:])
    assert set(verified(store_url)) == {"news", "news-2025"}
    with Served(store_url, clock=Clock()) as service, Served(plain, clock=Clock()) as witness:
        for i in range(60, 80):
            assert asked(service.client, OLD, i) == asked(witness.client, NEWS, i)


def test_two_that_had_the_same_name_do_not_mix(served, store_url, tmp_path):
    """Equal ids of events and units, in both: other chains, other tokens, other sides."""
    client = served.client
    configure(client, control=0.5)
    for i in range(20):
        asked(client, NEWS, i)
    ok(rename(client))
    configure(client, control=0.5)  # the same seed, even
    for i in range(20):
        asked(client, NEWS, i)
    assert chains(store_url) == {"news-2025": "news", "news": "news~2"}
    assert counts(client)["decisions"] == counts(client, OLD)["decisions"] == 20
    made = {
        policy: [e for e in events(client, policy) if e["kind"] == "decision"]
        for policy in (NEWS, OLD)
    }
    units = {policy: {e["unit"] for e in found} for policy, found in made.items()}
    assert len(units[NEWS]) == len(units[OLD]) == 7
    assert not units[NEWS] & units[OLD], "a person could be followed from one to the other"
    erased = {}
    for policy in (NEWS, OLD):
        ok(client.post(f"{policy}/erasures", json={"event_ids": ["e3", "e4"]}))
        assert problem(decide(client, "e3", 3, policy), 410)["code"] == "erased"
        erased[policy] = {e["event_id"] for e in events(client, policy) if e.get("erased")}
    assert len(erased[NEWS]) == len(erased[OLD]) == 2
    assert not erased[NEWS] & erased[OLD]
    assert verified(store_url) == {"news": digest(client), "news-2025": digest(client, OLD)}
    # and again: a third of the same name, the second aside, the first under its own name again
    ok(rename(client, "news-2026"))
    configure(client)
    ok(rename(client, "news-2027"))
    ok(rename(client, "news", OLD))
    assert chains(store_url) == {"news": "news", "news-2026": "news~2", "news-2027": "news~3"}
    assert [one["name"] for one in ok(client.get(NEWS))["former_names"]] == ["news", "news-2025"]
    assert "chain" not in ok(client.get(NEWS))
    verified(store_url)
    copy = f"sqlite:///{tmp_path}/copy.db"
    with store.open(store_url) as log:
        store.backup(log, copy)
    assert verified(copy) == verified(store_url)
    with Served(copy) as other:
        configure(other.client, "/v1/policies/news-2025")
        play(other.client, 5, first=100)
    assert chains(copy)["news-2025"] == "news-2025"
    verified(copy)


def test_shadows_and_changes_go_on(served, store_url):
    client = served.client
    play(client, 60)
    bold = {"name": "LinUCB", "dim": 2, "seed": 8}
    ok(client.put(f"{NEWS}/shadows/bold", json=bold))
    changed = client.put(NEWS, json={**CONFIGURATION, "lam": 3.0})
    assert changed.status_code in (200, 202)
    ok(rename(client))
    configure(client)  # with as many events, and a shadow of the same name
    play(client, 60)
    ok(client.put(f"{NEWS}/shadows/bold", json={**bold, "lam": 2.0}))
    play(client, 10, first=200, policy=OLD)
    wait_until(lambda: "change" not in ok(client.get(OLD)))
    assert ok(client.get(OLD))["configuration"]["arguments"]["lam"] == 3.0

    def caught_up(policy):
        (shadow,) = ok(client.get(f"{policy}/shadows"))["shadows"]
        return shadow["seq"] == shadow["of"]

    for policy in (OLD, NEWS):
        wait_until(lambda policy=policy: caught_up(policy))
        ok(client.post(f"{policy}/shadows/bold:promote"))
    assert ok(client.get(OLD))["configuration"]["arguments"]["lam"] != 2.0
    assert ok(client.get(NEWS))["configuration"]["arguments"]["lam"] == 2.0
    assert verified(store_url) == {"news": digest(client), "news-2025": digest(client, OLD)}


def test_a_restart_knows_the_names(store_url):
    with Served(store_url) as service:
        configure(service.client)
        play(service.client, 20)
        ok(service.client.delete(NEWS))
        ok(rename(service.client))
        configure(service.client)
        before = ok(service.client.get(OLD)), ok(service.client.get(NEWS))
    for _ in range(2):  # from snapshots; and from the log alone
        with Served(store_url) as service:
            assert (ok(service.client.get(OLD)), ok(service.client.get(NEWS))) == before
            assert problem(decide(service.client, "new", policy=OLD), 410)["code"] == "retired"
        with store.open(store_url) as log, log.write() as session:
            for policy in session.policies():
                session.drop_snapshots(policy, before=2**62)


def test_a_name_that_the_log_does_not_know_is_found(tmp_path):
    path = tmp_path / "log.db"
    with Served(f"sqlite:///{path}") as service:
        configure(service.client)
        play(service.client, 5)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE policy SET name = 'other', chain = 'news'")
    database.close()
    with store.open(f"sqlite:///{path}") as log:
        (verdict,) = verify(log)
    assert verdict.faults == ["the log says that it is called news"]
    with Served(f"sqlite:///{path}") as service:
        refused = service.client.get("/v1/policies/other")
        assert problem(refused, 500)["code"] == "corrupt_log"


# -- asking for it -------------------------------------------------------------------------------


def test_a_request_whose_answer_was_lost_is_sent_again(served, store_url):
    client = served.client
    play(client, 8)
    first = ok(rename(client))
    assert ok(rename(client)) == first
    assert ok(rename(client, policy=OLD)) == first, "it has that name"
    assert counts(client, OLD)["decisions"] == 8
    configure(client)
    taken = problem(rename(client), 409)
    assert (taken["code"], taken["path"]) == ("name_taken", "$.to")
    assert names(client) == ["news", "news-2025"]
    assert [e["kind"] for e in events(client)] == ["configured"]
    verified(store_url)


def test_what_cannot_be_done_is_refused_and_changes_nothing(served, store_url):
    client = served.client
    play(client, 3)
    configure(client, "/v1/policies/shop")
    before = digest(client), digest(client, "/v1/policies/shop")
    assert problem(rename(client, "shop"), 409)["code"] == "name_taken"
    assert problem(rename(client, policy="/v1/policies/none"), 404)["code"] == "unknown_policy"
    assert problem(rename(client, "shop", "/v1/policies/none"), 404)["code"] == "unknown_policy"
    for to in ("", "-x", "a b", "a/b", "a~2", "x" * 101, 7):
        assert problem(rename(client, to), 422)["path"] == "$.to"
    assert problem(client.post(f"{NEWS}:rename", json={}), 422)
    assert (digest(client), digest(client, "/v1/policies/shop")) == before
    assert names(client) == ["news", "shop"]
    assert set(verified(store_url)) == {"news", "shop"}


def test_who_may_rename(store_url):
    def key(role, prefix):
        with store.open(store_url) as log, log.write() as session:
            token, made = new_key(role, prefix=prefix, now_ns=time.time_ns())
            session.add_key(made)
        return token

    shop, writer = key("admin", "shop."), key("writer", "shop.")
    with Served(store_url, with_keys=True) as service:
        root, admin = service.connect(key("admin", "")), service.connect(shop)
        with root, admin:
            wait_until(lambda: root.get("/v1/policies").status_code == 200)
            path = "/v1/policies/shop.news"
            configure(admin, path)
            with service.connect(writer) as other:
                assert problem(rename(other, "shop.old", path), 403)["code"] == "forbidden"
            assert problem(rename(admin, "bank.old", path), 403)["code"] == "other_tenant"
            ok(rename(admin, "shop.old", path))
            assert names(admin) == ["shop.old"]
            ok(rename(root, "bank.old", "/v1/policies/shop.old"))
            assert (names(admin), names(root)) == ([], ["bank.old"])
            assert "bank" not in admin.get("/metrics").text


def test_counts_of_a_process_go_with_the_policy(served):
    client = served.client
    for i in range(4):
        ok(decide(client, f"e{i}"))
        ok(reward(client, f"e{i}", 1))
    ok(rename(client))
    configure(client)
    ok(decide(client, "e0"))
    text = client.get("/metrics").text
    assert 'driftbandits_reward_count{policy="news-2025"} 4.0' in text
    assert 'driftbandits_reward_count{policy="news"} 0.0' in text
    assert 'driftbandits_events_total{kind="decision",policy="news"} 1.0' in text


def test_the_clients(served):
    play(served.client, 5)
    with Client(served.address) as client:
        told = client.rename("news", to="news-2025")
        assert (told.policy, told.former_names[0].name) == ("news-2025", "news")
        assert [one.policy for one in client.policies()] == ["news-2025"]

    async def back():
        async with AsyncClient(served.address) as client:
            return await client.rename("news-2025", to="news")

    assert asyncio.run(back()).policy == "news"


# -- several processes ---------------------------------------------------------------------------


def know_each_other(*services):
    for service in services:
        found = service.service.engine.owners
        wait_until(lambda found=found: len(found.peers) == len(services) - 1)


def test_other_processes_learn_of_it(store_url):
    with Served(store_url) as one, Served(store_url) as two:
        know_each_other(one, two)
        configure(one.client)
        play(two.client, 10)
        first = ok(rename(two.client))
        for client in (one.client, two.client):
            assert problem(client.get(NEWS), 404)["code"] == "unknown_policy"
            assert ok(rename(client)) == first, "sent again to any of them"
            assert names(client) == ["news-2025"]
        configure(two.client, lam=2.0)
        for i in range(10):
            ok(decide((one, two)[i % 2].client, f"n{i}", i))
            ok(decide((two, one)[i % 2].client, f"o{i}", i, OLD))
            ok(reward((one, two)[i % 2].client, f"o{i}", 1, OLD))
        for client in (one.client, two.client):
            assert counts(client)["decisions"] == 10
            assert counts(client, OLD)["decisions"] == 20
            assert problem(reward(client, "o1", 1), 404)["code"] == "unknown_decision"
        assert digest(one.client, OLD) == digest(two.client, OLD)
    assert chains(store_url) == {"news-2025": "news", "news": "news~2"}
    assert set(verified(store_url)) == {"news", "news-2025"}


def test_a_process_that_remembers_the_old_one_does_not_mix_them(store_url):
    """It folded `news`, and slept while that was renamed and another one was made."""
    with Served(store_url) as one:
        configure(one.client)
        play(one.client, 10)
        with Served(store_url) as two:
            know_each_other(one, two)
            ok(two.client.get(NEWS))
            stale = one.service.engine.folds["news"]
            ok(rename(one.client))
            configure(one.client, lam=2.0)
            for service in (one, two):
                service.service.engine.folds["news"] = stale  # as if it had not noticed
                told = ok(service.client.get(NEWS))
                assert (told["seq"], told["chain"]) == (1, "news~2")
            ok(decide(two.client, "e0"))
            assert counts(one.client)["decisions"] == 1
    verified(store_url)


# -- archives and other readers ------------------------------------------------------------------


def test_archives_go_on_and_do_not_mix(served, store_url, tmp_path):
    client, folder = served.client, tmp_path / "archive"

    def archived(policy):
        with store.open(store_url) as log:
            return archive(log, policy, folder, before_ns=2**62, say=lambda *_: None)

    play(client, 20)
    first = archived("news")
    ok(rename(client))
    configure(client)
    play(client, 12)
    play(client, 10, first=50, policy=OLD)
    assert archived("news-2025").last > first.last
    archived("news")
    assert sorted(path.name for path in folder.iterdir()) == ["news", "news~2"]
    assert problem(decide(client, "e1", 1), 410)["code"] == "archived"
    play(client, 5, first=80)
    with store.open(store_url) as log:
        verdicts = {one.policy: one for one in verify(log, archive=folder)}
    assert not any(one.faults for one in verdicts.values()), verdicts
    assert {policy: one.digest for policy, one in verdicts.items()} == {
        "news": digest(client),
        "news-2025": digest(client, OLD),
    }
    run = CliRunner().invoke(
        group, ["verify", "--store", store_url, "--archive", str(folder)], catch_exceptions=False
    )
    assert run.exit_code == 0, run.output
    assert "news-2025  " in run.output
    # the files of the one are not taken for those of the other
    for path in (folder / "news~2").iterdir():
        path.rename(folder / "moved")
    (folder / "news~2").rmdir()
    (folder / "news").rename(folder / "news~2")
    with store.open(store_url) as log:
        verdicts = {one.policy: one.faults for one in verify(log, archive=folder)}
    assert "another policy" in verdicts["news"][0]


def test_what_reads_the_log_reads_it_by_its_name(served, store_url, tmp_path):
    client = served.client
    play(client, 30)
    ok(rename(client))
    configure(client)
    with store.open(store_url) as log, log.read() as session:
        assert len(read_stored(session, "news-2025")) == 30
        with pytest.raises(ValueError, match="policy"):
            read_stored(session, "news-2024")
    target = tmp_path / "news.parquet"
    run = CliRunner().invoke(
        group, ["log", "export", store_url, str(target), "--policy", "news-2025"]
    )
    assert run.exit_code == 0, run.output
    run = CliRunner().invoke(
        group,
        ["log", "import", str(target), "--store", store_url, "--as", "again", "--policy", "LinUCB"],
    )
    assert run.exit_code == 0, run.output
    assert set(verified(store_url)) == {"again", "news", "news-2025"}


def test_an_import_under_a_name_that_was_used_has_a_chain_of_its_own(served, store_url, tmp_path):
    client = served.client
    play(client, 12)
    target = str(tmp_path / "news.parquet")
    run = CliRunner().invoke(group, ["log", "export", store_url, target, "--policy", "news"])
    assert run.exit_code == 0, run.output
    ok(rename(client))
    run = CliRunner().invoke(
        group, ["log", "import", target, "--store", store_url, "--as", "news", "--policy", "auto"]
    )
    assert run.exit_code == 0, run.output
    assert chains(store_url) == {"news-2025": "news", "news": "news~2"}
    ok(decide(client, "e100"))
    verified(store_url)


def test_events_of_another_chain_do_not_pass(served, store_url):
    """The chain name is in every checksum, so one log cannot be taken for the other."""
    play(served.client, 5)
    ok(rename(served.client))
    with store.open(store_url) as log, log.read() as session:
        found = session.events("news-2025")
    assert {event.policy for event in found} == {"news"}
    fold = Fold("news")
    fold.replay(store.checked(found, after=fold.head))
    assert (fold.policy, fold.chain) == ("news-2025", "news")
    with pytest.raises(Corrupt, match="does not continue"):
        list(
            store.checked(
                [event._replace(policy="news~2") for event in found], after=Fold("x").head
            )
        )


def test_what_has_begun_does_not_go_on_in_another_policy(served, store_url, monkeypatch):
    """An erasure in portions; between two of them the name is given to another policy."""
    monkeypatch.setattr(unit_of_work, "PORTION_S", 0.0)
    client, engine = served.client, served.service.engine
    play(client, 12)
    body = msgspec.convert(CONFIGURATION, PolicyRequest)
    wanted = Wanted(wanted_record(body, wanted_policy(body), key=""), seed=3)
    results = {}
    commands = {
        "erased": Erase("news", Task(event_ids=["e1", "e2", "e3", "e4"]), key=""),
        "renamed": Rename("news", "news-2025", key=""),
        "made": Configure("news", wanted),
    }

    def begin():
        for name, command in commands.items():
            engine.begin(command, lambda result, name=name: results.update({name: result}))

    engine._in_loop(begin)
    wait_until(lambda: len(results) == len(commands))
    assert results["renamed"].policy == "news-2025"
    assert results["made"][0] == "fresh"
    assert results["erased"].problem.code == "unknown_policy"
    assert [e["kind"] for e in events(client)] == ["configured"]
    left = {e.get("event_id") for e in events(client, OLD) if not e.get("erased")}
    assert "e1" not in left
    assert "e4" in left
    ok(client.post(f"{OLD}/erasures", json={"event_ids": ["e2", "e3", "e4"]}))
    verified(store_url)


def test_a_batch_in_flight_lands_in_one_of_them(served, store_url):
    """Decisions and a rename at once: each is in the log of the name that it was sent to."""
    done = []

    async def all_at_once():
        async with httpx.AsyncClient(base_url=served.address, timeout=60.0) as client:
            asks = [
                client.post(f"{NEWS}/decisions", json={"event_id": f"e{i}", "arms": arms(i)})
                for i in range(40)
            ]
            asks.insert(20, client.post(f"{NEWS}:rename", json={"to": "news-2025"}))
            asks.insert(30, client.put(NEWS, json=CONFIGURATION))
            done.extend(await asyncio.gather(*asks))

    asyncio.run(all_at_once())
    client = served.client
    statuses = [answer.status_code for answer in done]
    assert set(statuses) <= {200, 201, 404, 409}
    made = [answer.json()["event_id"] for answer in done if "event_id" in answer.json()]
    logged = [
        event["event_id"]
        for name in names(client)
        for event in events(client, f"/v1/policies/{name}")
        if event["kind"] == "decision"
    ]
    assert sorted(made) == sorted(logged)
    verified(store_url)
