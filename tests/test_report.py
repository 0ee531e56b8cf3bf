"""The report against numbers computed in another way, and against odd sets of results."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import report_results
from driftbandits.experiments import load
from driftbandits.policies import ROWS
from driftbandits.report import write_report

VOID = {"meta", "link", "img", "br", "hr", "input", "line"}


class Outline(HTMLParser):
    """Tags that are not closed in order, ids, links and the cells of every table."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.scripts: list[str] = []
        self.headings: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.targets += [given[key] for key in ("src", "href") if key in given]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables[given["id"]] = self.rows = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag in ("script", "h2", "h3"):
            (self.scripts if tag == "script" else self.headings).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts[-1] += data
        elif "table" in self.open:
            if self.rows and self.rows[-1]:
                self.rows[-1][-1] += data
        else:
            self.text += data
            if self.open[-1:] in (["h2"], ["h3"]):
                self.headings[-1] += data

    @property
    def charts(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self.scripts if text.startswith('{"data"')]


def read(page: Path) -> Outline:
    outline = Outline()
    outline.feed(page.read_text(encoding="utf-8"))
    assert (outline.faults, outline.open) == ([], [])
    return outline


@pytest.fixture(scope="module")
def results(report):
    return report.parent


@pytest.fixture(scope="module")
def outline(report):
    return read(report)


def saved(results: Path, table: str) -> pl.DataFrame:
    return pl.read_csv(results / "tables" / f"{table}.csv")


def shown_mean(cell: str) -> float:
    return float(cell.partition("\xa0")[0].replace(",", ""))


# -- the page --------------------------------------------------------------------------------------


def test_page_needs_no_other_file(results, outline):
    assert [name for name, count in Counter(outline.ids).items() if count > 1] == []
    inside = [target for target in outline.targets if not target.startswith("data:")]
    assert inside
    assert all(target.startswith("#") and target[1:] in outline.ids for target in inside)
    assert sum("plotly.js" in script[:300] for script in outline.scripts) == 1
    assert str(results) not in (results / "report.html").read_text(encoding="utf-8")


def test_an_experiment_is_shown_in_the_section_that_its_file_names(outline):
    assert outline.headings == [
        *("Regret over time", "abrupt2d", report_results.NASTY),
        *("Share of rewards found", "paired-fair"),
        *("Growth of regret", "growth-horizon"),
        *("Worlds side by side", "suite"),
        "Provenance",
    ]
    assert "Three changes." in outline.text


def test_every_figure_is_there_for_plotly_and_for_print(results, outline):
    from matplotlib.image import imread
    from plotly import graph_objects

    assert len(outline.charts) == 1 + 6 + 1 + 2 + 1
    for chart in outline.charts:
        graph_objects.Figure(chart)  # refuses what it does not know

    names = {path.stem for path in (results / "figures").iterdir()}
    assert names == {
        *("abrupt2d-regret", "abrupt2d-theta", "my-own-regret"),
        *("paired-fair-share", "growth-horizon"),
    }
    for name in names:
        picture = imread(results / "figures" / f"{name}.png")
        assert picture.shape[1] >= 1200
        assert picture[..., :3].std() > 0.01
        assert "<path" in (results / "figures" / f"{name}.svg").read_text(encoding="utf-8")


def test_texts_of_a_spec_cannot_break_out(results, outline):
    page = (results / "report.html").read_text(encoding="utf-8")
    assert '<script>document.title = "broken"' not in page
    assert "<b>bold" not in page
    assert report_results.NASTY in outline.text
    assert report_results.NASTY in [row[0] for row in outline.tables["table-my-own-summary"]]
    names = [trace["name"] for chart in outline.charts for trace in chart["data"]]
    assert any(name.startswith("&lt;script&gt;") for name in names)


def test_provenance_names_versions_seeds_and_hashes(results, outline):
    rows = {row[0]: row for row in outline.tables["table-provenance"]}
    spec = load(results / "abrupt2d").spec
    assert rows["abrupt2d"][3:5] == [str(spec["seed"]), spec["hash"][:12]]
    assert "suite-turn-grid" in rows
    assert not any("grid" in name for name in outline.tables)
    assert spec["versions"]["numpy"] in outline.text
    for command in ("reproduce --runs 6 --out results", "run suite --out results", "report"):
        assert f"driftbandits {command}" in outline.text


def test_same_results_make_the_same_page(tmp_path):
    report_results.run(tmp_path, "one", {"name": "stationary", "horizon": 60}, ["random"], runs=2)
    path = tmp_path / "one" / "spec.json"
    spec = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**spec, "runs": 5}), encoding="utf-8")
    first = write_report(tmp_path, title="A & B").read_bytes()
    assert write_report(tmp_path, title="A & B").read_bytes() == first
    assert b"<title>A &amp; B</title>" in first
    assert b"one (3 runs to go)" in first


# -- the numbers -----------------------------------------------------------------------------------


def test_summary_is_what_numpy_says(results, outline):
    runs = load(results / "abrupt2d").runs
    table = saved(results, "abrupt2d-summary")
    shown = {row[0]: row for row in outline.tables["table-abrupt2d-summary"]}
    assert table["policy"].to_list() == list(report_results.SIX)
    final = {
        name: runs.filter(policy=name).sort("replicate")["final_regret"].to_numpy()
        for name in report_results.SIX
    }
    best = min(final.values(), key=np.mean)
    for row in table.iter_rows(named=True):
        own = final[row["policy"]]
        mine = runs.filter(policy=row["policy"])
        assert row["mean"] == pytest.approx(np.mean(own), rel=1e-12)
        assert row["se"] == pytest.approx(np.std(own, ddof=1) / math.sqrt(6))
        assert [row["q05"], row["q95"]] == pytest.approx(np.quantile(own, [0.05, 0.95]))
        assert row["behind"] == pytest.approx(np.mean(own - best))
        assert row["behind_se"] == pytest.approx(np.std(own - best, ddof=1) / math.sqrt(6))
        rounds = mine["rounds"].to_numpy().sum()
        assert row["microseconds_per_round"] == pytest.approx(1e6 * sum(mine["seconds"]) / rounds)
        assert row["projections_per_round"] == pytest.approx(sum(mine["projections"]) / rounds)
        assert row["intervals_held"] == pytest.approx(mine["covered"].mean())
        assert shown_mean(shown[row["policy"]][1]) == pytest.approx(row["mean"], rel=0.05)
        assert shown[row["policy"]][3] == f"{row['q05']:,.1f}"


def test_curves_are_what_numpy_says(results, outline):
    curves = load(results / "abrupt2d").curves.sort("round")
    table = saved(results, "abrupt2d-regret")
    for name in report_results.SIX:
        mine = curves.filter(policy=name)
        runs = np.stack(mine.group_by("round", maintain_order=True).agg("regret")["regret"])
        csv = table.filter(policy=name).sort("round")
        assert csv["mean"].to_numpy() == pytest.approx(runs.mean(axis=1))
        low, high = np.quantile(runs, [0.05, 0.95], axis=1)
        assert csv["q05"].to_numpy() == pytest.approx(low)
        band, line = (trace for trace in outline.charts[0]["data"] if trace["name"] == name)
        assert line["y"] == pytest.approx(runs.mean(axis=1), rel=1e-4)
        assert band["y"] == pytest.approx(np.r_[high, low[::-1]], rel=1e-4)


def test_shares_are_what_numpy_says(results):
    curves = load(results / "paired-fair").curves
    recent = saved(results, "paired-fair-share-recent")
    so_far = saved(results, "paired-fair-share-so-far")
    summary = saved(results, "paired-fair-summary")
    assert recent["round"].min() == 20  # an eighth of the 160 rounds
    for name in report_results.SIX[:3]:
        mine = curves.filter(policy=name).sort("replicate", "round")
        reward = mine["reward"].to_numpy().reshape(4, -1)  # (runs, rounds 10, 20, ...)

        def means(table: pl.DataFrame, label: str = name) -> np.ndarray:
            return table.filter(policy=label).sort("round")["mean"].to_numpy()

        assert means(so_far) == pytest.approx((reward / np.arange(10, 161, 10)).mean(axis=0))
        earlier = np.c_[np.zeros(4), reward[:, :-2]]
        assert means(recent) == pytest.approx(((reward[:, 1:] - earlier) / 20).mean(axis=0))
        (row,) = summary.filter(policy=name).to_dicts()
        before, end = (reward[:, 7] / 80).mean(), ((reward[:, 15] - reward[:, 13]) / 20).mean()
        assert row["mean"] == pytest.approx((reward[:, 15] / 160).mean())
        assert row["before_the_change"] == pytest.approx(before)
        assert row["end_of_run"] == pytest.approx(end)
        assert row["end_over_before"] == pytest.approx(end / before)


def test_estimates_are_what_numpy_says(results):
    theta = load(results / "abrupt2d").theta
    table = saved(results, "abrupt2d-theta")
    truth = {100: (1, 0), 200: (-1, 0), 300: (0, 1), 400: (0, -1), 600: (0, -1)}
    for at, true in truth.items():
        rows = theta.filter(policy="SW-GLUCB", round=at)
        mean = np.mean(rows["theta_hat"].to_list(), axis=0)
        (row,) = table.filter(policy="SW-GLUCB", round=at).to_dicts()
        assert [row["theta_hat_1"], row["theta_hat_2"]] == pytest.approx(mean)
        assert row["distance"] == pytest.approx(np.linalg.norm(mean - true))


def test_growth_is_fitted_through_the_means(results):
    points = saved(results, "growth-horizon")
    assert sorted(points["horizon"].unique()) == [200, 400, 800]
    final = load(results / "growth-horizon-400").runs.filter(policy="SW-GLUCB")["final_regret"]
    (row,) = points.filter(policy="SW-GLUCB", horizon=400).to_dicts()
    assert row["mean"] == pytest.approx(final.mean())
    assert saved(results, "growth-horizon-slopes").height == 2


def test_slope_is_weighted_least_squares():
    from scipy.optimize import curve_fit

    from driftbandits.report.statistics import log_log_slope

    rng = np.random.default_rng(3)
    x = np.array([500.0, 1000, 2000, 4000, 8000])
    se = np.array([1.0, 2, 3, 6, 9])
    mean = 5 * x**0.66 + rng.normal(size=5) * se
    slope, error = log_log_slope(x, mean, se)
    (expected, intercept), covariance = curve_fit(
        lambda log_x, slope, intercept: slope * log_x + intercept,
        np.log(x),
        np.log(mean),
        sigma=se / mean,
        absolute_sigma=True,
    )
    assert slope == pytest.approx(expected)
    residual = (np.log(mean) - slope * np.log(x) - intercept) * mean / se
    widened = max(1.0, (residual @ residual) / 3)
    assert error == pytest.approx(math.sqrt(widened * covariance[0, 0]))
    _, of_a_curve = log_log_slope(x, mean * np.array([1, 1.3, 1, 1.3, 1]), se)
    assert of_a_curve > 5 * error  # a bad line is not sold as a precise one


def test_worlds_of_a_sweep_stand_side_by_side(results, outline):
    heading, *rows = outline.tables["table-suite-worlds"]
    worlds = ["turn", *(f"{n}-arms" for n in range(2, 10))]
    assert [cell.strip() for cell in heading] == ["policy", *worlds, "µs a round"]
    assert [row[0] for row in rows] == ["D-GLUCB", "SW-GLUCB x0.1", "random"]
    final = load(results / "suite-turn").runs.filter(policy="random")["final_regret"]
    assert shown_mean(rows[-1][1]) == pytest.approx(final.mean(), rel=0.05)


def test_worlds_without_known_means_are_compared_by_reward(tmp_path):
    sweep = [{"name": "fair", "environment": {"table": "fair"}}]
    pairs = {"name": "paired", "horizon": 60}
    report_results.run(tmp_path, "real", pairs, ["random"], section="worlds", sweep=sweep, runs=2)
    outline = read(write_report(tmp_path))
    runs = load(tmp_path / "real-fair").runs
    assert "Reward a round" in outline.text
    share = (runs["total_reward"] / 60).mean()
    assert shown_mean(outline.tables["table-real-worlds"][1][1]) == pytest.approx(share, rel=0.05)


# -- odd sets of results ---------------------------------------------------------------------------


def test_every_policy_of_the_catalogue_is_reported(tmp_path):
    world = {"name": "abrupt2d", "horizon": 60}
    report_results.run(tmp_path, "catalogue", world, list(ROWS), runs=2)
    _, *rows = read(write_report(tmp_path)).tables["table-catalogue-summary"]
    assert [row[0] for row in rows] == list(ROWS)


def test_one_run_is_enough_and_a_log_with_missing_rewards_is_compared_by_reward(tmp_path):
    log = tmp_path / "log.csv"
    rows = [f"{t % 3},{'ab'[t % 2]},{t % 2}" for t in range(40)]
    log.write_text("\n".join(["x,arm,reward", *rows, ""]), encoding="utf-8")
    columns = {"context": ["x"], "arm": "arm", "reward": "reward"}
    world = {"name": "table", "path": str(log), **columns}
    report_results.run(tmp_path, "log", world, ["random", "greedy"], runs=2)
    report_results.run(tmp_path, "once", {"name": "abrupt2d", "horizon": 80}, ["greedy"], runs=1)
    page = read(write_report(tmp_path))
    assert not re.search(r"\bnan\b", page.text)
    assert "Regret is unknown" in page.text
    assert page.tables["table-log-summary"][0][1] == "reward a round"


def test_folder_without_results_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one experiment with finished runs"):
        write_report(tmp_path)
    with pytest.raises(ValueError, match="must be a folder with results"):
        write_report(tmp_path / "absent")


def test_missing_packages_are_named_in_one_line(tmp_path, monkeypatch):
    for package in ("plotly", "matplotlib", "jinja2", "polars"):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=rf"{package}: pip install 'driftbandits\[all\]'"):
            write_report(tmp_path)
