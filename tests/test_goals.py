"""What was to be reached in the suite, against the same numbers straight from the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import report_results
from driftbandits.report import goals, hindsight, write_report
from driftbandits.report.contents import contents_of
from driftbandits.report.goals import Goal
from driftbandits.report.recordings import Recording, find_recordings
from test_report import read

ROUNDS, RUNS = 300, 6
WITH = ["D-GLUCB", "auto"]
REFERENCE = {"name": "LogisticUCB", "label": goals.REFERENCE, "bonus_scale": 0.1}
REST = {"name": "stationary", "horizon": ROUNDS}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("suite")
    report_results.suite(out, policies=WITH)
    report_results.run(
        out,
        "any-arms",
        {**REST, "one_hot": True},
        ["auto", "random", REFERENCE],
        sweep=[
            {"name": f"{arms}-arms", "runs": 4 + arms, "environment": {"arms": arms}}
            for arms in (2, 5)
        ],
    )
    doubled = {"units": {"scale": [2.0, 2.0]}}
    report_results.run(
        out,
        "any-units",
        {**REST, "dim": 2},
        ["auto", {"name": "LinUCB", "intercept": True, "L": 9.0}],
        sweep=[
            {"name": "plain"},
            {"name": "doubled", "environment": doubled},
            {"name": "pays", "environment": {"link": "identity"}, "defaults": {"link": "identity"}},
            {
                "name": "pays-more",
                "environment": {"link": "identity", "m": 50.0},
                "defaults": {"link": "identity", "m": 50.0},
            },
        ],
    )
    rare = {"environment": {"base_rate": 0.01}, "name": "1-percent"}
    report_results.run(out, "any-rates", {**REST, "dim": 3}, ["auto"], sweep=[rare])
    report_results.run(
        out, "any-quiet", {"name": "stationary", "horizon": goals.QUIET}, ["auto", "random"], runs=2
    )
    return out


@pytest.fixture(scope="module")
def beside(results: Path) -> list[Recording]:
    found = contents_of(find_recordings(results))
    return [*found.resting, *found.alone]


@pytest.fixture(scope="module")
def reached(results: Path, beside: list[Recording]) -> list[Goal]:
    return goals.goals_of(hindsight.worlds_of(find_recordings(results)), beside)


def curves(results: Path, experiment: str, label: str) -> pl.DataFrame:
    files = sorted((results / experiment).glob("curves-*.parquet"))
    return pl.concat([pl.read_parquet(f) for f in files]).filter(pl.col("policy") == label)


def regret_at(results: Path, experiment: str, label: str, time: int) -> np.ndarray:
    at = curves(results, experiment, label).filter(pl.col("round") == time)
    return at.sort("replicate")["regret"].to_numpy()


def goal(reached: list[Goal], beginning: str) -> Goal:
    (found,) = (goal for goal in reached if goal.what.startswith(beginning))
    return found


def test_fixed_arms_are_measured_by_the_reference(results: Path, reached: list[Goal]) -> None:
    ratios, shares = {}, {}
    for world in ("2-arms", "5-arms"):
        name = f"any-arms-{world}"
        final, other = (regret_at(results, name, who, ROUNDS) for who in ("auto", goals.REFERENCE))
        ratios[world] = final.mean() / other.mean()
        lost = final - regret_at(results, name, "auto", ROUNDS * 9 // 10)
        shares[world] = np.mean(lost / (ROUNDS // 10) >= 0.05)
    worst = max(ratios, key=lambda world: ratios[world])
    found = goal(reached, "2 worlds of fixed arms")
    assert f"worst ({worst})" in found.what
    assert found.reached.mean == pytest.approx(ratios[worst])
    assert (found.reached.runs, found.wanted, found.hoped) == (4 + int(worst[0]), 1.2, 1.0)
    most = goal(reached, "the same: runs that are stuck")
    assert most.reached.mean == pytest.approx(100 * max(shares.values()))


def test_some_are_stuck_and_some_are_not(beside: list[Recording]) -> None:
    rows = goals.among_fixed_arms(beside, "random")
    assert [row.name for row in rows] == ["2-arms", "5-arms"]
    assert all(row.stuck.mean > 0 for row in rows)
    assert all(row.over.mean == 1 for row in goals.among_fixed_arms(beside, goals.REFERENCE))


def test_other_units_are_measured_by_the_first_of_their_kind(
    results: Path, beside: list[Recording]
) -> None:
    groups = goals.in_other_units(beside, "LinUCB")
    assert {base: [row.name for row in rows] for base, rows in groups.items()} == {
        "features": ["plain", "doubled"],
        "rewards": ["pays", "pays-more"],
    }
    one, other = (
        regret_at(results, f"any-units-{world}", "LinUCB", ROUNDS) for world in ("doubled", "plain")
    )
    assert groups["features"][1].over.mean == pytest.approx(one.mean() / other.mean())
    more, less = (
        regret_at(results, f"any-units-{world}", "LinUCB", ROUNDS)
        for world in ("pays-more", "pays")
    )
    assert groups["rewards"][1].over.mean == pytest.approx(more.mean() / 50 / less.mean())
    assert all(rows[0].over.mean == 1 for rows in groups.values())


def test_auto_is_the_same_in_other_units(reached: list[Goal]) -> None:
    assert goal(reached, "scale, shift").reached.mean == pytest.approx(1, abs=1e-6)
    assert goal(reached, "scale, shift").verdict == "more than hoped"


def test_the_second_half_of_quiet_rounds_counts(results: Path, reached: list[Goal]) -> None:
    found = goal(reached, "100,000 quiet rounds")
    whole, half = (
        regret_at(results, "any-quiet", "auto", time) for time in (goals.QUIET, goals.QUIET // 2)
    )
    assert found.reached.mean == pytest.approx(np.mean(whole - half))
    assert found.reached.runs == 2


def test_false_reports_are_held_against_the_promise(results: Path, reached: list[Goal]) -> None:
    runs = pl.read_parquet(results / "any-rates-1-percent" / "runs-*.parquet")
    found = goal(reached, "false reports over the 0.09 promised in 300 rounds, rewards of 1 %")
    assert found.reached.mean == pytest.approx(runs["detections"].mean() / 0.09)
    assert (found.wanted, found.hoped) == (1.0, 0.5)


def test_the_error_of_a_geometric_mean_knows_that_worlds_share_their_draws(results: Path) -> None:
    worlds = hindsight.worlds_of(find_recordings(results))
    found = goals.geometric_mean(worlds, "auto")
    ratios = [world.ratio(world.regret("auto")) for world in worlds]
    assert found.mean == pytest.approx(np.prod([r.mean for r in ratios]) ** (1 / len(ratios)))
    (alone, *_) = worlds
    by_itself, same = goals.geometric_mean([alone], "auto"), alone.ratio(alone.regret("auto"))
    assert by_itself.mean == pytest.approx(same.mean)
    assert by_itself.se == pytest.approx(same.se)
    # a world beside itself tells nothing new
    twice = goals.geometric_mean([alone, alone], "auto")
    assert (twice.mean, twice.se) == pytest.approx((same.mean, same.se))


def test_the_report_shows_all_of_it(results: Path, reached: list[Goal]) -> None:
    _, *rows = read(write_report(results)).tables["table-suite-goals"]
    assert [row[0] for row in rows] == [goal.what for goal in reached]
    beginnings = ("the paper’s world", "3 worlds over", "the same: worst", "cost of a round")
    assert all(goal(reached, beginning) for beginning in beginnings)
