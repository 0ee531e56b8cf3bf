"""Several processes over one store: each policy has an owner, and everybody is led to it."""

import httpx
from calls import NEWS, arms, configure, decide, digest, ok, problem, reward, verified

from driftbandits import store
from driftbandits.service import endpoints
from driftbandits.store import leases
from servers import Served, wait_until

FORGED = {"x-driftbandits-forwarded": "1"}


def owners(url):
    with store.open(url) as log, log.read() as session:
        return dict(leases.owners(session))


def own(url, policy, process):
    """Let a process own a policy, as if the others had given up on the one that did."""
    with store.open(url) as log, log.write() as session:
        session.lock([policy])
        session.set_owner(policy, process)


def id_of(service):
    return service.service.engine.owners.me.id


def folded(service):
    return set(service.service.engine.folds)


def know_each_other(*services):
    for service in services:
        found = service.service.engine.owners
        wait_until(lambda found=found: len(found.peers) == len(services) - 1)


def test_who_is_asked_first_owns_and_only_the_owner_folds(store_url):
    with Served(store_url) as one, Served(store_url) as two:
        know_each_other(one, two)
        configure(two.client)
        assert owners(store_url) == {"news": id_of(two)}
        wait_until(lambda: one.service.engine.owners.elsewhere("news") is not None)
        for i in range(10):
            ok(decide((one, two)[i % 2].client, f"e{i}", i))
            ok(reward((two, one)[i % 2].client, f"e{i}", 1))
        assert digest(one.client) == digest(two.client)
        assert ok(one.client.get("/v1/policies")) == ok(two.client.get("/v1/policies"))
        assert folded(two) == {"news"}
        assert folded(one) == set()
    assert owners(store_url) == {"news": ""}, "who ends owns nothing"


def test_a_process_that_joins_gets_its_share(store_url):
    paths = [f"/v1/policies/p{k}" for k in range(5)]
    with Served(store_url) as one:
        for path in paths:
            configure(one.client, path)
            ok(decide(one.client, "before", 0, path))
        digests = [digest(one.client, path) for path in paths]
        with Served(store_url) as two:

            def owned_by(service):
                return [
                    name for name, owner in owners(store_url).items() if owner == id_of(service)
                ]

            wait_until(lambda: len(owned_by(two)) == 2)
            assert len(owned_by(one)) == 3
            for service in (one, two):
                assert [digest(service.client, path) for path in paths] == digests
            for service in (one, two):
                listed = ok(service.client.get("/v1/policies"))["policies"]
                assert [each["policy"] for each in listed] == [f"p{k}" for k in range(5)]
                for path in paths:
                    ok(decide(service.client, f"at {id_of(service)}".replace(" ", "-"), 1, path))
            wait_until(lambda: folded(one) == set(owned_by(one)))
        wait_until(lambda: len(owned_by(one)) == 5)
        for path in paths:
            ok(decide(one.client, "after", 2, path))
    assert len(verified(store_url)) == 5


def test_who_has_lost_a_policy_writes_nothing_into_it(store_url):
    """The row that a writer locks says who owns it: that is looked at before anything is written,
    and what was asked is answered by who does."""
    with Served(store_url) as one, Served(store_url) as two:
        know_each_other(one, two)
        configure(one.client)
        ok(decide(one.client, "e1"))
        own(store_url, "news", id_of(two))
        answers = [decide(one.client, "e2", **more) for more in ({}, {})]
        assert ok(answers[0]) == ok(answers[1]) == ok(decide(two.client, "e2"))
        assert owners(store_url) == {"news": id_of(two)}
        own(store_url, "news", id_of(one))
        refused = two.client.post(
            f"{NEWS}/decisions", json={"event_id": "e3", "arms": arms()}, headers=FORGED
        )
        before = ok(one.client.get(NEWS))["seq"]
        assert problem(refused, 503)["code"] == "moved"
        assert ok(one.client.get(NEWS))["seq"] == before
        ok(decide(one.client, "e3"))
    verified(store_url)


def test_a_batch_an_erasure_and_a_change_are_led_to_the_owner_too(store_url):
    with Served(store_url) as one, Served(store_url) as two:
        know_each_other(one, two)
        configure(one.client)
        asked = [{"event_id": f"b{i}", "arms": arms(i)} for i in range(5)]
        first = ok(two.client.post(f"{NEWS}/decisions:batch", json={"decisions": asked}))
        again = ok(one.client.post(f"{NEWS}/decisions:batch", json={"decisions": asked}))
        assert first == again
        ok(two.client.post(f"{NEWS}/erasures", json={"event_ids": ["b3"]}))
        assert problem(decide(one.client, "b3", 3), 410)["code"] == "erased"
        configure(two.client, mode="frozen")
        assert ok(one.client.get(NEWS))["version"] == 2
        events = ok(two.client.get(f"{NEWS}/events"))["events"]
        assert len(events) == ok(one.client.get(NEWS))["seq"]
        assert httpx.head(f"{two.address}{NEWS}").status_code == 200
        assert owners(store_url) == {"news": id_of(one)}
    verified(store_url)


def test_a_caller_may_go_to_the_owner_by_itself(store_url):
    with Served(store_url) as one, Served(store_url) as two:
        know_each_other(one, two)
        configure(one.client)
        wait_until(lambda: two.service.engine.owners.elsewhere("news") is not None)
        wants = {"prefer": "redirect"}
        sent_away = two.client.get(f"{NEWS}/history?after=0", headers=wants)
        assert sent_away.status_code == 307
        assert sent_away.headers["location"] == f"{one.address}{NEWS}/history?after=0"
        assert one.client.get(NEWS, headers=wants).status_code == 200


def test_to_be_handed_on_grants_nothing(store_url):
    """The owner looks at the key as if the request had come by itself, and so does who hands it
    on; a header that says that it was handed on opens no door and limits nothing."""
    with Served(store_url, with_keys=True) as one, Served(store_url, with_keys=True) as two:
        know_each_other(one, two)
        configure(one.client)
        wait_until(lambda: two.service.engine.owners.elsewhere("news") is not None)
        with two.connect(one.key) as through:
            ok(decide(through, "e1"))
        body = {"event_id": "e2", "arms": arms()}
        for service in (one, two):
            for headers in ({}, FORGED, {**FORGED, "authorization": "Bearer dbk_no_no"}):
                answer = httpx.post(
                    f"{service.address}{NEWS}/decisions", json=body, headers=headers
                )
                assert answer.status_code == 401
        assert ok(one.client.get(NEWS))["counts"]["decisions"] == 1


def test_nothing_is_handed_on_twice(store_url, monkeypatch):
    """A third process whose address is wrong: who is asked there does not own the policy, and says
    so instead of asking again. After a while the caller is told to come back."""
    monkeypatch.setattr(endpoints, "_LONGEST_SEARCH_S", 0.5)
    with Served(store_url) as one, Served(store_url) as two:
        know_each_other(one, two)
        configure(one.client)
        with store.open(store_url) as log, monkeypatch.context() as for_now:
            for_now.setattr(leases, "LEASE_MS", 600_000)  # nobody renews that of the third
            lost = leases.this_process(two.address)
            with log.write() as session:
                leases.renew(session, lost)
            own(store_url, "news", lost.id)
            wait_until(
                lambda: one.service.engine.owners.elsewhere("news") == lost_as_seen(log, lost)
            )
            before = two.service.engine.metrics.forwarded
            assert problem(decide(one.client, "e1"), 503)["code"] == "moved"
            assert two.service.engine.metrics.forwarded == before
        # nobody renews its lease: it is given up, and what it owned is served again
        wait_until(lambda: decide(one.client, "e1").status_code == 200)
    verified(store_url)


def lost_as_seen(log, lost):
    with log.read() as session:
        return leases.peers(session).get(lost.id)


def test_a_copy_of_a_store_has_no_owners(tmp_path):
    url, copy = (f"sqlite:///{tmp_path}/{name}.db" for name in ("log", "copy"))
    with Served(url) as one:
        configure(one.client)
        ok(decide(one.client, "e1"))
        with store.open(url) as log:
            store.backup(log, copy)
        with store.open(copy) as log, log.read() as session:
            assert leases.peers(session) == {}
            assert leases.owners(session) == {"news": ""}
        with Served(copy) as other:
            ok(decide(other.client, "e2"))
        assert ok(one.client.get(NEWS))["counts"]["decisions"] == 1
