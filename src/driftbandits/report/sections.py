"""The sections of the report, each made of what results there are. Every sentence with a number in
it is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from driftbandits.report import charts, claims, numbers
from driftbandits.report.page import (
    Book,
    Column,
    Section,
    counted,
    joined,
    named,
    number,
    plain,
    plus_minus,
    policy_column,
)
from driftbandits.report.studies import FORGETTING, Study, bonus_of, bonus_words
from driftbandits.report.style import looks

Studies = Mapping[str, Study]

RECOVERED = 0.9
"""Back at this part of the level before the change, a policy has recovered."""


BANDS = "bands are the 5&nbsp;% and 95&nbsp;% quantiles"


def mean_column(heading: str, mean: str = "mean", se: str = "se") -> Column:
    return Column(heading, lambda row: plus_minus(row[mean], row[se]))


def cost_columns() -> list[Column]:
    return [
        plain("microseconds_per_round", "µs a round", ",.1f"),
        Column("rounds projected", lambda row: number(row["projections_per_round"], ".1%")),
        plain("passes_per_round", "passes a round", ".3f"),
    ]


def summary_table(book: Book, study: Study) -> str:
    form = ",.1f" if study.measure == "final regret" else ".3f"
    columns = [
        policy_column(looks(study.policies)),
        mean_column(f"{study.measure} ±&nbsp;s.e."),
        plain("q05", "5&nbsp;%", form),
        plain("q95", "95&nbsp;%", form),
        *cost_columns(),
    ]
    caption = (
        f"{escape(study.title)}: {counted(study.replicates, 'run')} of "
        f"{study.horizon:,} rounds. A pass reads every remembered round once."
    )
    return book.table(f"{study.name}-summary", numbers.summary(study), columns, caption)


def regret_figure(book: Book, study: Study, caption: str) -> str:
    """The regret of a study over time, with its table."""
    curve = numbers.over_time(study.curves, "regret")
    book.save(f"{study.name}-regret", curve)
    figure = charts.Figure(f"{study.name}-regret", charts.regret_charts(study, curve))
    dashed = " Dashed: the changes." if study.changes else ""
    return (
        book.figure(
            figure,
            f"{caption} Mean over {counted(study.replicates, 'run')}; {BANDS}.{dashed}",
        )
        + "\n"
        + summary_table(book, study)
    )


def with_error(study: Study, label: str) -> str:
    return f"{plus_minus(*numbers.estimate(numbers.values_of(study, label)))}"


# -- the simulated world ------------------------------------------------------------------------


def simulated(book: Book, study: Study) -> Section:
    """The paper's Figures 1 and 2."""
    parts = [
        f"<p>In each of {study.horizon:,} rounds, {counted(study.facts['arms'], 'action')} of "
        f"dimension {study.facts['dim']} are offered. The parameter jumps at rounds "
        f"{joined([f'{t:,}' for t in study.changes])} and then stays. Every policy of a run "
        "sees the same actions and the same luck, so differences between policies are sharper "
        "than the bands suggest.</p>",
        regret_figure(book, study, "Cumulative dynamic regret (the paper’s Figure 1)."),
        _claims(book, study),
        _estimates(book, study),
    ]
    return Section("simulated", "A world that changes abruptly", "\n".join(parts))


def _claims(book: Book, study: Study) -> str:
    found = claims.claims(study)
    order = [f"{named(label)} ({with_error(study, label)})" for label in claims.ordering(study)]
    text = f"<p>From least to most regret: {joined(order)}.</p>"
    if not found:
        return text
    columns = [
        Column("what the paper says", lambda row: escape(row["claim"]), "prose"),
        Column(
            "closest comparison here",
            lambda row: (
                f"{named(row['better'])} less than {named(row['worse'])} by "
                f"{plus_minus(row['margin'], row['se'])}"
            ),
            "prose",
        ),
        Column("verdict", lambda row: escape(row["verdict"]), "prose"),
    ]
    table = book.table(
        f"{study.name}-claims",
        claims.as_frame(found),
        columns,
        "The paper’s ordering held against these runs, run by run; clear means beyond two "
        "standard errors.",
    )
    ratio = claims.spread_ratio(study)
    if ratio is not None:
        agrees = "as the paper found" if ratio > 1 else "unlike in the paper"
        text += (
            f"<p>The regret of the linear policies varies {'more' if ratio > 1 else 'less'} from "
            f"run to run, {agrees}: the narrowest of their final bands is {ratio:.1f} times as "
            "wide as the widest band of a policy that knows the link.</p>"
        )
    return text + "\n" + table


def _estimates(book: Book, study: Study) -> str:
    means = numbers.mean_theta(study)
    pictures = charts.paths(study, means)
    if not pictures:
        return ""
    book.save(f"{study.name}-theta", means)
    figure = book.figure(
        charts.Figure(f"{study.name}-theta", pictures, columns=3),
        "Where the estimate θ̂ stands, on average over the runs (the paper’s Figure 2). Numbers are "
        "rounds, triangles the true parameters; a dotted line leads from each estimate to the "
        "truth of its round.",
    )
    wide = means.select("policy", "round", "distance").pivot(on="round", values="distance")
    columns = [policy_column(looks(study.policies))]
    columns += [plain(name, f"{int(name):,}", ".2f") for name in wide.columns[1:]]
    table = book.table(
        f"{study.name}-theta-distance",
        wide,
        columns,
        "Distance of the mean estimate from the true parameter, by round.",
    )
    return f"<h3>What the policies believe</h3>\n{figure}\n{table}"


# -- real data ----------------------------------------------------------------------------------


def real_data(book: Book, studies: Sequence[Study]) -> Section | None:
    """The paper's Figure 3 for every table that was played, then the counts."""
    paired = [study for study in studies if study.world == "paired"]
    counts = [study for study in studies if study.world == "counts"]
    if not paired and not counts:
        return None
    parts = [_tables_used([*paired, *counts])]
    for table, group in _by_table(paired).items():
        parts.append(_paired(book, table, group))
    for study in counts:
        parts.append(
            f"<h3>{escape(study.title)}</h3>\n"
            "<p>Means are unknown in real data, so regret is realised regret: the best outcome "
            "on offer less the outcome chosen. Even a policy that knew every mean would have "
            "some. For counts the width of the bonus is a heuristic, because Poisson rewards are "
            "not bounded.</p>"
        )
        parts.append(regret_figure(book, study, "Realised regret."))
    return Section("real-data", "Real data", "\n".join(parts))


def table_of(study: Study) -> str:
    """The table that a world of cases is made of; fair and randhie are the worlds' own choices."""
    own = {"paired": "fair", "counts": "randhie"}[study.world]
    return str(study.spec["environment"].get("table", own))


def _tables_used(studies: Sequence[Study]) -> str:
    known = {
        "fair": "<code>fair</code> (extramarital affairs, yes or no; comes with statsmodels)",
        "randhie": "<code>randhie</code> (visits to a doctor, a count; comes with statsmodels)",
        "pima": "<code>pima</code> (diabetes, yes or no; the reader’s own copy)",
    }
    used = list(dict.fromkeys(table_of(study) for study in studies))
    names = joined([known.get(name, f"<code>{escape(name)}</code>") for name in used])
    text = f"<p>Tables used here: {names}. Features are standardised, a constant is added, and "
    text += "all rows are divided by the length of the longest.</p>"
    if "pima" in used:
        return text + (
            "<p>The paper’s table of Pima women may not be redistributed, so it does not come "
            "with the package: it was read from a copy that the reader has.</p>"
        )
    return text + (
        "<p>The paper’s own table of Pima women may not be redistributed: its owner asked for "
        "that. Whoever has a copy (a header line, 768 rows, the outcome last) adds it with "
        "<code>driftbandits reproduce --pima PATH</code>, and this section gains the same figure "
        "for it.</p>"
    )


def _by_table(studies: Sequence[Study]) -> dict[str, list[Study]]:
    """Paired studies of one table side by side, the widest bonus first."""
    grouped: dict[str, list[Study]] = {}
    for study in sorted(studies, key=lambda study: -max(map(bonus_of, study.policies.values()))):
        grouped.setdefault(table_of(study), []).append(study)
    return grouped


def bonus_of_all(study: Study) -> str:
    """The bonus of a study in words, or its title where the policies differ in it."""
    scales = {bonus_of(policy) for policy in study.policies.values()}
    return bonus_words(scales.pop()) if len(scales) == 1 else study.title


def _paired(book: Book, table: str, group: Sequence[Study]) -> str:
    windows = {study.name: max(1, study.horizon // 8) for study in group}
    so_far: list[charts.Chart] = []
    recent: list[charts.Chart] = []
    for study in group:
        shares = numbers.shares(study, windows[study.name])
        for column, made, title in (
            ("so_far", so_far, f"{bonus_of_all(study)}: share so far"),
            ("recent", recent, f"{bonus_of_all(study)}: last {windows[study.name]} rounds"),
        ):
            curve = numbers.over_time(shares.drop_nulls(column), column)
            book.save(f"{study.name}-share-{column.replace('_', '-')}", curve)
            made.append(charts.share_chart(study, curve, title))
    shown = [*charts.on_one_scale(so_far), *charts.on_one_scale(recent)]
    first = group[0]
    name = f"{first.name}-share"
    figure = book.figure(
        charts.Figure(name, shown, columns=len(group) if len(group) > 1 else 2),
        f"Share of positives found in pairs of one positive and one negative case of "
        f"<code>{escape(table)}</code> (the paper’s Figure 3), mean over "
        f"{counted(first.replicates, 'run')}; {BANDS}. Dashed: the roles are inverted. Dotted: "
        "choosing at random.",
    )
    parts = [f"<h3>Pairs of cases: {escape(table)}</h3>", figure]
    for study in group:
        parts += [_recovery(book, study), summary_table(book, study)]
    return "\n".join(parts)


def _recovery(book: Book, study: Study) -> str:
    frame = numbers.recovery(study)
    stretches = numbers.recovery_stretches(study)
    if stretches is None:
        return ""

    def rounds(stretch: tuple[int, int]) -> str:
        return f"rounds {stretch[0]:,}–{stretch[1]:,}"

    columns = [
        policy_column(looks(study.policies)),
        plain("whole_run", "whole run", ".3f"),
        plain("first_segment", rounds(stretches.segment), ".3f"),
        plain("end_of_first_segment", rounds(stretches.before), ".3f"),
        plain("end_of_run", rounds(stretches.after), ".3f"),
        plain("end_over_first_segment", "end ÷ first segment", ".2f"),
        plain("end_over_end_of_first_segment", "end ÷ end of first segment", ".2f"),
    ]
    table = book.table(
        f"{study.name}-recovery",
        frame,
        columns,
        f"{escape(bonus_of_all(study).capitalize())}: share of positives found, by stretch.",
    )
    return f"<p>{recovery_sentence(study)}</p>\n{table}"


def recovery_sentence(study: Study) -> str:
    """Are the policies that forget back, and ahead of the one that does not?"""
    frame = numbers.recovery(study)
    stretches = numbers.recovery_stretches(study)
    stationary = study.labelled("LogisticUCB")
    forgetting = [label for name in FORGETTING if (label := study.labelled(name))]
    if stretches is None or not forgetting:
        return ""
    levels = {row["policy"]: row for row in frame.iter_rows(named=True)}
    back = [levels[label]["end_over_first_segment"] for label in forgetting]
    verdict = "back above" if min(back) > RECOVERED else "not all back above"
    text = (
        f"With the {escape(bonus_of_all(study))}, {joined([named(k) for k in forgetting])} are "
        f"{verdict} {RECOVERED:g} of their first-segment level in rounds "
        f"{stretches.after[0]:,}–{stretches.after[1]:,}: they reach "
        f"{joined([f'{value:.2f}' for value in back])} of it"
    )
    if stationary is None:
        return text + "."
    gains = [numbers.difference(study, label, stationary) for label in forgetting]
    ahead = all(gain.mean > 0 and gain.clear for gain in gains)
    behind = all(gain.mean < 0 and gain.clear for gain in gains)
    place = "ahead of" if ahead else "behind" if behind else "not all clearly ahead of"
    return (
        f"{text} ({named(stationary)}: {levels[stationary]['end_over_first_segment']:.2f}). Over "
        f"the whole run they are {place} {named(stationary)}, by "
        f"{joined([plus_minus(*gain) for gain in gains])} in share."
    )


# -- everything else ----------------------------------------------------------------------------


def others(book: Book, studies: Sequence[Study]) -> Section | None:
    """Experiments of the reader's own: a figure and a table each."""
    if not studies:
        return None
    parts = []
    for study in studies:
        parts.append(f"<h3>{escape(study.title)}</h3>")
        if study.spec.get("description"):
            parts.append(f"<p>{escape(str(study.spec['description']))}</p>")
        if not study.has_regret:
            parts.append(
                "<p>Regret cannot be measured here, because some rewards were never observed; "
                "such a round counts as 0.</p>"
            )
            parts.append(summary_table(book, study))
        else:
            parts.append(regret_figure(book, study, "Regret."))
            parts.append(_estimates(book, study))
    return Section("others", "Further experiments", "\n".join(parts))
