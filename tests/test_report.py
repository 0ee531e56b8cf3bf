"""The report against numbers computed in another way, and against odd sets of results."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

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
        self._table = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        self.targets += [str(given[key]) for key in ("src", "href") if given.get(key)]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._table = str(given["id"])
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th"):
            self.tables[self._table][-1].append("")
        elif tag == "script":
            self.scripts.append("")
        elif tag in ("h2", "h3"):
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts[-1] += data
        elif "table" in self.open:
            rows = self.tables[self._table]
            if rows and rows[-1]:
                rows[-1][-1] += data
        else:
            self.text += data
            if self.open[-1:] in (["h2"], ["h3"]):
                self.headings[-1] += data


def read(page: Path) -> Outline:
    outline = Outline()
    outline.feed(page.read_text(encoding="utf-8"))
    return outline


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("results")
    report_results.everything(directory)
    write_report(directory)
    return directory


@pytest.fixture(scope="module")
def outline(results: Path) -> Outline:
    return read(results / "report.html")


def parquet(results: Path, experiment: str, kind: str) -> pl.DataFrame:
    return pl.concat(
        [pl.read_parquet(path) for path in sorted((results / experiment).glob(f"{kind}-*.parquet"))]
    )


def test_page_is_sound_html(outline: Outline) -> None:
    assert outline.faults == []
    assert outline.open == []
    assert [name for name, count in Counter(outline.ids).items() if count > 1] == []


def test_page_needs_no_other_file(outline: Outline) -> None:
    inside = [target for target in outline.targets if not target.startswith("data:")]
    assert inside
    assert all(target.startswith("#") and target[1:] in outline.ids for target in inside)
    assert sum("plotly.js" in script[:300] for script in outline.scripts) == 1


def test_charts_are_what_plotly_accepts(outline: Outline) -> None:
    from plotly import graph_objects

    charts = [json.loads(text) for text in outline.scripts if text.startswith('{"data"')]
    assert len(charts) > 15
    for chart in charts:
        graph_objects.Figure(chart)


def test_every_figure_is_there_for_print(results: Path) -> None:
    from matplotlib.image import imread

    names = {path.stem for path in (results / "figures").iterdir()}
    assert {
        "abrupt2d-regret",
        "abrupt2d-theta",
        "abrupt2d-small-bonus-regret",
        "abrupt2d-intercept-regret",
        "abrupt2d-restart-regret",
        "growth-horizon",
        "growth-changes",
        "paired-fair-share",
        "my-own-regret",
    } <= names
    for name in names:
        picture = imread(results / "figures" / f"{name}.png")
        assert picture.shape[1] >= 1200
        assert picture[..., :3].std() > 0.01
        assert "<path" in (results / "figures" / f"{name}.svg").read_text(encoding="utf-8")


def test_summary_is_what_numpy_says(results: Path, outline: Outline) -> None:
    runs = parquet(results, "abrupt2d", "runs")
    saved = pl.read_csv(results / "tables" / "abrupt2d-summary.csv")
    shown = {row[0]: row for row in outline.tables["table-abrupt2d-summary"]}
    assert saved["policy"].to_list() == list(report_results.SIX)
    for row in saved.iter_rows(named=True):
        mine = runs.filter(pl.col("policy") == row["policy"])
        final = mine["final_regret"].to_numpy()
        assert row["mean"] == pytest.approx(np.mean(final), rel=1e-12)
        assert row["se"] == pytest.approx(np.std(final, ddof=1) / math.sqrt(len(final)))
        assert [row["q05"], row["q95"]] == pytest.approx(np.quantile(final, [0.05, 0.95]))
        rounds = mine["rounds"].to_numpy().sum()
        assert row["microseconds_per_round"] == pytest.approx(1e6 * sum(mine["seconds"]) / rounds)
        assert row["projections_per_round"] == pytest.approx(sum(mine["projections"]) / rounds)
        assert row["passes_per_round"] == pytest.approx(sum(mine["passes"]) / rounds)
        mean, se = shown[row["policy"]][1].split("\xa0±\xa0")
        half_a_digit = 0.5 * 10.0 ** -len(mean.partition(".")[2])
        assert float(mean) == pytest.approx(row["mean"], abs=1.01 * half_a_digit)
        assert float(se) == pytest.approx(row["se"], abs=1.01 * half_a_digit)
        assert shown[row["policy"]][2] == f"{row['q05']:,.1f}"


def test_curves_are_what_numpy_says(results: Path, outline: Outline) -> None:
    curves = parquet(results, "abrupt2d", "curves").sort("round")
    saved = pl.read_csv(results / "tables" / "abrupt2d-regret.csv")
    first = json.loads(next(text for text in outline.scripts if text.startswith('{"data"')))
    for name in report_results.SIX:
        mine = curves.filter(pl.col("policy") == name)
        table = np.stack(mine.group_by("round", maintain_order=True).agg("regret")["regret"])
        csv = saved.filter(pl.col("policy") == name).sort("round")
        assert csv["mean"].to_numpy() == pytest.approx(table.mean(axis=1))
        low, high = np.quantile(table, [0.05, 0.95], axis=1)
        assert csv["q05"].to_numpy() == pytest.approx(low)
        assert csv["q95"].to_numpy() == pytest.approx(high)
        band, line = (trace for trace in first["data"] if trace["name"] == name)
        assert line["y"] == pytest.approx(table.mean(axis=1), rel=1e-4)
        assert band["y"] == pytest.approx(np.r_[high, low[::-1]], rel=1e-4)


def test_shares_are_what_numpy_says(results: Path) -> None:
    curves = parquet(results, "paired-fair", "curves")
    recent = pl.read_csv(results / "tables" / "paired-fair-share-recent.csv")
    so_far = pl.read_csv(results / "tables" / "paired-fair-share-so-far.csv")
    recovery = pl.read_csv(results / "tables" / "paired-fair-recovery.csv")
    assert recent["round"].min() == 20  # an eighth of the 160 rounds
    for name in report_results.SIX[:3]:
        mine = curves.filter(pl.col("policy") == name).sort("replicate", "round")
        reward = mine["reward"].to_numpy().reshape(4, -1)  # (runs, rounds 10, 20, ...)
        rounds = np.arange(10, 161, 10)

        def means(table: pl.DataFrame, label: str = name) -> np.ndarray:
            return table.filter(pl.col("policy") == label).sort("round")["mean"].to_numpy()

        assert means(so_far) == pytest.approx((reward / rounds).mean(axis=0))
        before = np.c_[np.zeros(4), reward[:, :-2]]
        assert means(recent) == pytest.approx(((reward[:, 1:] - before) / 20).mean(axis=0))
        row = recovery.row(by_predicate=pl.col("policy") == name, named=True)
        at = {t: reward[:, t // 10 - 1] for t in rounds}
        end, first = ((at[160] - at[140]) / 20).mean(), (at[80] / 80).mean()
        assert row["whole_run"] == pytest.approx((at[160] / 160).mean())
        assert row["first_segment"] == pytest.approx(first)
        assert row["end_of_run"] == pytest.approx(end)
        assert row["end_over_first_segment"] == pytest.approx(end / first)
        expected = ((at[80] - at[60]) / 20).mean()
        assert row["end_of_first_segment"] == pytest.approx(expected)


def test_estimates_are_what_numpy_says(results: Path) -> None:
    theta = parquet(results, "abrupt2d", "theta")
    saved = pl.read_csv(results / "tables" / "abrupt2d-theta.csv")
    truth = {100: (1, 0), 200: (-1, 0), 300: (0, 1), 400: (0, -1), 600: (0, -1)}
    for at, true in truth.items():
        rows = theta.filter((pl.col("policy") == "SW-GLUCB") & (pl.col("round") == at))
        mean = np.mean(rows["theta_hat"].to_list(), axis=0)
        row = saved.row(
            by_predicate=(pl.col("policy") == "SW-GLUCB") & (pl.col("round") == at), named=True
        )
        assert [row["theta_hat_1"], row["theta_hat_2"]] == pytest.approx(mean)
        assert row["distance"] == pytest.approx(np.linalg.norm(mean - true))


def test_claims_compare_run_by_run(results: Path) -> None:
    runs = parquet(results, "abrupt2d", "runs").sort("replicate")
    final = {name: group["final_regret"].to_numpy() for (name,), group in runs.group_by("policy")}
    saved = pl.read_csv(results / "tables" / "abrupt2d-claims.csv")
    assert saved.height == 4
    for row in saved.iter_rows(named=True):
        margin = final[row["worse"]] - final[row["better"]]
        assert row["margin"] == pytest.approx(margin.mean())
        assert row["se"] == pytest.approx(stats.sem(margin))
    others = [name for name in report_results.SIX if name not in ("SW-GLUCB", "D-GLUCB")]
    worst_case = min(
        (final[other] - final[own]).mean() for own in ("SW-GLUCB", "D-GLUCB") for other in others
    )
    assert saved["margin"][0] == pytest.approx(worst_case)


def test_coverage_is_against_the_promise(results: Path) -> None:
    saved = pl.read_csv(results / "tables" / "abrupt2d-coverage.csv")
    runs = parquet(results, "abrupt2d", "runs")
    by_name = {row["policy"]: row for row in saved.iter_rows(named=True)}
    assert by_name["SW-GLUCB"]["promised_by"] == "Proposition 1"
    assert by_name["D-GLUCB"]["promised_by"] == "Proposition 2"
    for name, row in by_name.items():
        held = runs.filter(pl.col("policy") == name)["covered"]
        assert (row["held"], row["runs"]) == (held.sum(), held.len())
        assert row["aim"] == 0.99


@pytest.mark.parametrize(("hits", "runs"), [(0, 40), (40, 40), (1, 7), (495, 500), (250, 500)])
def test_interval_of_a_share_is_clopper_pearson(hits: int, runs: int) -> None:
    from driftbandits.report.statistics import share_interval

    low, high = share_interval(hits, runs)
    assert low <= hits / runs <= high
    at_least = stats.binom.sf(hits - 1, runs, low)  # as many hits, if the share were as low
    at_most = stats.binom.cdf(hits, runs, high)
    assert (low == 0.0) if hits == 0 else (at_least == pytest.approx(0.025))
    assert (high == 1.0) if hits == runs else (at_most == pytest.approx(0.025))


@pytest.mark.parametrize("runs", [3, 40])
def test_a_difference_is_clear_in_one_of_twenty_experiments_without_any(runs: int) -> None:
    from driftbandits.report.statistics import estimate

    rng = np.random.default_rng(11)
    found = [estimate(values).clear for values in rng.normal(size=(2000, runs))]
    assert np.mean(found) == pytest.approx(0.05, abs=0.015)
    assert estimate(rng.normal(30.0, size=runs)).clear
    assert not estimate(np.ones(1)).clear  # one run knows nothing of its error


def test_slope_is_weighted_least_squares() -> None:
    from scipy.optimize import curve_fit

    from driftbandits.report.statistics import log_log_slope

    rng = np.random.default_rng(3)
    x = np.array([500.0, 1000, 2000, 4000, 8000])
    se = np.array([1.0, 2, 3, 6, 9])
    mean = 5 * x**0.66 + rng.normal(size=5) * se
    fit = log_log_slope(x, mean, se)
    (slope, intercept), covariance = curve_fit(
        lambda log_x, slope, intercept: slope * log_x + intercept,
        np.log(x),
        np.log(mean),
        sigma=se / mean,
        absolute_sigma=True,
    )
    assert (fit.slope, fit.intercept) == pytest.approx((slope, intercept))
    residual = (np.log(mean) - slope * np.log(x) - intercept) * mean / se
    widened = max(1.0, (residual @ residual) / 3)
    assert fit.se == pytest.approx(math.sqrt(widened * covariance[0, 0]))
    curved = log_log_slope(x, mean * np.array([1, 1.3, 1, 1.3, 1]), se)
    assert curved.se > 5 * fit.se  # a bad line is not sold as a precise one


def test_growth_is_fitted_through_the_means(results: Path) -> None:
    points = pl.read_csv(results / "tables" / "growth-horizon.csv")
    assert sorted(points["horizon"].unique()) == [200, 400, 800]
    final = parquet(results, "growth-horizon-400", "runs")
    mine = final.filter(pl.col("policy") == "D-GLUCB")["final_regret"]
    row = points.row(
        by_predicate=(pl.col("policy") == "D-GLUCB") & (pl.col("horizon") == 400), named=True
    )
    assert row["mean"] == pytest.approx(mine.mean())
    assert pl.read_csv(results / "tables" / "growth-changes.csv")["changes"].max() == 4
    assert pl.read_csv(results / "tables" / "growth-changes-slopes.csv").height == 2


def test_bounds_are_those_of_the_theorems(results: Path, outline: Outline) -> None:
    from driftbandits import policy, theory

    saved = pl.read_csv(results / "tables" / "abrupt2d-bounds.csv")
    window = policy("SW-GLUCB", dim=2, horizon=600, changes=3)
    bound = theory.regret_bound_window(
        window.problem, horizon=600, tau=window.window or 0, changes=3
    )
    row = saved.row(by_predicate=pl.col("policy") == "SW-GLUCB", named=True)
    assert row["bound"] == pytest.approx(bound)
    assert row["vacuous"] == (bound > 600)
    assert "vacuous" in outline.text


def test_an_experiment_is_shown_by_what_it_recorded(
    tmp_path: Path, results: Path, outline: Outline
) -> None:
    report_results.renamed(results, tmp_path)
    page = read(write_report(tmp_path))
    assert page.headings == outline.headings
    assert [table[0] for table in page.tables.values()] == [
        table[0] for table in outline.tables.values()
    ]
    assert page.headings[0] == "A world that changes abruptly"
    assert {"With a narrower bonus", "With the changes known"} <= set(page.headings)


def test_what_a_user_gets_today_stands_on_the_first_screen(tmp_path: Path) -> None:
    report_results.today(tmp_path)
    report_results.abrupt2d(tmp_path)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    final = {
        label: part["final_regret"].mean()
        for (label,), part in load(tmp_path / "abrupt2d-today").runs.group_by("policy")
    }
    share = final["auto"] / min(final["SW-GLUCB"], final["LogisticUCB"])
    header = text[text.index("<header>") : text.index("</header>")]
    assert "What to take from it" in header
    assert f"ends with {100 * share:.0f}\N{NO-BREAK SPACE}% of the regret of" in header
    assert text.index("What to take from it") < text.index("the policies that forget")
    section = text[text.index('<section id="today">') :]
    assert f"{final['SW-GLUCB, tuned']:.1f}" in section[: section.index("</section>")]
    assert (tmp_path / "figures" / "abrupt2d-today-regret.svg").exists()


def test_variations_of_the_papers_world_have_its_traces(tmp_path: Path) -> None:
    world = {"name": "abrupt2d", "horizon": 80}
    report_results.run(tmp_path, "one", world, ["D-GLUCB"], runs=2)
    other = {"name": "abrupt2d", "horizon": 90}
    report_results.run(tmp_path, "two", other, ["D-GLUCB"], runs=2, defaults={"bonus_scale": 0.1})
    headings = read(write_report(tmp_path)).headings
    assert "With a narrower bonus" not in headings
    assert headings[headings.index("Further experiments") + 1] == "two"


def test_variations_are_shown_without_what_they_vary(tmp_path: Path) -> None:
    world = {"name": "abrupt2d", "horizon": 80}
    variations: dict[str, dict[str, object]] = {
        "narrow": {"name": "D-GLUCB", "bonus_scale": 0.1},
        "constant": {"name": "LinUCB", "intercept": True},
        "known": {"name": "LogisticUCB", "restart": "changes"},
    }
    for name, policy in variations.items():
        report_results.run(tmp_path, name, world, [policy], runs=2)
    page = read(write_report(tmp_path))
    assert page.headings == [
        "How far these figures carry",
        "With a narrower bonus",
        "With a fair chance for the linear policies",
        "With the changes known",
        "What the regret bounds say",
        "Provenance",
    ]
    assert "Here it is narrower, all else equal." in page.text


def test_a_world_at_rest_is_shown_where_there_is_no_suite(tmp_path: Path) -> None:
    report_results.at_rest(tmp_path)
    page = read(write_report(tmp_path))
    assert "Further experiments" in page.headings
    assert "table-suite-false-alarms-summary" in page.tables


def test_every_policy_of_the_catalogue_is_reported(tmp_path: Path) -> None:
    world = {"name": "abrupt2d", "horizon": 60}
    report_results.run(tmp_path, "catalogue", world, list(ROWS), runs=2)
    page = read(write_report(tmp_path))
    assert page.faults == []
    head, *rows = page.tables["table-catalogue-summary"]
    assert [row[0] for row in rows] == list(ROWS)
    regret = recorded_regret(tmp_path / "catalogue")
    way = head.index("random to best")
    for row in rows:
        share = 1.0 - regret[row[0]] / regret["random"]
        shown = row[way].replace("\N{MINUS SIGN}", "-").replace("\N{NO-BREAK SPACE}", "")
        assert shown == f"{share:.1%}", row[0]
    assert all(name in page.text for name in ROWS)


def recorded_regret(folder: Path) -> dict[str, float]:
    """Mean final regret by policy, from what the runs recorded."""
    runs = load(folder).runs
    return {
        name: float(runs.filter(pl.col("policy") == name)["final_regret"].to_numpy().mean())
        for name in ROWS
    }


def test_texts_of_a_spec_cannot_break_out(results: Path, outline: Outline) -> None:
    page = (results / "report.html").read_text(encoding="utf-8")
    assert '<script>document.title = "broken"' not in page
    assert "<b>bold" not in page
    assert report_results.NASTY in outline.text
    cells = [row[0] for row in outline.tables["table-my-own-summary"]]
    assert report_results.NASTY in cells
    names = [
        trace["name"]
        for text in outline.scripts
        if text.startswith('{"data"')
        for trace in json.loads(text)["data"]
        if "name" in trace
    ]
    assert any(name.startswith("&lt;script&gt;") for name in names)


def test_report_says_where_the_tables_come_from(outline: Outline) -> None:
    assert "may not be redistributed" in outline.text
    assert "--pima PATH" in outline.text
    assert "statsmodels" in outline.text


def test_provenance_names_versions_seeds_and_hashes(results: Path, outline: Outline) -> None:
    rows = {row[0]: row for row in outline.tables["table-provenance"]}
    spec = json.loads((results / "abrupt2d" / "spec.json").read_text(encoding="utf-8"))
    assert rows["abrupt2d"][4] == spec["hash"][:12]
    assert rows["abrupt2d"][3] == str(spec["seed"])
    assert spec["versions"]["numpy"] in outline.text
    assert "driftbandits report results" in outline.text
    assert str(results) not in (results / "report.html").read_text(encoding="utf-8")


def test_same_results_make_the_same_page(tmp_path: Path) -> None:
    report_results.run(tmp_path, "one", {"name": "stationary", "horizon": 60}, ["random"], runs=2)
    first = write_report(tmp_path, title="A & B").read_bytes()
    assert write_report(tmp_path, title="A & B").read_bytes() == first
    assert b"<title>A &amp; B</title>" in first


@pytest.mark.parametrize("runs", [1, 2])
def test_few_runs_of_one_experiment_are_enough(tmp_path: Path, runs: int) -> None:
    world = {"name": "abrupt2d", "horizon": 80}
    report_results.run(tmp_path, "abrupt2d", world, ["D-GLUCB", "LogisticUCB"], runs=runs)
    page = read(write_report(tmp_path))
    assert page.faults == []
    assert not re.search(r"\bnan\b", page.text)
    assert [row[0] for row in page.tables["table-abrupt2d-summary"][1:]] == [
        "D-GLUCB",
        "LogisticUCB",
    ]


def test_real_data_alone(tmp_path: Path) -> None:
    world = {"name": "paired", "table": "fair", "horizon": 80, "switch": 80}
    given = {"S": 5.0, "bonus_scale": 0.1}
    report_results.run(tmp_path, "pairs", world, list(report_results.SIX), runs=2, defaults=given)
    page = read(write_report(tmp_path))
    assert page.faults == []
    assert "table-pairs-summary" in page.tables
    assert "table-pairs-recovery" not in page.tables  # nothing changes, so nothing to recover from


def test_readers_own_table_is_named(tmp_path: Path) -> None:
    world = {"name": "paired", "table": "fair", "horizon": 80}
    report_results.run(tmp_path, "pairs", world, ["D-GLUCB"], runs=2, defaults={"S": 5.0})
    path = tmp_path / "pairs" / "spec.json"
    spec = json.loads(path.read_text(encoding="utf-8"))
    spec["environment"]["table"] = "pima"
    path.write_text(json.dumps(spec), encoding="utf-8")
    page = read(write_report(tmp_path))
    assert "pima (diabetes, yes or no; the reader’s own copy)" in page.text
    assert "a copy that the reader has" in page.text
    assert "Pairs of cases: pima" in page.headings


def test_log_with_missing_rewards_is_compared_by_reward(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = ["round,x,y,reward"]
    for t in range(1, 41):
        rows += [f"{t},1.0,0.0,{t % 2}", f"{t},0.0,1.0,"]
    log.write_text("\n".join(rows) + "\n", encoding="utf-8")
    world = {"name": "logged", "path": str(log)}
    report_results.run(tmp_path, "log", world, ["random", "LogisticUCB"], runs=2)
    page = read(write_report(tmp_path))
    assert "Regret cannot be measured here" in page.text
    assert page.tables["table-log-summary"][0][1] == "reward a round ±\xa0s.e."


def test_runs_still_to_come_are_named(tmp_path: Path) -> None:
    world = {"name": "stationary", "horizon": 60}
    report_results.run(tmp_path, "half", world, ["random"], runs=2)
    path = tmp_path / "half" / "spec.json"
    spec = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**spec, "runs": 5}), encoding="utf-8")
    assert "half (3 runs to go)" in read(write_report(tmp_path)).text


def test_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one experiment with finished runs"):
        write_report(tmp_path)
    with pytest.raises(ValueError, match="must be a folder with results"):
        write_report(tmp_path / "absent")


@pytest.mark.parametrize("package", ["polars", "jinja2", "matplotlib", "plotly", "scipy"])
def test_missing_package_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}: pip install 'driftbandits\[all\]'"):
        write_report(tmp_path)
