"""Workers may die at any moment: `simulate` and experiments neither wait for them nor lose runs."""

import multiprocessing
import os
import select
import signal
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import driftbandits as db
from driftbandits.checks import RunFailed
from driftbandits.experiments import run_experiment, workers
from driftbandits.experiments.workers import LocalWorkers, run_blocks
from experiment_checks import LONG, PATIENCE, assert_same_results, small, start, wait_until

RUNS = 12


def simulated(world: Any, workers: int) -> list[float]:
    """The final regret of every run; an experiment has its blocks played in the same way."""
    policy = db.policy("SW-GLUCB", dim=2, window=12)
    result = db.simulate({"SW": policy}, world, runs=RUNS, workers=workers)
    return [float(regret) for regret in result.regret["SW"][:, -1]]


def is_worker() -> bool:
    return multiprocessing.parent_process() is not None


def trace(rng: np.random.Generator) -> db.Trace:
    return db.environment("abrupt2d", horizon=30).draw(rng)


@dataclass
class KillsOnce:
    """A world that kills the first worker who enters it, while the next tasks are on their way."""

    sign: Path
    load: bytes = bytes(100 * select.PIPE_BUF)

    def draw(self, rng: np.random.Generator) -> db.Trace:
        if is_worker() and not self.sign.exists():
            self.sign.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return trace(rng)


def test_a_killed_worker_loses_nothing(tmp_path):
    world = KillsOnce(tmp_path / "sign")
    played = simulated(world, 2)
    assert world.sign.exists()
    assert played == simulated(world, 1)


def test_a_worker_that_is_killed_from_outside_loses_nothing(tmp_path):
    killed: list[int] = []

    def kill_one(done: int, wanted: int) -> None:
        if done and not killed:
            victim = multiprocessing.active_children()[0].pid
            assert victim is not None
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)

    experiment = small(runs=24, horizon=LONG)
    with LocalWorkers(2) as executor:
        folder = run_experiment(
            experiment, out=tmp_path / "killed", executor=executor, progress=kill_one
        )
    assert killed
    assert_same_results(folder, run_experiment(experiment, out=tmp_path / "whole"))


class Deadly:
    """A world that kills whoever works in it."""

    def draw(self, rng: np.random.Generator) -> db.Trace:
        if is_worker():
            os._exit(1)
        return trace(rng)


def test_workers_that_always_die_end_the_run(monkeypatch):
    monkeypatch.setattr(workers, "MOST_BREAKDOWNS", 1)
    with pytest.raises(RunFailed, match="workers died 2 times"):
        simulated(Deadly(), 2)


def die_in_the_middle_of_large_messages() -> None:
    """From now on this process writes half of what no pipe takes in one piece, and is gone."""
    send = Connection._send

    def half(self: Any, content: Any, *rest: Any) -> None:
        if len(content) > select.PIPE_BUF:
            os.write(self.fileno(), bytes(content[: len(content) // 2]))
            os._exit(1)
        send(self, content, *rest)

    Connection._send = half


class DiesWhileItHandsOver:
    """A world whose workers are gone in the middle of their first large message."""

    def draw(self, rng: np.random.Generator) -> db.Trace:
        if is_worker():
            die_in_the_middle_of_large_messages()
        return db.environment("abrupt2d", horizon=1200).draw(rng)


def test_nobody_waits_for_the_other_half_of_a_result():
    world = DiesWhileItHandsOver()
    assert simulated(world, 2) == simulated(world, 1)


class Hostile:
    """A world that breaks in a worker only."""

    def draw(self, rng: np.random.Generator) -> db.Trace:
        if is_worker():
            raise ValueError("rewards must exist")
        return trace(rng)


def test_an_error_in_a_worker_is_told():
    with pytest.raises(ValueError, match="rewards must exist"):
        simulated(Hostile(), 2)


def test_a_script_that_its_workers_cannot_read_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import driftbandits as db\n"
        "world = db.environment('abrupt2d', horizon=30)\n"
        "db.simulate({'a': db.policy('random', dim=2)}, world, runs=4, workers=2)\n",
        encoding="utf-8",
    )
    _, err = start(script).communicate(timeout=PATIENCE)
    assert err.splitlines()[-1].startswith("driftbandits.checks.RunFailed: workers could not be")
    assert err.count("Traceback") <= 3, "each worker once, and the program"


def test_results_leave_no_files_behind():
    executor = LocalWorkers(1)
    folder = Path(executor._folder.name)
    assert executor.submit(bytes, 10 * select.PIPE_BUF).result(PATIENCE)
    assert list(folder.iterdir()) == []
    executor.shutdown()
    assert not folder.exists()


def touch(folder: Path, block: list[int]) -> None:
    (folder / str(block[0])).touch()
    wait_until(lambda: block == [0] or (folder / "interrupted").exists())


def test_an_interruption_cancels_what_was_not_begun(tmp_path):
    """As when the user interrupts while a finished block is written."""

    def interrupt(played: None) -> None:
        (tmp_path / "interrupted").touch()
        raise KeyboardInterrupt

    blocks = [[number] for number in range(500)]
    with pytest.raises(KeyboardInterrupt), LocalWorkers(1) as executor:
        run_blocks(partial(touch, tmp_path), blocks, interrupt, executor=executor)
    assert 1 < len(list(tmp_path.iterdir())) < 500
