"""More than one machine: a real scheduler, real workers, one of them killed."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from driftbandits.cli import terminal
from driftbandits.cli.commands import FAILED, run
from experiment_checks import (
    LONG,
    PATIENCE,
    assert_same_results,
    complaints,
    driftbandits,
    finished_blocks,
    toml,
    wait_until,
)


def dask(*arguments: str, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, cwd=log.parent)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Cluster:
    """A scheduler and two workers on this machine, reachable from it alone."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        here = ("--host", "127.0.0.1")
        self.scheduler = dask("scheduler", *here, "--port", str(port), log=folder / "scheduler")
        self.workers: list[subprocess.Popen[bytes]] = []
        try:
            wait_until(lambda: answers(port))
            for number in (1, 2):
                alone = ("--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
                log = folder / f"worker-{number}"
                self.workers.append(dask("worker", self.address, *here, *alone, log=log))
            for number in (1, 2):
                log = folder / f"worker-{number}"
                wait_until(lambda log=log: b"Registered to" in log.read_bytes())  # type: ignore[misc]
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for program in (*self.workers, self.scheduler):
            program.kill()  # also one that is stopped
            program.wait()


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    running = Cluster(folder)
    yield running
    running.stop()


def test_a_cluster_that_loses_a_worker_gives_the_local_results(cluster, long_results, tmp_path):
    file = toml(tmp_path, runs=64, horizon=LONG)
    folder = tmp_path / "there" / "small"
    cluster.workers[1].send_signal(signal.SIGSTOP)  # what it was given waits until it goes on
    program = driftbandits("run", file, "--out", folder.parent, "--cluster", cluster.address)
    wait_until(lambda: finished_blocks(folder) or program.poll() is not None)
    cluster.workers[0].send_signal(signal.SIGKILL)
    cluster.workers[1].send_signal(signal.SIGCONT)
    out, err = program.communicate(timeout=PATIENCE)
    assert (program.returncode, out.strip(), complaints(err)) == (0, str(folder), [])
    assert cluster.workers[0].wait() == -signal.SIGKILL
    assert_same_results(folder, long_results)


def test_no_scheduler_is_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(terminal, "SCHEDULER_ANSWERS_IN_S", 1)
    address = f"tcp://127.0.0.1:{free_port()}"
    arguments = ["run", str(toml(tmp_path)), "--out", str(tmp_path), "--cluster", address]
    assert run(arguments) == FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: No Dask scheduler answers at {address}")
