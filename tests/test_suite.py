"""The suite: its grids, its worlds, its page."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftbandits import experiments
from driftbandits.experiments import experiments_of
from experiment_checks import spec

ROOT = Path(__file__).resolve().parents[1]

# -- the file -------------------------------------------------------------------------------------


def with_grid(**changes: Any) -> dict[str, Any]:
    return spec(
        axes={"window": [5, 9], "bonus_scale": [0.0, 0.5]},
        grid=[
            {"name": "SW-GLUCB", "over": ["window", "bonus_scale"], "projection": "radial"},
            {
                "name": "LogisticUCB",
                "label": "known",
                "restart": "changes",
                "over": ["bonus_scale"],
            },
        ],
        **changes,
    )


def test_a_grid_is_an_experiment_of_its_own_with_every_combination() -> None:
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


def test_a_variant_has_axes_of_its_own() -> None:
    variants = [{"name": "a"}, {"name": "b", "axes": {"window": [7]}}]
    made = {e.name: e for e in experiments_of(with_grid(sweep=variants))}
    assert list(made) == ["small-a", "small-a-grid", "small-b", "small-b-grid"]
    assert [e.position for e in made.values()] == [1, 1, 2, 2]
    assert len(made["small-a-grid"].players) == 6
    assert len(made["small-b-grid"].players) == 4
    assert "SW-GLUCB, window=7, bonus_scale=0" in made["small-b-grid"].players


def test_only_the_end_of_a_tuned_run_is_kept(tmp_path: Path) -> None:
    own, grid = experiments_of(with_grid())
    for experiment in (own, grid):
        experiments.run_experiment(experiment, out=tmp_path)
    kept = experiments.load(tmp_path / "small-grid")
    assert kept.curves["round"].unique().to_list() == [30]
    assert kept.curves.height == kept.runs.height == 6 * 5
    assert kept.theta.height == 0
    both = kept.curves.join(kept.runs, on=["policy", "replicate"])
    assert (both["regret"] == both["final_regret"]).all()


def test_a_policy_that_knows_little_is_told_no_more() -> None:
    lines = [
        {"name": "SW-GLUCB", "label": "all", "window": 9},
        {"name": "SW-GLUCB", "label": "link", "window": 9, "knows": ["link", "m"]},
        {"name": "LogisticUCB", "label": "nothing", "knows": []},
    ]
    given = {"link": "binomial", "m": 5, "S": 3.0}
    world = {"name": "abrupt2d", "horizon": 30, "link": "binomial", "m": 5}
    (experiment,) = experiments_of(spec(policies=lines, defaults=given, environment=world))
    facts = {policy["label"]: policy for policy in experiment.spec["policies"]}
    told = {
        label: [policy[key] for key in ("dim", "link", "m", "S", "horizon", "changes")]
        for label, policy in facts.items()
    }
    assert told["all"] == [2, "binomial", 5, 3.0, 30, 3]
    assert told["link"] == [2, "binomial", 5, 1.0, None, None]
    assert told["nothing"] == [2, "logistic", 1, 1.0, None, None]


@pytest.fixture(scope="module")
def published_suite() -> list[experiments.Experiment]:
    return experiments.read_experiments(experiments.published()["suite"])


def test_the_suite_has_the_worlds_it_promises(
    published_suite: list[experiments.Experiment],
) -> None:
    made = published_suite
    worlds = {str(e.variant): e for e in made if not e.is_grid}
    assert len(worlds) == 17
    assert len(made) == 2 * len(worlds)
    jumps = {name: e.spec["world"]["changes_a_run"] for name, e in worlds.items()}
    assert [jumps[n] for n in ("stationary", "1-change", "10-changes", "40-changes")] == [
        *(0, 1, 10, 40)
    ]
    assert [jumps[n] for n in ("slow-turn", "turn", "fast-turn")] == [None] * 3
    facts = worlds["20-dim"].spec["world"]
    assert (facts["dim"], facts["arms"]) == (20, 50)
    assert all(e.runs >= 40 for e in made)


@pytest.mark.parametrize("variant", ["rare", "steep", "20-dim", "counts", "ratings", "arms-vary"])
def test_bounds_that_the_policies_are_told_are_true_and_not_loose(
    published_suite: list[experiments.Experiment], variant: str
) -> None:
    (grid,) = (e for e in published_suite if e.variant == variant and e.is_grid)
    trace = grid.world.draw(np.random.default_rng(0))
    assert trace.theta is not None
    longest_theta = float(np.linalg.norm(trace.theta, axis=1).max())
    longest_action = float(np.linalg.norm(trace.actions, axis=2).max())
    for policy in grid.spec["policies"]:
        assert longest_theta <= policy["S"] * (1 + 1e-9)
        assert policy["S"] < 1.1 * longest_theta
        assert longest_action <= policy["L"] * (1 + 1e-9)
        assert policy["L"] < 1.1 * longest_action


# -- the page -------------------------------------------------------------------------------------


def table_between(name: str) -> list[list[str]]:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    marked = page.split(f"<!-- figures: {name} ")[1].split("<!-- end figures -->")[0]
    _, _, inside = marked.partition("\n")
    rows = [line for line in inside.splitlines() if line.startswith("|")]
    return [row.strip("| ").split(" | ") for row in rows]


def test_the_page_of_results_has_the_worlds_and_policies_of_the_suite() -> None:
    given = tomllib.loads(experiments.published()["suite"].read_text(encoding="utf-8"))
    worlds = [variant["name"] for variant in given["sweep"]]
    assert [row[0] for row in table_between("worlds")[2:]] == worlds
    _, _, *rows = table_between("suite")
    known = {line.get("label", line["name"]) for line in given["policies"]}
    assert {row[0] for row in rows} <= known | {"restart at the true changes, tuned"}
    assert len(rows) > 5
