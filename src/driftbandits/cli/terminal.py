"""Shared parts of the commands: options, processes or a cluster to run on, progress, tables."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from driftbandits import checks

Decorator = Callable[[Any], Any]

SCHEDULER_ANSWERS_IN_S = 10
_ON_TERMINAL_S, _IN_FILE_S = 0.2, 10.0


class Failed(Exception):
    """A command failed; its message is all that the user sees."""


class Number(click.FloatRange):
    """A number within bounds; NaN and infinity are refused, which compare with no bound."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not abs(number) < float("inf"):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class PolicyName(click.ParamType):  # type: ignore[type-arg]
    """The name of a policy of the catalogue."""

    name = "policy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from driftbandits.policies import policy_names

        try:
            return checks.choice("it", value, policy_names())
        except ValueError as error:
            self.fail(f"{error}. `driftbandits policies` describes them.", param, ctx)


WHOLE, COUNT, POSITIVE = click.IntRange(min=1), click.IntRange(min=0), Number(min=0, min_open=True)
FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def option(flags: str, kind: Any, text: str, default: Any = None, **more: Any) -> Decorator:
    """Make an option of its flags, its type, its help and its default, which the help shows."""
    if kind is bool:
        return click.option(*flags.split(), is_flag=True, help=text)
    if default is not None:
        more |= {"default": default, "show_default": True}
    return click.option(*flags.split(), type=kind, help=text, **more)


SEED = option("--seed", COUNT, "Seed of the random numbers.", 0)


def check_store(option: str, url: str) -> None:
    """Refuse a SQLite store that does not exist: opening it would make one."""
    path = url.removeprefix("sqlite:///")
    if path != url and not Path(path).is_file():
        raise click.UsageError(f"{option}: there is no store {path!r}")


def show_help(context: click.Context) -> None:
    """Print the help of a group that was called without a command."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


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
    except OSError as error:
        raise Failed(f"No Dask scheduler answers at {address}: {error}") from None
    except (ValueError, TypeError) as error:
        message = f"--cluster must be tcp://HOST:PORT; got {address!r}: {error}"
        raise click.UsageError(message) from None
    with client:
        if not client.scheduler_info()["workers"]:
            click.echo(f"{address} has no workers yet; waiting for them", err=True)
        # pure=False: the cluster must play every block, also where two calls are equal.
        yield client.get_executor(pure=False)


class Progress:
    """A line on stderr that says how far a long command is; in a pipe, one now and then."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._is_terminal = sys.stderr.isatty()
        self._began: dict[str, tuple[float, int]] = {}
        self._last = time.monotonic()
        self._width = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how many units of a step are done, and of how many."""
        now = time.monotonic()
        began, before = self._began.setdefault(what, (now, done))
        every = _ON_TERMINAL_S if self._is_terminal else _IN_FILE_S
        if done < total and now - self._last < every:
            return
        self._last = now
        line = f"{what}: {done:,} of {total:,} {self._unit}"
        if done >= total:
            self._show(f"{line}, {done - before:,} new, {_duration(now - began)}", "\n")
        else:
            rest = (now - began) * (total - done) / max(done - before, 1)
            left = f", about {_duration(rest)} left" if done > before else ""
            self._show(line + left, "" if self._is_terminal else "\n")

    def end(self) -> None:
        """Clear the line."""
        if self._width:
            self._show("", "\r")

    def _show(self, line: str, end: str) -> None:
        begin = "\r" if self._is_terminal else ""
        sys.stderr.write(f"{begin}{line.ljust(self._width)}{end}")
        sys.stderr.flush()
        self._width = 0 if end else len(line)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with headings; every row is one line."""
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    click.echo()
