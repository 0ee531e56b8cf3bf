"""The benchmark: tasks are what their files say, entries meet the same rows, scores are right."""

import json
import math

import numpy as np
import pytest

from driftbandits import bench
from driftbandits.bench.running import Result
from driftbandits.bench.scores import share_text

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


def test_results_are_the_same_when_they_are_read_again(tmp_path):
    results = [Result("t", "e", 0, 0.5, [0.5], 10, 10, 1.0, 2.0)]
    bench.save(results, tmp_path / "bench.json")
    assert bench.load(tmp_path / "bench.json") == results
    assert json.loads((tmp_path / "bench.json").read_text())[0]["task"] == "t"


def test_a_share_is_written_with_its_interval():
    assert share_text(-0.031, 0.2) == "-.03 ± .20"


@pytest.mark.parametrize("task", bench.task_files(), ids=lambda task: task.name)
def test_a_task_says_what_it_is_and_plays(task):
    assert task.title.endswith("?")
    assert task.source
    assert task.licence
    assert task.drift
    try:
        drawn = task.draw(0)
    except ImportError as error:
        pytest.skip(f"its data is not installed: {error}")
    assert drawn.horizon == min(task.rounds, drawn.horizon) > 300
    assert np.isfinite(drawn.contexts).all()
    assert ((drawn.arms >= 0).sum(axis=1) > 1).all()
    again = task.draw(0)
    np.testing.assert_array_equal(drawn.rewards, again.rewards)
