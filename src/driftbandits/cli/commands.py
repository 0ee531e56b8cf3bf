"""The commands. Each imports what it needs when it is called, so that help is printed at once."""

from __future__ import annotations

import math
import sys
import tomllib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click

from driftbandits import checks
from driftbandits.checks import RunFailed
from driftbandits.cli.logs import evaluate, log
from driftbandits.cli.serving import COMMANDS
from driftbandits.cli.terminal import (
    COUNT,
    FILE,
    FOLDER,
    SEED,
    WHOLE,
    Failed,
    Number,
    PolicyName,
    Progress,
    executor_of,
    number_of_cpus,
    option,
    print_table,
    show_help,
)

if TYPE_CHECKING:
    from driftbandits.experiments import Experiment

DONE, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130

RUNS_OF_THE_PAPER = 500
QUICK_ROUNDS, QUICK_RUNS, RUNS = 400, 2, 5


def run(arguments: Sequence[str]) -> int:
    """Run a command; errors are one line on stderr, and the exit code tells their kind."""
    arguments = list(arguments)
    if traceback := arguments[:1] == ["--traceback"]:
        del arguments[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            group.main(arguments, prog_name="driftbandits", standalone_mode=False)
    except click.ClickException as error:
        return _complain(error.format_message(), BAD_USAGE)
    except (KeyboardInterrupt, click.Abort):
        return _complain(
            "interrupted; finished runs are kept, and the same command goes on from there",
            INTERRUPTED,
        )
    except Exception as error:
        if traceback:
            raise
        return _complain(*_message(error))
    return DONE


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"Warning: {message}", err=True)


def _complain(message: str, code: int) -> int:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    return code


_PLAYERS = ["SW-GLUCB", "D-GLUCB", "LogisticUCB"]
_TASKS = "Task to play; may be repeated.  [default: every task whose data is installed]"
_WORKERS = "Number of processes on this machine.  [default: one for each processor]"
_NO_SUCH_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def _message(error: Exception) -> tuple[str, int]:
    """Return what to say of an error, and the exit code: 2 if another input would do."""
    from driftbandits.store import Corrupt, StoreBusy, StoreError, StoreUnavailable

    if isinstance(error, ModuleNotFoundError) and error.name and "pip install" not in str(error):
        return f"{error.name} is not installed: pip install 'driftbandits[all]'", FAILED
    # Our own messages are sentences; what comes from elsewhere needs its kind to make sense.
    if isinstance(error, (Failed, RunFailed, ImportError, Corrupt, StoreBusy, StoreUnavailable)):
        return str(error), FAILED
    if isinstance(error, (ValueError, StoreError)):
        return str(error), BAD_USAGE
    if isinstance(error, (MemoryError, OverflowError)):
        return f"a number is too large: {error}", BAD_USAGE
    if isinstance(error, _NO_SUCH_FILE) and error.filename:
        return f"{error.filename}: {error.strerror}", BAD_USAGE
    return shorten(f"{type(error).__name__}: {error}", width=300), FAILED


def _where_to_run(command: Any) -> Any:
    """Add the options that say on how many processors, or on which cluster."""
    text = "Run on the Dask cluster of this scheduler."
    cluster = option("--cluster", str, text, metavar="tcp://HOST:PORT")
    return option("--workers", WHOLE, _WORKERS)(cluster(command))


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    epilog="`driftbandits --traceback COMMAND` shows where an error came from.",
)
@click.version_option(package_name="driftbandits")
@click.pass_context
def group(context: click.Context) -> None:
    """Contextual bandits for a world that changes.

    Evaluate a policy on the table of a log, serve decisions over HTTP, run and report experiments.
    """
    show_help(context)


@group.command()
@option(
    "--runs", WHOLE, "Runs of each experiment of the paper; others play a share.", RUNS_OF_THE_PAPER
)
@option("--out", FOLDER, "Folder for the results, the figures and the report.", "results")
@option("--pima", FILE, "CSV file with Kaggle's Pima table, which may not be redistributed.")
@_where_to_run
def reproduce(*, runs: int, out: Path, pima: Path | None, **where: Any) -> None:
    """Run the paper's experiments and write the report.

    \b
    Example:
      driftbandits reproduce --runs 500 --out results

    A repeated call plays only the runs that are missing.
    """
    from driftbandits.experiments import REPRODUCED, published, read_experiments

    files = published()
    share = runs / RUNS_OF_THE_PAPER
    wanted = []
    for name in REPRODUCED:
        world = tomllib.loads(files[name].read_text(encoding="utf-8"))["environment"]
        is_of_pima = world.get("table") == "pima"
        if is_of_pima and pima is None and find_spec("faraway") is None:
            continue
        options = {"path": str(pima)} if is_of_pima and pima is not None else {}
        for experiment in read_experiments(files[name], options=options):
            wanted.append(replace(experiment, runs=math.ceil(experiment.runs * share)))
    _run_all(wanted, out=out, **where)
    _write_report(out)


@group.command("run")
@click.argument("file", metavar="FILE")
@option("--runs", WHOLE, "Number of runs.  [default: as FILE says]")
@option("--out", FOLDER, "Folder in which each experiment gets a folder of its own.", "results")
@_where_to_run
def run_file(*, file: str, runs: int | None, out: Path, **where: Any) -> None:
    """Run the experiments of a TOML file, or a published experiment.

    \b
    Examples:
      driftbandits run my-experiment.toml --out results
      driftbandits run abrupt2d --runs 20 --cluster tcp://127.0.0.1:8786

    A repeated call plays only the runs that are missing. The command prints the folders of the
    results.
    """
    from driftbandits.experiments import published, read_experiments

    path = Path(file) if Path(file).is_file() else published().get(file, Path(file))
    if not path.is_file() and not path.suffix:
        meant = checks.perhaps(file, published())
        raise click.UsageError(
            f"FILE must be a TOML file or a published experiment; got {file!r}{meant}. "
            f"Published are {', '.join(sorted(published()))}."
        )
    experiments = read_experiments(path, runs=runs)
    for folder in _run_all(experiments, out=out, **where):
        click.echo(str(folder))


def _run_all(experiments: Iterable[Experiment], *, out: Path, **where: Any) -> list[Path]:
    from driftbandits.experiments import run_experiment

    show = Progress("runs")
    with executor_of(**where) as executor:
        return [
            run_experiment(one, out=out, executor=executor, progress=partial(show, one.name))
            for one in experiments
        ]


@group.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@option("--title", str, "Heading of the report.")
def report(*, directory: Path, title: str | None) -> None:
    """Write figures and one HTML page from results.

    \b
    Example:
      driftbandits report results
    """
    _write_report(directory, title=title)


def _write_report(directory: Path, *, title: str | None = None) -> None:
    from driftbandits.report import write_report

    click.echo(str(write_report(directory, title=title)))


@group.command()
@option("--dim", click.IntRange(1, 1_000_000), "Length of an action.", required=True)
@option("--horizon", WHOLE, "Number of rounds.", required=True)
@option("--changes", COUNT, "Number of changes.  [default: unknown]")
@option("--link", str, "Reward model.", "logistic")
@option("--m", float, "Largest reward.  [default: that of the link]")
@option("-S --S S", float, "Bound of the length of theta.", 1.0)
@option("-L --L L", float, "Bound of the length of an action.", 1.0)
@option("--lam", float, "Penalty lambda.", 1.0)
@option("--delta", float, "Probability that a bound fails.", 0.01)
def tune(*, dim: int, horizon: int, changes: int | None, **arguments: Any) -> None:
    """Print the paper's window, discount, radii and regret bounds.

    \b
    Example:
      driftbandits tune --dim 2 --horizon 6000 --changes 3
    """
    from driftbandits.core import theory
    from driftbandits.policies import policy

    known: dict[str, Any] = {"dim": dim, "horizon": horizon, "changes": changes}
    window = policy("SW-GLUCB", **known, **arguments).window
    with_discount = policy("D-GLUCB", **known, **arguments)
    problem, discount = with_discount.problem, with_discount.discount
    assert window is not None
    assert discount is not None
    rows = [
        ("smallest slope c_mu", f"{problem.c:.6g}"),
        ("largest slope k_mu", f"{problem.k:.6g}"),
        ("window tau", f"{window}"),
        ("discount gamma", f"{discount:.6g}"),
        ("D(gamma), rounds to forget", f"{theory.forgetting_time(discount):.1f}"),
        (
            f"radius of SW-GLUCB, round {horizon}",
            f"{theory.rho_window(problem, t=horizon, tau=window, horizon=horizon):.4g}",
        ),
        (
            f"radius of D-GLUCB, round {horizon}",
            f"{theory.rho_discount(problem, t=horizon, gamma=discount):.4g}",
        ),
    ]
    if changes is not None:
        known = {"horizon": horizon, "changes": changes}
        bounds = (
            theory.regret_bound_window(problem, tau=window, **known),
            theory.regret_bound_discount(problem, gamma=discount, **known),
        )
        most = problem.m * horizon
        for number, bound in enumerate(bounds, start=1):
            vacuous = f", more than the {most:.0f} that can be lost" if bound > most else ""
            rows.append((f"regret bound, Theorem {number}", f"{bound:.0f}{vacuous}"))
    print_table(("quantity", "value"), rows)


@group.command()
@option("--environment", str, "World to play in.", "abrupt2d")
@option(
    "--policy names", PolicyName(), "Policy that plays; may be repeated.", _PLAYERS, multiple=True
)
@option("--runs", WHOLE, "Number of runs.", 10)
@option("--horizon", WHOLE, "Number of rounds.  [default: that of the world]")
@option("--bonus-scale", Number(min=0), "Factor of the bonus of every policy.", 1.0)
@SEED
@option("--workers", WHOLE, "Number of processes on this machine.", 1)
def simulate(
    *,
    environment: str,
    names: tuple[str, ...],
    horizon: int | None,
    bonus_scale: float,
    runs: int,
    **how: Any,
) -> None:
    """Let policies play a world a few times and print their regret.

    \b
    Example:
      driftbandits simulate --environment abrupt2d --policy D-GLUCB --policy LinUCB --runs 20
    """
    import numpy as np

    import driftbandits
    from driftbandits.experiments import experiments_of

    checks.choice("--environment", environment, driftbandits.environment_names())
    world = {"name": environment} if horizon is None else {"name": environment, "horizon": horizon}
    (experiment,) = experiments_of(
        {
            "experiment": {"name": "simulate", "runs": runs},
            "environment": world,
            "defaults": {"bonus_scale": bonus_scale},
            "policies": [{"name": name} for name in dict.fromkeys(names)],
        }
    )
    result = driftbandits.simulate(
        experiment.players, experiment.world, runs=runs, record=("regret",), **how
    )
    rows = []
    for name, regret in result.regret.items():
        final = regret[:, -1]
        error = final.std(ddof=1) / math.sqrt(runs) if runs > 1 else math.nan
        low, high = np.quantile(final, [0.05, 0.95])
        microseconds = result.seconds[name].mean() / regret.shape[1] * 1e6
        numbers = final.mean(), error, low, high, microseconds
        rows.append((name, *(f"{number:.1f}" for number in numbers)))
    print_table(("policy", "regret", "s.e.", "5 %", "95 %", "us a round"), rows)


@group.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, type=PolicyName())
def policies(*, names: tuple[str, ...]) -> None:
    """List the policies with their memory, reward model and citation.

    The list also says which arguments a policy refuses or ignores.

    \b
    Examples:
      driftbandits policies
      driftbandits policies auto D-GLUCB
    """
    from driftbandits.core.estimator.model import (
        BELIEF,
        DISCOUNT,
        EVERYTHING,
        SINCE_RESTART,
        WINDOW,
    )
    from driftbandits.policies import ALIASES, LIMITED, ROWS, SOURCES, takes, uses

    memories = {
        WINDOW: "window",
        DISCOUNT: "discount",
        EVERYTHING: "everything",
        SINCE_RESTART: "since a detected change",
        BELIEF: "segments and drifts",
        None: "any",
    }
    wanted = [ALIASES.get(name, name) for name in names]
    other_names = {name: alias for alias, name in ALIASES.items()}
    for name in wanted or ROWS:
        row = ROWS[name]
        alias = f" ({other_names[name]})" if name in other_names else ""
        link = "identity" if row.linear else "any link"
        details = {
            "refuses": [argument for argument in LIMITED if not takes(name, argument)],
            "ignores": [a for a in LIMITED if takes(name, a) and not uses(name, a)],
        }
        click.echo(f"{name + alias:24}{memories[row.memory]:26}{link}")
        for label, arguments in details.items():
            if arguments:
                click.echo(_indented(f"{label} {' '.join(arguments)}"))
        click.echo(_indented(SOURCES[name]) + "\n")


def _indented(text: str) -> str:
    return click.wrap_text(text, width=80, initial_indent="    ", subsequent_indent="      ")


@group.command()
@option("--task tasks", str, _TASKS, multiple=True, metavar="NAME|FILE.toml")
@option(
    "--entries files",
    FILE,
    "File with entries of your own; may be repeated.",
    multiple=True,
    metavar="FILE.py",
)
@option("--only labels", str, "Part of the label of entries to play.", multiple=True)
@option("--runs", WHOLE, f"Number of orders and seeds.  [default: {RUNS}]")
@option("--quick", bool, f"Play {QUICK_RUNS} runs of {QUICK_ROUNDS} rounds.")
@option("--workers", WHOLE, _WORKERS)
@option("--out", FOLDER, "Folder for bench.json and report.html.", "results/bench")
@option("--show", click.Choice(["overall", "tasks"]), "Print a table of what was played before.")
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
    """Compare policies, yours too, on real data that drift.

    \b
    Examples:
      driftbandits bench --quick
      driftbandits bench --entries mine.py --task phishing --task flights

    A repeated call plays only what is missing in the folder.
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
        try:
            from driftbandits.bench.page import write_page
        except ImportError as error:
            remedy = "pip install 'driftbandits[report]'"
            click.echo(f"No page is written: it needs {error.name}: {remedy}", err=True)
        else:
            command = " ".join(["driftbandits", *sys.argv[1:]])
            write_page(out / "report.html", results, command)
            click.echo(str(out / "report.html"), err=True)
    scores = room.score_rows(room.load(out / "bench.json"))
    if show != "tasks":
        click.echo("\n".join(room.overall_table(scores)))
    if show != "overall":
        click.echo("\n".join(room.task_table(scores)))


for command in (log, evaluate, *COMMANDS):
    group.add_command(command)
