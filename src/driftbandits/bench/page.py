"""The benchmark as one page that needs no network, made by the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from driftbandits.bench.running import CEILING, FIXED, POINTS, RANDOM, REFERENCES, Result
from driftbandits.bench.scores import Overall, Score, overall, score_rows
from driftbandits.bench.tasks import read_task
from driftbandits.experiments import machine
from driftbandits.report.charts import Chart, Figure, Line
from driftbandits.report.formats import joined, number
from driftbandits.report.page import render
from driftbandits.report.sections import (
    Column,
    Entry,
    Picture,
    Provenance,
    Section,
    Table,
    numbers,
)
from driftbandits.report.style import Look, looks

MOST_CURVES = 8
TITLE = "Real decisions that drift"


def write_page(path: Path, results: Sequence[Result], command: str) -> None:
    """Write the page, with the folders `figures` and `tables` beside it."""
    scores = score_rows(results)
    labels = list(dict.fromkeys(score.entry for score in scores))
    own = looks({label: {"name": label.partition(" x")[0]} for label in labels})
    tasks = [_task(name, results, scores, own) for name in dict.fromkeys(s.task for s in scores)]
    overview = Section("overview", "All tasks", [_overview(scores, own)])
    found = [overview, Section("tasks", "Task by task", tasks)]
    path.parent.mkdir(parents=True, exist_ok=True)
    render(path, TITLE, found, _provenance(results, command))


def _overview(scores: Sequence[Score], own: Mapping[str, Look]) -> Entry:
    rows = overall(scores)
    frame = pl.DataFrame([row._asdict() for row in rows], infer_schema_length=None)
    columns = [
        Column("entry", frame["entry"].to_list(), "text"),
        _shares(rows),
        numbers("mean rank", frame["rank"], ".1f"),
        *_costs(frame),
    ]
    caption = (
        "How far each entry came on the way from random choices (0) to the ceiling (1), mean over "
        "the tasks that count, 95\u00a0% interval over runs; mean rank; median time of a decision "
        "and its update; the most memory that a task cost. A dash: not played on every task."
    )
    best = next(row for row in rows if row.entry not in REFERENCES)
    finding = f"{best.entry} comes farthest, {best.share:.0%} of the way"
    text = (
        "Everybody meets the same rows in the same order and sees the reward of its own arm alone. "
        "The ceiling is the best of nine logistic regressions that see all rewards."
    )
    table = Table("overall", caption, frame, columns, own)
    return Entry("overview", "Share of the way from random to the ceiling", text, finding, [table])


def _task(
    name: str, results: Sequence[Result], scores: Sequence[Score], own: Mapping[str, Look]
) -> Entry:
    task = read_task(name)
    mine = [score for score in scores if score.task == name]
    first = next(result for result in results if result.task == name and result.curve)
    at = np.unique(np.linspace(0, first.rounds - 1, POINTS).round()) + 1.0
    played = [s for s in mine if not math.isnan(s.reward) and s.entry not in REFERENCES]
    lines = []
    for label in (CEILING, *(score.entry for score in played[:MOST_CURVES]), FIXED, RANDOM):
        curves = np.array([r.curve for r in results if (r.task, r.entry) == (name, label)])
        lines.append(Line(label, own[label], at, curves.mean(0), curves.min(0), curves.max(0)))
    late = np.concatenate([line.y[len(at) // 8 :] for line in lines])
    room = 0.08 * float(np.ptp(late)) or 0.1
    chart = Chart(
        y_title="mean reward so far",
        lines=lines,
        changes=task.change_rounds(first.rounds),
        share=True,
        y_range=(float(late.min()) - room, float(late.max()) + room),
    )
    runs = len({result.run for result in results if result.task == name})
    curves_frame = pl.concat(
        pl.DataFrame(
            {"round": at.astype(int), "mean": line.y, "low": line.low, "high": line.high}
        ).select(pl.lit(line.label).alias("entry"), pl.all())
        for line in lines
    )
    picture = Picture(
        Figure(f"{name}-reward", [chart]),
        f"Mean reward so far, mean over {runs} runs, of the eight best entries; bands hold all "
        "runs. Dashed: the changes that were added.",
        {f"{name}-reward": curves_frame},
    )
    frame = pl.DataFrame([score._asdict() for score in mine], infer_schema_length=None)
    columns = [
        Column("entry", frame["entry"].to_list(), "text"),
        numbers("reward", frame["reward"], ".3f"),
        _shares(mine),
        numbers("rank", frame["rank"], "d"),
        *_costs(frame),
        Column("note", frame["reason"].to_list(), "text"),
    ]
    caption = f"{task.title} {first.rounds:,} rounds. Mean over runs, 95\u00a0% interval over runs."
    table = Table(f"{name}-scores", caption, frame, columns, own)
    text = f"{task.title} Source: {task.source}. Licence: {task.licence}. Drift: {task.drift}"
    finding = f"{played[0].entry} earns the most, {played[0].reward:.3f} a round."
    return Entry(name, name, text, finding, [picture, table])


def _costs(frame: pl.DataFrame) -> list[Column]:
    return [
        numbers("µs a decision", frame["microseconds"], ",.0f"),
        numbers("MB", frame["megabytes"], ".1f"),
    ]


def _shares(rows: Sequence[Score | Overall]) -> Column:
    return Column(
        "share of the way",
        [
            number(row.share, ".3f")
            if math.isnan(row.half_width)
            else f"{number(row.share, '.3f')}\u00a0±\u00a0{row.half_width:.3f}"
            for row in rows
        ],
    )


def _provenance(results: Sequence[Result], command: str) -> Provenance:
    made_on = machine()
    tasks = [read_task(name) for name in dict.fromkeys(result.task for result in results)]
    frame = pl.DataFrame(
        {"task": task.name, "source": task.source, "licence": task.licence} for task in tasks
    )
    columns = [Column(name, frame[name].to_list(), "text") for name in frame.columns]
    caption = "The tables that were played. Each comes with an installed package."
    versions = joined([f"{package} {version}" for package, version in made_on["versions"].items()])
    processor = str(made_on["cpu"]["model"] or made_on["cpu"]["machine"])
    return Provenance(versions, processor, [command], Table("provenance", caption, frame, columns))
