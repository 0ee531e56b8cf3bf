"""The command `bench`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from driftbandits.cli.terminal import number_of_cpus

QUICK_ROUNDS, QUICK_RUNS, RUNS = 400, 2, 5


@click.command()
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="NAME|FILE.toml",
    help="May be repeated.  [default: every task whose data is installed]",
)
@click.option(
    "--entries",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE.py",
    help="Entries beside ours; may be repeated.",
)
@click.option("--only", "labels", multiple=True, help="Entries whose label has this part.")
@click.option("--runs", type=click.IntRange(min=1), help=f"Orders and seeds.  [default: {RUNS}]")
@click.option("--quick", is_flag=True, help=f"{QUICK_RUNS} runs of {QUICK_ROUNDS} rounds.")
@click.option("--workers", type=click.IntRange(min=1), help="[default: the processors]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default="results/bench",
    show_default=True,
    help="Folder for bench.json and report.html.",
)
@click.option(
    "--show",
    type=click.Choice(["overall", "tasks"]),
    help="Play nothing, and print a table of what was played.",
)
def bench(
    *,
    tasks: tuple[str, ...],
    files: tuple[str, ...],
    labels: tuple[str, ...],
    runs: int | None,
    quick: bool,
    workers: int | None,
    out: Path,
    show: str | None,
) -> None:
    """Play real, drifting decisions: policies of this package, and yours, on the same rows.

    \b
    Examples:
      driftbandits bench --quick
      driftbandits bench --entries mine.py --task phishing --task flights

    Called again, it plays only what is missing in the folder.
    """
    from driftbandits import bench as room

    if not show:
        results = room.run_bench(
            tasks or [task.name for task in room.task_files()],
            files=files,
            labels=labels,
            runs=runs or (QUICK_RUNS if quick else RUNS),
            most=QUICK_ROUNDS if quick else None,
            workers=workers or number_of_cpus(),
            out=out / "bench.json",
            said=lambda line: click.echo(line, err=True),
        )
        _write_page(out / "report.html", results)
    scores = room.score_rows(room.load(out / "bench.json"))
    if show != "tasks":
        click.echo("\n".join(room.overall_table(scores)))
    if show != "overall":
        click.echo("\n".join(room.task_table(scores)))


def _write_page(path: Path, results: object) -> None:
    try:
        from driftbandits.bench.page import write_page
    except ImportError as error:
        click.echo(f"No page: it needs {error.name}: pip install 'driftbandits[report]'", err=True)
        return
    command = " ".join(["driftbandits", *sys.argv[1:]])
    write_page(path, results, command)  # type: ignore[arg-type]
    click.echo(str(path), err=True)
