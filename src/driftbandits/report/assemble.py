"""From results to the page: which sections there are, what stands above and below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import polars as pl

from driftbandits.report import claims, numbers, suite
from driftbandits.report.honest import honest, swept_by
from driftbandits.report.page import (
    Book,
    Column,
    Section,
    counted,
    joined,
    named,
    number,
    write_page,
)
from driftbandits.report.sections import (
    bonus_of_all,
    others,
    real_data,
    simulated,
    with_error,
)
from driftbandits.report.studies import FORGETTING, Study, find_studies, sweeps
from driftbandits.report.suite_section import finding, suite_section

Studies = Mapping[str, Study]

TITLE = "Generalized linear bandits in a changing world"


def assemble(directory: Path, *, title: str | None) -> Path:
    if not directory.is_dir():
        raise ValueError(f"directory must be a folder with results; got {str(directory)!r}")
    studies = find_studies(directory)
    if not studies:
        raise ValueError(
            f"directory must hold at least one experiment with finished runs; "
            f"{str(directory)!r} has none"
        )
    book = Book(directory)
    page = directory / "report.html"
    write_page(
        page,
        title=title or TITLE,
        lead=_lead(studies),
        sections=_sections(book, studies),
        footer=_provenance(book, studies),
    )
    return page


def _sections(book: Book, studies: Studies) -> list[Section]:
    base = studies.get("abrupt2d")
    alone = _outside_a_suite(studies)
    real = [study for study in alone.values() if study.world in ("paired", "counts")]
    swept = [s for group in sweeps(alone).values() if swept_by(group) for s in group]
    told = {"abrupt2d", "abrupt2d-small-bonus", "abrupt2d-intercept", "abrupt2d-restart"}
    told |= {study.name for study in (*real, *swept)}
    made = [
        suite_section(book, studies),
        None if base is None else simulated(book, base),
        real_data(book, real),
        honest(book, alone),
        others(book, [study for name, study in alone.items() if name not in told]),
    ]
    return [section for section in made if section is not None]


def _outside_a_suite(studies: Studies) -> Studies:
    inside = suite.members(studies)
    return {name: study for name, study in studies.items() if name not in inside}


# -- above ---------------------------------------------------------------------------------------


def _lead(studies: Studies) -> str:
    alone = _outside_a_suite(studies)
    findings = [_finding(alone)] if alone else []
    if worlds := suite.worlds_of(studies):
        findings.append(finding(worlds, suite.lines_of(worlds)))
    parts = [f'<p class="finding">{text}</p>' for text in findings]
    missing = {study.name: study.missing for study in studies.values() if study.missing}
    if missing:
        words = [
            f"{escape(name)} ({counted(count, 'run')} to go)" for name, count in missing.items()
        ]
        parts.append(f'<p class="notice">Not finished yet: {joined(words)}.</p>')
    key = _key_figures(alone)
    if key:
        items = "\n".join(f"<div><dt>{what}</dt><dd>{value}</dd></div>" for what, value in key)
        parts.append(f'<dl class="key">\n{items}\n</dl>')
    return "\n".join(parts)


def _finding(studies: Studies) -> str:
    base = studies.get("abrupt2d")
    if base is not None:
        stationary = base.labelled("LogisticUCB")
        forgetting = [label for name in FORGETTING if (label := base.labelled(name))]
        if stationary is not None and forgetting:
            return _paper_finding(base, forgetting, stationary)
    study = next(iter(studies.values())) if base is None else base
    best = claims.ordering(study)[0]
    what = {
        "share found": "finds the largest share of positives",
        "final regret": "has the least regret",
        "reward a round": "has the most reward a round",
    }[study.measure]
    return (
        f"In {escape(study.title)}, {named(best)} {what}: {with_error(study, best)} over "
        f"{counted(study.replicates, 'run')} of {study.horizon:,} rounds."
    )


def _paper_finding(base: Study, forgetting: Sequence[str], stationary: str) -> str:
    own = numbers.values_of(base, stationary).mean()
    shares = [
        number(float(numbers.values_of(base, label).mean() / own), ".0%") for label in forgetting
    ]
    leaders = joined([f"{named(k)} ({with_error(base, k)})" for k in forgetting])
    order = claims.ordering(base)
    lead = set(order[: len(forgetting)]) == set(forgetting)
    text = (
        f"Over {counted(base.replicates, 'run')} of {base.horizon:,} rounds with "
        f"{counted(base.change_count, 'change')}, the policies that forget, {leaders}, end with "
        f"{joined(list(dict.fromkeys(shares)))} of the regret of {named(stationary)} "
        f"({with_error(base, stationary)}), which remembers everything"
    )
    if lead:
        return f"{text}; no other policy of the six does better." if len(order) == 6 else f"{text}."
    return f"{text}; the least regret has {named(order[0])} ({with_error(base, order[0])})."


def _key_figures(studies: Studies) -> list[tuple[str, str]]:
    """A few numbers to take away, as (words, value) in HTML."""
    key: list[tuple[str, str]] = []
    base = studies.get("abrupt2d")
    if base is not None:
        best, *_, worst = claims.ordering(base)
        for label, word in ((best, "least"), (worst, "most")):
            mean = float(numbers.values_of(base, label).mean())
            key.append((f"{word} regret, {named(label)}", number(mean, ",.0f")))
        frame = numbers.coverage(base)
        own = [base.labelled(name) for name in FORGETTING]
        held = frame.filter(pl.col("policy").is_in([label for label in own if label]))
        if held.height:
            key.append(
                (
                    "of runs within the intervals of Propositions 1 and 2, at every covered round",
                    number(int(held["held"].sum()) / int(held["runs"].sum()), ".1%"),
                )
            )
    for study in studies.values():
        if study.shows_share and bonus_of_all(study) != "bonus of the theory":
            frame = numbers.recovery(study)
            policy = study.labelled("D-GLUCB")
            if frame.height and policy is not None:
                row = frame.row(by_predicate=pl.col("policy") == policy, named=True)
                words = (
                    f"of its level before the change, {named(policy)} at the end of "
                    f"{escape(study.name)}"
                )
                key.append((words, number(row["end_over_first_segment"], ".0%")))
    return key[:4]


# -- below ---------------------------------------------------------------------------------------


def _provenance(book: Book, studies: Studies) -> str:
    rows = [
        (
            study.name,
            study.replicates,
            int(study.spec["seed"]),
            str(study.spec["hash"])[:12],
            study.horizon,
            float(study.runs["seconds"].sum()),
        )
        for study in studies.values()
    ]
    names = ["experiment", "runs", "seed", "spec_hash", "rounds", "seconds_in_policies"]
    columns = [
        Column("experiment", lambda row: escape(row["experiment"]), "text"),
        Column("runs", lambda row: f"{row['runs']:,}"),
        Column("rounds", lambda row: f"{row['rounds']:,}"),
        Column("seed", lambda row: str(row["seed"])),
        Column("hash of the spec", lambda row: f"<code>{escape(row['spec_hash'])}</code>"),
        Column("seconds in policies", lambda row: f"{row['seconds_in_policies']:,.1f}"),
    ]
    table = book.table(
        "provenance",
        pl.DataFrame(rows, schema=names, orient="row"),
        columns,
        "What was run. A replicate’s randomness depends on its seed and number alone.",
    )
    return f"{_versions(studies)}\n{_again(studies)}\n{table}"


def _versions(studies: Studies) -> str:
    used: dict[str, set[str]] = {}
    for study in studies.values():
        for package, version in dict(study.spec.get("versions") or {}).items():
            used.setdefault(str(package), set()).add(str(version))
    if not used:
        return ""
    words = [f"{escape(p)} {escape(' and '.join(sorted(v)))}" for p, v in used.items()]
    processors = {
        str(cpu.get("model") or cpu.get("machine"))
        for study in studies.values()
        if (cpu := study.spec.get("cpu"))
    }
    on = f", on {escape(' and '.join(sorted(processors)))}" if processors else ""
    return (
        f"<p>Made with {joined(words)}{on}. The same versions on the same type of processor give "
        "the same bits; times depend on the machine.</p>"
    )


def _again(studies: Studies) -> str:
    from driftbandits.experiments import published

    known = set(published())
    alone = _outside_a_suite(studies)
    own = [
        study.spec.get("sweep") or study.name
        for study in alone.values()
        if study.name not in known and study.spec.get("sweep") not in known
    ]
    lines = []
    if len(own) < len(alone):
        runs = max(study.replicates for study in alone.values())
        lines.append(f"driftbandits reproduce --runs {runs} --out results")
    lines += [f"driftbandits run {escape(name)}.toml --out results" for name in dict.fromkeys(own)]
    if len(alone) < len(studies):
        lines.append("make suite")
    else:
        lines.append("driftbandits report results")
    commands = "\n".join(lines)
    return f"<p>To make it again:</p>\n<pre><code>{commands}</code></pre>"
