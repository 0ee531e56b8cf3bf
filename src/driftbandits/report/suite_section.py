"""The section of a suite: a coloured table, what it is measured by, what was to be reached."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import polars as pl

from driftbandits.report import suite
from driftbandits.report.numbers import Estimate, estimate
from driftbandits.report.page import (
    Book,
    Column,
    Section,
    counted,
    joined,
    named,
    plain,
    plus_minus,
)
from driftbandits.report.sections import mean_column
from driftbandits.report.studies import Study, kind
from driftbandits.report.suite import Goal, Line, Point, Tuned, World

Studies = Mapping[str, Study]


def suite_section(book: Book, studies: Studies) -> Section | None:
    worlds = suite.worlds_of(studies)
    if not worlds:
        return None
    lines = suite.lines_of(worlds)
    parts = [
        _how(worlds),
        _goals(book, suite.goals_of(worlds, studies)),
        _ratios(book, worlds, lines),
        _detections(book, worlds, lines),
        _measures(book, worlds),
    ]
    return Section("suite", "Many worlds", "\n".join(part for part in parts if part))


def finding(worlds: Sequence[World], lines: Sequence[Line]) -> str:
    best = lines[0]
    return (
        f"Over {counted(len(worlds), 'world')}, {named(best.policy)} comes closest to what a "
        "policy with one memory reaches when its window or discount and its bonus are tuned in "
        f"hindsight for each world: {best.overall:.2f} times that regret in the geometric mean, "
        f"and {best.ratios[best.worst].mean:.2f} times in its worst world, {escape(best.worst)}."
    )


def _how(worlds: Sequence[World]) -> str:
    """How the comparison is made, and what flatters whom."""
    runs = sorted({len(world.replicates) for world in worlds})
    disagree = [escape(world.name) for world in worlds if len(world.best.points) > 1]
    differ = f" Where two are named below, the halves differ: {joined(disagree)}."
    return (
        "<p>In every world, each policy is held against the policy with a single memory whose "
        "window or discount and bonus turned out best there. That one is chosen on one half of "
        f"the {joined([str(count) for count in runs])} runs and compared on the other half, both "
        f"ways round, so that it is not flattered by the choice.{differ if disagree else ''} The "
        "grids use the radial projection, which is cheaper than the exact one. All policies are "
        "told the reward model; horizon, number of changes and the lengths of theta and of "
        "actions are told to all that the file of the suite does not keep from them.</p>"
    )


# -- the tables ----------------------------------------------------------------------------------


def _goals(book: Book, goals: Sequence[Goal]) -> str:
    if not goals:
        return ""
    rows = [(g.what, *g.reached, g.reach, g.dream, g.verdict) for g in goals]
    names = ["goal", "mean", "se", "reach", "dream", "verdict"]
    columns = [
        Column(
            f"{named(suite.UNTUNED)}, told nothing but the reward model",
            lambda row: escape(row["goal"]),
            "prose",
        ),
        Column("measured", lambda row: plus_minus(row["mean"], row["se"])),
        plain("reach", "to reach", "g"),
        plain("dream", "dream", "g"),
        Column("verdict", lambda row: escape(row["verdict"]), "text"),
    ]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return book.table("suite-goals", frame, columns, "What was to be reached; less is better.")


def _ratios(book: Book, worlds: Sequence[World], lines: Sequence[Line]) -> str:
    names = [world.name for world in worlds]
    restarted = suite.restarted_line(worlds)
    shown = [*([] if restarted is None else [restarted]), *lines]
    frame = pl.DataFrame([_row(line, names) for line in shown], infer_schema_length=None)
    columns = [
        Column("policy", lambda row: escape(row["policy"]), "text"),
        _heat("overall", "geometric mean"),
        _heat("worst", "worst world"),
        *(_heat(name, escape(name)) for name in names),
        plain("cost", f"cost over {suite.BASELINE}", ".2f"),
    ]
    caption = (
        "Mean regret over that of the best single-memory policy tuned in hindsight: below 1 (blue) "
        "is better than any fixed memory and bonus. First line: what knowing the changes would be "
        "worth, in the worlds that jump. The file has the standard errors."
    )
    return book.table("suite-ratios", frame, columns, caption, style="heat")


def _row(line: Line, names: Sequence[str]) -> dict[str, str | float | None]:
    none = Estimate(math.nan, math.nan)
    ratios = {name: line.ratios.get(name, none) for name in names}
    return {
        "policy": line.policy,
        "overall": line.overall,
        "worst": line.ratios[line.worst].mean,
        "worst_world": line.worst,
        "cost": line.cost,
        **{name: ratio.mean for name, ratio in ratios.items()},
        **{f"{name}_se": ratio.se for name, ratio in ratios.items()},
    }


def _heat(key: str, heading: str) -> Column:
    """A ratio on the colour of its size."""
    return Column(heading, lambda row: short(row[key]), paint=lambda row: _shade(row[key]))


def short(ratio: float) -> str:
    """Three digits at most, so that many columns have room."""
    if not math.isfinite(ratio):
        return "–"
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.0f}"


BETTER, EVEN, WORSE = (110, 175, 215), (253, 253, 251), (238, 150, 90)
"""Colours at a half, at one and from eight on; dark ink stays readable on all of them."""


def _shade(ratio: float) -> str:
    if not math.isfinite(ratio) or ratio <= 0:
        return ""
    log = math.log2(ratio)
    end, part = (BETTER, min(1.0, -log)) if log < 0 else (WORSE, min(1.0, log / 3.0))
    mixed = (round(a + part * (b - a)) for a, b in zip(EVEN, end, strict=True))
    return f"rgb({','.join(map(str, mixed))})"


def _detections(book: Book, worlds: Sequence[World], lines: Sequence[Line]) -> str:
    names = [world.name for world in worlds]
    rows = [
        {"policy": line.policy, **{world.name: world.detections(line.policy) for world in worlds}}
        for line in lines
    ]
    reported = [row for row in rows if any(row[name] for name in names)]
    if not reported:
        return ""
    changes = [world.study.facts.get("changes_a_run") for world in worlds]
    truth = {"policy": "true jumps", **dict(zip(names, changes, strict=True))}
    frame = pl.DataFrame([truth, *reported], infer_schema_length=None, strict=False)
    columns = [
        Column("policy", lambda row: escape(row["policy"]), "text"),
        *(plain(name, escape(name), ".3g") for name in names),
    ]
    caption = "Changes that a policy reported in a run, on average. A dash: theta never rests."
    return book.table("suite-detections", frame, columns, caption, style="heat")


def _measures(book: Book, worlds: Sequence[World]) -> str:
    """One line a world: what its ratios are measured by."""
    rows = [
        (
            world.name,
            world.study.title,
            len(world.replicates),
            _points(world.best),
            *_regret(world.best),
            world.best.flattered,
            *_regret(world.best_stationary),
            *_regret(world.best_restarted),
        )
        for world in worlds
    ]
    names = ["world", "title", "runs", "best", "mean", "se", "flattered"]
    names += ["stationary", "stationary_se", "restarted", "restarted_se"]
    columns = [
        Column("world", lambda row: f"<b>{escape(row['world'])}</b>", "text"),
        Column("what it is", lambda row: escape(row["title"]), "prose"),
        Column("runs", lambda row: f"{row['runs']:,}"),
        Column("best single memory in hindsight", lambda row: escape(row["best"]), "prose"),
        mean_column("its regret"),
        plain("flattered", "chosen on all runs"),
        mean_column("LogisticUCB, best bonus", "stationary", "stationary_se"),
        mean_column("restart at the true changes", "restarted", "restarted_se"),
    ]
    caption = (
        "The worlds, and what each ratio above is measured by: regret, mean ± s.e. The best that "
        "is chosen and compared on the same runs would have the regret of the next column."
    )
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return book.table("suite-worlds", frame, columns, caption)


def _regret(tuned: Tuned | None) -> Estimate:
    return Estimate(math.nan, math.nan) if tuned is None else estimate(tuned.regret)


def _points(tuned: Tuned) -> str:
    return " / ".join(point_words(point) for point in tuned.points)


def point_words(point: Point) -> str:
    """A point of a grid by what was tuned.

    >>> point_words({"name": "SW-GLUCB", "window": 100, "discount": None, "bonus_scale": 0.1})
    'SW-GLUCB, window 100, bonus × 0.1'
    """
    words = [kind(point)]
    if point["window"] is not None:
        words.append(f"window {point['window']}")
    if point["discount"] is not None:
        words.append(f"discount {point['discount']:g}")
    return ", ".join([*words, f"bonus × {point['bonus_scale']:g}"])
