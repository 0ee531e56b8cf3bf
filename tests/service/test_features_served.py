"""Features over HTTP: contexts and arms as people have them, logged raw, folded alike."""

import pytest
from calls import digest, events, ok, problem, reward, verified

import driftbandits as db
from driftbandits import store
from driftbandits.client import Client
from driftbandits.evaluate import read_stored
from servers import Served

SHOP = "/v1/policies/shop"
FEATURES = {
    "context": {"age": "number", "country": "category", "hour": "cycle:24", "basket": "log"},
    "arm": {"kind": "category", "price": "log"},
    "cross": [["kind", "country"]],
}
KINDS, COUNTRIES = ("shoes", "hats", "coats"), ("DE", "FR", None, "PL", "IT")


def context(t):
    return {"age": 20 + t, "country": COUNTRIES[t % 5], "hour": t % 24, "basket": 1.5 * t}


def arms(t):
    return {f"o{k}": {"kind": KINDS[k], "price": 10.0 * (k + 1) + t % 3} for k in range(3)}


def body(t, **more):
    offered = [{"id": id, "features": row} for id, row in arms(t).items()]
    return {"event_id": f"e{t}", "context": context(t), "arms": offered, **more}


def decide(client, t, policy=SHOP, **more):
    return client.post(f"{policy}/decisions", json=body(t, **more))


def configure(client, **settings):
    given = {"name": "auto", "features": FEATURES, "seed": 3, "reward": "click", **settings}
    return ok(client.put(SHOP, json=given))


def test_the_service_decides_as_an_agent_with_features(store_url):
    agent = db.Agent(db.policy("auto", features=db.Features(**FEATURES), reward="click"), seed=3)
    with Served(store_url) as service:
        client = service.client
        configure(client)
        for t in range(40):
            answer = ok(decide(client, t))
            choice = agent.decide(context=context(t), arms=arms(t))
            assert (answer["arm"], answer["scores"]) == (choice.arm, choice.scores.tolist())
            assert ok(decide(client, t)) == answer
            agent.update(choice, int(choice.arm == "o1"))
            ok(reward(client, f"e{t}", int(choice.arm == "o1"), policy=SHOP))
        state = ok(client.get(SHOP))
        assert dict(zip(state["names"], state["theta"], strict=True)) == agent.coefficients
        explained = ok(client.get(f"{SHOP}/explanations/e39"))["decision"]
        assert explained["context"] == context(39)
        assert explained["arms"][2]["features"] == arms(39)["o2"]
        assert explained["arms"][2]["parts"] == agent.explain(choice).contributions["o2"]
        logged = events(client, SHOP)[1]
        assert (logged["context"], logged["arms"][0]["features"]) == (context(0), arms(0)["o0"])
        assert client.get(f"{SHOP}/events", params={"format": "parquet"}).is_success
        assert client.get(f"{SHOP}/history").is_success
        live = digest(client, SHOP)
    assert verified(store_url) == {"shop": live}
    with Served(store_url) as service:  # from the snapshot, with the coordinates that levels had
        assert digest(service.client, SHOP) == live
        answer = ok(decide(service.client, 40))
        assert answer["scores"] == agent.decide(context=context(40), arms=arms(40)).scores.tolist()
        ok(service.client.post(f"{SHOP}/erasures", json={"event_ids": ["e0"]}))
        live = digest(service.client, SHOP)
    assert verified(store_url) == {"shop": live}
    with store.open(store_url) as opened, opened.read() as session:
        log = read_stored(session, "shop")
    assert len(log) == 40  # one was erased
    assert log.tables[0] == (context(1), list(arms(1).values()))
    assert log.features == db.Features(**FEATURES).fit(
        [row for row, _ in log.tables], [arm for _, offered in log.tables for arm in offered]
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with Served(f"sqlite:///{tmp_path_factory.mktemp('shop')}/log.db") as service:
        configure(service.client)
        ok(decide(service.client, 0))
        yield service.client


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"context": {"age": "old"}}, "$.context.age", "column 'age'"),
        ({"context": {"agee": 3}}, "$.context.agee", "perhaps age"),
        ({"context": [1.0, 2.0]}, "$.context", "this policy has features"),
        ({"arms": [{"id": "o1", "x": [1.0]}]}, "$.arms[0].x", "this policy has features"),
        ({"arms": ["o1"]}, "$.arms[0].features", "arm 'o1'"),
        (
            {"arms": [{"id": "o1", "features": {}}, {"id": "o2", "features": {"price": []}}]},
            "$.arms[1].features.price",
            "arm 'o2': column 'price'",
        ),
        ({"arms": [{"id": "o1", "features": {"colour": 1}}]}, "$.arms[0].features.colour", "known"),
        ({"arms": [{"id": "o1", "features": {}}] * 2}, "$.arms[1].id", "twice"),
        ({"arms": [{"id": "o1", "features": 7}]}, "$.arms[0].features", "object"),
        ({"context": {"country": "x" * 100_000}}, "$.context.country", "characters"),
    ],
)
def test_a_refusal_names_column_and_arm_and_changes_nothing(shop, change, path, words):
    before = digest(shop, SHOP)
    refused = problem(shop.post(f"{SHOP}/decisions", json={**body(1), **change}), 422)
    assert refused["path"] == path
    assert words in refused["message"]
    assert digest(shop, SHOP) == before


def test_a_key_that_stands_twice_is_found_in_features_too(shop):
    text = '{"event_id": "e", "arms": [{"id": "a", "features": {"price": 1, "price": 2}}]}'
    refused = problem(shop.post(f"{SHOP}/decisions", content=text), 400)
    assert refused["path"] == "$.arms[0].features.price"


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"features": {"context": {"age": "numbr"}}}, "$.features"),
        ({"features": {"limit": 2000, "context": {"age": "number"}}}, "$.features.limit"),
        ({"features": {"context": {"a": "number"}, "fitted": {"a": 1}}}, "$.features"),
        (
            {
                "features": {
                    "context": {"a": "category"},
                    "fitted": {"a": {"levels": [str(i) for i in range(2000)]}},
                }
            },
            "$.dim",
        ),
        ({"features": "all"}, "$.features"),
        ({"name": "LinUCB"}, "$.features"),
        ({"features": None}, "$.dim"),
    ],
)
def test_bad_features_of_a_configuration_are_refused(shop, settings, path):
    answer = shop.put("/v1/policies/bad", json={"name": "auto", "features": FEATURES, **settings})
    assert problem(answer, 422)["path"] == path


def test_a_list_and_a_frozen_policy_with_features(client):
    configure(client)
    for t in range(4):
        ranking = ok(decide(client, t, n=2))["ranking"]
        ok(reward(client, ranking[1]["event_id"], 1, policy=SHOP))
    configure(client, mode="frozen")
    before = ok(client.get(SHOP))["names"]
    ok(decide(client, 9, context={"country": "unseen"}))
    assert ok(client.get(SHOP))["names"] == before


def test_separate_arms_share_the_columns_of_the_context(tmp_path):
    url = f"sqlite:///{tmp_path}/log.db"
    with Served(url) as service, Client(service.address) as client:
        features = db.Features(context={"age": "number", "country": "category"})
        client.put_policy("own", "auto", features=features, arms="separate", seed=3)
        agent = db.Agent(db.policy("auto", features=features, arms="separate"), seed=3)
        for t in range(6):
            visit = {"age": 20 + t, "country": COUNTRIES[t % 5]}
            made = client.decide("own", ["a", "b"], context=visit, event_id=f"e{t}")
            choice = agent.decide(context=visit, arms=["a", "b"])
            assert (made.arm, made.scores) == (choice.arm, choice.scores.tolist())
            client.reward("own", f"e{t}", t % 2)
            agent.update(choice, t % 2)
        live = client.digest("own").digest
    assert verified(url) == {"own": live}


def test_the_client_sends_tables(tmp_path):
    with Served(f"sqlite:///{tmp_path}/log.db") as service, Client(service.address) as client:
        client.put_policy("shop", "auto", features=db.Features(**FEATURES), seed=3)
        one = client.decide("shop", arms(1), context=context(1), event_id="e1")
        assert ok(decide(service.client, 1))["scores"] == one.scores
        many = client.decide_many("shop", [{"context": context(2), "arms": arms(2), "n": 2}])
        assert [place.arm for place in many[0].ranking] == [many[0].arm, many[0].ranking[1].arm]
        assert client.explanation("shop", "e1").context == context(1)


def test_levels_that_share_coordinates_survive_a_snapshot(client):
    features = {"context": {"country": "category"}, "limit": 64, "levels": 4}
    ok(client.put(SHOP, json={"name": "auto", "features": features, "seed": 3}))
    for t in range(9):
        visit = {"event_id": f"e{t}", "context": {"country": f"c{t}"}, "arms": ["a", "b"]}
        ok(client.post(f"{SHOP}/decisions", json=visit))


def test_a_policy_tells_which_numbers_were_limited(store_url, caplog):
    """In its answer, in the metrics and once in the journal; never by a warning of Python."""
    with Served(store_url) as service:
        client = service.client
        configure(client)
        for t in range(40):
            ok(decide(client, t))
        for t in (40, 41):
            offer = body(t)
            offer["context"]["age"] = 1e9
            ok(client.post(f"{SHOP}/decisions", json=offer))
        found = {one["column"]: one for one in ok(client.get(SHOP))["limited"]}
        assert found["age"]["last"] == 1e9
        assert found["age"]["count"] >= 2
        said = [one for one in caplog.records if "'age' was 1e+09" in one.getMessage()]
        assert [one.policy for one in said] == ["shop"]
        metrics = client.get("/metrics").text
        total = sum(one["count"] for one in found.values())
        assert f'driftbandits_values_limited_total{{policy="shop"}} {total:.1f}' in metrics
    with Served(store_url) as service:  # from the snapshot
        assert ok(service.client.get(SHOP))["limited"] == list(found.values())
