"""Where the commands run their experiments, and the bar that shows how far they are."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import click

from driftbandits import extras


class Failed(Exception):
    """A command that could not do what it was asked; its message is all that the user sees."""


def number_of_cpus() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def executor_of(*, workers: int | None, cluster: str | None) -> Iterator[Executor | None]:
    """A Dask cluster by its address, or processes here; None: this process is enough."""
    if cluster is not None:
        if workers is not None:
            raise click.UsageError("--workers is for this machine; a cluster has its own.")
        with _cluster(cluster) as there:
            yield there
        return
    from driftbandits.workers import local_workers

    with local_workers(number_of_cpus() if workers is None else workers) as executor:
        yield executor


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    distributed = extras.load("distributed", "A cluster needs distributed")
    try:
        client = distributed.Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise Failed(f"No Dask scheduler answers at {address}: {error}") from None
    with client:
        if not client.scheduler_info()["workers"]:
            click.echo(f"{address} has no workers yet; waiting for them", err=True)
        # Every block is played: the cluster's memory of equal calls is of no use here.
        yield client.get_executor(pure=False)


class ProgressBars:
    """A bar for each experiment on stderr, with its rate and the time left.

    Where nobody watches, in a pipe or a log, each experiment gets one line when it is done.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._watched = sys.stderr.isatty()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not self._watched,
            expand=True,
        )

    def __enter__(self) -> ProgressBars:
        self._progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._progress.stop()

    def begin(self, name: str) -> Any:
        """A callback for `run_experiment`."""
        task = self._progress.add_task(name, total=None, rate="")
        began = time.monotonic()
        before: int | None = None  # runs that were there already

        def show(done: int, wanted: int) -> None:
            nonlocal before
            before = done if before is None else before
            if done == wanted and not self._watched:
                seconds = time.monotonic() - began
                click.echo(
                    f"{name}: {wanted} runs, {wanted - before} new, {seconds:.0f} s", err=True
                )
            speed = self._progress.tasks[task].speed
            rate = f"{speed:.1f} runs/s" if speed else ""
            self._progress.update(task, completed=done, total=wanted, rate=rate)

        return show
