"""Experiments: what a spec may say, what is recorded, and that nothing finished is ever lost."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
import pytest

import driftbandits as db
from driftbandits import experiments
from driftbandits.core import theory
from driftbandits.experiments import (
    Restarted,
    SpecError,
    draw_trace,
    experiments_of,
    play,
    player_seed,
    run_experiment,
)
from experiment_checks import (
    LONG,
    PATIENCE,
    assert_same_results,
    complaints,
    driftbandits,
    finished_blocks,
    small,
    spec,
    toml,
    wait_until,
)

ROOT = Path(__file__).resolve().parent.parent

# -- what a spec may say ---------------------------------------------------------------------------

HEADING = spec()["experiment"]
REFUSED = [
    ({"experimnt": {}}, "experimnt: unknown key, perhaps experiment; allowed: experiment, env"),
    ({"experiment": None}, "experiment: is missing"),
    ({"experiment": {**HEADING, "name": "../x"}}, "experiment.name must be fit for a folder"),
    (
        {"experiment": {**HEADING, "runs": 0}},
        "experiment.runs must be an integer of at least 1; got 0",
    ),
    (
        {"experiment": {**HEADING, "section": "regrets"}},
        "experiment.section must be one of regret, share, worlds, growth; got 'regrets', perhaps",
    ),
    (
        {
            "experiment": {**HEADING, "coverage": True},
            "environment": {"name": "paired", "horizon": 30},
        },
        "experiment.coverage: must be false in a world whose means nobody knows",
    ),
    ({"environment": {"name": "mars"}}, "environment.name must be one of abrupt, .*; got 'mars'"),
    (
        {"environment": {"name": "abrupt2d", "horizn": 9}},
        "environment.horizn is not an option of the world abrupt2d, perhaps horizon; it has",
    ),
    (
        {"environment": {"name": "table", "path": "/no.csv", "context": ["x"], "label": "y"}},
        "environment: .*No such file or directory: '/no.csv'",
    ),
    ({"policies": []}, r"policies must not be empty; got \[\]"),
    ({"policies": [{"name": "UCB"}]}, r"policies\[1\].name must be one of SW-GLUCB, .*'UCB'"),
    (
        {"policies": [{"name": "LinUCB"}, {"name": "SW-GLUCB", "windw": 3}]},
        r"policies\[2\].windw: unknown key, perhaps window; allowed: label, name, restart, knows",
    ),
    (
        {"policies": [{"name": "SW-GLUCB", "window": 0}]},
        r"policies\[1\].window must be an integer of at least 1; got 0",
    ),
    (
        {"policies": [{"name": "LinUCB"}, {"name": "LinUCB"}]},
        r"policies\[2\].label: must differ from the others; got 'LinUCB'",
    ),
    (
        {"policies": [{"name": "LinUCB", "restart": "never"}]},
        r'policies\[1\].restart: must be "changes"; got \'never\'',
    ),
    (
        {"policies": [{"name": "LinUCB", "arms": "separate", "restart": "changes"}]},
        r"policies\[1\]: policy must have neither features nor separate arms to be restarted",
    ),
    (
        {"policies": [{"name": "LinUCB", "knows": ["lnk"]}]},
        r"policies\[1\].knows\[1\] must be one of .*link, .*; got 'lnk', perhaps link",
    ),
    (
        {"policies": [{"name": "auto", "features": "guess"}]},
        r"policies\[1\].features need a world of tables",
    ),
    ({"axes": {"window": ["3"]}}, r"axes.window\[1\] must be a finite number; got '3'"),
    (
        {"axes": {"window": [3]}, "grid": [{"name": "SW-GLUCB", "over": ["discount"]}]},
        r"grid\[1\].over\[1\] must be one of window; got 'discount'",
    ),
    ({"sweep": [{"name": "a"}, {"name": "a"}]}, r"sweep\[2\].name: must differ from the others"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_a_bad_spec_is_refused_by_the_path_of_its_key(changes, message):
    with pytest.raises(SpecError, match=f"^{message}"):
        experiments_of(spec(**changes))


def logged(path: Path, rewards: str = "1010") -> dict[str, Any]:
    """A world of a log: the reward of the arm that was shown, and no other."""
    rows = [f"{t % 3},{'ab'[t % 2]},{reward}" for t, reward in enumerate(rewards)]
    path.write_text("\n".join(["x,arm,reward", *rows, ""]), encoding="utf-8")
    columns = {"context": ["x"], "arm": "arm", "reward": "reward"}
    return {"name": "table", "path": str(path), **columns}


def test_a_file_that_cannot_be_played_is_refused(tmp_path):
    lines = [{"name": "LogisticUCB", "restart": "changes"}]
    with pytest.raises(SpecError, match=r"^policies\[1\].restart: must be left out"):
        experiments_of(spec(environment=logged(tmp_path / "log.csv"), policies=lines))
    path = tmp_path / "bad.toml"
    for content in (b"[experiment\n", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(SpecError, match=r"bad\.toml: not a TOML file"):
            experiments.read_experiments(path)
    with pytest.raises(SpecError, match=r"none\.toml: No such file"):
        experiments.read_experiments(tmp_path / "none.toml")


def test_a_policy_is_told_what_the_world_and_the_defaults_say_unless_it_knows_less():
    lines = [
        {"name": "SW-GLUCB"},
        {"name": "D-GLUCB", "label": "mine", "changes": 5, "S": 1.5},
        {"name": "GLM-UCB", "restart": "changes"},
        {"name": "SW-GLUCB", "label": "link", "window": 9, "knows": ["link", "m"]},
        {"name": "LogisticUCB", "label": "nothing", "knows": []},
    ]
    reward = {"link": "binomial", "m": 5}
    world = {"name": "abrupt2d", "horizon": 60, **reward}
    (experiment,) = experiments_of(
        spec(policies=lines, defaults={**reward, "S": 3.0}, environment=world)
    )
    told = {"dim": 2, "horizon": 60, "changes": 3, "S": 3.0, **reward}
    assert dict(experiment.players) == {
        "SW-GLUCB": db.policy("SW-GLUCB", **told),
        "mine": db.policy("D-GLUCB", **{**told, "changes": 5, "S": 1.5}),
        "GLM-UCB": Restarted(db.policy("GLM-UCB", **told)),
        "link": db.policy("SW-GLUCB", dim=2, window=9, **reward),
        "nothing": db.policy("LogisticUCB", dim=2),
    }


@pytest.mark.parametrize(
    ("world", "changes"),
    [
        ({"name": "drift", "horizon": 30}, None),
        ({"name": "stationary", "horizon": 30}, 0),
        ({"name": "abrupt", "horizon": 30, "changes": 4}, 4),
        ({"name": "seasonal", "horizon": 30, "period": 10, "seasons": 2}, 5),
    ],
)
def test_changes_are_the_jumps_of_a_run_and_unknown_where_the_world_drifts(world, changes):
    (experiment,) = experiments_of(spec(environment=world, policies=[{"name": "D-GLUCB"}]))
    (player,) = experiment.players.values()
    assert isinstance(player, db.Policy)
    assert player.changes == changes
    assert experiment.spec["world"]["changes_a_run"] == changes


def with_grid(**changes: Any) -> dict[str, Any]:
    return spec(
        axes={"window": [5, 9], "bonus_scale": [0.0, 0.5]},
        grid=[
            {"name": "SW-GLUCB", "over": ["window", "bonus_scale"], "projection": "radial"},
            {"name": "GLM-UCB", "label": "known", "restart": "changes", "over": ["bonus_scale"]},
        ],
        **changes,
    )


def test_a_sweep_is_one_experiment_for_each_variant():
    given = with_grid(
        defaults={"S": 2.0},
        sweep=[
            {"name": "60", "runs": 3, "environment": {"horizon": 60}},
            {
                "name": "drift",
                "title": "Another world",
                "environment": {"name": "drift", "horizon": 12, "dim": 3},
                "defaults": {"S": 5.0},
                "axes": {"window": [7]},
            },
        ],
    )
    made = experiments_of(given)
    assert [e.position for e in made] == [1, 1, 2, 2]
    longer, own_grid, drifting, other_grid = made
    assert (len(own_grid.players), len(other_grid.players)) == (6, 4)
    assert "SW-GLUCB, window=7, bonus_scale=0" in other_grid.players
    assert (longer.name, longer.sweep, longer.variant) == ("small-60", "small", "60")
    assert (longer.runs, drifting.runs) == (3, given["experiment"]["runs"])
    assert longer.environment == {"name": "abrupt2d", "horizon": 60}
    assert (drifting.name, drifting.title) == ("small-drift", "Another world")
    assert drifting.environment == {"name": "drift", "horizon": 12, "dim": 3}
    assert [p["S"] for e in (longer, drifting) for p in e.spec["policies"]] == [2, 2, 5, 5]


def test_a_grid_is_an_experiment_of_its_own_with_every_combination(tmp_path):
    own, grid = experiments_of(with_grid(defaults={"S": 2.0}))
    assert (own.name, own.is_grid) == ("small", False)
    assert list(own.players) == ["SW-GLUCB", "LinUCB"]
    assert (grid.name, grid.is_grid, grid.seed) == ("small-grid", True, own.seed)
    assert grid.world is own.world
    facts = {policy["label"]: policy for policy in grid.spec["policies"]}
    assert list(facts) == [
        *("SW-GLUCB, window=5, bonus_scale=0", "SW-GLUCB, window=5, bonus_scale=0.5"),
        *("SW-GLUCB, window=9, bonus_scale=0", "SW-GLUCB, window=9, bonus_scale=0.5"),
        *("known, bonus_scale=0", "known, bonus_scale=0.5"),
    ]
    point = facts["SW-GLUCB, window=9, bonus_scale=0.5"]
    assert (point["window"], point["bonus_scale"], point["S"]) == (9, 0.5, 2.0)
    assert (point["projection"], point["restart"]) == ("radial", None)
    assert facts["known, bonus_scale=0"]["restart"] == "changes"
    # Only the end of its runs is kept.
    kept = experiments.load(run_experiment(grid, out=tmp_path))
    assert kept.curves["round"].unique().to_list() == [30]
    assert kept.curves["regret"].sort().equals(kept.runs["final_regret"].sort(), check_names=False)
    assert kept.theta.height == 0


def test_the_hash_knows_what_results_depend_on_and_nothing_else(tmp_path):
    base = small().spec["hash"]
    assert small(runs=9, title="Other words").spec["hash"] == base
    assert small(seed=4).spec["hash"] != base
    assert small(every=8).spec["hash"] != base
    assert small(horizon=36).spec["hash"] != base
    hashes = []
    for name, rewards in (("a.csv", "1010"), ("b.csv", "1010"), ("c.csv", "1011")):
        world = logged(tmp_path / name, rewards)
        (experiment,) = experiments_of(spec(environment=world, policies=[{"name": "LinUCB"}]))
        hashes.append(experiment.spec["hash"])
        assert str(tmp_path) not in json.dumps(experiment.spec)
    assert hashes[0] == hashes[1] != hashes[2]


# -- the published ones ----------------------------------------------------------------------------

NEEDS_A_PACKAGE = ("paired-pima",)
NEEDS_NO_TABLE = [name for name in experiments.published() if not name.startswith(NEEDS_A_PACKAGE)]


@pytest.mark.parametrize("name", NEEDS_NO_TABLE)
def test_a_published_experiment_can_be_read(name):
    for experiment in experiments.read_experiments(experiments.published()[name], runs=2):
        assert experiment.name.startswith(name)
        assert experiment.runs == 2
        if not experiment.is_grid:
            assert json.loads(json.dumps(experiment.spec)) == experiment.spec


def test_the_paper_s_experiment_is_tuned_as_the_paper_says():
    (experiment,) = experiments.read_experiments(experiments.published()["abrupt2d"])
    facts = {policy["label"]: policy for policy in experiment.spec["policies"]}
    assert experiment.runs == 500
    assert experiment.coverage
    assert facts["SW-GLUCB"]["window"] == 252
    assert round(facts["D-GLUCB"]["discount"], 5) == 0.99603
    (paired,) = experiments.read_experiments(experiments.published()["paired-fair"])
    facts = {policy["label"]: policy for policy in paired.spec["policies"]}
    assert facts["SW-GLUCB"]["dim"] == 9
    assert facts["SW-GLUCB"]["window"] == 687
    assert round(facts["D-GLUCB"]["discount"], 5) == 0.99854


# -- what is recorded ------------------------------------------------------------------------------


def test_results_are_the_simulated_ones_thinned(tmp_path):
    experiment = small()
    seen: list[tuple[int, int]] = []
    folder = run_experiment(
        experiment, out=tmp_path, progress=lambda done, wanted: seen.append((done, wanted))
    )
    assert seen == [(done, 5) for done in range(6)]
    results = experiments.load(folder)
    simulated = db.simulate(experiment.players, experiment.world, runs=5, seed=3)
    rounds = [7, 14, 21, 28, 30]
    for label in experiment.players:
        for replicate in range(5):
            mine = (pl.col("policy") == label) & (pl.col("replicate") == replicate)
            curve = results.curves.filter(mine).sort("round")
            assert curve["round"].to_list() == rounds
            regret = simulated.regret[label][replicate]
            assert curve["regret"].to_list() == regret[np.array(rounds) - 1].tolist()
            trace = draw_trace(experiment.world, 3, replicate)
            chosen = simulated.chosen[label][replicate]
            rewards = np.cumsum(trace.rewards[np.arange(30), chosen])
            assert curve["reward"].to_list() == rewards[np.array(rounds) - 1].tolist()
            theta = results.theta.filter(mine).sort("round")
            assert theta["round"].to_list() == [10, 20, 30]
            estimates = simulated.theta_hat[label][replicate][[9, 19, 29]]
            assert theta["theta_hat"].to_list() == estimates.tolist()
            (row,) = results.runs.filter(mine).to_dicts()
            assert (row["rounds"], row["covered"]) == (30, None)
            assert (row["final_regret"], row["total_reward"]) == (regret[-1], rewards[-1])
            assert row["seconds"] > 0
            for counter, counts in simulated.work[label].items():
                assert row[counter] == counts[replicate]


def test_every_file_says_what_was_run_with_what(tmp_path):
    folder = run_experiment(small(runs=1), out=tmp_path)
    versions = {"python", "driftbandits", "numpy", "numba"}
    described = [json.loads((folder / "spec.json").read_text(encoding="utf-8"))]
    for path in folder.glob("*.parquet"):
        about = pl.read_parquet_metadata(path)
        assert about["seed"] == "3"
        described.append(json.loads(about["spec"]))
    assert len(described) == 2
    for spec_of_file in described:
        assert spec_of_file["hash"] == small().spec["hash"]
        assert spec_of_file["versions"].keys() == versions
        assert spec_of_file["cpu"]["machine"]
        assert [policy["label"] for policy in spec_of_file["policies"]] == ["SW-GLUCB", "LinUCB"]


def test_coverage_is_of_every_arm_in_every_covered_round(tmp_path):
    (experiment,) = experiments_of(
        spec(
            experiment={"name": "covered", "runs": 3, "coverage": True},
            environment={"name": "abrupt", "horizon": 60, "changes": [21], "fewest_arms": 2},
            policies=[
                {"name": "SW-GLUCB", "window": 10},
                {"label": "narrow", "name": "SW-GLUCB", "window": 10, "bonus_scale": 0.001},
                {"name": "D-GLUCB", "discount": 0.6},
                {"name": "LogisticUCB"},
                {"label": "restarted", "name": "LogisticUCB", "restart": "changes"},
                {"name": "greedy"},
            ],
        )
    )
    results = experiments.load(run_experiment(experiment, out=tmp_path))
    covered = dict(results.runs.group_by("policy").agg("covered").iter_rows())
    assert covered["SW-GLUCB"] == covered["D-GLUCB"] == covered["restarted"] == [True] * 3
    assert covered["narrow"] == [False] * 3
    assert covered["greedy"] == [None] * 3
    for replicate, said in enumerate(covered["LogisticUCB"]):
        trace = draw_trace(experiment.world, 0, replicate)
        player = experiment.players["LogisticUCB"]
        run = play(player, trace, player_seed(0, replicate), ("intervals",))
        held = [
            abs(run.means[t, k] - trace.means[t, k]) <= run.widths[t, k]
            for t in range(20)  # before the first change
            for k in np.flatnonzero(trace.available[t])
        ]
        assert said == all(held)
    assert theory.covered_by_window(trace.theta, tau=10).sum() == 20 + 30


def test_regret_that_nobody_can_measure_is_not_a_number(tmp_path):
    world = logged(tmp_path / "log.csv")
    (experiment,) = experiments_of(spec(environment=world, policies=[{"name": "random"}]))
    results = experiments.load(run_experiment(experiment, out=tmp_path))
    assert results.runs["final_regret"].is_nan().all()
    assert results.runs["total_reward"].is_in([0.0, 1.0, 2.0]).all()


def test_a_folder_that_is_not_whole_is_refused(tmp_path):
    folder = run_experiment(small(runs=1), out=tmp_path)
    (block,) = folder.glob("*.parquet")
    block.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="has a block that cannot be read"):
        assert experiments.load(folder).runs.height
    block.unlink()
    with pytest.raises(ValueError, match="must hold at least one finished block"):
        experiments.load(folder)
    (folder / "spec.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"spec\.json cannot be read"):
        experiments.load(folder)
    (folder / "spec.json").unlink()
    with pytest.raises(ValueError, match="must hold an experiment's results"):
        experiments.load(folder)


# -- nothing finished is lost ----------------------------------------------------------------------


def test_runs_can_be_added_later(tmp_path):
    folder = run_experiment(small(runs=3), out=tmp_path / "grown")
    first = {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert len(first) == 3
    run_experiment(small(runs=5), out=tmp_path / "grown")
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert_same_results(folder, run_experiment(small(runs=5), out=tmp_path / "whole"))
    run_experiment(small(runs=2), out=tmp_path / "grown")
    assert experiments.load(folder).runs["replicate"].n_unique() == 5


def test_what_an_interruption_left_half_done_is_done_again(tmp_path):
    whole = run_experiment(small(), out=tmp_path / "whole")
    folder = run_experiment(small(), out=tmp_path / "torn")
    (folder / "block-000002-000002.parquet").unlink()
    (folder / "block-000004-000004.parquet.123.part").write_bytes(b"half")
    assert experiments.load(folder).missing == 1
    run_experiment(small(), out=tmp_path / "torn")
    assert not list(folder.glob("*.part"))
    assert_same_results(folder, whole)


def test_another_experiment_of_the_same_name_is_not_mixed_in(tmp_path):
    run_experiment(small(runs=1), out=tmp_path)
    with pytest.raises(SpecError, match="holds results of another experiment of this name"):
        run_experiment(small(runs=1, seed=4), out=tmp_path)


def test_a_killed_program_is_finished_by_running_it_again(long_results, tmp_path):
    file = toml(tmp_path, runs=64, horizon=LONG)
    folder = tmp_path / "out" / "small"
    program = driftbandits("run", file, "--out", tmp_path / "out", "--workers", 2)
    wait_until(lambda: finished_blocks(folder) or program.poll() is not None)
    workers = psutil.Process(program.pid).children(recursive=True)
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()
    assert program.returncode == -signal.SIGKILL
    before = finished_blocks(folder)
    assert 0 < experiments.load(folder).missing < 64
    wait_until(lambda: not any(worker.is_running() for worker in workers))
    again = driftbandits("run", file, "--out", tmp_path / "out", "--workers", 2)
    out, err = again.communicate(timeout=PATIENCE)
    assert (again.returncode, out.strip(), complaints(err)) == (0, str(folder), [])
    assert finished_blocks(folder) > before
    assert_same_results(folder, long_results)
