"""What is played within limits: with which probability, and that a replay comes to the same."""

import functools
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from calls import (
    CONFIGURATION,
    NEWS,
    configure,
    decide,
    digest,
    events,
    ok,
    problem,
    verified,
)
from calls import reward as report
from hypothesis import given
from hypothesis import strategies as st

import driftbandits as db
from driftbandits.agent import Decision, probabilities_of
from driftbandits.service.guardrails import (
    Accounts,
    Guard,
    earned,
    price_of,
    salt_of,
    tag,
    within,
)
from driftbandits.service.offers import Offer
from driftbandits.store.records import Configured
from servers import Served

SALT = salt_of("news", 3)


@functools.cache
def policy_of(**settings):
    return db.policy("D-GLUCB", discount=0.95, **settings)


def chosen(epsilon=0.3, n=1, rows=4, seed=0, **settings):
    """A policy, and what it chooses of some arms."""
    policy = policy_of(dim=2, epsilon=epsilon, **settings)
    actions = np.random.default_rng(5).uniform(-0.6, 0.6, (rows, 2))
    return policy, db.Agent(policy, seed=seed).decide(actions, n=n)


ARMS = tuple("abcde")
NO_ROWS = np.empty((0, 0))


def play(policy, choices, event_id, *, baseline=-1, excluded=(), accounts=None, **limits):
    """What is played by the rules, with accounts that nothing was done with unless given."""
    offer = Offer(ARMS[: len(choices[0].scores)], NO_ROWS, baseline, "", excluded=excluded)
    accounts = Accounts() if accounts is None else accounts
    return Guard(policy, version(**limits), event_id, offer, accounts, SALT).plays(choices)


def version(**limits):
    plain = (1, {}, 0, "online", None, 0.0, None, None, True, "")
    return Configured(*plain, **limits)


def side(event_id, unit):
    offer = Offer((), NO_ROWS, -1, "", unit=unit)
    return Guard(None, version(), event_id, offer, Accounts(), SALT).side()


# -- laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"reward": "rating:1..5"}])
def test_the_law_of_a_policy_is_how_often_it_chooses(settings):
    """Over many seeds, which is where its draws come from."""
    found = Counter(chosen(seed=seed, **settings)[1][0].index for seed in range(4000))
    policy, (choice,) = chosen(**settings)
    law = probabilities_of(policy, choice, np.ones(4, dtype=bool))
    assert law.sum() == pytest.approx(1.0)
    assert law[choice.index] == choice.propensity
    for i in range(4):
        assert abs(found[i] / 4000 - law[i]) < 4.5 * np.sqrt(law[i] * (1 - law[i]) / 4000)


def test_tied_arms_share():
    policy = db.policy("D-GLUCB", dim=2, discount=0.95, epsilon=0.2)
    choice = db.Agent(policy, seed=0).decide([[0.5, 0.0], [0.5, 0.0], [0.1, 0.0]])
    law = probabilities_of(policy, choice, np.array([True, True, True]))
    np.testing.assert_allclose(law, [0.4 + 0.2 / 3, 0.4 + 0.2 / 3, 0.2 / 3])
    np.testing.assert_allclose(
        probabilities_of(policy, choice, np.array([True, False, True])), [0.9, 0, 0.1]
    )


# -- plays ---------------------------------------------------------------------------------------


def frequencies(played, propensities, tries):
    """Each outcome came about as often as its stated probability says."""
    assert sum(propensities.values()) == pytest.approx(1.0)
    for outcome, chance in propensities.items():
        spread = np.sqrt(chance * (1 - chance) / tries)
        assert abs(played[outcome] / tries - chance) <= 4.5 * spread + 1e-12, outcome


LIMITS = [
    {"control": 0.3, "baseline": 2, "excluded": ()},
    {"control": 0.3, "baseline": -1, "excluded": (0,)},
    {"control": 0.0, "baseline": -1, "excluded": (1, 3)},
    {"control": 0.5, "baseline": 0, "excluded": (2,)},
]


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("n", [1, 2])
def test_what_is_played_has_the_probability_that_is_stated(limits, n):
    tries = 3000
    played: Counter[tuple[int, ...]] = Counter()
    stated: dict[tuple[int, ...], float] = {}
    for i in range(tries):
        policy, choices = chosen(n=n, seed=i)
        plays = play(policy, choices, f"e{i}", **limits)
        outcome = tuple(one.played for one in plays)
        played[outcome] += 1
        chance = float(np.prod([one.propensity for one in plays]))
        assert stated.setdefault(outcome, chance) == pytest.approx(chance)
        assert not set(outcome) & set(limits["excluded"])
        assert len(set(outcome)) == n
        assert all(
            (play.reason == "") == (play.played == choice.index) or play.reason == "control"
            for play, choice in zip(plays, choices, strict=True)
        )
    allowed = [i for i in range(4) if i not in limits["excluded"]]
    assert set(stated) == set(permutations(allowed, n))
    frequencies(played, stated, tries)


@given(
    control=st.floats(0.0, 0.99),
    epsilon=st.floats(0.0, 1.0),
    excluded=st.sets(st.integers(0, 4), max_size=3),
    baseline=st.integers(-1, 4),
    scores=st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=5, max_size=5),
)
def test_stated_probabilities_sum_to_at_most_one(control, epsilon, excluded, baseline, scores):
    """Of one arm the probability does not depend on which way it came to be played."""
    excluded -= {baseline}
    policy = policy_of(dim=1, epsilon=epsilon, bonus_scale=0.0)
    stated: dict[int, float] = {}
    for i in range(50):
        choices = [db.Agent(policy, seed=i).decide(np.array(scores)[:, None])]
        plays = play(
            policy, choices, f"e{i}", control=control, baseline=baseline, excluded=sorted(excluded)
        )
        (one,) = plays
        assert 0.0 < one.propensity <= 1.0 + 1e-12
        assert one.played not in excluded
        assert stated.setdefault(one.played, one.propensity) == pytest.approx(one.propensity)
    assert sum(stated.values()) <= 1.0 + 1e-9


def test_a_larger_share_keeps_the_units_of_a_smaller_one():
    units = [tag(SALT, "unit", f"user-{i}") for i in range(4000)]
    sides = np.array([side("any", unit) for unit in units])
    assert abs((sides < 0.2).mean() - 0.2) < 0.03
    assert side("other", units[0]) == sides[0]
    others = [side("any", tag(salt_of("shop", 3), "unit", f"user-{i}")) for i in range(4000)]
    both = ((np.array(others) < 0.2) & (sides < 0.2)).mean()
    assert abs(both - 0.04) < 0.015, "policies draw independently"


# -- shares --------------------------------------------------------------------------------------


def decided(policy, scores, epsilon=0.0):
    """A decision between arms of these scores, without a model behind it."""
    table = np.stack([np.array(scores), np.zeros(len(scores)), np.array(scores)])
    return Decision(1, int(np.argmax(scores)), 1, 1.0 - epsilon + epsilon / len(scores), table)


SCORES = st.lists(st.integers(0, 4), min_size=5, max_size=5)
OFFERS = st.lists(
    st.tuples(SCORES, st.sets(st.integers(0, 4), max_size=4)), min_size=20, max_size=60
)


@st.composite
def shares(draw):
    least = draw(
        st.lists(st.floats(0.0, 0.4), min_size=3, max_size=3).filter(lambda x: sum(x) <= 1)
    )
    most = [draw(st.floats(max(low, 0.01), 1.0)) for low in least]
    return dict(zip(ARMS, zip(least, most, strict=True), strict=False))


@given(
    shares=shares(), offers=OFFERS, window=st.integers(1, 8), epsilon=st.sampled_from([0.0, 0.3])
)
def test_shares_are_kept_whatever_is_offered_and_wanted(shares, offers, window, epsilon):
    """Over every stretch of decisions in which an arm can be played."""
    policy = policy_of(dim=1, epsilon=epsilon)
    accounts = Accounts()
    chances: dict[str, list[tuple[float, bool]]] = {arm: [] for arm in shares}
    for i, (scores, excluded) in enumerate(offers):
        free = np.array([j not in excluded for j in range(5)])
        low, high = accounts.limits(ARMS, free, shares)
        choice = decided(policy, scores, epsilon)
        law = within(low, high, probabilities_of(policy, choice, free), policy, choice)
        assert law.sum() == pytest.approx(1.0)
        assert (law >= -1e-12).all()
        assert not law[~free].any()
        (one,) = play(
            policy,
            [choice],
            f"e{i}",
            excluded=sorted(excluded),
            accounts=accounts,
            shares=shares,
            limit_window=window,
        )
        assert one.propensity == pytest.approx(law[one.played])
        for j, arm in enumerate(ARMS[:3]):
            if free[j]:
                chances[arm].append((float(law[j]), high.sum() >= 1.0))
    for arm, (least, most) in shares.items():
        found = [chance for chance, _ in chances[arm]]
        could = all(possible for _, possible in chances[arm])
        sums = np.concatenate([[0.0], np.cumsum(found)])
        for start in range(len(found)):
            n = np.arange(1, len(found) - start + 1)
            played = sums[start + 1 :] - sums[start]
            slack = 0 if start == 0 else window
            assert (played >= least * (n - slack) - 1e-9).all()
            if could:
                assert (played <= most * (n + slack) + 1e-9).all()


def test_an_arm_below_its_largest_share_is_left_alone():
    """Wanted in every fifth decision, and allowed in three of ten: nothing is changed."""
    policy, accounts = policy_of(dim=1), Accounts()
    for i in range(500):
        choice = decided(policy, [float(i % 5 == 4), 0.5])
        (one,) = play(policy, [choice], f"e{i}", accounts=accounts, shares={"a": (0.0, 0.3)})
        assert (one.played, one.propensity, one.reason) == (choice.index, 1.0, "")


def test_what_an_arm_may_not_have_goes_to_the_next_best():
    policy = policy_of(dim=1)
    choice = decided(policy, [0.9, 0.1, 0.5])
    law = probabilities_of(policy, choice, np.ones(3, dtype=bool))
    low, high = np.array([0.0, 0.05, 0.0]), np.array([0.3, 1.0, 1.0])
    np.testing.assert_allclose(within(low, high, law, policy, choice), [0.3, 0.05, 0.65])
    raised = within(low, np.array([0.1, 0.2, 0.2]), law, policy, choice)
    np.testing.assert_allclose(raised, [0.2, 0.4, 0.4])


def test_shares_played_over_http(store_url):
    with Served(store_url, snapshot_every=50) as service:
        client = service.client
        configure(client, shares={"stay": [0.3, 0.5], "left": [0, 0.4]}, limit_window=10)
        played: Counter[str] = Counter()
        expected = 0.0
        for i in range(150):
            answer = ok(decide(client, f"e{i}", i))
            played[answer["arm"]] += 1
            expected += answer["propensity"] if answer["arm"] == "stay" else 0.0
            ok(report(client, f"e{i}", int(answer["arm"] == "left")))
            assert answer.get("reason") in (None, "share")
        assert 0.2 < played["stay"] / 150 < 0.6
        assert played["left"] / 150 < 0.5
        assert set(ok(client.get(NEWS))["accounts"]["credits"]) == {"stay", "left"}
        kept = configure(client, shares={"left": [0, 0.4]}, limit_window=10)
        assert kept["configuration"]["fresh"] is False
        assert set(kept["accounts"]["credits"]) == {"left"}
        now = digest(client)
    assert verified(store_url) == {"news": now}


# -- the budget ----------------------------------------------------------------------------------


@given(
    offers=st.lists(st.tuples(SCORES, st.integers(0, 4), st.booleans()), min_size=30, max_size=80),
    budget=st.floats(0.01, 0.5),
    window=st.integers(1, 50),
    delay=st.integers(0, 5),
)
def test_the_budget_is_never_overdrawn(offers, budget, window, delay):
    """Whatever the scores and the rewards are: by what was observed, over every stretch."""
    policy, accounts = policy_of(dim=1), Accounts()
    lost, arriving = [0.0], {}
    for i, (scores, baseline, won) in enumerate(offers):
        choice = decided(policy, [score / 4 for score in scores])
        for event_id in [id for id, at in arriving.items() if at <= i]:
            del arriving[event_id], accounts.charged[event_id]
            accounts.put_in(earned(policy, 1.0), budget, window)
            lost[-1] -= 1.0
        (one,) = play(
            policy,
            [choice],
            f"e{i}",
            baseline=baseline,
            accounts=accounts,
            budget=budget,
            limit_window=window,
        )
        assert one.reason in ("", "budget")
        assert one.played in (baseline, choice.index)
        deviates = one.played != baseline
        lost.append(lost[-1] + (choice.scores[baseline] if deviates else 0.0))
        if deviates and won:
            arriving[f"e{i}"] = i + delay
        assert -1e-9 <= accounts.balance <= budget * window + 1e-9
    total = np.array(lost)
    for start in range(len(total)):
        n = np.arange(len(total) - start)
        slack = 0 if start == 0 else window
        assert (total[start:] - total[start] <= budget * (n + slack) + 1e-9).all()


def test_a_budget_over_http(store_url):
    with Served(store_url, snapshot_every=60) as service:
        client = service.client
        configure(client, budget=0.05, bonus_scale=0.1)
        assert problem(decide(client, "e"), 422)["path"] == "$.baseline"
        reasons, balance, open_ = Counter(), 0.0, None
        for i in range(200):
            answer = ok(decide(client, f"e{i}", i, baseline="stay"))
            balance = min(balance + 0.05, 50.0)
            reasons[answer.get("reason")] += 1
            price = min(max(answer["scores"][2], 0.0), 1.0)
            if balance < price:
                assert (answer["arm"], answer["propensity"]) == ("stay", 1.0)
            if answer["arm"] != "stay":
                balance -= price
                open_ = i
            won = int(answer["arm"] != "stay" and i % 3 == 0)
            if i % 10 != 9:
                ok(report(client, f"e{i}", won))
                balance += won
            told = ok(client.get(NEWS)).get("accounts", {})
            assert told.get("balance", 0.0) == pytest.approx(balance)
        assert open_ is not None
        assert reasons["budget"] > 20
        assert reasons[None] > 20
        now = digest(client)
    assert verified(store_url) == {"news": now}


def test_a_cost_is_worth_less_than_nothing():
    policy = db.policy("LinUCB", dim=1, reward="cost:0..10")
    assert earned(policy, 2.5) == 7.5
    assert earned(policy, 25.0) == 0.0
    choice = db.Agent(policy).decide([[0.5], [0.1]])
    assert price_of(policy, choice, 1) == pytest.approx(min(choice.scores[1], 0.0) + 10.0)


# -- over HTTP -----------------------------------------------------------------------------------


def test_a_share_of_decisions_is_a_control(client):
    configure(client, control=0.4)
    answers = []
    for i in range(120):
        answer = ok(decide(client, f"e{i}", i, baseline="stay"))
        assert ok(decide(client, f"e{i}", i, baseline="stay")) == answer
        ok(report(client, f"e{i}", i % 2))
        answers.append(answer)
    controls = [answer for answer in answers if answer.get("control")]
    assert 0.2 * 120 < len(controls) < 0.6 * 120
    assert {(a["arm"], a["reason"]) for a in controls} == {("stay", "control")}
    assert {a["arm"] for a in answers if not a.get("control")} == {"left", "right", "stay"}
    for event in events(client):
        if event["kind"] == "decision":
            chance = 0.8 * (event["scores"][event["index"]] == max(event["scores"])) + 0.2 / 3
            expected = 0.4 * (event["arm"] == "stay") + 0.6 * chance
            assert event["propensity"] == pytest.approx(expected)
            assert event["conditional"] == pytest.approx(1.0 if event.get("control") else chance)
    told = ok(client.get(NEWS))
    assert told["configuration"]["control"] == 0.4
    assert told["counts"]["rewards"] == 120, "a control is learned from as well"


def test_a_unit_stays_on_its_side(client):
    configure(client, control=0.5)
    sides = {}
    for i in range(60):
        answer = ok(decide(client, f"e{i}", i, unit=f"user@{i % 10}"))
        assert sides.setdefault(i % 10, answer.get("control", False)) == answer.get(
            "control", False
        )
    assert set(sides.values()) == {True, False}
    configure(client, control=0.5, mode="frozen")
    for i in range(10):
        answer = ok(decide(client, f"f{i}", i, unit=f"user@{i}"))
        assert answer.get("control", False) == sides[i]
    problem(decide(client, "e0", 0, unit="user@1"), 409)
    logged = [event for event in events(client) if event["kind"] == "decision"]
    assert all(len(event["unit"]) == 16 and "user" not in event["unit"] for event in logged)
    assert len({event["unit"] for event in logged}) == 10


def test_an_apprentice_has_no_controls(client):
    configure(client, control=0.9, mode="apprentice")
    for i in range(10):
        answer = ok(decide(client, f"e{i}", i, baseline="left"))
        assert (answer["arm"], answer["propensity"], "control" in answer) == ("left", 1.0, False)


def test_lists_have_controls_too(client):
    configure(client, control=0.5)
    firsts = set()
    for i in range(30):
        answer = ok(decide(client, f"e{i}", i, baseline="stay", n=2))
        firsts.add((answer.get("control", False), answer["arm"]))
        for place in answer["ranking"]:
            ok(report(client, place["event_id"], 1))
    assert (True, "stay") in firsts
    assert {arm for control, arm in firsts if control} == {"stay"}


def test_excluded_arms_are_logged_and_not_played(store_url):
    with Served(store_url) as service:
        client = service.client
        configure(client, "/v1/policies/all")
        configure(client)
        reasons = set()
        for i in range(60):
            answer = ok(decide(client, f"e{i}", i, exclude=["left"]))
            assert answer["arm"] != "left"
            reasons.add(answer.get("reason"))
            if i == 0:
                other = ok(decide(client, "e0", 0, "/v1/policies/all"))
                assert other["scores"] == answer["scores"]
        assert reasons == {None, "excluded"}
        assert ok(decide(client, "e0", 0, exclude=["left"]))["arm"] != "left"
        problem(decide(client, "e0", 0), 409)
        logged = [event for event in events(client) if event["kind"] == "decision"]
        assert all(event["excluded"] == ["left"] and len(event["arms"]) == 3 for event in logged)
        now = digest(client)
    assert verified(store_url)["news"] == now


# -- why -----------------------------------------------------------------------------------------


def test_every_reason_is_told_in_words(client):
    shares = {"stay": [0.4, 1], "right": [0, 0.2]}
    limits = {"control": 0.3, "shares": shares, "budget": 0.2, "bonus_scale": 0.1}
    configure(client, **limits)
    told = {}
    for i in range(80):
        exclude = ["left"] if i % 3 == 0 else []
        answer = ok(decide(client, f"e{i}", i, baseline="stay", exclude=exclude))
        ok(report(client, f"e{i}", int(answer["arm"] != "stay")))
        why = ok(client.get(f"{NEWS}/explanations/e{i}"))["decision"]
        assert why["excluded"] == exclude
        assert repr(answer["arm"]) in why["why"]
        told[answer.get("reason")] = why["why"]
    assert set(told) == {None, "control", "budget", "share", "excluded"}
    assert "no say" in told["control"]
    assert "afford" in told["budget"]
    assert "shares" in told["share"]
    assert "excludes" in told["excluded"]


def test_means_and_widths_of_decisions_that_only_the_log_remembers(client):
    columns = {"context": {"age": "number"}, "arm": {"kind": "category"}}
    offered = [{"id": kind, "features": {"kind": kind}} for kind in ("hat", "shoe")]
    body = {"name": "auto", "reward": "click", "features": columns, "seed": 1}
    ok(client.put(NEWS, json=body))
    asked = {"arms": offered, "context": {"age": 30}, "n": 2}
    ok(client.post(f"{NEWS}/decisions", json={"event_id": "e", **asked}))
    remembered = [ok(client.get(f"{NEWS}/explanations/{id}"))["decision"] for id in ("e", "e/2")]
    ok(client.put(NEWS, json={**body, "fresh": True}))  # which has no memory of it
    for id, before in zip(("e", "e/2"), remembered, strict=True):
        found = ok(client.get(f"{NEWS}/explanations/{id}"))["decision"]
        assert found["context"] == {"age": 30}
        assert "parts" in before["arms"][0]
        assert "parts" not in found["arms"][0]
        for arm, other in zip(found["arms"], before["arms"], strict=True):
            assert arm["features"] == {"kind": arm["id"]}
            for what in ("mean", "width", "score"):
                assert arm[what] == pytest.approx(other[what], abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"shares": {"a": [0.6, 1], "b": [0.5, 1]}}, "$.shares"),
        ({"shares": {"a": [0.6, 0.5]}}, "$.shares.a"),
        ({"shares": {"a": [0, 0]}}, "$.shares.a"),
        ({"shares": {"a": [0, 1.5]}}, "$.shares[...][1]"),
        ({"name": "auto", "discount": None, "reward": "amount", "budget": 0.1}, "$.budget"),
        ({"name": "greedy", "discount": None, "epsilon": 0.0, "budget": 0.1}, "$.budget"),
        ({"budget": 0}, "$.budget"),
        ({"control": -0.1}, "$.control"),
        ({"control": 1.0}, "$.control"),
        ({"name": "D-GLM-TSL", "epsilon": 0.0, "control": 0.1}, "$.control"),
    ],
)
def test_limits_that_cannot_be_kept(refusing, settings, path):
    body = {**CONFIGURATION, **settings}
    assert problem(refusing.put("/v1/policies/new", json=body), 422)["path"] == path


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"exclude": ["left", "right", "stay"]}, "$.exclude"),
        ({"exclude": ["up"]}, "$.exclude[0]"),
        ({"exclude": ["left", "stay"], "baseline": "stay"}, "$.exclude[1]"),
        ({"exclude": ["left"], "n": 3}, "$.exclude"),
    ],
)
def test_what_cannot_be_excluded(refusing, more, path):
    assert problem(decide(refusing, "e", **more), 422)["path"] == path
