"""The benchmark as one page that needs no network, made by the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from driftbandits.bench.running import (
    CEILING,
    FIXED,
    POINTS,
    RANDOM,
    REFERENCES,
    Result,
)
from driftbandits.bench.scores import Score, overall, score_rows
from driftbandits.bench.tasks import read_task
from driftbandits.experiments import machine
from driftbandits.report.charts import Chart, Figure, Line
from driftbandits.report.formats import NONE, joined, number
from driftbandits.report.page import render
from driftbandits.report.sections import Column, Entry, Picture, Provenance, Section, Table
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
        Column("entry", [row.entry for row in rows], "text"),
        Column("share of the way", [share_cell(row.share, row.half_width) for row in rows]),
        Column("mean rank", [number(row.rank, ".1f") for row in rows]),
        Column("µs a decision", [number(row.microseconds, ",.0f") for row in rows]),
        Column("MB", [number(row.megabytes, ".1f") for row in rows]),
    ]
    caption = (
        "How far each entry came on the way from random choices (0) to the ceiling (1), mean over "
        "the tasks that count, 95\u00a0% interval over runs; mean rank; median time of a decision "
        "and its update; the most memory that a task cost. A dash: not played on every task."
    )
    table = Table("overall", caption, frame, columns, [own[row.entry] for row in rows])
    best = next(row for row in rows if row.entry not in REFERENCES)
    finding = f"{best.entry} comes farthest, {best.share:.0%} of the way"
    text = (
        "Everybody meets the same rows in the same order and sees the reward of its own arm alone. "
        "The ceiling is the best of nine logistic regressions that see all rewards."
    )
    return Entry("overview", "Share of the way from random to the ceiling", text, finding, [table])


def _task(
    name: str, results: Sequence[Result], scores: Sequence[Score], own: Mapping[str, Look]
) -> Entry:
    task = read_task(name)
    mine = [score for score in scores if score.task == name]
    played = [score for score in mine if not math.isnan(score.reward)]
    first = next(result for result in results if result.task == name and result.curve)
    at = np.unique(np.linspace(0, first.rounds - 1, POINTS).round()) + 1.0
    entrants = [s.entry for s in played if s.entry not in REFERENCES][:MOST_CURVES]
    lines = []
    for label in (CEILING, *entrants, FIXED, RANDOM):
        curves = np.array([r.curve for r in results if (r.task, r.entry) == (name, label)])
        lines.append(Line(label, own[label], at, curves.mean(0), curves.min(0), curves.max(0)))
    late = np.concatenate([line.y[len(at) // 8 :] for line in lines])
    room = 0.08 * float(np.ptp(late)) or 0.1
    chart = Chart(
        title="",
        x_title="round",
        y_title="mean reward so far",
        lines=lines,
        changes=task.change_rounds(first.rounds),
        share=True,
        y_range=(float(late.min()) - room, float(late.max()) + room),
    )
    runs = len({result.run for result in results if result.task == name})
    picture = Picture(
        Figure(f"{name}-reward", [chart]),
        f"Mean reward so far, mean over {runs} runs, of the eight best entries; bands hold all "
        "runs. Dashed: the changes that were added.",
        {f"{name}-reward": _curve_frame(lines)},
    )
    frame = pl.DataFrame([score._asdict() for score in mine], infer_schema_length=None)
    columns = [
        Column("entry", [score.entry for score in mine], "text"),
        Column("reward", [number(score.reward, ".3f") for score in mine]),
        Column("share of the way", [share_cell(score.share, score.half_width) for score in mine]),
        Column("rank", [_rank(score) for score in mine]),
        Column("µs a decision", [number(score.microseconds, ",.0f") for score in mine]),
        Column("MB", [number(score.megabytes, ".1f") for score in mine]),
        Column("note", [score.reason for score in mine], "text"),
    ]
    caption = (
        f"{task.title} {first.rounds:,} rounds, {first.counted:,} with a reward. Mean over runs, "
        "95\u00a0% interval over runs."
    )
    table = Table(f"{name}-scores", caption, frame, columns, [own[s.entry] for s in mine])
    text = f"{task.title} Source: {task.source}. Licence: {task.licence}. Drift: {task.drift}"
    best = next(score for score in played if score.entry in entrants)
    finding = f"{best.entry} earns the most, {best.reward:.3f} a round."
    return Entry(name, name, text, finding, [picture, table])


def _curve_frame(lines: Sequence[Line]) -> pl.DataFrame:
    parts = [
        {"entry": line.label, "round": int(x), "mean": y, "low": low, "high": high}
        for line in lines
        for x, y, low, high in zip(line.x, line.y, line.low, line.high, strict=True)
    ]
    return pl.DataFrame(parts)


def _rank(score: Score) -> str:
    return NONE if not score.rank or score.entry in REFERENCES else str(score.rank)


def share_cell(share: float, half_width: float) -> str:
    if math.isnan(share):
        return NONE
    if math.isnan(half_width):
        return number(share, ".3f")
    return f"{number(share, '.3f')}\u00a0±\u00a0{half_width:.3f}"


def _provenance(results: Sequence[Result], command: str) -> Provenance:
    made_on = machine()
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(result.task for result in results):
        task = read_task(name)
        rows.append({"task": name, "source": task.source, "licence": task.licence})
    frame = pl.DataFrame(rows)
    columns = [Column(name, frame[name].to_list(), "text") for name in frame.columns]
    caption = "The tables that were played. Each comes with an installed package."
    versions = joined([f"{package} {version}" for package, version in made_on["versions"].items()])
    cpu = made_on["cpu"]
    processor = str(cpu["model"] or cpu["machine"])
    return Provenance(versions, processor, [command], Table("provenance", caption, frame, columns))
