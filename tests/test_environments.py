"""Worlds: what they draw, what they refuse, and that every policy of a run meets the same one."""

import hashlib
import inspect
import pickle
import re
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from scipy.special import expit

from driftbandits.core import links
from driftbandits.environments import (
    Abrupt,
    Counts,
    Drift,
    Environment,
    Logged,
    Paired,
    Seasonal,
    Stationary,
    Table,
    Trace,
    abrupt2d,
    as_gymnasium,
    datasets,
    environment,
    load_table,
)

MODELS = {"logistic": None, "binomial": 5, "poisson": 30, "identity": 2.0}
SYNTHETIC = ("abrupt", "abrupt2d", "drift", "seasonal", "stationary")
SMALL_TABLE = Table(
    features=[[0.0, 5.0], [1.0, 3.0], [2.0, 9.0], [4.0, 1.0], [3.0, 3.0]], outcome=[0, 1, 0, 3, 2]
)

ROWS = [
    {"age": 20 + t, "country": ["DE", "FR"][t % 2], "best": ["tea", "mate", "tea"][t % 3]}
    | {"tea": 1.0 - t % 2, "mate": 0.25, "shown": float(t % 2), "paid": None if t == 1 else t % 3}
    for t in range(12)
]
CONTEXT = ["age", "country"]


def rng(seed=0):
    return np.random.default_rng(seed)


def small_worlds():
    """One of each, quick to draw."""
    worlds = {name: environment(name, horizon=60) for name in SYNTHETIC}
    worlds["low base rate"] = environment("abrupt", horizon=60, dim=3, base_rate=0.03)
    worlds["varying arms"] = environment("stationary", horizon=60, fewest_arms=2)
    worlds["one-hot"] = environment("stationary", horizon=60, arms=4, one_hot=True)
    worlds["table"] = environment(
        "table", frame=ROWS * 5, context=CONTEXT, label="best", shuffle=True
    )
    worlds["paired"] = environment("paired", horizon=60, table=SMALL_TABLE)
    worlds["counts"] = environment("counts", horizon=60, table=SMALL_TABLE, arms=3)
    trace = Trace(actions=rng().normal(size=(60, 3, 2)), rewards=np.ones((60, 3)))
    worlds["logged"] = environment("logged", trace=trace, shuffle=True)
    return worlds


def assert_same(first, second):
    for name in ("actions", "rewards", "means", "available", "theta"):
        left, right = getattr(first, name), getattr(second, name)
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_array_equal(left, right, err_msg=name)
    assert first.changes == second.changes


# --- every world ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", small_worlds())
def test_a_draw_depends_on_the_generator_alone_and_worlds_pickle(name):
    world = small_worlds()[name]
    assert isinstance(world, Environment)
    first = world.draw(rng(5))
    other = world.draw(rng(6))
    for same in (world, small_worlds()[name], pickle.loads(pickle.dumps(world))):
        assert_same(first, same.draw(rng(5)))
    same = np.array_equal(first.actions, other.actions)
    assert not (same and np.array_equal(first.rewards, other.rewards))
    assert (first.dim, first.horizon) == (world.dim, 60)
    assert np.abs(first.actions).max() <= world.action_bound
    assert first.actions.flags.c_contiguous
    assert first.actions.dtype == first.rewards.dtype == np.float64
    if name in ("abrupt", "paired", "logged"):
        with pytest.raises(ValueError, match=r"rng must be a numpy.random.Generator.*got int"):
            world.draw(0)


@pytest.mark.parametrize(("name", "link"), list(zip(SYNTHETIC, [*MODELS, "identity"], strict=True)))
def test_rewards_have_the_stated_means_and_range(name, link):
    m = MODELS[link]
    world = environment(name, link=link, m=m, horizon=3000)
    trace = world.draw(rng(3))
    z = np.einsum("tkd,td->tk", trace.actions, trace.theta)
    np.testing.assert_allclose(
        trace.means, links.link(link, m=m).mean(world.centre + z), rtol=1e-12, atol=1e-12
    )
    assert trace.rewards.min() >= 0
    assert trace.rewards.max() <= world.m
    if link != "identity":
        assert (trace.rewards % 1 == 0).all()
    means, most = trace.means, np.inf if link == "poisson" else world.m
    variance = means * ((most - means) if link == "identity" else (1 - means / most))
    noise = (trace.rewards - means) / np.sqrt(variance)
    assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
    assert 0.9 < (noise**2).mean() < 1.1
    # The arms of a round must not share their noise, or policies would learn from arms unplayed.
    assert abs((noise[:, 0] * noise[:, 1]).mean()) < 5 / np.sqrt(3000)


def test_actions_are_uniform_in_the_ball():
    dim = 5
    trace = Stationary(dim=dim, arms=3, horizon=4000, radius=2.0).draw(rng(7))
    actions = trace.actions.reshape(-1, dim)
    radii = np.linalg.norm(actions, axis=1)
    assert radii.max() <= 2.0
    # The share of the ball within radius r is (r/2)^d, so this is uniform on [0, 1].
    assert stats.kstest((radii / 2.0) ** dim, "uniform").pvalue > 1e-4
    # E[a a'] = r^2 / (d+2) I and E[a] = 0
    assert np.abs(actions.mean(axis=0)).max() < 5 * np.sqrt(4.0 / (dim + 2) / len(actions))
    second = actions.T @ actions / len(actions)
    np.testing.assert_allclose(second, 4.0 / (dim + 2) * np.eye(dim), atol=0.1)


# --- the paths of theta --------------------------------------------------------------------------


def test_abrupt2d_is_the_papers_world():
    trace = environment("abrupt2d").draw(rng())
    assert (trace.horizon, trace.arms, trace.dim) == (6000, 6, 2)
    assert trace.changes == (1001, 2001, 3001)
    expected = {1: (1, 0), 1000: (1, 0), 1001: (-1, 0), 2000: (-1, 0)}
    expected |= {2001: (0, 1), 3000: (0, 1), 3001: (0, -1), 6000: (0, -1)}
    assert {t: tuple(trace.theta[t - 1]) for t in expected} == expected
    assert set(np.unique(trace.rewards)) == {0.0, 1.0}
    assert abrupt2d(horizon=600).changes == (101, 201, 301)
    assert np.linalg.norm(abrupt2d(norm=5).draw(rng()).theta, axis=1) == pytest.approx(5.0)
    with pytest.raises(ValueError, match="horizon must be an integer of at least 6; got 5"):
        abrupt2d(horizon=5)


@given(st.data())
def test_each_round_has_the_parameter_of_its_segment(data):
    horizon = data.draw(st.integers(2, 30))
    changes = sorted(data.draw(st.sets(st.integers(2, horizon), max_size=6)))
    parameters = [[float(i), 1.0] for i in range(len(changes) + 1)]
    trace = Abrupt(horizon=horizon, parameters=parameters, changes=changes).draw(rng())
    for round_ in range(1, horizon + 1):
        assert trace.theta[round_ - 1, 0] == sum(change <= round_ for change in changes)
    assert trace.changes == tuple(changes)


def test_a_number_of_changes_means_random_rounds_and_parameters():
    world = Abrupt(horizon=500, changes=10, dim=4, norm=3.0)
    first, second = world.draw(rng(1)), world.draw(rng(2))
    for trace in (first, second):
        assert len(set(trace.changes)) == 10
        jumps = np.flatnonzero(np.abs(np.diff(trace.theta, axis=0)).max(axis=1)) + 2
        assert tuple(jumps) == trace.changes
        np.testing.assert_allclose(np.linalg.norm(trace.theta, axis=1), 3.0)
    assert first.changes != second.changes
    assert Abrupt(horizon=5, changes=4).draw(rng()).changes == (2, 3, 4, 5)
    assert Abrupt(horizon=1, changes=0).draw(rng()).changes == ()


def test_a_single_coordinate_can_change():
    trace = Abrupt(horizon=90, changes=[31, 61], dim=5, coordinate=2, norm=2.0).draw(rng())
    before, after, back = trace.theta[29], trace.theta[30], trace.theta[60]
    np.testing.assert_array_equal(np.delete(before, 2), np.delete(after, 2))
    assert before[2] == pytest.approx(2.0 / np.sqrt(2))
    assert after[2] == -before[2]
    np.testing.assert_array_equal(back, before)
    np.testing.assert_allclose(np.linalg.norm(trace.theta, axis=1), 2.0)


def test_drift_turns_at_its_speed_in_one_plane():
    theta = Drift(horizon=1000, dim=6, speed=0.01, norm=1.5).draw(rng(2)).theta
    np.testing.assert_allclose(np.linalg.norm(theta, axis=1), 1.5)
    cosine = (theta[1:] * theta[:-1]).sum(axis=1) / 1.5**2
    np.testing.assert_allclose(np.arccos(cosine), 0.01, rtol=1e-6)
    assert np.linalg.matrix_rank(theta, tol=1e-9) == 2
    assert theta[0] @ theta[500] / 1.5**2 == pytest.approx(np.cos(5.0))


def test_seasons_come_back():
    trace = Seasonal(horizon=600, period=200, seasons=4).draw(rng())
    np.testing.assert_array_equal(trace.theta[:200], trace.theta[200:400])
    np.testing.assert_array_equal(trace.theta[:200], trace.theta[400:])
    assert len(np.unique(trace.theta, axis=0)) == 4
    assert trace.changes == tuple(range(51, 600, 50))
    uneven = Seasonal(horizon=20, period=7, parameters=[[1, 0], [0, 1], [1, 1]]).draw(rng())
    np.testing.assert_array_equal(uneven.theta[:7], uneven.theta[7:14])
    assert Seasonal(horizon=600).period == 200


def test_a_stationary_world_keeps_its_parameter():
    trace = Stationary(parameters=[[0.3, 0.4, 0.0]], horizon=10).draw(rng())
    np.testing.assert_array_equal(trace.theta, np.tile([0.3, 0.4, 0.0], (10, 1)))
    scaled = Stationary(parameters=[[0.3, 0.4]], norm=5, horizon=10).draw(rng())
    np.testing.assert_allclose(scaled.theta[0], [3.0, 4.0])
    fixed = Stationary(horizon=20, arms=3, one_hot=True, parameters=[[0.5, 0.0, -1.0]]).draw(rng())
    assert (fixed.actions == np.eye(3)).all()
    np.testing.assert_allclose(fixed.means, np.tile(expit([0.5, 0.0, -1.0]), (20, 1)), rtol=1e-12)


# --- low base rates, the identity model, varying arms --------------------------------------------


@pytest.mark.parametrize("link", MODELS)
def test_base_rate_is_the_mean_of_an_action_without_features(link):
    world = Abrupt(dim=4, base_rate=0.03, link=link, m=MODELS[link], radius=1.5)
    trace = world.draw(rng(1))
    assert trace.dim == 4
    assert np.linalg.norm(trace.actions, axis=2).max() <= 1.5 * (1 + 1e-12)
    constant = trace.actions[0, 0, -1]
    assert (trace.actions[:, :, -1] == constant).all()
    unit = 1.0 if link == "poisson" else world.m
    at_zero = links.link(link, m=MODELS[link]).mean(constant * trace.theta[:, -1])
    np.testing.assert_allclose(at_zero, 0.03 * unit)
    assert 0.029 * unit < trace.means.mean() < 0.04 * unit
    assert world.centre == 0.0


def test_identity_means_use_the_range_and_stay_in_it():
    trace = abrupt2d(link="identity", m=4.0, norm=3.0).draw(rng())
    np.testing.assert_allclose(np.linalg.norm(trace.theta, axis=1), 2.0)  # m/2, whatever the norm
    assert trace.means.min() >= 0
    assert trace.means.max() <= 4
    assert trace.means.max() > 3.9
    weak = Stationary(link="identity", norm=0.1, horizon=10)
    np.testing.assert_allclose(np.linalg.norm(weak.draw(rng()).theta, axis=1), 0.05)
    assert weak.centre == 0.5


def test_arm_sets_shrink_and_grow():
    trace = Stationary(arms=10, fewest_arms=3, horizon=400).draw(rng())
    sizes = trace.available.sum(axis=1)
    assert sizes[0] == 10
    assert sizes[50] == 3
    assert sizes[100] == 10
    assert set(sizes) == set(range(3, 11))
    assert trace.available[45:55].any(axis=0).all(), "not always the same arms remain"
    worst_available = np.where(trace.available, trace.means, np.inf).argmin(axis=1)
    assert (trace.regret(worst_available) >= 0).all()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("abrupt", {"link": "poisson"}, "m must be given for the poisson model"),
        ("abrupt", {"base_rate": 1.0}, "base_rate must be a share between 0 and 1"),
        ("abrupt", {"changes": [9, 5]}, "changes must be increasing rounds"),
        ("abrupt", {"parameters": [[1, 0]]}, "parameters must be 4, one more than the changes"),
        ("abrupt", {"parameters": [[1, 0]], "changes": 0, "coordinate": 1}, "coordinate must be"),
        ("drift", {"dim": 1}, "dim must leave at least 2 drawn features to turn in; got 1"),
        ("seasonal", {"period": 3}, "period must be an integer of at least 4; got 3"),
        ("stationary", {"speed": 1}, "speed is not an option of the world stationary; it has arms"),
        ("stationary", {"one_hot": True, "arms": 4, "dim": 3}, "dim must be that of the arms, 4"),
        ("logged", {}, "the world logged needs trace"),
        ("martian", {}, "name must be one of abrupt, abrupt2d, counts, .*; got 'martian'"),
        ("paired", {"table": "iris"}, "table must be one of fair, pima, randhie; got 'iris'"),
        ("paired", {"path": "x.csv"}, "path is only for the table pima; got 'x.csv' for fair"),
        ("paired", {"table": Table([[0], [1]], [1, 1])}, "table must have outcomes of 0 and above"),
        ("counts", {"table": Table([[0], [1]], [0, 1.5])}, "whole outcomes for the poisson model"),
    ],
)
def test_refusals_name_the_argument(name, options, message):
    with pytest.raises(ValueError, match=message):
        environment(name, **options)


@pytest.mark.parametrize("world", [Abrupt, Drift, Seasonal, Stationary, Paired, Counts])
def test_every_option_is_checked(world):
    for option in inspect.signature(world).parameters:
        with pytest.raises(ValueError, match=rf"\b{option}\b"):
            world(**{option: object()})


# --- traces --------------------------------------------------------------------------------------


@given(
    st.integers(1, 6).flatmap(
        lambda arms: st.tuples(
            hnp.arrays(float, (5, arms), elements=st.floats(-9, 9)),
            hnp.arrays(bool, (5, arms)),
            hnp.arrays(np.int64, 5, elements=st.integers(0, arms - 1)),
        )
    )
)
def test_regret_is_the_best_available_less_the_chosen(drawn):
    values, mask, chosen = drawn
    mask[np.arange(5), chosen] = True
    actions = np.zeros((5, values.shape[1], 1))
    by_means = Trace(actions, np.zeros_like(values), means=values, available=mask)
    expected = [max(values[t, mask[t]]) - values[t, chosen[t]] for t in range(5)]
    for trace in (by_means, Trace(actions, values, available=mask)):
        np.testing.assert_array_equal(trace.regret(chosen), expected)


GOOD = {"actions": np.zeros((3, 2, 4)), "rewards": np.zeros((3, 2))}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"actions": np.zeros((3, 2))}, r"actions must be a 3-dimensional array.*\(3, 2\)"),
        ({"rewards": np.zeros((3, 3))}, r"rewards must have shape \(3, 2\).*got \(3, 3\)"),
        ({"rewards": np.full((3, 2), np.nan)}, "rewards must be finite.*partial=True"),
        ({"available": np.ones((3, 2))}, "available must be an array of booleans; got type float"),
        ({"available": np.array([[1, 1], [0, 0], [1, 0]], bool)}, "got none in round 2"),
        ({"changes": (4,)}, "changes must be an integer from 2 to 3; got 4"),
    ],
)
def test_a_trace_refuses_what_does_not_fit(wrong, message):
    with pytest.raises(ValueError, match=message):
        Trace(**{**GOOD, **wrong})


def test_regret_refuses_impossible_choices():
    trace = Trace(**GOOD, available=np.array([[1, 1], [1, 1], [0, 1]], bool))
    with pytest.raises(ValueError, match=r"chosen must hold 3 arm indices.*float64"):
        trace.regret([0.0, 1.0, 1.0])
    for chosen, arm, t in (([0, 0, 0], 0, 3), ([0, 2, 1], 2, 2), ([-1, 0, 1], -1, 1)):
        with pytest.raises(ValueError, match=f"available arms; got arm {arm} in round {t}"):
            trace.regret(chosen)


# --- real tables ---------------------------------------------------------------------------------


def test_a_table_becomes_actions_of_length_at_most_one():
    actions = SMALL_TABLE.actions()
    assert np.linalg.norm(actions, axis=1).max() == pytest.approx(1.0)
    standard = actions[:, :-1] / actions[0, -1]
    np.testing.assert_allclose(standard.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(standard.std(axis=0), 1.0)
    assert len(np.unique(actions[:, -1])) == 1

    with pytest.raises(ValueError, match=r"outcome must have one value for each of the 2 rows"):
        Table(features=[[1.0], [2.0]], outcome=[0])
    with pytest.raises(ValueError, match=r"features must vary.*column 2 is constant"):
        Table(features=[[1.0, 7.0], [2.0, 7.0]], outcome=[0, 1])


def test_fair_and_randhie_are_the_tables_of_the_literature():
    fair, randhie = load_table("fair"), load_table("randhie")
    assert fair.features.shape == (6366, 8)
    assert set(np.unique(fair.outcome)) == {0.0, 1.0}
    assert fair.outcome.sum() == 2053
    assert randhie.features.shape == (20190, 9)
    assert randhie.outcome.max() == 77
    assert repr(fair) == "Table(6366 rows, 8 features)"


def own_worth(actions, table):
    """The outcome of the row that an action is; NaN where rows with several outcomes are alike."""
    known = {}
    for row, outcome in zip(table.actions(), table.outcome, strict=True):
        known.setdefault(row.tobytes(), set()).add(outcome)
    worth = {row: max(found) if len(found) == 1 else np.nan for row, found in known.items()}
    return np.array([[worth[a.tobytes()] for a in offered] for offered in actions])


def test_paired_offers_one_positive_and_one_negative_case():
    world = environment("paired")
    trace = world.draw(rng(1))
    assert (trace.horizon, trace.arms, trace.dim) == (2000, 2, 9)
    assert trace.changes == (1001,)
    assert trace.means is None
    np.testing.assert_array_equal(trace.rewards.sum(axis=1), 1.0)
    # Which class an action comes from, found by looking its row up in the table.
    outcome = own_worth(trace.actions, world.cases)
    clear = ~np.isnan(outcome)  # some rows are in both classes
    assert clear.mean() > 0.3
    assert (outcome == trace.rewards)[:1000][clear[:1000]].all()
    assert (outcome != trace.rewards)[1000:][clear[1000:]].all()
    # The better arm is first as often as second.
    assert abs(trace.rewards[:1000, 0].mean() - 0.5) < 5 * 0.5 / np.sqrt(1000)


def test_paired_roles_change_after_the_switch():
    trace = Paired(table=SMALL_TABLE, horizon=40, link="poisson", m=2).draw(rng())
    own = np.minimum(own_worth(trace.actions, SMALL_TABLE), 2)
    np.testing.assert_array_equal(trace.rewards[:20], own[:20])
    np.testing.assert_array_equal(trace.rewards[20:], own[20:, ::-1])
    assert trace.changes == (21,)
    assert set(np.unique(trace.rewards)) == {0, 1, 2}
    binary = Paired(table=SMALL_TABLE, horizon=40).draw(rng())
    assert set(np.unique(binary.rewards)) == {0, 1}


def test_counts_keep_their_rewards_and_mirror_their_features():
    trace = environment("counts").draw(rng())
    assert (trace.horizon, trace.arms, trace.dim) == (2000, 6, 10)
    assert trace.rewards.max() == 20
    small = Counts(table=SMALL_TABLE, horizon=40, arms=3).draw(rng())
    unmirrored = small.actions.copy()
    unmirrored[20:, :, :-1] *= -1
    np.testing.assert_array_equal(small.rewards, own_worth(unmirrored, SMALL_TABLE))


def test_pima_checks_the_users_file(tmp_path, monkeypatch):
    numbers, path = rng().integers(0, 9, size=(768, 9)).astype(float), tmp_path / "diabetes.csv"
    numbers[:, -1] = np.arange(768) % 2
    np.savetxt(path, numbers, delimiter=",", header="Pregnancies,Glucose", comments="")
    with pytest.raises(ValueError, match=re.escape("expected " + datasets.PIMA_DIGEST[:12])):
        environment("paired", table="pima", path=path)
    with pytest.raises(ValueError, match="path must be a readable CSV file"):
        load_table("pima", path=tmp_path / "nothing.csv")
    monkeypatch.setattr(datasets, "PIMA_DIGEST", hashlib.sha256(numbers.tobytes()).hexdigest())
    world = environment("paired", table="pima", path=path)
    np.testing.assert_array_equal(world.cases.outcome, numbers[:, -1])
    path.unlink()
    assert pickle.loads(pickle.dumps(world)).draw(rng()).dim == 9, "a worker needs no file"


def test_missing_packages_are_named_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "faraway.datasets.pima", None)
    monkeypatch.setitem(sys.modules, "statsmodels.datasets.fair", None)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "driftbandits.environments.gym", raising=False)
    with pytest.raises(ImportError, match=r"path=.*or `pip install faraway`"):
        load_table("pima")
    with pytest.raises(ImportError, match=re.escape("pip install 'driftbandits[data]'")):
        load_table("fair")
    with pytest.raises(ImportError, match=re.escape("pip install 'driftbandits[gym]'")):
        as_gymnasium(Stationary())


# --- logs ----------------------------------------------------------------------------------------


def test_a_shuffled_log_keeps_rounds_whole():
    rewards = np.arange(60.0).reshape(20, 3)
    tables = {"contexts": [{"t": t} for t in range(20)], "offers": [["a", "b", "c"]] * 20}
    recorded = Trace(rewards[:, :, None], rewards, rewards, rewards % 2 == 0, changes=[3], **tables)
    assert environment("logged", trace=recorded).draw(rng()) is recorded
    trace = Logged(trace=recorded, shuffle=True).draw(rng())
    assert not np.array_equal(trace.rewards, rewards)
    np.testing.assert_array_equal(np.sort(trace.rewards, axis=0), rewards)
    np.testing.assert_array_equal(trace.actions[:, :, 0], trace.rewards)
    np.testing.assert_array_equal(trace.means, trace.rewards)
    np.testing.assert_array_equal(trace.available, trace.rewards % 2 == 0)
    assert [context["t"] * 3 for context in trace.contexts] == trace.rewards[:, 0].tolist()
    assert trace.changes is None


def test_a_partial_log_has_no_regret():
    actions, unknown = rng().normal(size=(4, 3, 2)), np.full((4, 3), np.nan)
    trace = Trace(actions, unknown, partial=True)
    with pytest.raises(ValueError, match="rewards must be known for every arm"):
        trace.regret([0, 0, 0, 0])
    with_means = Trace(actions, unknown, means=np.ones((4, 3)), partial=True)
    assert with_means.regret([0, 0, 0, 0]).sum() == 0.0
    with pytest.raises(ValueError, match="environment must know the reward of every arm"):
        as_gymnasium(Logged(trace=trace)).reset()


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet"])
def test_a_file_is_a_world(suffix, tmp_path):
    path = tmp_path / f"visits{suffix}"
    if suffix == ".parquet":
        pl.DataFrame(ROWS).write_parquet(path)
    else:
        pd.DataFrame(ROWS).to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    trace = environment("table", path=str(path), context=CONTEXT, label="best").draw(rng())
    assert [offer["id"] for offer in trace.offers[0]] == ["tea", "mate"]
    assert trace.contexts[3] == {"age": 23, "country": "FR"}
    assert trace.rewards.argmax(axis=1).tolist() == [0, 1, 0] * 4
    assert trace.payoffs.sum() == 12
    # Every arm has coefficients of its own, and no row is longer than 1.
    assert np.linalg.norm(trace.actions, axis=2).max() <= 1.0
    assert np.linalg.matrix_rank(trace.actions.reshape(24, -1)) >= 6


def test_a_table_has_rewards_of_all_arms_or_of_the_one_that_was_chosen():
    full = Trace.from_frame(pd.DataFrame(ROWS), context=CONTEXT, rewards=["tea", "mate"])
    assert full.rewards[:2].tolist() == [[1.0, 0.25], [0.0, 0.25]]
    renamed = Trace.from_frame(ROWS, context=[], rewards={"a": "tea", "b": "mate"})
    assert [offer["id"] for offer in renamed.offers[0]] == ["a", "b"]
    logs = Trace.from_frame(pl.DataFrame(ROWS), context=CONTEXT, arm="shown", reward="paid")
    assert [offer["id"] for offer in logs.offers[0]] == ["0", "1"]
    np.testing.assert_array_equal(logs.rewards[:3], [[0, np.nan], [np.nan, np.nan], [2, np.nan]])
    separate = Trace.from_frame(ROWS, context=CONTEXT, label="best", arms="separate")
    assert (separate.actions == separate.actions[:, :1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": ["ag"]}, "context must name a column of the table; got 'ag', perhaps age. It"),
        ({"label": None}, "give label .* got none of them"),
        ({"reward": "paid"}, "give label .* got label and reward"),
        ({"label": "paid"}, "label: column 'paid' of the table must have a value in every row; "),
        ({"label": None, "rewards": ["country"]}, "column 'country' .* numbers .*; row 1 has 'DE'"),
        ({"frame": []}, "the table must have at least one row"),
        ({"frame": None, "path": "x.xlsx"}, "a table must be a file .csv, .* got 'x.xlsx'"),
    ],
)
def test_a_table_that_is_no_world_is_refused(options, message):
    given = {"frame": ROWS, "context": CONTEXT, "label": "best", **options}
    with pytest.raises(ValueError, match=message):
        environment("table", **{name: value for name, value in given.items() if value is not None})


# --- Gymnasium -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["varying arms", "logged"])
def test_worlds_pass_gymnasiums_checker(name):
    check_env(as_gymnasium(small_worlds()[name], seed=1))


def test_an_episode_is_a_trace():
    world = environment("abrupt2d", horizon=30)
    env = as_gymnasium(world, seed=4)
    observation, info = env.reset()
    trace = world.draw(np.random.default_rng(4))
    assert info == {"round": 1}
    for t in range(30):
        np.testing.assert_array_equal(observation["actions"], trace.actions[t])
        assert observation["available"].all()
        observation, reward, terminated, truncated, info = env.step(t % 6)
        assert reward == trace.rewards[t, t % 6]
        assert info["mean"] == trace.means[t, t % 6]
        assert info["regret"] == trace.means[t].max() - trace.means[t, t % 6]
        assert terminated == (t == 29)
        assert not truncated
    with pytest.raises(ValueError, match="step needs a running episode: call reset first"):
        env.step(0)
    second, _ = env.reset()
    assert not np.array_equal(second["actions"], trace.actions[0]), "the next run is another one"
    again, _ = env.reset(seed=4)
    np.testing.assert_array_equal(again["actions"], trace.actions[0])


def test_an_unavailable_arm_pays_nothing():
    allowed = np.array([[True, False]])
    trace = Trace(np.ones((1, 2, 1)), [[1.0, 5.0]], means=[[2.0, 3.0]], available=allowed)
    env = as_gymnasium(Logged(trace=trace))
    observation, _ = env.reset(seed=0)
    assert observation["available"].tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"action must be an integer from 0 to 1; got 2"):
        env.step(2)
    _, reward, _, _, info = env.step(1)
    assert (reward, info["mean"], info["regret"], info["available"]) == (0.0, 0.0, 2.0, False)
