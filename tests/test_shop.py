"""A world of tables: the simulated shop, and who plays it."""

from dataclasses import replace

import numpy as np
import pytest

import driftbandits as db
from driftbandits import experiments
from driftbandits.environments.shop import CATEGORIES, COUNTRIES
from driftbandits.experiments import draw_trace, player_seed

SHOP = db.environment("shop", horizon=300, lifetime=60)


@pytest.fixture(scope="module")
def trace():
    return draw_trace(SHOP, 0, 0)


def test_a_trace_has_the_tables_and_what_an_expert_makes_of_them(trace):
    assert len(trace.contexts) == len(trace.offers) == 300
    assert trace.changes == (151,)
    assert {row["id"] for row in trace.offers[0]} != {row["id"] for row in trace.offers[-1]}
    assert {context["country"] for context in trace.contexts} <= set(COUNTRIES)
    missing = [context["age"] is None for context in trace.contexts]
    assert 0.03 < np.mean(missing) < 0.2
    for t, k in ((0, 0), (150, 3), (299, 7)):
        row, offer, visit = trace.actions[t, k], trace.offers[t][k], trace.contexts[t]
        scale = row[: len(CATEGORIES)].max()
        flags = [scale * (offer["category"] == category) for category in CATEGORIES]
        assert row[: len(CATEGORIES)].tolist() == flags
        price = (np.log(offer["price"]) - 3.0) / 0.8 / 3.0
        assert row[len(CATEGORIES)] == pytest.approx(scale * np.clip(price, -1, 1), abs=1e-3)
        if visit["age"] is not None:
            age = np.clip((visit["age"] - 45.0) / 16.0 / 3.0, -1, 1)
            assert row[len(CATEGORIES) + 2] == pytest.approx(scale * age)
    assert np.linalg.norm(trace.actions, axis=2).max() <= 1.0


def test_the_reward_is_drawn_by_the_means(trace):
    surprise = (trace.rewards - trace.means).sum() / np.sqrt(
        (trace.means * (1 - trace.means)).sum()
    )
    assert abs(surprise) < 4.0
    assert trace.best.mean() - trace.means.mean() > 0.1


def test_taste_changes_half_way():
    """The same visit and offer are liked differently before and after."""
    long = draw_trace(db.environment("shop", horizon=3000, lifetime=1e9), 1, 0)
    by_pair = {}
    for t in range(long.horizon):
        for k in range(long.arms):
            key = long.contexts[t]["country"], long.offers[t][k]["category"], t >= 1500
            by_pair.setdefault(key, []).append(long.means[t, k])
    pairs = {key[:2] for key in by_pair}
    moved = [
        abs(np.mean(by_pair[(*pair, True)]) - np.mean(by_pair[(*pair, False)]))
        for pair in pairs
        if (*pair, True) in by_pair and (*pair, False) in by_pair
    ]
    assert np.mean(moved) > 0.1


def test_an_agent_with_features_plays_the_tables(trace):
    features = db.Features.guess(trace.contexts, [row for offer in trace.offers for row in offer])
    policy = db.policy("auto", features=features)
    result = db.simulate({"auto": policy}, SHOP, runs=1)
    agent = db.Agent(policy, seed=player_seed(0, 0))
    for t in range(trace.horizon):
        choice = agent.decide(context=trace.contexts[t], arms=trace.offers[t])
        assert result.chosen["auto"][0, t] == choice.index
        agent.update(choice, trace.rewards[t, choice.index])


def test_features_need_tables(trace):
    policy = db.policy("auto", features=db.Features(context={"age": "number"}, extra="ignore"))
    world = db.environment("abrupt2d", horizon=10)
    with pytest.raises(ValueError, match=r"traces have contexts and offers"):
        db.simulate({"auto": policy}, world, runs=1)
    with pytest.raises(ValueError, match=r"contexts and offers must be given together"):
        db.Trace(actions=trace.actions, rewards=trace.rewards, contexts=trace.contexts)
    with pytest.raises(ValueError, match=r"one for each of 300 rounds, with 8 arms"):
        replace(trace, offers=trace.offers[:-1])


def test_an_experiment_may_guess_or_give_features(tmp_path):
    given = {"context": {"age": "number"}, "extra": "ignore"}
    spec = {
        "experiment": {"name": "small-shop", "runs": 1},
        "environment": {"name": "shop", "horizon": 120},
        "policies": [
            {"label": "guessed", "name": "auto", "features": "guess"},
            {"label": "given", "name": "auto", "features": given},
        ],
    }
    (experiment,) = experiments.experiments_of(spec)
    guessed = experiment.spec["policies"][0]["features"]
    assert guessed["context"]["hour"] == "cycle:24"
    assert guessed["arm"]["price"] == "log"
    assert ["category", "country"] in guessed["cross"]
    assert experiments.experiments_of(spec)[0].spec["hash"] == experiment.spec["hash"]
    experiments.run_experiment(experiment, out=tmp_path)
    runs = experiments.load(tmp_path / "small-shop").runs
    assert set(runs["policy"]) == {"guessed", "given"}
