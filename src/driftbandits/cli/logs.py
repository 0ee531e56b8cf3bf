"""Logs of decisions: moved between files and stores, and used to judge another policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftbandits.cli.tables import print_table

if TYPE_CHECKING:
    from driftbandits.evaluate import Evaluation, Log, Value
    from driftbandits.features import Features
    from driftbandits.policies import Policy

Command = TypeVar("Command", bound=Callable[..., Any])

_FEATURES = click.option(
    "--features",
    "features_file",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Features as JSON (Features.to_json), for a DSJSON log whose actions have no vectors; "
    "guessed from the log unless given.",
)


def _policy_options(command: Command) -> Command:
    """The arguments of a policy. What is not given is left to the policy."""
    options = (
        click.option("--window", type=click.IntRange(min=1), help="Rounds that SW-* remember."),
        click.option("--discount", type=float, help="What D-* keep from round to round."),
        click.option("--horizon", type=click.IntRange(min=1), help="To tune a window or discount."),
        click.option("--changes", type=click.IntRange(min=0), help="To tune them, if known."),
        click.option("--bonus-scale", type=float, help="Multiplies the bonus."),
        click.option("--epsilon", type=float, help="Share of rounds drawn uniformly."),
        click.option("--reward", help="What a reward is: click, rating:1..5, amount:0..500 ..."),
        click.option("--outside", type=click.Choice(["clip", "refuse"]), help="Of its range."),
        click.option("--link", help="Reward model."),
        click.option("--m", type=float, help="Largest reward."),
        click.option("--intercept/--no-intercept", default=None, help="A constant feature."),
        click.option("--centre", type=float, help="Rewards are centre + mu(a.theta)."),
        click.option("-S", "--S", "S", type=float, help="Bound of theta."),
        click.option("-L", "--L", "L", type=float, help="Bound of an action."),
        click.option("--lam", type=float, help="Penalty."),
        click.option("--delta", type=float, help="Risk of a confidence bound."),
        click.option("--too-long", type=click.Choice(["refuse", "rescale"]), help="Actions > L."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


@click.group()
def log() -> None:
    """Move logs of decisions between files and stores.

    \b
    Examples:
      driftbandits log export sqlite:///driftbandits.db news.parquet --policy news
      driftbandits log import old.dsjson --store sqlite:///driftbandits.db --as news \\
          --policy auto --epsilon 0.05
    """


@log.command("export")
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--policy", help="Whose log, where SOURCE is a store.")
@_FEATURES
def export(*, source: str, target: Path, policy: str | None, features_file: Path | None) -> None:
    """Write the log in SOURCE, a store's URL or a file, to TARGET.

    \b
    Examples:
      driftbandits log export sqlite:///driftbandits.db news.parquet --policy news
      driftbandits log export old.dsjson old.parquet

    The name of a file tells its format: .parquet, or .dsjson, .json and .jsonl for the format of
    Vowpal Wabbit.
    """
    from driftbandits.evaluate import write_log

    found = _read(source, policy=policy, features_file=features_file, option="--policy")
    write_log(found, target)
    click.echo(_size(found))


def _size(found: Log) -> str:
    return f"{len(found)} decisions, {int(found.known.sum())} with a reward"


def _features(file: Path | None) -> Features | None:
    """The features in a file."""
    import json

    from driftbandits.features import features_from

    if file is None:
        return None
    try:
        return features_from(json.loads(file.read_text(encoding="utf-8")))
    except ValueError as error:
        raise click.UsageError(f"{file}: {error}") from None


def _read(source: str, *, policy: str | None, features_file: Path | None, option: str) -> Log:
    """The log of a policy in a store, or the one in a file."""
    from driftbandits.evaluate import read_log, read_stored

    if "://" not in source:
        if policy is not None:
            raise click.UsageError(f"{option} is for a store; a file has one log")
        return read_log(source, features=_features(features_file))
    if policy is None:
        raise click.UsageError(f"{option} must say whose log to take from the store")
    from driftbandits import store

    file = source.removeprefix("sqlite:///")
    if file != source and not Path(file).is_file():
        raise click.UsageError(f"there is no store {source}")  # opening it would make one
    with store.open(source) as opened, opened.read() as session:
        return read_stored(session, policy)


@log.command("import")
@click.argument("source", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--store", "url", metavar="URL", required=True, help="As `serve` has it.")
@click.option("--as", "name", metavar="NAME", required=True, help="Of the new policy.")
@click.option("--policy", required=True, help="What it is, see `driftbandits policies`.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--half-life-s", type=click.FloatRange(min=0, min_open=True), help="Forget by time.")
@click.option("--window-s", type=click.FloatRange(min=0, min_open=True), help="Forget by time.")
@_FEATURES
@_policy_options
def import_(
    *,
    source: Path,
    url: str,
    name: str,
    policy: str,
    seed: int,
    half_life_s: float | None,
    window_s: float | None,
    features_file: Path | None,
    **arguments: Any,
) -> None:
    """Make a new policy in a store that has learned the log in SOURCE.

    \b
    Example:
      driftbandits log import old.dsjson --store sqlite:///driftbandits.db --as news \\
          --policy auto --epsilon 0.05

    Every decision is recorded as one of somebody else's, at its own time, with its reward.
    """
    from driftbandits import store
    from driftbandits.cli.warming import warm
    from driftbandits.evaluate import read_log
    from driftbandits.service.forgetting import arguments_by_time

    found = read_log(source, features=_features(features_file))
    by_time = arguments_by_time(half_life_s=half_life_s, window_s=window_s)
    given = _given(arguments) | by_time
    made = _policy(policy, **_takes(policy, found), **given)
    with store.open(url) as opened:
        warm(
            opened,
            name,
            found,
            policy=made,
            seed=seed,
            half_life_s=half_life_s,
            window_s=window_s,
        )
    click.echo(_size(found))


@log.command("archive")
@click.option("--store", "url", metavar="URL", required=True, help="As `serve` has it.")
@click.option("--policy", required=True, help="Whose log.")
@click.option(
    "--to",
    "folder",
    metavar="FOLDER",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the files go; the same one every time.",
)
@click.option(
    "--before-days", type=click.FloatRange(min=0), required=True, help="Events that are older."
)
def archive(*, url: str, policy: str, folder: Path, before_days: float) -> None:
    """Move old events of a policy out of a store, into Parquet files.

    \b
    Example:
      driftbandits log archive --store sqlite:///driftbandits.db --policy news \\
          --to archive --before-days 90
      driftbandits verify --store sqlite:///driftbandits.db --archive archive

    The files are read again and compared before anything is taken out. The service may go on
    meanwhile; decisions in the archive are not repeated to callers, nor made again (410).
    """
    import time

    from driftbandits import store
    from driftbandits.cli.progress import Progress
    from driftbandits.cli.serving import check_exists
    from driftbandits.service.archiving import archive as run

    check_exists(url)
    progress = Progress()
    before_ns = time.time_ns() - int(before_days * 86_400e9)
    with store.open(url) as opened:
        done = run(opened, policy, folder, before_ns=before_ns, say=progress)
    progress.end()
    click.echo(f"{done.written} events more, {done.last} in all, in {folder}")


@click.command()
@click.argument("source", metavar="LOG")
@click.option("--policy", "names", multiple=True, required=True, help="May be repeated.")
@click.option("--of", metavar="NAME", help="Whose log, where LOG is a store's URL.")
@click.option("--windows", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@_FEATURES
@_policy_options
def evaluate(
    *,
    source: str,
    names: tuple[str, ...],
    of: str | None,
    windows: int,
    level: float,
    seed: int,
    as_json: bool,
    features_file: Path | None,
    **arguments: Any,
) -> None:
    """Estimate what a policy would have earned a round on LOG, a file or a store's URL.

    \b
    Example:
      driftbandits evaluate news.parquet --policy D-GLUCB --discount 0.999 --bonus-scale 0.1

    replay: the policy learns along the log from the rounds in which it agrees with it. IPS, SNIPS,
    DR: in each window it stays as it is, having learned all logged rounds before it.
    """
    from driftbandits.evaluate import evaluate as evaluate_on
    from driftbandits.evaluate.candidates import policy_for

    found = _read(source, policy=of, features_file=features_file, option="--of")
    given = _given(arguments)
    results, failures = [], {}
    for name in names:
        try:
            policy = policy_for(found, name, **_of_all(name, names, given))
            results.append(evaluate_on(found, policy, windows=windows, level=level, seed=seed))
        except ValueError as error:
            failures[name] = str(error)
    if failures and not results:
        raise click.UsageError("; ".join(failures.values()))
    if as_json:
        _print_json(results, failures)
    elif results:
        _print_overall(results)
        for result in results:
            _print_windows(result)
            for note in result.notes:
                click.echo(f"Note on {result.target}: {note}")
    if failures:
        told = [f"{name} could not be evaluated: {reason}" for name, reason in failures.items()]
        raise click.ClickException("; ".join(told))


def _print_json(results: list[Evaluation], failures: dict[str, str]) -> None:
    import json

    told = [result.as_dict() for result in results]
    told += [{"target": name, "error": reason} for name, reason in failures.items()]
    click.echo(json.dumps(told, allow_nan=False, indent=2))


def _of_all(name: str, names: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Of options for several policies those that this one takes; one alone refuses the others."""
    from driftbandits.policies import policy_names, takes

    if len(names) == 1 or name not in policy_names():
        return given
    return {key: value for key, value in given.items() if takes(name, key)}


def _takes(name: str, found: Log) -> dict[str, Any]:
    """What a policy that goes on from a log decides by: vectors, or the log's features.

    One that can grow takes them with room for levels to come, others as they were fitted.
    """
    from driftbandits.policies import ALIASES, ROWS
    from driftbandits.policies.adaptations import ADAPTATIONS

    if found.features is None:
        return {"dim": found.dim}
    row = ROWS.get(ALIASES.get(name, name))
    grows = row is not None and hasattr(ADAPTATIONS[row.adaptation], "carry_over")
    return {"features": found.features.with_columns() if grows else found.features}


def _policy(name: str, **arguments: Any) -> Policy:
    from driftbandits.policies import policy

    try:
        return policy(name, **arguments)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _print_overall(results: list[Evaluation]) -> None:
    percent = f"{100 * results[0].level:g} %"
    rows = [("", "logged", *_cells(results[0].overall["logged"]))]
    for result in results:
        for name, value in result.overall.items():
            if name != "logged":
                rows.append((result.target, name, *_cells(value)))
    print_table(("policy", "estimator", "reward", f"from ({percent})", "to", "rounds"), rows)


def _cells(value: Value) -> tuple[str, str, str, str]:
    reward, low, high = ("–" if math.isnan(x) else f"{x:.4f}" for x in value[:3])
    return reward, low, high, f"{value.rounds:.0f}"


def _half_width(value: Value) -> str:
    if math.isnan(value.value):
        return "–"
    if math.isnan(value.high):
        return f"{value.value:.3f} ± ?"
    return f"{value.value:.3f} ± {max(value.high - value.value, value.value - value.low):.3f}"


def _print_windows(result: Evaluation) -> None:
    from driftbandits.evaluate.dsjson import timestamp

    names = list(result.overall)
    rows = []
    for window in result.windows:
        values = [window.values.get(name) for name in names]
        half_widths = ["" if v is None else _half_width(v) for v in values]
        rows.append((timestamp(window.begins)[:19], *half_widths))
    print_table((f"{result.target}, from", *names), rows)
