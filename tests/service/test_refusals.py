"""What is wrong with a request, and where."""

import pytest
from calls import CONFIGURATION, NEWS, arms, decide, ok, problem, raw, reward

ARM = '{"id": "a", "x": [0.1, 0.2]}'


@pytest.mark.parametrize(
    ("text", "status", "path"),
    [
        ("", 400, "$"),
        ("{", 400, "$"),
        ("nonsense", 400, "$"),
        ("[" * 100_000, 400, "$"),
        ('{"a":' * 100_000, 400, "$"),
        ("[]", 422, "$"),
        ("null", 422, "$"),
        ('{"arms": [ARM]}', 422, "$"),
        ('{"event_id": 7, "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "", "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "a b", "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "~a", "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "LONG", "arms": [ARM]}', 422, "$.event_id"),
        ('{"event_id": "e", "arms": [ARM], "extra": 1}', 422, "$"),
        ('{"event_id": "e", "event_id": "e", "arms": [ARM]}', 400, "$.event_id"),
        ('{"event_id": "e", "event\\u005fid": "e", "arms": [ARM]}', 400, "$.event_id"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, 0.2], "x": [0.1, 0.3]}]}', 400,
         "$.arms[0].x"),
        ('{"event_id": "e", "arms": []}', 422, "$.arms"),
        ('{"event_id": "e", "arms": [ARM, ARM]}', 422, "$.arms[1].id"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, NaN]}]}', 400, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [-Infinity, 0]}]}', 400, "$.arms[0].x[0]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, 1e999]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, 1e12]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, "0.2"]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, true]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1, null]}]}', 422, "$.arms[0].x[1]"),
        ('{"event_id": "e", "arms": [{"id": "a", "x": [0.1]}]}', 422, "$.arms[0].x"),
        ('{"event_id": "e", "arms": [ARM, {"id": "b", "x": [0.1]}]}', 422, "$.arms[1].x"),
        ('{"event_id": "e", "arms": [ARM, {"id": "b", "x": [3, 4]}]}', 422, "$.arms[1].x"),
        ('{"event_id": "e", "arms": [ARM], "baseline": "b"}', 422, "$.baseline"),
        ('{"event_id": "e", "arms": [ARM], "baseline": 0}', 422, "$.baseline"),
    ],
)  # fmt: skip
def test_bad_decisions_name_the_field(refusing, text, status, path):
    text = text.replace("ARM", ARM).replace("LONG", "a" * 129)
    assert problem(raw(refusing, text), status)["path"] == path


def test_a_field_that_nobody_knows_is_answered_by_the_nearest(refusing):
    answer = refusing.put("/v1/policies/new", json={"name": "auto", "feature": {}})
    assert problem(answer, 422)["message"].endswith("`feature`, perhaps features")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"event_id": "e", "value": "1"}, "$.value"),
        ({"event_id": "e", "value": None}, "$.value"),
        ({"event_id": "e", "value": 1e300}, "$.value"),
        ({"event_id": "e"}, "$"),
    ],
)
def test_bad_rewards_name_the_field(refusing, body, path):
    answer = refusing.post(f"{NEWS}/rewards", json=body)
    assert problem(answer, 422)["path"] == path


def test_a_reward_out_of_range(client):
    ok(decide(client, "e1"))
    assert problem(reward(client, "e1", 1.5), 422)["path"] == "$.value"
    assert ok(reward(client, "e1", 0.5))["status"] == "learned"


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"name": "nobody"}, "$.name"),
        ({"dim": 0}, "$.dim"),
        ({"dim": 10**6}, "$.dim"),
        ({"discount": 2}, "$.discount"),
        ({"discount": "0.9"}, "$.discount"),
        ({"mode": "eager"}, "$.mode"),
        ({"default_reward": 1}, "$.default_reward"),
        ({"reward_wait_s": 5, "default_reward": 7}, "$.default_reward"),
        ({"reward_wait_s": 0}, "$.reward_wait_s"),
        ({"half_life_s": 5}, "$.half_life_s"),
        ({"name": "LinUCB", "discount": None, "half_life_s": 5}, "$.half_life_s"),
        ({"name": "SW-GLUCB", "discount": None, "window": 5, "window_s": 5}, "$.window_s"),
        ({"seed": -1}, "$.seed"),
        ({"colour": "red"}, "$"),
    ],
)
def test_bad_configurations_name_the_field(refusing, settings, path):
    answer = refusing.put(NEWS, json={**CONFIGURATION, **settings})
    assert problem(answer, 422)["path"] == path


def test_the_characters_of_an_id_are_said_in_words(refusing):
    found = problem(decide(refusing, "e", arms=[{"id": "phone|call", "x": [1, 0]}]), 422)
    assert found["path"] == "$.arms[0].id"
    assert found["message"].startswith(
        "Expected `str` of 1 to 128 characters, none of them a control"
    )


def test_every_wrong_number_of_a_batch_has_its_path(refusing):
    decisions = [{"event_id": "e", "arms": arms()}, {"event_id": "f", "arms": arms() * 2}]
    answer = refusing.post(f"{NEWS}/decisions:batch", json={"decisions": decisions})
    assert problem(answer, 422)["path"] == "$.decisions[1].arms[3].id"


def test_what_is_not_there(refusing):
    assert problem(refusing.get("/v1/nothing"), 404)["code"] == "not_found"
    assert problem(refusing.get("/v1/policies/olds"), 404)["code"] == "unknown_policy"
    assert (
        problem(decide(refusing, "e", policy="/v1/policies/olds"), 404)["code"] == "unknown_policy"
    )
    assert problem(reward(refusing, "e", 1), 404)["code"] == "unknown_decision"
    assert problem(refusing.get("/v1/policies/olds/events"), 404)["code"] == "unknown_policy"
    assert problem(refusing.get("/v1/policies/a%20b"), 422)["path"] == "policy"
    answer = refusing.delete(f"{NEWS}/versions")
    assert problem(answer, 405)["code"] == "no_such_method"
    assert answer.headers["allow"] == "GET"
    assert problem(refusing.get("/page/../app.py"), 404)
    assert problem(refusing.get("/page/%2e%2e/app.py"), 404)
