"""What one caller asks for does not stop the others: it goes off the loop, in bounded pieces."""

import threading
import time

import numpy as np
import polars
import pytest
from calls import NEWS, configure, decide, ok, problem, reward

from driftbandits.policies import policy as make_policy
from driftbandits.service import Limits, application, endpoints, engine, routes
from driftbandits.service.commands import Decide, View
from driftbandits.service.configuration import state_bytes
from driftbandits.service.offers import Offer
from servers import Served, wait_until

# -- off the loop ----------------------------------------------------------------------------------


def threads_of(monkeypatch, owner, name):
    """The names of the threads that a function is called in."""
    seen = []
    function = getattr(owner, name)

    def noted(*arguments, **more):
        seen.append(threading.current_thread().name)
        return function(*arguments, **more)

    monkeypatch.setattr(owner, name, noted)
    return seen


def test_large_models_are_played_beside_the_loop(served, monkeypatch):
    """Reading one fits a copy; deciding reads its matrices; neither is done in the loop."""
    vector = [0.1] * 64
    configure(served.client, "/v1/policies/large", name="auto", dim=64, discount=None)
    configure(served.client, "/v1/policies/small")
    seen = {
        "view": threads_of(monkeypatch, View, "run"),
        "decide": threads_of(monkeypatch, Decide, "run"),
    }
    ok(served.client.get("/v1/policies/large"))
    body = {"event_id": "e1", "arms": [{"id": "a", "x": vector}, {"id": "b", "x": vector}]}
    ok(served.client.post("/v1/policies/large/decisions", json=body))
    assert seen == {"view": ["writer"], "decide": ["writer"]}
    ok(served.client.get("/v1/policies/small"))
    assert seen["view"][-1] != "writer"


def test_the_loop_works_again_as_soon_as_the_disk_does(served, monkeypatch):
    """After slow commits the thread takes over, until some of its own were quick."""
    monkeypatch.setattr(engine, "_SLOW_S", 3600.0)
    seen = threads_of(monkeypatch, Decide, "run")
    ok(decide(served.client, "e0"))
    served.service.engine._quick_in_a_row = 0
    served.service.engine._loop_may_work_from = time.monotonic() + 3600.0
    for i in range(1, 6):
        ok(decide(served.client, f"e{i}"))
    assert seen[0] != "writer"
    assert seen == [seen[0], *["writer"] * 3, seen[0], seen[0]]


def test_large_offers_are_decided_beside_the_loop():
    quick, slow = (
        Decide("p", "e", Offer(("a",), np.zeros((arms, 20)), -1, ""), most_pending=1)
        for arms in (10, 1001)
    )
    assert quick.is_quick
    assert not slow.is_quick


@pytest.mark.compiled
def test_kernels_of_large_models_let_other_threads_run():
    """While one works another thread gets on; counted, not timed."""
    import driftbandits as db

    agent = db.Agent(db.policy("auto", dim=300))
    rng = np.random.default_rng(0)
    actions = rng.normal(size=(300, 300)) / 30
    agent.decide(actions[:2])
    turns = []
    ended = threading.Event()

    def count():
        while not ended.is_set():
            turns.append(1)
            ended.wait(0.0005)

    beside = threading.Thread(target=count)
    beside.start()
    wait_until(lambda: bool(turns))
    for _ in range(50):
        before = len(turns)
        agent.preview(actions, seed=1)
        if len(turns) > before + 2:
            break
    ended.set()
    beside.join()
    assert len(turns) > before + 2


# -- exports ---------------------------------------------------------------------------------------


def filled(client, count=30):
    configure(client)
    for i in range(count):
        ok(decide(client, f"e{i}", i))
        ok(reward(client, f"e{i}", 1))


def test_answers_about_the_log_have_a_size(client, monkeypatch):
    """By bytes and not only by events; what is left is asked for with `next`."""
    monkeypatch.setattr(routes, "MOST_EVENT_BYTES", 2000)
    monkeypatch.setattr(routes, "MOST_PARQUET_BYTES", 4000)
    filled(client)
    seqs, after, answers = [], 0, 0
    while page := ok(client.get(f"{NEWS}/events", params={"after": after})):
        if not page["events"]:
            break
        seqs += [event["seq"] for event in page["events"]]
        after = page["next"]
        answers += 1
    assert seqs == list(range(1, 62))
    assert answers > 2
    seqs, after = [], 0
    while True:
        params = {"after": after, "format": "parquet"}
        answer = client.get(f"{NEWS}/events", params=params)
        table = polars.read_parquet(answer.content)
        if table.is_empty():
            break
        seqs += table["seq"].to_list()
        after = int(answer.headers["x-next"])
    assert seqs == list(range(1, 62))


def test_pages_of_a_table_are_one_table(client, monkeypatch):
    from driftbandits.service import logs

    filled(client)
    whole, cut = [], []
    for size, tables in ((logs._FRAME_BYTES, whole), (500, cut)):
        monkeypatch.setattr(logs, "_FRAME_BYTES", size)
        answer = client.get(f"{NEWS}/events", params={"format": "parquet"})
        tables.append(polars.read_parquet(answer.content))
    assert whole[0].equals(cut[0])


def test_exports_are_few_at_a_time_and_keep_nobody_waiting(tmp_path, monkeypatch):
    """However many wait: decisions are made, keys are read, and too many are told to come again."""
    with Served(f"sqlite:///{tmp_path}/log.db", with_keys=True) as service:
        filled(service.client, 5)
        until, at_work = threading.Event(), []
        export = routes._events

        def slow(*arguments, **more):
            at_work.append(threading.current_thread().name)
            until.wait(120.0)
            return export(*arguments, **more)

        monkeypatch.setattr(routes, "_events", slow)
        most = endpoints.LONG_READS + endpoints.MOST_WAITING_READS
        statuses = []

        def ask():
            with service.connect(service.key) as client:
                statuses.append(client.get(f"{NEWS}/events").status_code)

        asking = [threading.Thread(target=ask) for _ in range(most)]
        for thread in asking:
            thread.start()
        wait_until(lambda: service.service._reading == most)
        wait_until(lambda: len(at_work) == endpoints.LONG_READS)
        refused = service.client.get(f"{NEWS}/events")
        assert problem(refused, 503)["code"] == "overloaded"
        keyring = service.service.keyring
        read_at = keyring._read_at
        wait_until(lambda: keyring._read_at > read_at)
        ok(decide(service.client, "beside"))
        until.set()
        for thread in asking:
            thread.join(60.0)
        assert statuses == [200] * most
        assert set(at_work) == {"reads_0", "reads_1"}


def test_the_interface_is_written_once(served, monkeypatch):
    ok(served.client.get("/openapi.json"))
    monkeypatch.setattr(application, "document", None)
    assert ok(served.client.get("/openapi.json"))["openapi"].startswith("3.")


# -- what a policy takes ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["auto", "LinUCB", "SW-GLUCB", "CD-GLUCB", "dLinUCB"])
@pytest.mark.parametrize("dim", [3, 40, 100])
def test_the_size_of_a_state_is_known_before_it_is_made(name, dim):
    """Four small ones tell that of a large one to the byte."""
    more = {"window": 100} if name.startswith("SW") else {}
    made = make_policy(name, dim=dim, **more)
    size = sum(array.nbytes for array in made.new_buffers(64))
    if dim >= 16:
        assert state_bytes(made) == size
    else:
        assert state_bytes(made) >= size


def test_a_policy_that_is_too_large_is_refused_with_the_figure(tmp_path):
    size = state_bytes(make_policy("auto", dim=64))
    limits = Limits(state_bytes=2 * size - 1, state_bytes_per_key=3 * size - 1)
    with Served(f"sqlite:///{tmp_path}/log.db", limits=limits) as service:
        client = service.client
        refused = problem(client.put("/v1/policies/large", json={"name": "auto", "dim": 1000}), 422)
        assert refused["path"] == "$.dim"
        figure = refused["message"].split("about ")[1].split(" MB")[0].replace(",", "")
        assert float(figure) == pytest.approx(
            state_bytes(make_policy("auto", dim=1000)) / 1e6, rel=0.01
        )
        for name in ("a", "b"):
            ok(client.put(f"/v1/policies/{name}", json={"name": "auto", "dim": 64}))
        refused = problem(client.put("/v1/policies/c", json={"name": "auto", "dim": 64}), 422)
        assert "of its key" in refused["message"]
        shadow = client.put("/v1/policies/a/shadows/s", json={"name": "auto", "dim": 64})
        assert "of its key" in problem(shadow, 422)["message"]
        ok(client.put("/v1/policies/b", json={"name": "auto", "dim": 63}))  # in its own place
        assert len(ok(client.get("/v1/policies"))["policies"]) == 2


# -- medium and low --------------------------------------------------------------------------------


def test_a_frozen_decision_lets_later_ones_be_forgotten(client):
    """One that waits for ever does not keep those behind it waiting too."""
    settings = {"name": "SW-GLUCB", "window": 5, "discount": None}
    configure(client, **settings)
    configure(client, mode="frozen", **settings)
    ok(decide(client, "frozen"))
    configure(client, **settings)
    for i in range(20):
        ok(decide(client, f"e{i}", i))
    assert ok(client.get(NEWS))["pending"] == 1 + 5
    assert ok(reward(client, "e3", 1))["status"] == "late"
    assert ok(reward(client, "e18", 1))["status"] == "learned"
    assert ok(reward(client, "frozen", 1))["status"] == "recorded"


@pytest.mark.parametrize("name", ["half_life_s", "window_s"])
def test_time_that_no_clock_could_tell_is_refused(service, name):
    by_time = {
        "half_life_s": {"name": "D-GLUCB", "dim": 2},
        "window_s": {"name": "SW-GLUCB", "dim": 2},
    }
    for seconds in (1e-300, 4e-10, 9e-7):
        body = {**by_time[name], name: seconds}
        assert problem(service.client.put(NEWS, json=body), 422)["path"] == f"$.{name}"
    ok(service.client.put(NEWS, json={**by_time[name], name: 1e-6}))
    for i in range(3):
        service.clock.pass_seconds(1000)
        ok(decide(service.client, f"e{i}"))


def test_any_address_of_this_machine_will_do(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db", host="127.0.0.2") as service:
        configure(service.client)
        ok(decide(service.client, "e1"))
        stranger = service.client.get(NEWS, headers={"host": "example.org"})
        assert problem(stranger, 403)["code"] == "other_host"


def test_a_tenant_sees_its_own_figures(tmp_path):
    """Of the requests of all, only who may see all policies is told."""
    from driftbandits import store
    from driftbandits.service.auth import new_key

    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url, with_keys=True) as service:
        for name in ("shop.a", "bank.b"):
            configure(service.client, f"/v1/policies/{name}")
        token, key = new_key("reader", prefix="shop.", now_ns=1)
        with store.open(url) as log, log.write() as session:
            session.add_key(key)
        with service.connect(token) as tenant:
            wait_until(lambda: tenant.get("/metrics").status_code == 200)
            text = tenant.get("/metrics").text
        all_of_it = service.client.get("/metrics").text
    assert 'policy="shop.a"' in text
    for word in ("bank", "driftbandits_requests", "transaction", "waiting", "overloaded"):
        assert word not in text
        assert word in all_of_it


def test_there_is_nothing_to_verify_in_an_empty_store(tmp_path):
    from click.testing import CliRunner

    from driftbandits import store
    from driftbandits.cli.commands import group

    url = f"sqlite:///{tmp_path}/log.db"
    store.open(url).close()
    result = CliRunner().invoke(group, ["verify", "--store", url])
    assert result.exit_code != 0
    assert "no policy" in str(result.exception or "") + result.output
