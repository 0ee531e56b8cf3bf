"""The sections of the page; an experiment's file names its section.

regret  regret over time with a table, and where the estimates were if the truth is a fixed path
share   the share of rewarded rounds over time, before and after a change
growth  final regret of the variants of a sweep against the horizon or the number of changes
worlds  one table for the variants of a sweep
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from driftbandits.experiments import REPRODUCED, published
from driftbandits.report import statistics
from driftbandits.report.charts import Chart, Figure, Line, Reference, lines, paths
from driftbandits.report.formats import counted, joined, number, plus_minus
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


class Column(NamedTuple):
    """A column of a table on the page."""

    heading: str
    cells: Sequence[str]
    kind: str = "number"  # or text


class Table(NamedTuple):
    """A data frame for a CSV file, and how the page shows it. `looks` are those of its labels."""

    name: str
    caption: str
    frame: pl.DataFrame
    columns: Sequence[Column]
    looks: Mapping[str, Look] | None = None


class Picture(NamedTuple):
    """A figure with its caption, and the numbers behind it by the name of their CSV file."""

    figure: Figure
    caption: str
    frames: Mapping[str, pl.DataFrame]


class Entry(NamedTuple):
    """One experiment or sweep on the page; `value` and `what` stand on the first screen."""

    id: str
    title: str
    text: str
    finding: str
    parts: Sequence[Picture | Table]
    value: str = ""
    what: str = ""


class Section(NamedTuple):
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
            sweep = _growth if kind == "growth" else _worlds
            entries = [sweep(group) for group in grouped(mine).values()]
        else:
            entries = [_entry(recording) for recording in mine]
        if entries:
            found.append(Section(kind, title, entries))
    return found


# -- columns ---------------------------------------------------------------------------------------


def numbers(heading: str, values: pl.Series, form: str) -> Column:
    return Column(heading, [number(value, form) for value in values])


def means(heading: str, frame: pl.DataFrame, mean: str = "mean", se: str = "se") -> Column:
    return Column(heading, [plus_minus(*row) for row in frame.select(mean, se).iter_rows()])


def _policies(frame: pl.DataFrame) -> Column:
    return Column("policy", frame["policy"].to_list(), "text")


# -- one experiment --------------------------------------------------------------------------------


def _entry(recording: Recording) -> Entry:
    measure = recording.measure
    parts: list[Picture | Table]
    if measure == SHARE:
        parts, more, less = _share(recording), "largest share", "smallest"
    elif measure == REGRET:
        parts = [_regret(recording), _summary(recording), *_estimates(recording)]
        more, less = "least regret", "most"
    else:
        parts, more, less = [_summary(recording)], "most reward a round", "least"
    ranked = statistics.ranked(recording)
    (best, reached), (worst, most) = ranked[0], ranked[-1]
    finding = f"{best} has the {more}, {plus_minus(reached.mean, reached.se)}"
    if len(ranked) > 1:
        finding += f"; {worst} has the {less}, {plus_minus(most.mean, most.se)}"
    if measure not in (REGRET, SHARE):
        finding = f"Regret is unknown, because some rewards were never observed. {finding}"
    return Entry(
        recording.name,
        recording.title,
        str(recording.spec["description"]),
        f"{finding}.",
        parts,
        value=number(reached.mean, ",.0f" if reached.mean >= 100 else ".3g"),
        what=f"{more}, {best}",
    )


def _summary(recording: Recording, more: pl.DataFrame | None = None) -> Table:
    """The summary of an experiment, with more columns of its own."""
    frame = statistics.summary(recording)
    decimals = ",.1f" if recording.measure == REGRET else ".3f"
    columns = [
        _policies(frame),
        means(recording.measure, frame),
        means("behind the best", frame, "behind", "behind_se"),
        numbers("5\u00a0%", frame["q05"], decimals),
        numbers("95\u00a0%", frame["q95"], decimals),
    ]
    if more is not None and more.height:
        frame = frame.join(more, on="policy", how="left", maintain_order="left")
        columns += [
            numbers("before the change", frame["before_the_change"], ".3f"),
            numbers("last eighth", frame["end_of_run"], ".3f"),
            numbers("last ÷ before", frame["end_over_before"], ".2f"),
        ]
    caption = (
        f"{counted(recording.replicates, 'run')} of {recording.horizon:,} rounds: mean ± "
        "standard error, by how much a policy is behind the best one in the same runs, and "
        "quantiles over runs."
    )
    if frame["intervals_held"].is_not_null().any():
        columns.append(numbers("intervals valid", frame["intervals_held"], ".1%"))
        caption += (
            " Intervals are valid in a run if each of them held, for every arm in every round of "
            "which the theory speaks."
        )
    columns += [
        numbers("rounds projected", frame["projections_per_round"], ".1%"),
        numbers("µs a round", frame["microseconds_per_round"], ",.1f"),
    ]
    return Table(f"{recording.name}-summary", caption, frame, columns, looks(recording.policies))


def _regret(recording: Recording) -> Picture:
    name = f"{recording.name}-regret"
    curve = statistics.over_time(recording.results.curves, "regret")
    what = "dynamic" if recording.spec["world"]["means_known"] else "realised"
    chart = Chart(
        y_title=f"cumulative {what} regret",
        lines=lines(recording, curve),
        changes=recording.changes,
    )
    runs = counted(recording.replicates, "run")
    caption = f"Cumulative {what} regret, mean over {runs}; {BANDS}."
    if recording.changes:
        caption += " Dashed: the changes."
    return Picture(Figure(name, [chart]), caption, {name: curve})


def _estimates(recording: Recording) -> list[Picture]:
    """A picture of the estimates, where there is a truth to compare them with."""
    theta = statistics.mean_theta(recording)
    drawn = paths(recording, theta)
    name = f"{recording.name}-theta"
    caption = (
        "Where the estimate stands, on average over the runs. Numbers are rounds, triangles the "
        "true parameters; a dotted line leads from each estimate to the truth of its round."
    )
    return [Picture(Figure(name, drawn, columns=3), caption, {name: theta})] if drawn else []


def _share(recording: Recording) -> list[Picture | Table]:
    window = max(1, recording.horizon // 8)
    shares = statistics.shares(recording.results.curves, window)
    titles = {"so_far": "so far", "recent": f"in the last {window:,} rounds"}
    curves = {column: statistics.over_time(shares.drop_nulls(column), column) for column in titles}
    drawn = {column: lines(recording, curve) for column, curve in curves.items()}
    # A share of few rounds may be anything, so the first rounds have no say in the axis of both.
    late = np.concatenate(
        [
            end[line.x >= 0.03 * recording.horizon]
            for line in (*drawn["so_far"], *drawn["recent"])
            for end in (line.low, line.high)
        ]
    )
    low, high = float(late.min()), float(late.max())
    room = 0.05 * (high - low)
    charts = [
        Chart(
            title=titles[column],
            y_title="share of positives found",
            lines=group,
            changes=recording.changes,
            references=[Reference("", np.array([1.0, recording.horizon]), np.full(2, 0.5))],
            share=True,
            y_range=(low - room, high + room),
        )
        for column, group in drawn.items()
    ]
    caption = (
        f"Share of rewarded rounds, so far and in the last {window:,}, mean over "
        f"{counted(recording.replicates, 'run')}; {BANDS}. Dotted: one half."
    )
    if recording.changes:
        caption += " Dashed: the change."
    name = f"{recording.name}-share"
    frames = {f"{name}-{key.replace('_', '-')}": curve for key, curve in curves.items()}
    return [
        Picture(Figure(name, charts, columns=2), caption, frames),
        _summary(recording, statistics.recovery(recording, window)),
    ]


# -- a sweep ---------------------------------------------------------------------------------------


def _growth(group: Sequence[Recording]) -> Entry:
    """Mean final regret against the horizon or the number of changes.

    Policies that forget have a line with the rate of the theory through their first point.
    """
    first = group[0]
    own, by = looks(first.policies), statistics.swept_by(group)
    axis, symbol, power = {
        "horizon": ("horizon T", "T", Fraction(2, 3)),
        "changes": ("number of changes Γ", "Γ", Fraction(1, 3)),
    }[by]
    points = statistics.growth(group, by)
    drawn: list[Line] = []
    references: list[Reference] = []
    heights = []
    for label, policy in first.policies.items():
        mine = points.filter(policy=label)
        x, y, se = (mine[name].cast(pl.Float64).to_numpy() for name in (by, "mean", "se"))
        drawn.append(Line(label, own[label], x, y, y - 2.0 * se, y + 2.0 * se))
        # Few runs have whiskers that would make the rest of the chart too small to read.
        heights += [y, np.fmax(y - 2.0 * se, y / 2.0), np.fmin(y + 2.0 * se, y * 2.0)]
        if (policy.get("window") or policy.get("discount")) and len(x):
            name = "" if references else f"growth as {symbol}^({power})"
            heights.append(y[0] * (x / x[0]) ** float(power))
            references.append(Reference(name, x, heights[-1]))
    chart = Chart(
        x_title=axis,
        y_title="mean final regret",
        lines=drawn,
        references=references,
        logarithmic=True,
        y_range=(
            float(np.nanmin(np.concatenate(heights))) / 1.1,
            float(np.nanmax(np.concatenate(heights))) * 1.1,
        ),
    )
    caption = (
        f"Mean final regret against the {axis}, both axes logarithmic; whiskers are two standard "
        f"errors. Dotted: growth as {symbol}^({power}) from the first point of each policy that "
        "forgets, which is the rate of the theory up to logarithms."
    )
    name, finding = first.file, ""
    parts: list[Picture | Table] = [Picture(Figure(name, [chart]), caption, {name: points})]
    fitted = statistics.slopes(points, by)
    if fitted.height:
        powers = [
            f"{plus_minus(slope, se)} for {policy}" for policy, slope, se in fitted.iter_rows()
        ]
        finding = f"Regret grows with the power {joined(powers)}."
        columns = [_policies(fitted), means("fitted power", fitted, "slope")]
        note = (
            f"The power of the {axis} with which regret grows, least squares on logarithms; its "
            "standard error is widened where the points do not lie on a line."
        )
        parts.append(Table(f"{name}-slopes", note, fitted, columns, own))
    return _of_a_sweep(first, finding, parts)


def _worlds(group: Sequence[Recording]) -> Entry:
    worlds = {str(recording.spec["variant"] or recording.name): recording for recording in group}
    measures = {recording.measure for recording in group}
    measure = measures.pop() if len(measures) == 1 else REGRET
    rows = []
    for label in dict.fromkeys(label for recording in group for label in recording.policies):
        row: dict[str, Any] = {"policy": label}
        for world, recording in worlds.items():
            row[world] = row[f"{world}_se"] = np.nan
            if label in recording.policies:
                values = statistics.values_of(recording, label, measure)
                row[world], row[f"{world}_se"], _ = statistics.estimate(values)
        played = pl.concat(
            recording.runs.filter(policy=label).select("seconds", "rounds") for recording in group
        )
        seconds, rounds = played.sum().row(0)
        row["microseconds_per_round"] = 1e6 * seconds / rounds
        rows.append(row)
    frame = pl.DataFrame(rows, infer_schema_length=None)
    columns = [
        _policies(frame),
        *(means(world, frame, world, f"{world}_se") for world in worlds),
        numbers("µs a round", frame["microseconds_per_round"], ",.1f"),
    ]
    runs = sorted({recording.replicates for recording in group})
    caption = (
        f"{measure.capitalize()}, mean ± standard error over {joined([str(n) for n in runs])} "
        f"runs. {'; '.join(f'{world}: {r.title}' for world, r in worlds.items())}. "
        "A dash: not played there."
    )
    return _of_a_sweep(group[0], "", [Table(f"{group[0].file}-worlds", caption, frame, columns)])


def _of_a_sweep(first: Recording, finding: str, parts: Sequence[Picture | Table]) -> Entry:
    title = str(first.spec["sweep_title"] or first.title)
    return Entry(first.file, title, str(first.spec["description"]), finding, parts)


# -- where it comes from ---------------------------------------------------------------------------


class Provenance(NamedTuple):
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
        numbers("runs", frame["runs"], ",d"),
        numbers("rounds", frame["rounds"], ",d"),
        numbers("seed", frame["seed"], "d"),
        Column("hash of the spec", frame["spec_hash"].to_list()),
        numbers("seconds in policies", frame["seconds_in_policies"], ",.1f"),
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
