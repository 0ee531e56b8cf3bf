"""The suite: its grids, the comparison with the best tuned in hindsight, its report, its page."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import report_results
from driftbandits import experiments
from driftbandits.experiments.spec import experiments_of
from driftbandits.report import goals, hindsight, write_report
from driftbandits.report.contents import contents_of
from driftbandits.report.recordings import Recording, find_recordings
from experiment_checks import spec
from test_report import Outline, read

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
    assert (own.name, own.hindsight) == ("small", False)
    assert list(own.players) == ["SW-GLUCB", "LinUCB"]
    assert (grid.name, grid.hindsight, grid.seed) == ("small-hindsight", True, own.seed)
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
    assert list(made) == ["small-a", "small-a-hindsight", "small-b", "small-b-hindsight"]
    assert [e.position for e in made.values()] == [1, 1, 2, 2]
    assert len(made["small-a-hindsight"].players) == 6
    assert len(made["small-b-hindsight"].players) == 4
    assert "SW-GLUCB, window=7, bonus_scale=0" in made["small-b-hindsight"].players


def test_only_the_end_of_a_tuned_run_is_kept(tmp_path: Path) -> None:
    own, grid = experiments_of(with_grid())
    for experiment in (own, grid):
        experiments.run_experiment(experiment, out=tmp_path)
    kept = experiments.load(tmp_path / "small-hindsight")
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
    worlds = {str(e.variant): e for e in made if not e.hindsight}
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
    (grid,) = (e for e in published_suite if e.variant == variant and e.hindsight)
    trace = grid.world.draw(np.random.default_rng(0))
    assert trace.theta is not None
    longest_theta = float(np.linalg.norm(trace.theta, axis=1).max())
    longest_action = float(np.linalg.norm(trace.actions, axis=2).max())
    for policy in grid.spec["policies"]:
        assert longest_theta <= policy["S"] * (1 + 1e-9)
        assert policy["S"] < 1.1 * longest_theta
        assert longest_action <= policy["L"] * (1 + 1e-9)
        assert policy["L"] < 1.1 * longest_action


# -- the numbers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("suite")
    report_results.suite(directory)
    write_report(directory)
    return directory


@pytest.fixture(scope="module")
def recordings(results: Path) -> list[Recording]:
    return find_recordings(results)


@pytest.fixture(scope="module")
def outline(results: Path) -> Outline:
    return read(results / "report.html")


def final_regret(results: Path, experiment: str) -> dict[str, list[float]]:
    """By policy, in the order of the runs, straight from the files."""
    files = sorted((results / experiment).glob("runs-*.parquet"))
    runs = pl.concat([pl.read_parquet(file) for file in files]).sort("replicate")
    return {
        label: runs.filter(pl.col("policy") == label)["final_regret"].to_list()
        for label in runs["policy"].unique()
    }


def best_by_halves(regrets: dict[str, list[float]]) -> list[float]:
    """Each run's regret under the policy that was best on the runs of the other parity."""
    compared = []
    for run in range(6):
        others = [other for other in range(6) if other % 2 != run % 2]
        best = min(regrets, key=lambda label: sum(regrets[label][other] for other in others))
        compared.append(regrets[best][run])
    return compared


@pytest.mark.parametrize("name", ["paper", "turn", "stationary"])
def test_ratios_are_to_the_best_that_the_other_half_chose(
    results: Path, recordings: list[Recording], name: str
) -> None:
    grid = final_regret(results, f"suite-{name}-hindsight")
    single = {label: values for label, values in grid.items() if "restarted" not in label}
    stationary = {k: values for k, values in single.items() if k.startswith("LogisticUCB")}
    own = final_regret(results, f"suite-{name}")
    (world,) = (w for w in hindsight.worlds_of(recordings) if w.name == name)
    assert world.best.regret.tolist() == best_by_halves(single)
    assert world.best.flattered == pytest.approx(min(map(np.mean, single.values())))
    assert world.best_stationary is not None
    assert world.best_stationary.regret.tolist() == best_by_halves(stationary)
    for line in hindsight.standings_of(hindsight.worlds_of(recordings)):
        expected = np.mean(own[line.policy]) / np.mean(best_by_halves(single))
        assert line.ratios[name].mean == pytest.approx(expected, rel=1e-12)


def test_the_point_chosen_on_a_half_is_named(recordings: list[Recording]) -> None:
    for world in hindsight.worlds_of(recordings):
        regrets = {
            label: world.grid.runs.filter(pl.col("policy") == label)
            .sort("replicate")["final_regret"]
            .to_numpy()
            for label, point in world.grid.policies.items()
            if not point["restart"]
        }
        named = [point["label"] for point in world.best.points]
        for half in (0, 1):
            best = min(regrets.values(), key=lambda values: values[half::2].mean())
            assert any(np.array_equal(best, regrets[label]) for label in named)


def test_restarting_at_the_changes_is_told_only_where_there_are_any(
    results: Path, recordings: list[Recording]
) -> None:
    worlds = {world.name: world for world in hindsight.worlds_of(recordings)}
    assert worlds["turn"].best_restarted is None
    assert worlds["stationary"].best_restarted is None
    grid = final_regret(results, "suite-paper-hindsight")
    known = {label: values for label, values in grid.items() if "restarted" in label}
    assert worlds["paper"].best_restarted is not None
    assert worlds["paper"].best_restarted.regret.tolist() == best_by_halves(known)


def test_the_error_of_a_ratio_is_that_of_paired_runs() -> None:
    rng = np.random.default_rng(0)
    other = rng.gamma(9.0, size=(4000, 40))
    one = 2.0 * other + rng.normal(size=(4000, 40))
    found = [hindsight.ratio_of_means(a, b) for a, b in zip(one, other, strict=True)]
    spread = np.std([ratio.mean for ratio in found])
    assert np.mean([ratio.se for ratio in found]) == pytest.approx(spread, rel=0.05)


def test_standings_are_sorted_by_their_geometric_mean(recordings: list[Recording]) -> None:
    lines = hindsight.standings_of(hindsight.worlds_of(recordings))
    played = {policy.get("label", policy["name"]) for policy in report_results.SUITE_POLICIES}
    assert {line.policy for line in lines} == played
    for line in lines:
        ratios = [ratio.mean for ratio in line.ratios.values()]
        assert line.overall == pytest.approx(np.prod(ratios) ** (1 / len(ratios)))
        assert line.ratios[line.worst].mean == max(ratios)
    assert [line.overall for line in lines] == sorted(line.overall for line in lines)
    costs = {line.policy: line.cost for line in lines}
    assert costs["D-GLUCB"] == pytest.approx(1.0)
    assert costs["random"] < 1.0


def goals_of(recordings: list[Recording], policy: str) -> list[goals.Goal]:
    found = contents_of(recordings)
    return goals.goals_of(found.worlds, found.resting, policy=policy)


def test_goals_are_computed_for_a_policy_that_played(
    results: Path, recordings: list[Recording]
) -> None:
    worlds = hindsight.worlds_of(recordings)
    found = {goal.what.split(",")[0]: goal for goal in goals_of(recordings, "random")}
    line = next(line for line in hindsight.standings_of(worlds) if line.policy == "random")
    regret = final_regret(results, "suite-paper")["random"]
    assert found["the paper’s world"].reached.mean == pytest.approx(np.mean(regret))
    assert found[f"the same: worst ({line.worst})"].reached == line.ratios[line.worst]
    assert found[f"the same: worst ({line.worst})"].verdict == "no"
    overall = found["3 worlds over the best single memory tuned in hindsight: geometric mean"]
    assert overall.reached.mean == pytest.approx(line.overall)
    assert found[f"cost of a round over {hindsight.BASELINE}"].verdict == "more than hoped"


def test_false_reports_are_the_detections_where_nothing_changes(
    results: Path, recordings: list[Recording]
) -> None:
    found = goals_of(recordings, "CD-GLUCB")
    (goal,) = (goal for goal in found if goal.what.startswith("false reports over the 0.15"))
    runs = pl.read_parquet(results / "suite-false-alarms" / "runs-*.parquet")
    assert goal.reached.mean == pytest.approx(runs["detections"].sum() / 6 / 0.15)


def test_detections_are_counted_by_world(results: Path, outline: Outline) -> None:
    table = [[cell.strip() for cell in row] for row in outline.tables["table-suite-detections"]]
    heading, truth, *rows = table
    assert heading == ["policy", "paper", "turn", "stationary"]
    assert truth == ["true jumps", "3", "–", "0"]
    assert [row[0] for row in rows] == ["CD-GLUCB"]
    runs = pl.read_parquet(results / "suite-paper" / "runs-*.parquet")
    counted = runs.filter(pl.col("policy") == "CD-GLUCB")["detections"].sum()
    assert counted > 0
    assert float(rows[0][1]) == pytest.approx(counted / 6, rel=0.01)
    assert runs.filter(pl.col("policy") != "CD-GLUCB")["detections"].sum() == 0


def test_a_policy_that_has_not_played_has_no_goals(recordings: list[Recording]) -> None:
    assert goals_of(recordings, "LogisticUCB") == []


# -- the report -----------------------------------------------------------------------------------


def test_report_has_a_coloured_table_of_worlds(outline: Outline, results: Path) -> None:
    assert outline.faults == []
    heading, *rows = outline.tables["table-suite-ratios"]
    assert heading[:3] == ["policy", "geometric mean", "worst world"]
    assert heading[3:6] == ["paper", "turn", "stationary"]
    assert rows[0][0] == "restart at the true changes, tuned"
    assert rows[0][4:6] == ["–", "–"]
    assert rows[-1][0] == "random"
    colours = re.findall(
        r'style="background: (rgb\([\d,]+\))"', (results / "report.html").read_text()
    )
    assert len(set(colours)) > 5
    frame = pl.read_csv(results / "tables" / "suite-ratios.csv")
    assert float(rows[-1][1]) == pytest.approx(frame["overall"][-1], rel=0.05)


def test_report_of_a_suite_says_what_each_world_is_measured_by(outline: Outline) -> None:
    _, *rows = outline.tables["table-suite-worlds"]
    assert [row[0] for row in rows] == ["paper", "turn", "stationary"]
    assert rows[0][1] == report_results.NASTY
    assert all(row[2] == "6" for row in rows)
    assert all("bonus × " in row[3] for row in rows)
    assert "make suite" in outline.text


def test_what_belongs_to_a_suite_stands_nowhere_else(outline: Outline) -> None:
    assert "Further experiments" not in outline.text
    assert set(outline.tables) == {
        *("table-suite-ratios", "table-suite-worlds", "table-suite-detections"),
        "table-provenance",
    }


def test_a_suite_that_is_not_finished_can_be_looked_at(tmp_path: Path) -> None:
    variants = [{"name": "a"}, {"name": "b"}]
    first, grid, second, _ = experiments_of(with_grid(sweep=variants))
    for experiment in (first, grid, second):
        experiments.run_experiment(experiment, out=tmp_path)
    outline = read(write_report(tmp_path))
    assert [row[0] for row in outline.tables["table-suite-worlds"][1:]] == ["a"]
    assert "Further experiments" not in outline.text


def test_report_says_what_was_to_be_reached(tmp_path: Path) -> None:
    for experiment in experiments_of(with_grid(policies=[{"name": goals.UNTUNED}])):
        experiments.run_experiment(experiment, out=tmp_path)
    heading, *rows = read(write_report(tmp_path)).tables["table-suite-goals"]
    assert [cell.strip() for cell in heading[1:]] == ["measured", "goal", "hoped for", "reached"]
    assert [row[0].split(",")[0] for row in rows] == [
        "the paper’s world",
        "1 worlds over the best single memory tuned in hindsight: geometric mean",
        "the same: worst (small)",
    ]


def test_worlds_that_share_no_policy_are_shown_side_by_side(tmp_path: Path) -> None:
    other = with_grid(policies=[{"name": "random"}])
    other["experiment"]["name"] = "other"
    for experiment in (*experiments_of(with_grid()), *experiments_of(other)):
        experiments.run_experiment(experiment, out=tmp_path)
    outline = read(write_report(tmp_path))
    assert [row[0] for row in outline.tables["table-suite-worlds"][1:]] == ["other", "small"]
    assert outline.tables["table-suite-ratios"][1:] != []


def test_one_run_is_compared_with_what_was_best_in_it(tmp_path: Path) -> None:
    given = with_grid()
    given["experiment"]["runs"] = 1
    for experiment in experiments_of(given):
        experiments.run_experiment(experiment, out=tmp_path)
    (world,) = hindsight.worlds_of(find_recordings(tmp_path))
    grid = final_regret(tmp_path, "small-hindsight")
    assert world.best.regret.tolist() == min(v for k, v in grid.items() if "known" not in k)
    assert math.isnan(world.ratio(world.regret("LinUCB")).se)
    write_report(tmp_path)


# -- the page -------------------------------------------------------------------------------------


def table_between(name: str) -> list[list[str]]:
    page = (ROOT / "docs" / "which-policy.md").read_text(encoding="utf-8")
    marked = page.split(f"<!-- figures: {name} commit=")[1].split("<!-- end figures -->")[0]
    _, _, inside = marked.partition("\n")
    return [line.strip("| ").split(" | ") for line in inside.splitlines()]


def test_the_page_on_policies_speaks_of_the_suite_as_it_is() -> None:
    given = tomllib.loads(experiments.published()["suite"].read_text(encoding="utf-8"))
    worlds = [variant["name"] for variant in given["sweep"]]
    assert [row[0] for row in table_between("worlds")[2:]] == worlds
    heading, _, *rows = table_between("suite")
    assert heading[3:-1] == worlds
    known = {line.get("label", line["name"]) for line in given["policies"]}
    assert {row[0] for row in rows} <= known | {"restart at the true changes, tuned"}
    assert len(rows) > 5
