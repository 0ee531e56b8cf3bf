"""Scores: how far each entry came on the way from random choices to the ceiling, and its rank.

Of entries that are called "library: setting", tables show the one that earned the most on each
task, in hindsight; the page shows all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from driftbandits.bench.running import CEILING, RANDOM, REFERENCES, Result
from driftbandits.bench.tasks import read_task

_T_QUANTILE = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Quantiles of Student's distribution at 97.5 %, by degrees of freedom from 1."""


class Score(NamedTuple):
    """The results of an entry on one task; NaN where it did not play."""

    task: str
    entry: str
    reward: float
    share: float  # of the way from random to the ceiling
    half_width: float  # of the 95 % interval of the share over runs
    rank: int | None  # among the entries; 1 has the most reward
    microseconds: float
    megabytes: float
    reason: str
    shares: tuple[float, ...]  # of each run


class Overall(NamedTuple):
    """An entry over all tasks. Share and rank are not numbers unless it played all of them."""

    entry: str
    share: float
    half_width: float
    rank: float
    microseconds: float  # the median
    megabytes: float  # the most


def half_width(shares: Sequence[float]) -> float:
    n = len(shares)
    if n < 2:
        return math.nan
    quantile = _T_QUANTILE[min(n - 1, len(_T_QUANTILE)) - 1]
    return quantile * float(np.std(shares, ddof=1)) / math.sqrt(n)


def score_rows(results: Sequence[Result]) -> list[Score]:
    """Task by task, each task's best entry first."""
    scores: list[Score] = []
    for task in dict.fromkeys(result.task for result in results):
        own = [result for result in results if result.task == task]
        played = [result for result in own if not result.reason]
        reached = {(r.entry, r.run): r.reward for r in played}
        found = []
        for entry in dict.fromkeys(result.entry for result in own):
            runs = [result for result in own if result.entry == entry]
            shares = tuple(
                _share(r.reward, reached[RANDOM, r.run], reached[CEILING, r.run])
                for r in played
                if r.entry == entry
            )
            reward = float(np.mean([r.reward for r in runs]))
            share = float(np.mean(shares)) if shares else math.nan
            microseconds = min(r.microseconds for r in runs)
            megabytes = max((r.megabytes for r in runs if r.run == 0), default=math.nan)
            costs = microseconds, megabytes, runs[0].reason
            found.append(
                Score(task, entry, reward, share, half_width(shares), None, *costs, shares)
            )
        found.sort(key=lambda s: math.inf if math.isnan(s.reward) else -s.reward)
        ranked = [s for s in found if s.entry not in REFERENCES and not math.isnan(s.reward)]
        scores += [
            s._replace(rank=1 + sum(other.reward > s.reward for other in ranked))
            if s in ranked
            else s
            for s in found
        ]
    return scores


def _share(reward: float, random: float, ceiling: float) -> float:
    """Not a number if there is nothing to be gained, as in a few rounds without a click."""
    return (reward - random) / (ceiling - random) if ceiling > random else math.nan


def with_best_settings(scores: Sequence[Score]) -> list[Score]:
    """Put the best setting on each task, as "library, best of n", for all settings of a library."""
    settings: dict[str, list[str]] = {}
    for entry in dict.fromkeys(score.entry for score in scores):
        settings.setdefault(entry.partition(": ")[0], []).append(entry)
    merged = []
    for task in dict.fromkeys(score.task for score in scores):
        for library, entries in settings.items():
            own = [s for s in scores if s.task == task and s.entry in entries]
            if own and len(entries) > 1:  # the best stands first
                merged.append(own[0]._replace(entry=f"{library}, best of {len(entries)}"))
            else:
                merged += own
    return merged


def _counting(scores: Sequence[Score]) -> Sequence[Score]:
    """The scores on tasks that count for all; every score, if there are none."""
    return [score for score in scores if read_task(score.task).ranked] or scores


def overall(scores: Sequence[Score]) -> list[Overall]:
    """One row for each entry, the farthest first, over the tasks that count."""
    scores = _counting(scores)
    tasks = list(dict.fromkeys(score.task for score in scores))
    rows = []
    for entry in dict.fromkeys(score.entry for score in scores):
        own = [s for s in scores if s.entry == entry and not math.isnan(s.share)]
        if not own:
            continue
        share = width = rank = math.nan
        if len(own) == len(tasks):
            by_run = np.mean([s.shares for s in own], axis=0)
            share, width = float(by_run.mean()), half_width(by_run)
            if own[0].rank is not None:
                rank = float(np.mean([s.rank for s in own]))
        microseconds = float(np.median([s.microseconds for s in own]))
        megabytes = max(s.megabytes for s in own)
        rows.append(Overall(entry, share, width, rank, microseconds, megabytes))
    return sorted(rows, key=lambda row: math.inf if math.isnan(row.share) else -row.share)


# -- as Markdown -----------------------------------------------------------------------------------


def overall_table(scores: Sequence[Score]) -> list[str]:
    """An entry in each row; of a library with several settings, the best of them."""
    rows = [
        [
            row.entry,
            share_text(row.share, row.half_width),
            _number(row.rank, ".1f"),
            _number(row.microseconds, ",.0f"),
            _number(row.megabytes, ".1f"),
        ]
        for row in overall(with_best_settings(scores))
        if row.entry != CEILING
    ]
    return table(["entry", "share of the way", "mean rank", "µs a decision", "MB"], rows)


def task_table(scores: Sequence[Score]) -> list[str]:
    """Tasks in rows, the share of the way of each entry in columns; the largest is bold."""
    merged = with_best_settings(scores)
    shown = [row.entry for row in overall(merged) if row.entry not in (RANDOM, CEILING)]
    found = {(score.task, score.entry): score for score in merged}
    rows = []
    for task in dict.fromkeys(score.task for score in _counting(scores)):
        own = [found.get((task, entry)) for entry in shown]
        best = max((s.share for s in own if s and not math.isnan(s.share)), default=math.nan)
        texts = [share_text(s.share if s else math.nan, math.nan) for s in own]
        cells = [
            f"**{text}**" if s is not None and s.share == best else text
            for s, text in zip(own, texts, strict=True)
        ]
        rows.append([task, *cells])
    return table(["share of the way", *shown], rows)


def share_text(share: float, width: float) -> str:
    """
    >>> share_text(0.8123, 0.021), share_text(1.02, float("nan")), share_text(float("nan"), 0.0)
    ('.81 ± .02', '1.02', '–')
    """
    if math.isnan(share):
        return "–"
    cell = f"{share:.2f}" if math.isnan(width) else f"{share:.2f} ± {width:.2f}"
    return re.sub(r"\b0\.", ".", cell)


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "–"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, *rows]
    marked = [f"| {' | '.join(cells)} |" for cells in lines]
    return [marked[0], "|---" * len(headings) + "|", *marked[1:]]
