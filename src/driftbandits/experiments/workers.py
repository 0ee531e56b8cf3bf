"""Blocks of replicates, played here or by workers, of which any may die at any moment.

`run_blocks` plays on any executor and plays again what was lost with a worker. `LocalWorkers` is
the executor for the processors of this machine; why not a plain pool is docs/decisions/12.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from ctypes import c_bool
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from driftbandits.checks import RunFailed

MOST_BREAKDOWNS = 5

Block = Sequence[int]
"""Some replicates, which are played one after the other."""
Played = TypeVar("Played")


def blocks_of(replicates: Iterable[int], *, size: int) -> list[Block]:
    """Runs of consecutive replicates, at most `size` long.

    >>> blocks_of({0, 1, 2, 5}, size=2)
    [[0, 1], [2], [5]]
    """
    blocks: list[list[int]] = []
    for replicate in sorted(replicates):
        if blocks and len(blocks[-1]) < size and blocks[-1][-1] == replicate - 1:
            blocks[-1].append(replicate)
        else:
            blocks.append([replicate])
    return list(blocks)


def run_blocks(
    play: Callable[[Block], Played],
    blocks: Sequence[Block],
    keep: Callable[[Played], None],
    *,
    executor: Executor | None,
) -> None:
    """Play every block and keep each as soon as it is finished, in any order.

    Without an executor they are played in this process. An executor whose workers keep dying ends
    in `RunFailed`.
    """
    if executor is None:
        for block in blocks:
            keep(play(block))
        return
    pending: dict[Future[Played], Block] = {}
    breakdowns = 0
    todo = blocks
    try:
        while todo or pending:
            for block in todo:
                pending[executor.submit(play, block)] = block
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            todo = _kept(done, pending, keep)
            if todo:
                # A dead worker takes all tasks of its pool with it: gather them, then start anew.
                breakdowns += 1
                todo += _kept(wait(pending).done, pending, keep)
                if breakdowns > MOST_BREAKDOWNS:
                    raise RunFailed(f"workers died {breakdowns} times, perhaps for want of memory")
    finally:
        for future in pending:
            future.cancel()


def _kept(
    done: set[Future[Played]], pending: dict[Future[Played], Block], keep: Callable[[Played], None]
) -> list[Block]:
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


@contextmanager
def local_workers(count: int) -> Iterator[Executor | None]:
    """Return an executor with this many processes; None for one, since this process is enough."""
    if count == 1:
        yield None
        return
    with LocalWorkers(count) as workers:
        yield workers


class LocalWorkers(Executor):
    """Processes on this machine. When one of them dies, the next task finds new ones.

    Results come as files. In the pool's own pipe a worker that dies while it writes a large one
    would leave half of it there, and whoever reads it would wait for the rest for ever.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        # A forked child would share the compiler's threads and locks.
        self._context = multiprocessing.get_context("spawn")
        self._begun = self._context.RawValue(c_bool, False)
        self._pool = self._new_pool()
        self._folder = tempfile.TemporaryDirectory(prefix="driftbandits-")

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._count,
            mp_context=self._context,
            initializer=_begin_work,
            initargs=(self._begun,),
        )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        task = (_written, self._folder.name, fn, *args)
        try:
            writing = self._pool.submit(*task, **kwargs)
        except BrokenExecutor:
            if not self._begun.value:
                raise RunFailed(
                    "workers could not be started; each reads the program again, so what a script "
                    "does must stand under if __name__ == '__main__':"
                ) from None
            self._pool.shutdown(wait=False)
            self._pool = self._new_pool()
            writing = self._pool.submit(*task, **kwargs)
        result: Future[Any] = Future()
        writing.add_done_callback(partial(_read, result))
        return result

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Only the pool's own thread may cancel its tasks: when workers die by the signal that
        # interrupted the program, it fails at a task that another thread has just cancelled.
        self.shutdown(cancel_futures=kind is not None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            self._folder.cleanup()


def _begin_work(begun: Any) -> None:
    begun.value = True
    # The program that was interrupted says so; its workers just leave.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()


def _leave_with_the_parent() -> None:
    """A worker whose program was killed would wait for its next task for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
