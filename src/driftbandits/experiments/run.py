"""Running an experiment: the replicates that are missing, in blocks, on any executor."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from functools import partial
from pathlib import Path
from typing import Any

from driftbandits.experiments import results
from driftbandits.experiments.blocks import Block, Recording, machine, play_block
from driftbandits.experiments.spec import Experiment

LARGEST_BLOCK = 10
"""Replicates that an interruption may cost, on each worker."""
MOST_BREAKDOWNS = 5

Progress = Callable[[int, int], None]
"""Called with the replicates that are finished and those that are wanted."""


class RunFailed(RuntimeError):
    """An experiment that could not be finished; what was finished is kept."""


class LocalWorkers(Executor):
    """Processes on this machine. When one of them dies, the next task finds new ones.

    Results come as files. In the pool's own pipe a worker that dies while it writes a large one
    would leave half of it there, and whoever reads it would wait for the rest for ever.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = self._new_pool()
        self._folder = tempfile.TemporaryDirectory(prefix="driftbandits-")

    def _new_pool(self) -> ProcessPoolExecutor:
        # A forked child would share the compiler's threads and locks.
        return ProcessPoolExecutor(
            self._workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin_work,
        )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        task = (_written, self._folder.name, fn, *args)
        try:
            writing = self._pool.submit(*task, **kwargs)
        except BrokenExecutor:
            self._pool.shutdown(wait=False)
            self._pool = self._new_pool()
            writing = self._pool.submit(*task, **kwargs)
        result: Future[Any] = Future()
        writing.add_done_callback(partial(_read, result))
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            self._folder.cleanup()


def _written(folder: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> str:
    """In a worker: the name of a file with the result."""
    result = fn(*args, **kwargs)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        pickle.dump(result, file)
    return file.name


def _read(result: Future[Any], writing: Future[str]) -> None:
    if writing.cancelled():
        result.cancel()
        result.set_running_or_notify_cancel()
        return
    if not result.set_running_or_notify_cancel():
        return
    try:
        path = Path(writing.result())
        content = pickle.loads(path.read_bytes())
        path.unlink()
    except Exception as error:
        result.set_exception(error)
    else:
        result.set_result(content)


def _begin_work() -> None:
    # The program that was interrupted says so; its workers just leave.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()


def _leave_with_the_parent() -> None:
    """A worker whose program was killed would wait for its next task for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_experiment(
    experiment: Experiment,
    *,
    out: str | Path,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Path:
    """Play the replicates that are missing in `out/<name>/`, and return that folder.

    Without an executor they are played in this process. Whatever happens, finished blocks stay, and
    the same call goes on from there. Results do not depend on the executor.
    """
    results.polars()  # find out now, not after the first block
    spec = experiment.spec
    folder = Path(out) / experiment.name
    results.open_folder(folder, {**spec, **machine()})
    finished = results.finished_replicates(folder)
    wanted = set(range(experiment.runs))
    missing = wanted - finished
    done = len(wanted) - len(missing)
    report = progress or (lambda done, wanted: None)
    report(done, len(wanted))

    def keep(block: Block) -> None:
        nonlocal done
        results.write_block(folder, block, spec)
        done += len(block.replicates)
        report(done, len(wanted))

    # Small enough for several workers to share a short experiment.
    size = max(1, min(LARGEST_BLOCK, len(missing) // 8))
    blocks = results.blocks_of(missing, size=size)
    if executor is None:
        for block in blocks:
            keep(play_block(*_task(experiment, block)))
    else:
        _run_on(executor, experiment, blocks, keep)
    return folder


def _task(experiment: Experiment, block: Sequence[int]) -> tuple[Any, ...]:
    recording = Recording(experiment.every, experiment.theta_every, experiment.coverage)
    return dict(experiment.players), experiment.world, block, experiment.seed, recording


def _run_on(
    executor: Executor,
    experiment: Experiment,
    blocks: list[list[int]],
    keep: Callable[[Block], None],
) -> None:
    """Submit blocks and keep what comes back, until nothing is missing."""
    pending: dict[Future[Block], list[int]] = {}
    breakdowns = 0
    todo = blocks
    try:
        while todo or pending:
            for block in todo:
                pending[executor.submit(play_block, *_task(experiment, block))] = block
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            todo = _collect(done, pending, keep)
            if todo:
                # A dead worker takes all tasks of its pool with it: gather them, then start anew.
                breakdowns += 1
                todo += _collect(wait(pending).done, pending, keep)
                if breakdowns > MOST_BREAKDOWNS:
                    raise RunFailed(
                        f"{experiment.name}: workers died {breakdowns} times, perhaps for want of "
                        "memory; finished runs are kept"
                    )
    finally:
        for future in pending:
            future.cancel()


def _collect(
    done: set[Future[Block]],
    pending: dict[Future[Block], list[int]],
    keep: Callable[[Block], None],
) -> list[list[int]]:
    """Keep what was played; the blocks that were lost with a worker come back."""
    lost = []
    for future in done:
        block = pending.pop(future)
        try:
            played = future.result()
        except BrokenExecutor:
            lost.append(block)
        else:
            keep(played)
    return lost
