"""The commands. Each imports what it needs when it is called, so that help is printed at once."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftbandits.checks import RunFailed
from driftbandits.cli.benching import bench
from driftbandits.cli.logs import evaluate, log
from driftbandits.cli.serving import COMMANDS
from driftbandits.cli.terminal import Failed, ProgressBars, executor_of, print_table

if TYPE_CHECKING:
    from driftbandits.experiments import Experiment

DONE, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130

RUNS_OF_THE_PAPER = 500

Command = TypeVar("Command", bound=Callable[..., Any])


def run(arguments: Sequence[str]) -> int:
    """Run a command; errors are one line on stderr, and the exit code tells their kind."""
    arguments = list(arguments)
    if traceback := arguments[:1] == ["--traceback"]:
        del arguments[0]
    try:
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
        return _complain(_message(error), BAD_USAGE if isinstance(error, ValueError) else FAILED)
    return DONE


def _complain(message: str, code: int) -> int:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    return code


def _message(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name and "pip install" not in str(error):
        return f"{error.name} is not installed: pip install 'driftbandits[all]'"
    # Our own messages are sentences; what comes from elsewhere needs its kind to make sense.
    if isinstance(error, (Failed, RunFailed, ValueError, ImportError)):
        return str(error)
    return shorten(f"{type(error).__name__}: {error}", width=300)


def _where_to_run(command: Command) -> Command:
    """The options that say on how many processors, or on which cluster."""
    workers = click.option(
        "--workers",
        type=click.IntRange(min=1),
        help="Processes on this machine.  [default: its processors]",
    )
    cluster = click.option(
        "--cluster", metavar="tcp://HOST:PORT", help="Run on the Dask cluster of this scheduler."
    )
    return workers(cluster(command))


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    epilog="Put --traceback first to see where an error came from.",
)
@click.version_option(package_name="driftbandits")
@click.pass_context
def group(context: click.Context) -> None:
    """Bandits for a world that changes: run, reproduce and look at experiments."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@group.command()
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=RUNS_OF_THE_PAPER,
    show_default=True,
    help="Independent runs; experiments that the paper does not have get their share of it.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default="results",
    show_default=True,
    help="Folder for results, figures and the report.",
)
@click.option(
    "--pima",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The Pima diabetes table, as Kaggle has it; it may not be redistributed.",
)
@_where_to_run
def reproduce(
    *, runs: int, out: Path, pima: Path | None, workers: int | None, cluster: str | None
) -> None:
    """Run the paper's experiments and write the report.

    \b
    Example:
      driftbandits reproduce --runs 500 --out results

    Called again, it plays only the runs that are missing.
    """
    from driftbandits.experiments import REPRODUCED, published, read_experiments

    files = published()
    share = runs / RUNS_OF_THE_PAPER
    wanted = []
    for name in REPRODUCED:
        options = {}
        if _is_of_pima(files[name]):
            if pima is None and not _faraway_is_installed():
                continue
            options = {} if pima is None else {"path": str(pima)}
        for experiment in read_experiments(files[name], options=options):
            wanted.append(replace(experiment, runs=math.ceil(experiment.runs * share)))
    _run_all(wanted, out=out, workers=workers, cluster=cluster)
    _write_report(out)


def _is_of_pima(file: Path) -> bool:
    world = tomllib.loads(file.read_text(encoding="utf-8"))["environment"]
    return bool(world.get("table") == "pima")


def _faraway_is_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("faraway") is not None


@group.command("run")
@click.argument("file", metavar="FILE")
@click.option("--runs", type=click.IntRange(min=1), help="Instead of the file's own number.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default="results",
    show_default=True,
    help="Folder that gets a folder for each experiment.",
)
@_where_to_run
def run_file(
    *, file: str, runs: int | None, out: Path, workers: int | None, cluster: str | None
) -> None:
    """Run the experiments of FILE, a TOML file or the name of a published experiment.

    \b
    Examples:
      driftbandits run my-experiment.toml --out results
      driftbandits run abrupt2d --runs 20 --cluster tcp://127.0.0.1:8786

    Called again, it plays only the runs that are missing. Prints the folders of the results.
    """
    from driftbandits.experiments import published, read_experiments

    path = Path(file) if Path(file).is_file() else published().get(file, Path(file))
    if not path.is_file() and not path.suffix:
        from driftbandits.checks import perhaps

        meant = perhaps(file, published())
        raise click.UsageError(
            f"FILE must be a TOML file or a published experiment; got {file!r}{meant}. "
            f"Published are {', '.join(sorted(published()))}."
        )
    experiments = read_experiments(path, runs=runs)
    for folder in _run_all(experiments, out=out, workers=workers, cluster=cluster):
        click.echo(str(folder))


def _run_all(
    experiments: Iterable[Experiment], *, out: Path, workers: int | None, cluster: str | None
) -> list[Path]:
    from driftbandits.experiments import run_experiment

    with executor_of(workers=workers, cluster=cluster) as executor, ProgressBars() as bars:
        return [
            run_experiment(
                experiment, out=out, executor=executor, progress=bars.begin(experiment.name)
            )
            for experiment in experiments
        ]


@group.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--title", help="The report's heading.")
def report(*, directory: Path, title: str | None) -> None:
    """Write figures and one HTML page from the results in DIRECTORY.

    \b
    Example:
      driftbandits report results
    """
    _write_report(directory, title=title)


def _write_report(directory: Path, *, title: str | None = None) -> None:
    from driftbandits.report import write_report

    click.echo(str(write_report(directory, title=title)))


@group.command()
@click.option("--dim", type=click.IntRange(min=1), required=True, help="Features of an action.")
@click.option("--horizon", type=click.IntRange(min=1), required=True, help="Rounds.")
@click.option("--changes", type=click.IntRange(min=0), help="Left out: unknown.")
@click.option("--link", default="logistic", show_default=True, help="Reward model.")
@click.option("--m", type=float, help="Largest reward.")
@click.option("-S", "--S", "S", type=float, default=1.0, show_default=True, help="Bound of theta.")
@click.option("-L", "--L", "L", type=float, default=1.0, show_default=True, help="Of an action.")
@click.option("--lam", type=float, default=1.0, show_default=True, help="Penalty.")
@click.option("--delta", type=float, default=0.01, show_default=True, help="Risk of a bound.")
def tune(*, dim: int, horizon: int, changes: int | None, **arguments: Any) -> None:
    """Print the paper's window and discount, their radii and the regret they guarantee.

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
        most = problem.m * horizon
        for number, bound in (
            (1, theory.regret_bound_window(problem, horizon=horizon, tau=window, changes=changes)),
            (
                2,
                theory.regret_bound_discount(
                    problem, horizon=horizon, gamma=discount, changes=changes
                ),
            ),
        ):
            vacuous = f", more than the {most:.0f} that can be lost" if bound > most else ""
            rows.append((f"regret bound, Theorem {number}", f"{bound:.0f}{vacuous}"))
    print_table(("quantity", "value"), rows)


@group.command()
@click.option("--environment", default="abrupt2d", show_default=True, help="The world to play in.")
@click.option(
    "--policy",
    "names",
    multiple=True,
    default=("SW-GLUCB", "D-GLUCB", "LogisticUCB"),
    show_default=True,
    help="May be repeated.",
)
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--horizon", type=click.IntRange(min=1), help="Rounds.  [default: the world's]")
@click.option("--bonus-scale", type=click.FloatRange(min=0), default=1.0, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True)
def simulate(
    *,
    environment: str,
    names: tuple[str, ...],
    runs: int,
    horizon: int | None,
    bonus_scale: float,
    seed: int,
    workers: int,
) -> None:
    """Let policies play a world a few times and print their regret.

    \b
    Example:
      driftbandits simulate --environment abrupt2d --policy D-GLUCB --policy LinUCB --runs 20
    """
    import numpy as np

    import driftbandits
    from driftbandits.experiments import experiments_of

    world = {"name": environment} if horizon is None else {"name": environment, "horizon": horizon}
    (experiment,) = experiments_of(
        {
            "experiment": {"name": "simulate", "runs": runs, "seed": seed},
            "environment": world,
            "defaults": {"bonus_scale": bonus_scale},
            "policies": [{"name": name} for name in names],
        }
    )
    result = driftbandits.simulate(
        experiment.players,
        experiment.world,
        runs=runs,
        seed=seed,
        workers=workers,
        record=("regret",),
    )
    rows = []
    for name, regret in result.regret.items():
        final = regret[:, -1]
        error = final.std(ddof=1) / math.sqrt(runs) if runs > 1 else math.nan
        low, high = np.quantile(final, [0.05, 0.95])
        microseconds = result.seconds[name].mean() / regret.shape[1] * 1e6
        rows.append(
            (
                name,
                f"{final.mean():.1f}",
                f"{error:.1f}",
                f"{low:.1f}",
                f"{high:.1f}",
                f"{microseconds:.1f}",
            )
        )
    print_table(("policy", "regret", "s.e.", "5 %", "95 %", "us a round"), rows)


@group.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def policies(*, names: tuple[str, ...]) -> None:
    """List the policies, or some: memory, reward model, arguments without effect, citation.

    \b
    Examples:
      driftbandits policies
      driftbandits policies auto D-GLUCB
    """
    from driftbandits.checks import choice
    from driftbandits.core.estimator.model import (
        BELIEF,
        DISCOUNT,
        EVERYTHING,
        SINCE_RESTART,
        WINDOW,
    )
    from driftbandits.policies import ALIASES, LIMITED, ROWS, SOURCES, policy_names, takes, uses

    memories = {
        WINDOW: "window",
        DISCOUNT: "discount",
        EVERYTHING: "everything",
        SINCE_RESTART: "since a detected change",
        BELIEF: "segments and drifts",
        None: "any",
    }
    wanted = [ALIASES.get(choice("NAME", name, policy_names()), name) for name in names]
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


group.add_command(bench)
group.add_command(log)
group.add_command(evaluate)
for command in COMMANDS:
    group.add_command(command)
