"""The sections of the page; an experiment's file names its section.

regret  regret over time with a table, and where the estimates were if the truth is a fixed path
share   the share of rewarded rounds over time, before and after a change
growth  final regret of the variants of a sweep against the horizon or the number of changes
worlds  one table for the variants of a sweep
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import polars as pl

from driftbandits.experiments import REPRODUCED, published
from driftbandits.report import charts, statistics
from driftbandits.report.formats import counted, joined, number, plus_minus, whole
from driftbandits.report.recordings import REGRET, SHARE, Recording, grouped
from driftbandits.report.style import Look, looks

TITLES = {
    "regret": "Regret over time",
    "share": "Share of rewards found",
    "growth": "Growth of regret",
    "worlds": "Worlds side by side",
}
"""The sections in the order of the page."""
BANDS = "bands are the 5\u00a0% and 95\u00a0% quantiles"


@dataclass(frozen=True)
class Column:
    """A column of a table on the page."""

    heading: str
    cells: Sequence[str]
    kind: str = "number"  # or text


@dataclass(frozen=True)
class Table:
    """A data frame for a CSV file, and how the page shows it. `looks` are those of its rows."""

    name: str
    caption: str
    frame: pl.DataFrame
    columns: Sequence[Column]
    looks: Sequence[Look | None] = ()


@dataclass(frozen=True)
class Picture:
    """A figure with its caption, and the numbers behind it by the name of their CSV file."""

    figure: charts.Figure
    caption: str
    frames: Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Entry:
    """One experiment or sweep on the page; `value` and `what` stand on the first screen."""

    id: str
    title: str
    text: str
    finding: str
    parts: Sequence[Picture | Table]
    value: str = ""
    what: str = ""


@dataclass(frozen=True)
class Section:
    """A heading of the page with the experiments below it."""

    id: str
    title: str
    entries: Sequence[Entry]


def sections(recordings: Sequence[Recording]) -> list[Section]:
    """The sections that have experiments. The points of a grid are too many for a page."""
    shown = [recording for recording in recordings if not recording.spec["is_grid"]]
    found = []
    for kind, title in TITLES.items():
        mine = [recording for recording in shown if recording.section == kind]
        if kind in ("growth", "worlds"):
            entries = [_OF_A_SWEEP[kind](group) for group in grouped(mine).values()]
        else:
            entries = [_entry(recording) for recording in mine]
        if entries:
            found.append(Section(kind, title, entries))
    return found


# -- one experiment --------------------------------------------------------------------------------


def _entry(recording: Recording) -> Entry:
    by_share = recording.measure == SHARE
    if by_share:
        parts = _share(recording)
    elif recording.measure == REGRET:
        parts = [_regret(recording), _summary(recording), *_estimates(recording)]
    else:
        parts = [_summary(recording)]
    ranked = statistics.ranked(recording)
    (best, reached), (worst, most) = ranked[0], ranked[-1]
    value = plus_minus(reached.mean, reached.se)
    more, less = ("largest share", "smallest") if by_share else ("most reward a round", "least")
    if recording.measure == REGRET:
        more, less = "least regret", "most"
    finding = f"{best} has the {more}, {value}"
    if len(ranked) > 1:
        finding += f"; {worst} has the {less}, {plus_minus(most.mean, most.se)}"
    if recording.measure not in (REGRET, SHARE):
        finding = f"Regret is unknown, because some rewards were never observed. {finding}"
    text = str(recording.spec["description"])
    shown = number(reached.mean, ",.0f" if reached.mean >= 100 else ".3g")
    return Entry(
        recording.name, recording.title, text, f"{finding}.", parts, shown, f"{more}, {best}"
    )


def _summary(recording: Recording, more: pl.DataFrame | None = None) -> Table:
    """The summary of an experiment, with more columns of its own."""
    frame = statistics.summary(recording)
    decimals = ",.1f" if recording.measure == REGRET else ".3f"
    columns = [
        _policies(frame["policy"]),
        _means(recording.measure, frame["mean"], frame["se"]),
        _means("behind the best", frame["behind"], frame["behind_se"]),
        _numbers("5\u00a0%", frame["q05"], decimals),
        _numbers("95\u00a0%", frame["q95"], decimals),
    ]
    if more is not None and more.height:
        frame = frame.join(more, on="policy", how="left", maintain_order="left")
        columns += [
            _numbers("before the change", frame["before_the_change"], ".3f"),
            _numbers("last eighth", frame["end_of_run"], ".3f"),
            _numbers("last ÷ before", frame["end_over_before"], ".2f"),
        ]
    if frame["intervals_held"].is_not_null().any():
        columns.append(_numbers("intervals valid", frame["intervals_held"], ".1%"))
    columns += [
        _numbers("rounds projected", frame["projections_per_round"], ".1%"),
        _numbers("µs a round", frame["microseconds_per_round"], ",.1f"),
    ]
    caption = (
        f"{counted(recording.replicates, 'run')} of {whole(recording.horizon)} rounds: mean ± "
        "standard error, by how much a policy is behind the best one in the same runs, and "
        "quantiles over runs."
    )
    if frame["intervals_held"].is_not_null().any():
        caption += (
            " Intervals are valid in a run if each of them held, for every arm in every round of "
            "which the theory speaks."
        )
    own = looks(recording.policies)
    return Table(
        f"{recording.name}-summary", caption, frame, columns, [own[p] for p in frame["policy"]]
    )


def _regret(recording: Recording) -> Picture:
    name = f"{recording.name}-regret"
    curve = statistics.over_time(recording.results.curves, "regret")
    chart = charts.regret_chart(recording, curve)
    runs = counted(recording.replicates, "run")
    caption = f"{_sentence(chart.y_title)}, mean over {runs}; {BANDS}."
    if recording.changes:
        caption += " Dashed: the changes."
    return Picture(charts.Figure(name, [chart]), caption, {name: curve})


def _estimates(recording: Recording) -> list[Picture]:
    """A picture of the estimates, where there is a truth to compare them with."""
    means = statistics.mean_theta(recording)
    drawn = charts.paths(recording, means)
    name = f"{recording.name}-theta"
    caption = (
        "Where the estimate stands, on average over the runs. Numbers are rounds, triangles the "
        "true parameters; a dotted line leads from each estimate to the truth of its round."
    )
    return [Picture(charts.Figure(name, drawn, columns=3), caption, {name: means})] if drawn else []


def _share(recording: Recording) -> list[Picture | Table]:
    window = max(1, recording.horizon // 8)
    shares = statistics.shares(recording.results.curves, window)
    curves = {
        column: statistics.over_time(shares.drop_nulls(column), column)
        for column in ("so_far", "recent")
    }
    titles = {"so_far": "so far", "recent": f"in the last {whole(window)} rounds"}
    drawn = charts.share_charts(recording, {titles[key]: curve for key, curve in curves.items()})
    caption = (
        f"Share of rewarded rounds, so far and in the last {whole(window)}, mean over "
        f"{counted(recording.replicates, 'run')}; {BANDS}. Dotted: one half."
    )
    if recording.changes:
        caption += " Dashed: the change."
    name = f"{recording.name}-share"
    frames = {f"{name}-{key.replace('_', '-')}": curve for key, curve in curves.items()}
    return [
        Picture(charts.Figure(name, drawn, columns=2), caption, frames),
        _summary(recording, statistics.recovery(recording, window)),
    ]


# -- a sweep ---------------------------------------------------------------------------------------


def _growth(group: Sequence[Recording]) -> Entry:
    first = group[0]
    name, title = _name_and_title(group)
    by = statistics.swept_by(group)
    axis, symbol, power = {
        "horizon": ("horizon T", "T", Fraction(2, 3)),
        "changes": ("number of changes Γ", "Γ", Fraction(1, 3)),
    }[by]
    points = statistics.growth(group, by)
    fitted = statistics.slopes(points, by)
    chart = charts.growth_chart(
        first,
        points,
        by=by,
        x_title=axis,
        power=float(power),
        rate=f"growth as {symbol}^({power})",
        forgetting=[
            label
            for label, policy in first.policies.items()
            if policy.get("window") or policy.get("discount")
        ],
    )
    caption = (
        f"Mean final regret against the {axis}, both axes logarithmic; whiskers are two standard "
        f"errors. Dotted: growth as {symbol}^({power}) from the first point of each policy that "
        "forgets, which is the rate of the theory up to logarithms."
    )
    parts: list[Picture | Table] = [Picture(charts.Figure(name, [chart]), caption, {name: points})]
    finding = ""
    if fitted.height:
        powers = [
            f"{plus_minus(row['slope'], row['se'])} for {row['policy']}"
            for row in fitted.iter_rows(named=True)
        ]
        finding = f"Regret grows with the power {joined(powers)}."
        own = looks(first.policies)
        columns = [
            _policies(fitted["policy"]),
            _means("fitted power", fitted["slope"], fitted["se"]),
        ]
        note = (
            f"The power of the {axis} with which regret grows, least squares on logarithms; its "
            "standard error is widened where the points do not lie on a line."
        )
        parts.append(
            Table(f"{name}-slopes", note, fitted, columns, [own[p] for p in fitted["policy"]])
        )
    return Entry(name, title, str(first.spec["description"]), finding, parts)


def _worlds(group: Sequence[Recording]) -> Entry:
    name, title = _name_and_title(group)
    columns = {str(recording.spec["variant"] or recording.name): recording for recording in group}
    measures = {recording.measure for recording in group}
    measure = measures.pop() if len(measures) == 1 else REGRET
    labels = dict.fromkeys(label for recording in group for label in recording.policies)
    frame = pl.DataFrame(
        [_in_worlds(label, columns, measure) for label in labels], infer_schema_length=None
    )
    shown = [_policies(frame["policy"])]
    shown += [_means(world, frame[world], frame[f"{world}_se"]) for world in columns]
    shown.append(_numbers("µs a round", frame["microseconds_per_round"], ",.1f"))
    runs = sorted({recording.replicates for recording in group})
    caption = (
        f"{_sentence(measure)}, mean ± standard error over {joined([str(n) for n in runs])} runs. "
        + "; ".join(f"{world}: {recording.title}" for world, recording in columns.items())
        + ". A dash: not played there."
    )
    text = str(group[0].spec["description"])
    return Entry(name, title, text, "", [Table(f"{name}-worlds", caption, frame, shown)])


_OF_A_SWEEP: Mapping[str, Callable[[Sequence[Recording]], Entry]] = {
    "growth": _growth,
    "worlds": _worlds,
}


def _name_and_title(group: Sequence[Recording]) -> tuple[str, str]:
    spec = group[0].spec
    return str(spec["sweep"] or spec["name"]), str(spec["sweep_title"] or spec["title"])


def _in_worlds(label: str, columns: Mapping[str, Recording], measure: str) -> dict[str, Any]:
    row: dict[str, Any] = {"policy": label}
    seconds = rounds = 0.0
    for world, recording in columns.items():
        found = statistics.NO_ESTIMATE
        if label in recording.policies:
            found = statistics.estimate(statistics.values_of(recording, label, measure))
        row[world], row[f"{world}_se"] = found.mean, found.se
        mine = recording.runs.filter(pl.col("policy") == label)
        seconds += float(mine["seconds"].sum())
        rounds += float(mine["rounds"].sum())
    return {**row, "microseconds_per_round": 1e6 * seconds / rounds}


# -- where it comes from ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Provenance:
    """The provenance of the results: versions, seeds, specs and commands."""

    versions: str
    processors: str
    commands: Sequence[str]
    table: Table


def provenance(recordings: Sequence[Recording]) -> Provenance:
    used: dict[str, set[str]] = {}
    for recording in recordings:
        for package, version in recording.spec["versions"].items():
            used.setdefault(package, set()).add(version)
    cpus = (recording.spec["cpu"] for recording in recordings)
    rows = [
        {
            "experiment": recording.name,
            "runs": recording.replicates,
            "rounds": recording.horizon,
            "seed": int(recording.spec["seed"]),
            "spec_hash": str(recording.spec["hash"])[:12],
            "seconds_in_policies": float(recording.runs["seconds"].sum()),
        }
        for recording in recordings
    ]
    frame = pl.DataFrame(rows)
    columns = [
        Column("experiment", frame["experiment"].to_list(), "text"),
        _numbers("runs", frame["runs"], ",d"),
        _numbers("rounds", frame["rounds"], ",d"),
        _numbers("seed", frame["seed"], "d"),
        Column("hash of the spec", frame["spec_hash"].to_list()),
        _numbers("seconds in policies", frame["seconds_in_policies"], ",.1f"),
    ]
    caption = "What was run. A replicate’s randomness depends on its seed and number alone."
    return Provenance(
        joined([f"{name} {' and '.join(sorted(found))}" for name, found in used.items()]),
        joined(sorted({str(cpu["model"] or cpu["machine"]) for cpu in cpus})),
        _commands(recordings),
        Table("provenance", caption, frame, columns),
    )


def _commands(recordings: Sequence[Recording]) -> list[str]:
    """Return the commands that make the results and the page again."""
    commands: dict[str, None] = {}
    for file in grouped(recordings):
        name = file.removesuffix("-grid")
        if name in REPRODUCED:
            runs = max(recording.replicates for recording in recordings)
            commands[f"driftbandits reproduce --runs {runs} --out results"] = None
        else:
            given = name if name in published() else f"{name}.toml"
            commands[f"driftbandits run {given} --out results"] = None
    return [*commands, "driftbandits report results"]


# -- columns ---------------------------------------------------------------------------------------


def _policies(labels: pl.Series) -> Column:
    return Column("policy", labels.to_list(), "text")


def _numbers(heading: str, values: pl.Series, form: str) -> Column:
    return Column(heading, [number(value, form) for value in values])


def _means(heading: str, means: pl.Series, errors: pl.Series) -> Column:
    return Column(heading, [plus_minus(m, e) for m, e in zip(means, errors, strict=True)])


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]
