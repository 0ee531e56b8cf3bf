"""Logs of CSV files and frames: columns, propensities, and what another policy would earn."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import driftbandits as db
from driftbandits import store
from driftbandits.cli.commands import DONE, run
from driftbandits.evaluate import (
    evaluate,
    log_from_frame,
    log_from_tables,
    policy_for,
    read_log,
    write_log,
)
from driftbandits.features import Encoding, offered

COLUMNS = {"context": ["age", "country"], "arm": "shown", "reward": "clicked"}
OPTIONS = ["--context", "age,country", "--arm", "shown", "--reward", "clicked"]


def visits(n: int = 600, *, seed: int = 0) -> pd.DataFrame:
    """Visits of a shop whose old rule prefers an arm by age and country."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, size=n)
    country = rng.integers(3, size=n)
    scores = np.column_stack([0.03 * (age - 45), 1.0 * (country == 1), np.zeros(n)])
    odds = np.exp(scores)
    p = odds / odds.sum(axis=1, keepdims=True)
    shown = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    # Arm 0 is best for the first country, arm 1 for the others.
    means = np.where(shown == (country > 0), 0.7, 0.3)
    return pd.DataFrame(
        {
            "age": age,
            "country": np.array(["DE", "FR", "PL"])[country],
            "shown": np.array(["tea", "mate", "cola"])[shown],
            "p": p[np.arange(n), shown],
            "clicked": (rng.random(n) < means).astype(float),
        }
    )


@pytest.fixture
def csv(tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "pandas", "dicts"])
def test_a_table_becomes_a_log_wherever_it_is(kind, tmp_path):
    frame = visits(60)
    frame.loc[3, "clicked"] = math.nan
    frame.loc[5, "age"] = math.nan
    given = {"pandas": frame, "dicts": frame.to_dict("records")}
    if kind in given:
        log = log_from_frame(given[kind], propensity="p", **COLUMNS)
    else:
        path = tmp_path / f"visits.{kind}"
        frame.to_parquet(path) if kind == "parquet" else frame.to_csv(path, index=False)
        log = read_log(path, propensity="p", **COLUMNS)
    assert log.arm_ids[0] == ("cola", "mate", "tea")
    names = [ids[place] for ids, place in zip(log.arm_ids, log.chosen, strict=True)]
    assert names == frame["shown"].tolist()
    np.testing.assert_allclose(log.propensity, frame["p"])
    np.testing.assert_array_equal(log.reward, frame["clicked"])
    assert log.propensities == "known"
    # The country and the age of a visit change what an arm is worth.
    assert set(log.features.cross) == {("arm", "*")}
    longest = max(np.linalg.norm(arms, axis=1).max() for arms in log.arms)
    assert longest <= 1.0


def test_arms_on_offer_and_times_are_columns():
    rows = [
        {"at": "2025-03-01 12:00:01", "arm": 2, "of": "1|2", "r": 1, "n": "b"},
        {"at": "2025-03-01T12:00:00Z", "arm": 3, "of": "1| 3|2", "r": 0, "n": "a"},
    ]
    named = {"context": [], "arm": "arm", "reward": "r", "propensity": 0.5}
    log = log_from_frame(rows, offered="of", time="at", event_id="n", **named)
    assert log.event_id == ("a", "b")
    assert log.arm_ids == (("1", "3", "2"), ("1", "2"))
    assert log.chosen.tolist() == [1, 1]
    assert np.diff(log.at).tolist() == [10**9]
    for row, at in zip(rows, (1.5e9, 1.4e9), strict=True):
        row["at"] = at
    assert log_from_frame(rows, time="at", **named).at.tolist() == [14 * 10**17, 15 * 10**17]


def test_estimated_propensities_are_near_the_true_ones():
    frame = visits(4000)
    log = log_from_frame(frame, propensity="estimate", **COLUMNS)
    assert log.propensities == "estimated"
    error = np.log(log.propensity) - np.log(frame["p"].to_numpy())
    assert np.sqrt((error**2).mean()) < 0.1
    # A model without the context is worse: the old rule looked at it.
    blind = log_from_frame(frame, propensity="estimate", **{**COLUMNS, "context": []})
    blind_error = np.log(blind.propensity) - np.log(frame["p"].to_numpy())
    assert np.sqrt((blind_error**2).mean()) > 0.3
    shares = frame["shown"].map(frame["shown"].value_counts(normalize=True))
    np.testing.assert_allclose(blind.propensity, shares, rtol=0.05)


@pytest.mark.compiled
def test_estimated_and_known_propensities_agree_on_the_value():
    values = []
    for propensity in ("p", "estimate"):
        log = log_from_frame(visits(800), propensity=propensity, **COLUMNS)
        found = evaluate(log, policy_for(log, "greedy"), windows=2)
        values.append(found.overall["SNIPS"])
        assert any("estimated" in note for note in found.notes) == (propensity == "estimate")
    assert values[0].low < values[1].value < values[0].high
    assert values[0].value > 0.5  # the old rule earns .43


def test_without_propensities_a_log_can_only_be_replayed():
    log = log_from_frame(visits(), **COLUMNS)
    assert log.propensities == "unknown"
    found = evaluate(log, policy_for(log, "greedy"), windows=2)
    assert evaluate(log, "greedy", windows=2) == found
    assert set(found.overall) == {"logged", "replay"}
    assert "evenly at random" in found.notes[0]
    with pytest.raises(ValueError, match="an agent is evaluated by its propensities"):
        evaluate(log, db.Agent(policy_for(log, "greedy")))


def test_rewards_outside_of_0_and_1_are_amounts():
    frame = visits(60).assign(clicked=lambda table: 30.0 * table["clicked"])
    log = log_from_frame(frame, propensity="p", **COLUMNS)
    assert policy_for(log, "greedy").reward_range()[1] >= 30.0
    assert policy_for(log, "greedy", link="poisson", m=40).link.m == 40
    small = log_from_frame(frame.assign(clicked=-1.5e-5), propensity="p", **COLUMNS)
    assert policy_for(small, "LogisticUCB").reward_range()[0] == -1.5e-5


@pytest.mark.parametrize("kind", ["rating:1..5", "click"])
def test_rewards_outside_of_the_given_range_are_noted_and_cut_no_interval(kind):
    log = log_from_frame(visits(60).assign(clicked=20.0), propensity="p", **COLUMNS)
    found = evaluate(log, policy_for(log, "LogisticUCB", reward=kind), windows=2)
    assert any(note.startswith("60 of 60 rewards lie outside") for note in found.notes)
    assert all(not value.high < value.value for value in found.overall.values())


def test_a_table_with_decimal_commas_is_one_of_numbers(tmp_path):
    visits(60).assign(size=1.5).to_csv(tmp_path / "v.csv", sep=";", decimal=",", index=False)
    log = read_log(tmp_path / "v.csv", propensity="p", **COLUMNS | {"context": ["age", "size"]})
    np.testing.assert_allclose(log.propensity, visits(60)["p"])
    assert log.tables[0][0]["size"] == 1.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offered": "country"}, r"chosen must be an arm that was offered; row 1 has 'tea', and"),
        ({"offered": "large"}, r"offered must be a column of lists or texts .* got 2"),
        ({"arm": "same"}, "arm: column 'same' must have at least two different arms"),
        ({"arm": "number"}, "arm: column 'number' has 60 different arms in 60 rows: is it the arm"),
        ({"reward": "shown"}, r"must hold finite numbers \(1 and 0 for yes and no"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change, message):
    frame = visits(60).assign(same="tea", large=2.0, number=range(60))
    with pytest.raises(ValueError, match=message):
        log_from_frame(frame, **{**COLUMNS, "propensity": "p", **change})


# -- arms with columns of their own ----------------------------------------------------------------

SHOP = db.environment("shop", horizon=200, lifetime=1e9).draw(np.random.default_rng(0))
OFFERS = list(SHOP.offers[0])
IDS = [row["id"] for row in OFFERS]
CHOSEN = np.random.default_rng(1).integers(len(IDS), size=200)
GIVEN = {
    "arms": OFFERS,
    "chosen": [IDS[i] for i in CHOSEN],
    "rewards": [None if t == 3 else SHOP.rewards[t, CHOSEN[t]] for t in range(200)],
    "propensities": [1.0 / len(IDS)] * 200,
}
FEATURES = db.Features(
    context={"country": "category", "age": "number"},
    arm={"category": "category"},
    cross=[("category", "country")],
    extra="ignore",
)


def test_tables_become_a_log_of_vectors():
    log = log_from_tables(context=pl.DataFrame(SHOP.contexts), features=FEATURES, **GIVEN)
    fitted = FEATURES.fit(SHOP.contexts, OFFERS)
    assert log.dim == fitted.dim
    encoding = Encoding(fitted)
    for t in (0, 199):
        rows = encoding.encode(SHOP.contexts[t], offered(OFFERS, ())).dense(fitted.dim)
        np.testing.assert_array_equal(log.arms[t], rows)
    assert log.chosen.tolist() == CHOSEN.tolist()
    assert math.isnan(log.reward[3])


@pytest.mark.parametrize(
    ("arm", "cross"), [({}, ("arm", "country")), ({"id": "category"}, ("arm", "*"))]
)
def test_features_may_cross_the_arm_with_its_context(arm, cross):
    features = db.Features(context={"country": "category"}, arm=arm, cross=[cross], extra="ignore")
    log = log_from_tables(context=SHOP.contexts, features=features, **GIVEN)
    levels = len({row["country"] for row in SHOP.contexts}) + 2  # missing, and any other
    assert log.dim == levels + (len(IDS) + 2) * (1 + levels)


def test_policies_are_judged_on_it():
    log = log_from_tables(context=SHOP.contexts, **GIVEN)  # features are guessed
    found = evaluate(log, db.policy("random", dim=log.dim), windows=2)
    known = [reward for reward in GIVEN["rewards"] if reward is not None]
    assert found.overall["logged"].value == pytest.approx(np.mean(known))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"chosen": ["x"] * 200}, ["chosen", "row 1", "'x'"]),
        ({"chosen": IDS}, ["chosen", "200 values"]),
        ({"rewards": 3}, ["rewards", "3"]),
        ({"propensities": [2.0] * 200}, ["propensity"]),
        ({"arms": [OFFERS]}, ["arms", "1 for 200"]),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        log_from_tables(context=SHOP.contexts, features=FEATURES, **{**GIVEN, **change})
    for word in words:
        assert word in str(caught.value)


# -- the commands ----------------------------------------------------------------------------------


def test_the_command_evaluates_a_csv(csv, capsys):
    more = ["--propensity", "p", "--windows", "2", "--policy", "greedy"]
    assert run(["evaluate", str(csv), *OPTIONS, *more]) == DONE
    out = capsys.readouterr().out
    assert out.startswith("600 decisions, 600 with a reward, 3 arms")
    assert "context: age (number), country (category)" in out
    assert "decision 301" in out
    assert run(["evaluate", str(csv), *OPTIONS, *more, "--json"]) == DONE
    (found,) = json.loads(capsys.readouterr().out)
    assert set(found["overall"]) == {"logged", "replay", "IPS", "SNIPS", "DR"}


def test_the_command_says_what_it_left_out(tmp_path, capsys):
    frame = visits(60).assign(id_of_visit=[f"v{n}" for n in range(60)], revenue=1.0)
    frame.to_csv(tmp_path / "v.csv", index=False)
    columns = ["--context", "age,id_of_visit", "--context", "revenue", *OPTIONS[2:]]
    assert run(["evaluate", str(tmp_path / "v.csv"), *columns, "--policy", "greedy"]) == DONE
    out, err = capsys.readouterr()
    assert "context: age (number)\nleft out id_of_visit: 60 different values" in out
    assert "context has revenue, named like an outcome" in err


def test_a_csv_is_imported_exported_and_read_again(csv, tmp_path):
    url = f"sqlite:///{tmp_path / 'bandits.db'}"
    into = ["--store", url, "--as", "shop", "--policy", "greedy", "--propensity", "p"]
    assert run(["log", "import", str(csv), *OPTIONS, *into]) == DONE
    with store.open(url) as opened, opened.read() as session:
        assert session.policies() == ["shop"]
    assert run(["verify", "--store", url]) == DONE
    out = tmp_path / "shop.csv.gz"
    assert run(["log", "export", url, str(out), "--policy", "shop"]) == DONE
    again = read_log(out)
    log = read_log(csv, propensity="p", **COLUMNS)
    np.testing.assert_allclose(again.propensity, log.propensity)
    np.testing.assert_array_equal(again.reward, log.reward)
    assert again.arm_ids == log.arm_ids
    write_log(again, tmp_path / "shop.tsv")
    tsv = read_log(tmp_path / "shop.tsv")
    assert tsv.tables == again.tables
    np.testing.assert_array_equal(tsv.played, again.played)
