"""What the paper says of its simulated world, held against the runs.

Every claim is about means over runs. Two policies are compared run by run, since both played the
same traces, and a difference counts where its interval leaves out zero.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import polars as pl

from driftbandits.report import statistics
from driftbandits.report.recordings import FORGETTING, Recording
from driftbandits.report.statistics import Estimate

PAIRS = (("SW-GLUCB", "SW-LinUCB"), ("D-GLUCB", "D-LinUCB"), ("LogisticUCB", "LinUCB"))


class Claim(NamedTuple):
    """A sentence of the paper, the closest of its comparisons, and whether it holds."""

    sentence: str
    better: str
    worse: str
    margin: Estimate  # regret of `worse` less regret of `better`
    verdict: str


def claims_about(recording: Recording) -> list[Claim]:
    """Those claims of the paper whose policies were all played."""
    label = {name: recording.labelled(name) for pair in PAIRS for name in pair}
    if any(found is None for found in label.values()):
        return []
    named = {name: str(found) for name, found in label.items()}
    others = [name for name in named if name not in FORGETTING]
    wanted = [
        (
            "SW-GLUCB and D-GLUCB have less regret than all others.",
            list(product(FORGETTING, others)),
        ),
        ("Each of these policies has less regret than its linear counterpart.", list(PAIRS)),
        (
            "SW-LinUCB does surprisingly well: best of the policies that are not the paper’s own.",
            [("SW-LinUCB", name) for name in others if name != "SW-LinUCB"],
        ),
        (
            "LinUCB, which neither forgets nor knows the link, has the most regret.",
            [(name, "LinUCB") for name in named if name != "LinUCB"],
        ),
    ]
    return [_closest(recording, sentence, pairs, named) for sentence, pairs in wanted]


def _closest(
    recording: Recording, sentence: str, pairs: list[tuple[str, str]], label: dict[str, str]
) -> Claim:
    """A claim is as good as the weakest of its comparisons."""
    margins = {
        (label[better], label[worse]): statistics.difference(recording, label[worse], label[better])
        for better, worse in pairs
    }
    better, worse = min(margins, key=lambda pair: margins[pair].mean)
    margin = margins[better, worse]
    if not margin.clear:
        verdict = "not settled by these runs"
    else:
        verdict = "holds" if margin.mean > 0 else "does not hold"
    return Claim(sentence, better, worse, margin, verdict)


def spread_ratio(recording: Recording) -> float | None:
    """Narrowest 5-95 % band of a linear policy over the widest of the others, at the end."""
    width = {
        str(row["policy"]): row["q95"] - row["q05"]
        for row in statistics.summary(recording).iter_rows(named=True)
    }
    linear = [recording.labelled(second) for _, second in PAIRS]
    logistic = [recording.labelled(first) for first, _ in PAIRS]
    if None in linear or None in logistic:
        return None
    widest = max(width[str(name)] for name in logistic)
    return min(width[str(name)] for name in linear) / widest if widest > 0 else None


def as_frame(found: list[Claim]) -> pl.DataFrame:
    rows = [(c.sentence, c.better, c.worse, c.margin.mean, c.margin.se, c.verdict) for c in found]
    names = ["claim", "better", "worse", "margin", "se", "verdict"]
    return pl.DataFrame(rows, schema=names, orient="row")
