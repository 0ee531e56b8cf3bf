"""What an honest reader needs beside the paper's figures: how far they carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import polars as pl

from driftbandits import theory
from driftbandits.policies import Policy, policy
from driftbandits.report import charts, claims, numbers
from driftbandits.report.page import (
    Book,
    Column,
    Section,
    joined,
    named,
    number,
    plain,
    plus_minus,
    policy_column,
)
from driftbandits.report.sections import (
    Studies,
    bonus_of_all,
    mean_column,
    regret_figure,
    with_error,
)
from driftbandits.report.studies import Study, bonus_of, bonus_words, kind, sweeps
from driftbandits.report.style import looks


def honest(book: Book, studies: Studies) -> Section | None:
    base, small = studies.get("abrupt2d"), studies.get("abrupt2d-small-bonus")
    parts = [
        _small_bonus(book, base, small),
        _intercept(book, studies.get("abrupt2d-intercept")),
        _restart(book, studies.get("abrupt2d-restart"), (base, small)),
        _coverage(book, list(studies.values())),
        _bounds(book, base or _first_with_bounds(studies)),
        *_all_growth(book, studies),
    ]
    body = "\n".join(part for part in parts if part)
    return Section("limits", "How far these figures carry", body) if body else None


def _all_growth(book: Book, studies: Studies) -> list[str]:
    """Sweeps of the horizon first."""
    swept = {name: (swept_by(group), group) for name, group in sweeps(studies).items()}
    return [
        _growth(book, name, by, group)
        for wanted in _RATES
        for name, (by, group) in swept.items()
        if by == wanted and len(group) > 1
    ]


# -- variations of figure 1 ---------------------------------------------------------------------


def _small_bonus(book: Book, base: Study | None, study: Study | None) -> str:
    if study is None:
        return ""
    text = "<p>The bonus that the theory asks for is wide. Here it is narrower, all else equal"
    if base is not None:
        shared = [label for label in base.policies if label in study.policies]
        best, best_now = claims.ordering(base)[0], claims.ordering(study)[0]
        lower = [
            label
            for label in shared
            if numbers.values_of(study, label).mean() < numbers.values_of(base, label).mean()
        ]
        text += (
            f": {len(lower)} of {len(shared)} policies have less regret for it. The best is now "
            f"{named(best_now)} with {with_error(study, best_now)}; with the bonus of the theory "
            f"it was {named(best)} with {with_error(base, best)}"
        )
    figure = regret_figure(book, study, f"Figure 1 again, {escape(bonus_of_all(study))}.")
    table = "" if base is None else _beside(book, base, study)
    return f"<h3>With a narrower bonus</h3>\n{text}.</p>\n{figure}\n{table}"


def _beside(book: Book, base: Study, study: Study) -> str:
    """Final regrets of the policies that two studies share."""
    rows = []
    for label in base.policies:
        if label in study.policies:
            one, two = (numbers.estimate(numbers.values_of(s, label)) for s in (base, study))
            rows.append((label, *one, *two, two.mean / one.mean))
    names = ["policy", "mean", "se", "mean_here", "se_here", "ratio"]
    columns = [
        policy_column(looks(base.policies)),
        mean_column(escape(bonus_of_all(base))),
        mean_column(escape(bonus_of_all(study)), "mean_here", "se_here"),
        plain("ratio", "ratio", ".2f"),
    ]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return book.table(f"{study.name}-beside", frame, columns, "Final regret, mean ± s.e.")


def _intercept(book: Book, study: Study | None) -> str:
    if study is None:
        return ""
    text = (
        "<p>The paper’s linear policies have no intercept: an action without features is "
        "predicted to pay nothing, while it pays half the time. Much of their regret comes from "
        "that, not from the missing link. Here they may fit a constant, or are told that rewards "
        f"lie about one half. {_linear_against_link(study)}</p>"
    )
    figure = regret_figure(book, study, f"{escape(study.title)}.")
    return f"<h3>With a fair chance for the linear policies</h3>\n{text}\n{figure}"


def _linear_against_link(study: Study) -> str:
    """For each bonus, the best linear policy against the best that knows the link."""
    order = claims.ordering(study)
    said = []
    for scale in sorted({bonus_of(p) for p in study.policies.values()}, reverse=True):
        same = [label for label in order if bonus_of(study.policies[label]) == scale]
        linear = [label for label in same if "LinUCB" in study.policies[label]["name"]]
        link = [label for label in same if label not in linear]
        if not linear:
            continue
        words = f"With the {bonus_words(scale)} the best of them is {named(linear[0])} "
        words += f"({with_error(study, linear[0])})"
        if link:
            gain = numbers.difference(study, link[0], linear[0])
            margin = plus_minus(abs(gain.mean), gain.se)
            if gain.clear:
                side = "less" if gain.mean > 0 else "more"
                words += f", {side} regret than {named(link[0])} by {margin}"
            else:
                words += f", and the difference to {named(link[0])}, {margin}, is not clear"
        said.append(f"{words}.")
    return " ".join(said)


def _restart(book: Book, study: Study | None, rivals: Sequence[Study | None]) -> str:
    if study is None:
        return ""
    words = [f"{with_error(study, label)} ({named(label)})" for label in claims.ordering(study)]
    text = (
        "<p>What would it be worth to know the changes? Policies that forget everything at each "
        f"true change end with {joined(words)}. "
    )
    best = claims.ordering(study)[0]
    for rival in rivals:
        if rival is not None:
            label = claims.ordering(rival)[0]
            factor = numbers.values_of(rival, label).mean() / numbers.values_of(study, best).mean()
            text += (
                f"The best without that knowledge, {named(label)} with the "
                f"{escape(bonus_of_all(rival))}, has {factor:.1f} times the least of these. "
            )
    figure = regret_figure(book, study, f"{escape(study.title)}.")
    return f"<h3>With the changes known</h3>\n{text}</p>\n{figure}"


# -- what the theory promises -------------------------------------------------------------------

_STATEMENTS = {"SW-GLUCB": "Proposition 1", "D-GLUCB": "Proposition 2"}


def made(entry: Mapping[str, Any]) -> Policy:
    """The policy that a line of a spec describes."""
    arguments = {key: value for key, value in entry.items() if key not in ("label", "restart")}
    return policy(**arguments)


def _promise(entry: Mapping[str, Any]) -> str:
    scale = bonus_of(entry)
    if scale != 1.0:
        return f"none (bonus × {scale:g})"
    return _STATEMENTS.get(kind(entry), "none in this paper")


def _covered_rounds(study: Study, entry: Mapping[str, Any]) -> float:
    """Share of the rounds about which the propositions say anything."""
    truth, player = study.true_theta, made(entry)
    if truth is None:
        return np.nan
    if player.window is not None:
        return float(theory.covered_by_window(truth, tau=player.window).mean())
    if player.discount is not None:
        return float(theory.covered_by_discount(truth, gamma=player.discount).mean())
    return ((study.changes[0] - 1) if study.changes else study.horizon) / study.horizon


def _coverage(book: Book, studies: Sequence[Study]) -> str:
    parts = []
    for study in studies:
        frame = numbers.coverage(study)
        if not frame.height:
            continue
        entries = [study.policies[label] for label in frame["policy"]]
        frame = frame.with_columns(
            pl.Series("promised_by", [_promise(entry) for entry in entries]),
            pl.Series("rounds_covered", [_covered_rounds(study, entry) for entry in entries]),
        )
        columns = [
            policy_column(looks(study.policies)),
            Column("promised by", lambda row: escape(row["promised_by"]), "text"),
            plain("rounds_covered", "rounds covered", ".1%"),
            Column("runs that hold", lambda row: f"{row['held']:,} of {row['runs']:,}"),
            plain("share", "share", ".3f"),
            Column("95&nbsp;% interval", lambda row: f"{row['low']:.3f}–{row['high']:.3f}"),
            plain("aim", "1 − δ", ".3f"),
        ]
        table = book.table(
            f"{study.name}-coverage",
            frame,
            columns,
            f"{escape(study.title)}: runs in which the interval held for every arm at every "
            "covered round at once; the interval of the share is exact (Clopper–Pearson).",
        )
        parts.append(f"<p>{_coverage_sentence(frame)}</p>\n{table}")
    if not parts:
        return ""
    intro = (
        "<p>A proposition about all rounds at once is tested by whole runs: one interval that "
        "misses, for any arm in any covered round, and the run counts as missed. A round is "
        "covered when the last change lies further back than the policy remembers.</p>"
    )
    return "\n".join(["<h3>Do the confidence intervals hold?</h3>", intro, *parts])


def _coverage_sentence(frame: pl.DataFrame) -> str:
    said = []
    for row in frame.iter_rows(named=True):
        if not str(row["promised_by"]).startswith("Proposition"):
            continue
        below = row["high"] < row["aim"]
        word = "contradicted" if below else "not contradicted"
        said.append(
            f"{row['promised_by']} is {word}: it promises {named(row['policy'])} a share of at "
            f"least {row['aim']:.2f}, and {row['held']:,} of {row['runs']:,} runs held."
        )
    return " ".join(said)


def _first_with_bounds(studies: Studies) -> Study | None:
    for study in studies.values():
        if study.facts.get("means_known") and any(study.labelled(name) for name in _STATEMENTS):
            return study
    return None


def _bounds(book: Book, study: Study | None) -> str:
    if study is None:
        return ""
    rows, forgetting = [], ""
    for label, entry in study.policies.items():
        if kind(entry) not in _STATEMENTS:
            continue
        player = made(entry)
        changes = study.change_count
        if player.window is not None:
            name, memory = "Theorem 1", f"τ = {player.window:,}"
            bound = theory.regret_bound_window(
                player.problem, horizon=study.horizon, tau=player.window, changes=changes
            )
        else:
            gamma = float(player.discount or 0.0)
            name, memory = "Theorem 2", f"γ = {gamma:.5f}"
            bound = theory.regret_bound_discount(
                player.problem, horizon=study.horizon, gamma=gamma, changes=changes
            )
            forgetting = _forgetting(study, gamma)
        mean, se = numbers.estimate(numbers.values_of(study, label))
        worst = study.horizon * player.link.m
        rows.append((label, name, memory, bound, worst, mean, se, bound / mean, bound > worst))
    if not rows:
        return ""
    names = ["policy", "theorem", "memory", "bound", "most_possible", "mean", "se", "ratio"]
    frame = pl.DataFrame(rows, schema=[*names, "vacuous"], orient="row")
    columns = [
        policy_column(looks(study.policies)),
        Column("bound of", lambda row: row["theorem"], "text"),
        Column("memory", lambda row: row["memory"]),
        plain("bound", "bound", ",.0f"),
        plain("most_possible", "most possible", ",.0f"),
        mean_column("measured regret"),
        plain("ratio", "bound ÷ measured", ",.0f"),
        Column("verdict", lambda row: "vacuous" if row["vacuous"] else "says something", "text"),
    ]
    table = book.table(
        f"{study.name}-bounds",
        frame,
        columns,
        "The regret bounds with their constants. Most possible: every round as bad as a round "
        "can be.",
    )
    vacuous = frame.filter(pl.col("vacuous")).height
    if vacuous == frame.height:
        verdict = (
            "Here every one of them lies above what a policy could lose at all: they are vacuous "
            "at this horizon, and what the theory contributes is the rate and the tuning."
        )
    else:
        verdict = f"{vacuous} of {frame.height} lie above what a policy could lose at all."
    return (
        "<h3>What the regret bounds say</h3>\n<p>The theorems bound the regret with constants that "
        f"can be computed. {verdict} {forgetting}</p>\n{table}"
    )


def _forgetting(study: Study, gamma: float) -> str:
    time = theory.forgetting_time(gamma)
    segments = np.diff([1, *study.changes, study.horizon + 1])
    shortest = int(segments.min())
    relation = "longer" if time > shortest else "shorter"
    return (
        f"The discounted policy is said to have forgotten a change after D(γ) = {time:,.0f} "
        f"rounds, {relation} than the shortest stretch without a change ({shortest:,})."
    )


# -- growth -------------------------------------------------------------------------------------

_RATES = {
    "horizon": ("horizon T", 2.0 / 3.0, "T^(2/3)", "T<sup>2/3</sup>"),
    "changes": ("number of changes Γ", 1.0 / 3.0, "Γ^(1/3)", "Γ<sup>1/3</sup>"),
}


def swept_by(group: Sequence[Study]) -> str | None:
    """What differs between the variants of a sweep: the horizon, or else the number of changes."""
    if len({study.horizon for study in group}) == len(group):
        return "horizon"
    if len({study.change_count for study in group}) == len(group):
        return "changes"
    return None


def _growth(book: Book, name: str, by: str, group: Sequence[Study]) -> str:
    points = numbers.growth(group, by)
    fitted = numbers.slopes(points, by)
    if not fitted.height:
        return ""
    x_title, power, plain_rate, rate = _RATES[by]
    chart = charts.growth_chart(
        group[0], points, by=by, x_title=x_title, power=power, rate=f"growth as {plain_rate}"
    )
    book.save(name, points)
    figure = book.figure(
        charts.Figure(name, [chart]),
        f"Mean final regret against the {x_title}, both axes logarithmic; whiskers are two "
        f"standard errors. Dotted: growth as {rate} from the first point of each policy that "
        "forgets.",
    )
    columns = [
        policy_column(looks(group[0].policies)),
        mean_column("fitted power ± s.e.", "slope"),
        Column("rate of the theory", lambda row: number(power, ".3f")),
    ]
    table = book.table(
        f"{name}-slopes",
        fitted,
        columns,
        f"The power of the {x_title} with which regret grows; the standard error is widened where "
        "the points do not lie on a line.",
    )
    said = joined(
        [
            f"{plus_minus(row['slope'], row['se'])} for {named(row['policy'])}"
            for row in fitted.iter_rows(named=True)
        ]
    )
    return (
        f"<h3>How regret grows with the {escape(x_title)}</h3>\n"
        f"<p>The theory bounds the growth of the policies that forget by {rate}, up to logarithms, "
        f"when they are tuned for it. The fitted powers are {said}.</p>\n{figure}\n{table}"
    )
