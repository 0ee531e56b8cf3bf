"""Shared parts of the commands: processes or a cluster to run on, progress, tables."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import click

from driftbandits import checks

SCHEDULER_ANSWERS_IN_S = 10


class Failed(Exception):
    """A command failed; its message is all that the user sees."""


def number_of_cpus() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def executor_of(*, workers: int | None, cluster: str | None) -> Iterator[Executor | None]:
    """Open a Dask cluster by its address, or processes here; None: this process is enough."""
    if cluster is not None:
        if workers is not None:
            raise click.UsageError("--workers is for this machine; a cluster has its own.")
        with _cluster(cluster) as there:
            yield there
        return
    from driftbandits.experiments import local_workers

    with local_workers(number_of_cpus() if workers is None else workers) as executor:
        yield executor


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    distributed = checks.load("distributed", "A cluster needs distributed")
    try:
        client = distributed.Client(address, timeout=SCHEDULER_ANSWERS_IN_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise Failed(f"No Dask scheduler answers at {address}: {error}") from None
    with client:
        if not client.scheduler_info()["workers"]:
            click.echo(f"{address} has no workers yet; waiting for them", err=True)
        # pure=False: the cluster must play every block, also where two calls are equal.
        yield client.get_executor(pure=False)


class ProgressBars:
    """A bar for each experiment on stderr, with its rate and the time left.

    In a pipe or a file, each experiment gets one line when it is done.
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
        """Return a callback for `run_experiment`."""
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


_ON_TERMINAL_S, _IN_FILE_S = 0.2, 10.0


class Progress:
    """A line on stderr that says how far a long command is; without a terminal one now and then.

    It is called with the name of the step, and how many of how many events are done.
    """

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._every_s = _ON_TERMINAL_S if self._is_terminal else _IN_FILE_S
        self._began: dict[str, float] = {}
        self._last = time.monotonic()
        self._width = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        began = self._began.setdefault(what, now)
        if now - self._last < self._every_s:
            return
        self._last = now
        share = done / total if total else 1.0
        line = f"{what}: {done:,} of {total:,} events, {share:.0%}"
        if 0.0 < share < 1.0 and now > began:
            line += f", about {_duration((now - began) * (1.0 - share) / share)} left"
        if self._is_terminal:
            sys.stderr.write(f"\r{line.ljust(self._width)}")
            self._width = len(line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self._is_terminal and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with headings."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    # In a pipe every row stays on its line.
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)
