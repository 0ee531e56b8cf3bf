"""Logs of decisions: moved between files and stores, and used to evaluate other policies."""

from __future__ import annotations

import csv
import json
import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftbandits.cli.terminal import print_table

if TYPE_CHECKING:
    from driftbandits.evaluate import Evaluation, Log, Value
    from driftbandits.features import Features

Command = TypeVar("Command", bound=Callable[..., Any])

_COLUMNS = {
    "context": ("A,B,C", "Columns that were known at the decision; may be repeated."),
    "arm": ("COLUMN", "The arm that was chosen."),
    "reward": ("COLUMN", "Its reward; empty if unknown."),
    "propensity": (
        "COLUMN",
        "The probability of the choice: a column, one number for all rows, or 'estimate'. "
        "`evaluate` only replays without it; `export` and `import` need it for a table.",
    ),
    "offered": ("COLUMN", "Arms to choose from, as a|b|c.  [default: all]"),
    "time": ("COLUMN", "Time of the decision."),
    "event_id": ("COLUMN", "A name of the decision."),
}
_ARGUMENTS: dict[str, tuple[Any, str]] = {
    "window": (click.IntRange(min=1), "Rounds that SW-* remember."),
    "discount": (float, "What D-* keep from round to round."),
    "horizon": (click.IntRange(min=1), "Tunes the memory."),
    "changes": (click.IntRange(min=0), "Tunes it, if known."),
    "bonus_scale": (float, "Multiplies the bonus."),
    "epsilon": (float, "Share of rounds drawn uniformly."),
    "reward_kind": (str, "click, rating:1..5, count, amount:0..500, cost ..."),
    "outside": (click.Choice(["clip", "refuse"]), "What to do with rewards outside its range."),
    "link": (str, "Reward model."),
    "m": (float, "Largest reward."),
    "intercept": (bool, "A constant feature."),
    "centre": (float, "Rewards are centre + mu(a.theta)."),
    "S": (float, "Bound of theta."),
    "L": (float, "Bound of an action."),
    "lam": (float, "Penalty."),
    "delta": (float, "Risk of a confidence bound."),
    "too_long": (click.Choice(["refuse", "rescale"]), "What to do with actions beyond L."),
}


_SECONDS = click.FloatRange(min=0, min_open=True)


def _option(name: str, **how: Any) -> Callable[[Any], Any]:
    flag = name.replace("_", "-")
    if how.get("type") is bool:
        return click.option(f"--{flag}/--no-{flag}", name, default=None, help=how["help"])
    return click.option(f"--{flag}", name, **how)


def _table_options(command: Command) -> Command:
    """Add the options that say which columns of a table hold what."""
    features = click.option(
        "--features",
        "features_file",
        metavar="FILE",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="Features as JSON (Features.to_json), for a log of tables or DSJSON.  "
        "[default: guessed]",
    )
    columns = [
        _option(name, metavar=metavar, help=text, multiple=name == "context")
        for name, (metavar, text) in _COLUMNS.items()
    ]
    return _with(command, [*columns, features])


def _policy_options(command: Command) -> Command:
    """Add the arguments of a policy. What is not given is left to the policy."""
    return _with(
        command, [_option(name, type=kind, help=text) for name, (kind, text) in _ARGUMENTS.items()]
    )


def _with(command: Command, options: list[Callable[[Any], Any]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def _policy_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a policy that were given."""
    given = {name: options[name] for name in _ARGUMENTS if options[name] is not None}
    if "reward_kind" in given:
        given["reward"] = given.pop("reward_kind")
    return given


def _column_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that were given, as `read_log` takes them."""
    given = {name: options[name] for name in _COLUMNS if options[name] not in (None, ())}
    if "context" in given:  # as in a line of CSV, so that quotes may hold a comma
        rows = csv.reader(given["context"], skipinitialspace=True)
        given["context"] = [name.strip() for row in rows for name in row if name.strip()]
    if "propensity" in given:
        with suppress(ValueError):  # the name of a column, or "estimate"
            given["propensity"] = float(given["propensity"])
    return given


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
@click.option("--policy", help="The policy, if SOURCE is a store's URL.")
@_table_options
def export(*, source: str, target: Path, policy: str | None, **options: Any) -> None:
    """Write the log in SOURCE, a store's URL or a file, to TARGET.

    \b
    Examples:
      driftbandits log export sqlite:///driftbandits.db news.parquet --policy news
      driftbandits log export visits.csv visits.parquet --context age,country --arm shown \\
          --reward clicked --propensity p

    The name of a file says its format: .parquet, .csv (also .csv.gz, .tsv), or .dsjson, .json and
    .jsonl for the format of Vowpal Wabbit.
    """
    from driftbandits.evaluate import write_log

    found = _read(source, policy=policy, option="--policy", keep=True, **options)
    write_log(found, target)
    click.echo(_size(found))


def _size(found: Log) -> str:
    return f"{len(found)} decisions, {int(found.known.sum())} with a reward"


def _features(file: Path | None) -> Features | None:
    """Read features from a file."""
    from driftbandits.features import features_from

    if file is None:
        return None
    try:
        return features_from(json.loads(file.read_text(encoding="utf-8")))
    except ValueError as error:
        raise click.UsageError(f"{file}: {error}") from None


def _read(
    source: str, *, policy: str | None, option: str, keep: bool = False, **options: Any
) -> Log:
    """Read the log of a policy in a store, or the one in a file; warnings are printed.

    A log to `keep` must have propensities: a copy would not say that nobody knows them.
    """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        found = _log_in(source, policy=policy, option=option, **options)
    for one in told:
        click.echo(f"Warning: {one.message}", err=True)
    if keep and found.propensities == "unknown":
        raise click.UsageError(
            "--propensity must be given to keep a log: the column with the probability of each "
            "choice, one number if all are alike, or 'estimate'"
        )
    return found


def _log_in(source: str, *, policy: str | None, option: str, **options: Any) -> Log:
    from driftbandits.evaluate import read_log, read_stored

    columns = _column_arguments(options)
    if "://" not in source:
        if policy is not None:
            raise click.UsageError(f"{option} is for a store; a file has one log")
        if not Path(source).is_file():
            raise click.UsageError(f"there is no file {source!r}")
        return read_log(source, features=_features(options["features_file"]), **columns)
    if policy is None:
        raise click.UsageError(f"{option} must say whose log to take from the store")
    if columns:
        raise click.UsageError(f"--{next(iter(columns))} is for tables; a store knows its columns")
    from driftbandits import store

    file = source.removeprefix("sqlite:///")
    if file != source and not Path(file).is_file():
        raise click.UsageError(f"there is no store {source}")  # opening it would make one
    with store.open(source) as opened, opened.read() as session:
        return read_stored(session, policy)


@log.command("import")
@click.argument("source", type=click.Path(exists=True, dir_okay=False))
@click.option("--store", "url", metavar="URL", required=True, help="As `serve` has it.")
@click.option("--as", "name", metavar="NAME", required=True, help="Of the new policy.")
@click.option("--policy", required=True, help="What it is, see `driftbandits policies`.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--half-life-s", type=_SECONDS, help="Age at which a reward counts half.")
@click.option("--window-s", type=_SECONDS, help="Age at which a reward is forgotten.")
@_table_options
@_policy_options
def import_(
    *,
    source: str,
    url: str,
    name: str,
    policy: str,
    seed: int,
    half_life_s: float | None,
    window_s: float | None,
    **options: Any,
) -> None:
    """Make a new policy in a store that has learned the log in SOURCE.

    \b
    Examples:
      driftbandits log import old.dsjson --store sqlite:///driftbandits.db --as news \\
          --policy auto --epsilon 0.05
      driftbandits log import visits.csv --store sqlite:///driftbandits.db --as visits \\
          --policy auto --context age,country --arm shown --reward clicked --propensity p

    Every decision is recorded as one that somebody else made, at its own time, with its reward.
    """
    from driftbandits import store
    from driftbandits.cli.warming import check, warm
    from driftbandits.evaluate import rewards_outside
    from driftbandits.policies import policy as policy_of
    from driftbandits.service.configuration import arguments_by_time

    found = _read(source, policy=None, option="", keep=True, **options)
    forgetting = {"half_life_s": half_life_s, "window_s": window_s}
    given = _policy_arguments(options) | arguments_by_time(**forgetting)
    made = policy_of(policy, **_takes(policy, found), **given)
    check(name, found)
    with store.open(url) as opened:
        warm(opened, name, found, policy=made, seed=seed, **forgetting)
    click.echo(_size(found))
    for note in rewards_outside(found, made):
        click.echo(f"Warning: {note}", err=True)


@log.command("prune")
@click.option("--store", "url", metavar="URL", required=True, help="As `serve` has it.")
@click.option("--policy", required=True, help="Whose log.")
@click.option(
    "--before-days", type=click.FloatRange(min=0), required=True, help="Events that are older."
)
def prune(*, url: str, policy: str, before_days: float) -> None:
    """Take the content of old events out of a store, and keep what was learned from them.

    \b
    Example:
      driftbandits log export sqlite:///driftbandits.db 2025.parquet --policy news
      driftbandits log prune --store sqlite:///driftbandits.db --policy news --before-days 90

    A service on PostgreSQL may go on meanwhile. Callers who repeat a decision that was taken out
    are refused (410).
    """
    from driftbandits import store
    from driftbandits.cli.serving import check_exists
    from driftbandits.service.erasure import prune as run

    check_exists(url)
    with store.open(url) as opened:
        click.echo(f"{run(opened, policy, before_days=before_days)} events pruned")


@click.command()
@click.argument("source", metavar="LOG")
@click.option(
    "--policy", "names", multiple=True, default=("auto",), help="May be repeated.  [default: auto]"
)
@click.option("--of", metavar="NAME", help="The policy whose log to read, if LOG is a store's URL.")
@click.option("--windows", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@_table_options
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
    **options: Any,
) -> None:
    """Estimate the mean reward a round of a policy on LOG, a file or a store's URL.

    \b
    Examples:
      driftbandits evaluate visits.csv --context age,country --arm shown --reward clicked \\
          --propensity p
      driftbandits evaluate news.parquet --policy D-GLUCB --discount 0.999 --bonus-scale 0.1

    A table (.csv, .csv.gz, .tsv, .parquet) has one row for each decision; --context, --arm and
    --reward name its columns.

    replay: the policy learns along the log from the rounds in which it agrees with it. IPS, SNIPS,
    DR: in each window it stays as it is, having learned all logged rounds before it.
    """
    from driftbandits.evaluate import evaluate as evaluate_on
    from driftbandits.evaluate import policy_for

    found = _read(source, policy=of, option="--of", **options)
    given = _policy_arguments(options)
    results, failures = [], {}
    for name in names:
        try:
            policy = policy_for(found, name, **_of_all(name, names, given))
            parts = min(windows, len(found))
            results.append(evaluate_on(found, policy, windows=parts, level=level, seed=seed))
        except ValueError as error:
            failures[name] = str(error)
    if failures and not results:
        raise click.UsageError("; ".join(failures.values()))
    if as_json:
        plain = [result.as_dict() for result in results]
        plain += [{"target": name, "error": reason} for name, reason in failures.items()]
        click.echo(json.dumps(plain, allow_nan=False, indent=2))
    elif results:
        click.echo(_contents(found))
        _print_overall(results)
        notes: dict[str, list[str]] = {}
        for result in results:
            _print_windows(result)
            for note in result.notes:
                notes.setdefault(note, []).append(result.target)
        for note, targets in notes.items():
            click.echo(f"Note on {', '.join(targets)}: {note}")
    if failures:
        lines = [f"{name} could not be evaluated: {reason}" for name, reason in failures.items()]
        raise click.ClickException("; ".join(lines))


def _contents(found: Log) -> str:
    """Say what the log holds, and what was made of its columns."""
    arms = len({id for ids in found.arm_ids or () for id in ids})
    line = f"{_size(found)}, {arms} arms, {found.dim} coordinates"
    if found.features is None:
        return line
    columns = ", ".join(f"{name} ({kind})" for name, kind in found.features.context.items())
    left_out = "".join(f"\nleft out {name}: {why}" for name, why in found.features.left_out.items())
    return f"{line}; context: {columns or 'none'}{left_out}"


def _of_all(name: str, names: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that this policy takes; a policy alone is given all, and refuses some."""
    from driftbandits.policies import policy_names, takes

    if len(names) == 1 or name not in policy_names():
        return given
    return {key: value for key, value in given.items() if takes(name, key)}


def _takes(name: str, found: Log) -> dict[str, Any]:
    """Return the arguments of a policy that goes on from a log: its dimension or its features.

    A policy that can grow takes features with room for new levels, others as they were fitted.
    """
    from driftbandits.policies import policy_names, row_of

    if found.features is None:
        return {"dim": found.dim}
    grows = name in policy_names() and row_of(name).believes
    return {"features": found.features.with_columns() if grows else found.features}


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
    from driftbandits.evaluate import timestamp

    names = list(result.overall)
    rows = []
    for window in result.windows:
        values = [window.values.get(name) for name in names]
        half_widths = ["" if v is None else _half_width(v) for v in values]
        has_times = window.begins != window.first  # decisions without times are numbered
        begins = timestamp(window.begins)[:19] if has_times else f"decision {window.first + 1}"
        rows.append((begins, *half_widths))
    print_table((f"{result.target}, from", *names), rows)
