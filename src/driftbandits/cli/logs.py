"""Logs of decisions: moved between files and stores, and used to evaluate other policies."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftbandits.cli.serving import STORE
from driftbandits.cli.terminal import (
    COUNT,
    FILE,
    POSITIVE,
    SEED,
    WHOLE,
    Number,
    PolicyName,
    check_store,
    option,
    print_table,
    show_help,
)

if TYPE_CHECKING:
    from driftbandits.evaluate import Evaluation, Log, Value

Command = TypeVar("Command", bound=Callable[..., Any])

_COLUMNS = {
    "context": ("A,B,C", "Columns that were known at the decision; may be repeated."),
    "arm": ("COLUMN", "Column with the arm that was chosen."),
    "reward": ("COLUMN", "Column with its reward, empty where it is unknown."),
    "propensity": (
        "COLUMN",
        "Column with the probability of the choice, or one number for all rows, or 'estimate'. "
        "`evaluate` only replays without it; `export` and `import` need it for a table.",
    ),
    "offered": ("COLUMN", "Column with the arms on offer, as a|b|c.  [default: every arm]"),
    "time": ("COLUMN", "Column with the time of the decision.  [default: the order of the rows]"),
    "event_id": ("COLUMN", "Column with a name of the decision.  [default: the number of the row]"),
}
_LEVEL = Number(0, 1, min_open=True, max_open=True)
_ARGUMENTS: dict[str, tuple[Any, str]] = {
    "window": (WHOLE, "Number of rounds that SW-* policies remember."),
    "discount": (float, "Weight that D-* policies keep from round to round."),
    "horizon": (WHOLE, "Number of rounds that the memory is tuned for."),
    "changes": (COUNT, "Number of changes within the horizon, if known."),
    "bonus_scale": (float, "Factor of the bonus for exploration."),
    "epsilon": (float, "Share of rounds in which the arm is drawn uniformly."),
    "reward_kind": (str, "Meaning of rewards: click, rating:1..5, count, amount:0..500, cost ..."),
    "outside": (click.Choice(["clip", "refuse"]), "Handling of rewards outside their range."),
    "link": (str, "Reward model, instead of a kind of reward."),
    "m": (float, "Largest reward of the link."),
    "intercept": (bool, "Append a constant to every action."),
    "centre": (float, "Mean reward where the linear predictor is 0, less mu(0)."),
    "S": (float, "Bound of the length of theta."),
    "L": (float, "Bound of the length of an action."),
    "lam": (float, "Penalty lambda."),
    "delta": (float, "Probability that a confidence bound fails."),
    "too_long": (click.Choice(["refuse", "rescale"]), "Handling of actions longer than L."),
}


def _table_options(command: Command) -> Command:
    """Add the options that say which columns of a table hold what."""
    text = "File with Features.to_json(), for a table or DSJSON.  [default: guessed]"
    command = option("--features features_file", FILE, text, metavar="FILE")(command)
    for name, (metavar, text) in reversed(_COLUMNS.items()):
        how: dict[str, Any] = {"metavar": metavar, "multiple": name == "context"}
        command = option(f"--{name.replace('_', '-')}", str, text, **how)(command)
    return command


def _policy_options(command: Command) -> Command:
    """Add the arguments of a policy. What is not given is left to the policy."""
    for name, (kind, text) in reversed(_ARGUMENTS.items()):
        flag = name.replace("_", "-")
        flags = f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}"
        command = click.option(flags, name, type=kind, help=text)(command)
    return command


def _policy_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a policy that were given."""
    given = {name: options[name] for name in _ARGUMENTS if options[name] is not None}
    if "reward_kind" in given:
        from driftbandits.features import reward

        given["reward"] = given.pop("reward_kind")
        try:
            reward(given["reward"], outside=None, linear=True, any_number=True)
        except ValueError as error:
            raise click.UsageError(f"--reward-kind: {error}") from None
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


@click.group(invoke_without_command=True)
@click.pass_context
def log(context: click.Context) -> None:
    """Move logs of decisions between files and stores.

    \b
    Examples:
      driftbandits log export sqlite:///driftbandits.db news.parquet --policy news
      driftbandits log import old.dsjson --store sqlite:///driftbandits.db --as news \\
          --policy auto --epsilon 0.05
    """
    show_help(context)


@log.command("export")
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@option("--policy", str, "Policy whose log to read from a store.", metavar="NAME")
@_table_options
def export(*, source: str, target: Path, policy: str | None, **options: Any) -> None:
    """Write a log from a file or a store to a file.

    \b
    Examples:
      driftbandits log export sqlite:///driftbandits.db news.parquet --policy news
      driftbandits log export visits.csv visits.parquet --context age,country --arm shown \\
          --reward clicked --propensity p

    SOURCE is a file or the URL of a store. The name of a file tells its format: .parquet; .csv,
    .csv.gz or .tsv; or .dsjson, .json or .jsonl for the format of Vowpal Wabbit.
    """
    from driftbandits.evaluate import write_log

    found = _read(source, policy=policy, option="--policy", keep=True, **options)
    write_log(found, target)
    click.echo(_size(found))


def _size(found: Log) -> str:
    return f"{len(found)} decisions, {int(found.known.sum())} with a reward"


def _read(
    source: str,
    *,
    policy: str | None,
    option: str,
    features_file: Path | None,
    keep: bool = False,
    **options: Any,
) -> Log:
    """Read the log of a policy in a store, or the one in a file; warnings are printed.

    A log to `keep` must have propensities: a copy would not say that nobody knows them.
    """
    from driftbandits import store
    from driftbandits.evaluate import read_log, read_stored
    from driftbandits.features import features_from

    columns = _column_arguments(options)
    if "://" in source:
        if policy is None:
            raise click.UsageError(f"{option} must name the policy whose log to read")
        if columns:
            raise click.UsageError(f"--{next(iter(columns))} is for tables, and a store is none")
        check_store("the log", source)
        with store.open(source) as opened, opened.read() as session:
            return read_stored(session, policy)
    if policy is not None:
        raise click.UsageError(f"{option} is for a store; a file has one log")
    if not Path(source).is_file():
        raise click.UsageError(f"there is no file {source!r}")
    features = None
    if features_file is not None:
        try:
            features = features_from(json.loads(features_file.read_text(encoding="utf-8")))
        except ValueError as error:
            raise click.UsageError(f"--features: {features_file}: {error}") from None
    found = read_log(source, features=features, **columns)
    if keep and found.propensities == "unknown":
        raise click.UsageError(
            "--propensity must be given to keep a log: the column with the probability of each "
            "choice, one number if all are alike, or 'estimate'"
        )
    return found


@log.command("import")
@click.argument("source", type=click.Path(exists=True, dir_okay=False))
@STORE
@option("--as name", str, "Name of the new policy.", required=True, metavar="NAME")
@option("--policy", PolicyName(), "Kind of policy, see `driftbandits policies`.", required=True)
@SEED
@option("--half-life-s", POSITIVE, "Age in seconds at which a reward counts half.")
@option("--window-s", POSITIVE, "Age in seconds at which a reward is forgotten.")
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
    """Create a policy in a store that has learned a log.

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
    from driftbandits.policies import row_of, takes
    from driftbandits.service.configuration import arguments_by_time

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise click.UsageError(
            "--as must be 1 to 100 characters of A-Z a-z 0-9 . _ -, the first a letter or digit; "
            f"got {name!r}"
        )
    ages = ("--half-life-s", "discount", half_life_s), ("--window-s", "window", window_s)
    for flag, argument, age in ages:
        if age is not None and not takes(policy, argument):
            raise click.UsageError(f"{flag} has no effect on {policy} and must not be given")
    found = _read(source, policy=None, option="", keep=True, **options)
    forgetting = {"half_life_s": half_life_s, "window_s": window_s}
    given = _policy_arguments(options) | arguments_by_time(**forgetting)
    if found.features is None:
        given["dim"] = found.dim
    else:  # a policy that can grow takes features with room for new levels
        grows = row_of(policy).believes
        given["features"] = found.features.with_columns() if grows else found.features
    made = policy_of(policy, **given)
    check(found)
    with store.open(url) as opened:
        warm(opened, name, found, policy=made, seed=seed, **forgetting)
    click.echo(_size(found))
    for note in rewards_outside(found, made):
        click.echo(f"Warning: {note}", err=True)


@log.command("prune")
@STORE
@option("--policy", str, "Policy whose log to prune.", required=True, metavar="NAME")
@option("--before-days", Number(0, 1e5), "Age in days from which content is erased.", required=True)
def prune(*, url: str, policy: str, before_days: float) -> None:
    """Erase old events from a store, but not what was learned.

    \b
    Examples:
      driftbandits log export sqlite:///driftbandits.db 2025.parquet --policy news
      driftbandits log prune --store sqlite:///driftbandits.db --policy news --before-days 90

    A service on PostgreSQL may go on meanwhile. It refuses a repeated decision whose content was
    erased with 410.
    """
    from driftbandits import store
    from driftbandits.service.erasure import prune as run

    check_store("--store", url)
    with store.open(url) as opened:
        click.echo(f"{run(opened, policy, before_days=before_days)} events pruned")


@click.command()
@click.argument("source", metavar="LOG")
@option(
    "--policy names", PolicyName(), "Policy to evaluate; may be repeated.", ["auto"], multiple=True
)
@option("--of", str, "Policy whose log to read from a store.", metavar="NAME")
@option("--windows", WHOLE, "Number of windows that the log is cut into.", 10)
@option("--level", _LEVEL, "Confidence of the intervals.", 0.95)
@SEED
@option("--json as_json", bool, "Print JSON instead of tables.")
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
    """Estimate what a policy would have earned on a log.

    \b
    Examples:
      driftbandits evaluate visits.csv --context age,country --arm shown --reward clicked \\
          --propensity p
      driftbandits evaluate news.parquet --policy D-GLUCB --discount 0.999 --bonus-scale 0.1

    LOG is a file or the URL of a store. A table (.csv, .csv.gz, .tsv, .parquet) has one row for
    each decision; --context, --arm and --reward name its columns.

    The command prints the mean reward a round, by several estimators. Under `replay` the policy
    learns from the rounds in which it agrees with the log. Under IPS, SNIPS and DR it has learned
    every round before a window and stays as it is within the window.
    """
    from driftbandits.evaluate import evaluate as evaluate_on
    from driftbandits.evaluate import policy_for
    from driftbandits.policies import takes

    found = _read(source, policy=of, option="--of", **options)
    given = _policy_arguments(options)
    wanted = dict.fromkeys(names)
    policies = {}
    for name in wanted:  # a policy alone is given all options, and refuses some
        its = {key: x for key, x in given.items() if len(wanted) == 1 or takes(name, key)}
        policies[name] = policy_for(found, name, **its)
    results, failures = [], {}
    for name, policy in policies.items():
        try:
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
    else:
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
        raise click.UsageError("; ".join(lines))


def _contents(found: Log) -> str:
    """Say what the log holds, and what was made of its columns."""
    arms = len({id for ids in found.arm_ids or () for id in ids})
    line = f"{_size(found)}, {arms} arms, {found.dim} coordinates"
    if found.features is None:
        return line
    columns = ", ".join(f"{name} ({kind})" for name, kind in found.features.context.items())
    left_out = "".join(f"\nleft out {name}: {why}" for name, why in found.features.left_out.items())
    return f"{line}; context: {columns or 'none'}{left_out}"


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
