"""The numbers behind the figures: every table of the report is a data frame made here.

Means are over runs; `se` is their standard error; quantiles are over runs, by linear interpolation.
All policies of a run play the same trace, so two policies are compared run by run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from driftbandits.report.recordings import REGRET, Recording

LOW, HIGH = 0.05, 0.95
"""The quantiles over runs that are shown."""

Floats = NDArray[np.float64]


class Estimate(NamedTuple):
    """A mean over runs and its standard error."""

    mean: float
    se: float
    runs: int


NO_ESTIMATE = Estimate(math.nan, math.nan, 0)


def estimate(values: Floats) -> Estimate:
    """The mean of some runs. A standard error needs two of them; with one it is not a number."""
    count = len(values)
    se = float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return Estimate(float(np.mean(values)), se, count)


def values_of(recording: Recording, label: str, measure: str) -> Floats:
    """The final values of one policy in each run, in the order of the replicates."""
    mine = recording.runs.filter(pl.col("policy") == label).sort("replicate")
    if measure == REGRET:
        return mine["final_regret"].to_numpy()
    return (mine["total_reward"] / mine["rounds"]).to_numpy()


def ranked(recording: Recording) -> list[tuple[str, Estimate]]:
    """All policies with what they reached, the best first."""
    measure = recording.measure
    found = [
        (label, estimate(values_of(recording, label, measure))) for label in recording.policies
    ]
    return sorted(found, key=lambda one: one[1].mean, reverse=measure != REGRET)


def summary(recording: Recording) -> pl.DataFrame:
    """One row a policy: what it reached, how far that is from the best one, and what it cost."""
    measure = recording.measure
    values = {label: values_of(recording, label, measure) for label in recording.policies}
    best = values[ranked(recording)[0][0]]
    rows = []
    for label, own in values.items():
        mine = recording.runs.filter(pl.col("policy") == label)
        rounds = int(mine["rounds"].sum())
        behind = own - best if measure == REGRET else best - own
        covered = mine["covered"].drop_nulls()
        rows.append(
            {
                "policy": label,
                "runs": len(own),
                "mean": float(own.mean()),
                "se": estimate(own).se,
                "q05": float(np.quantile(own, LOW)),
                "q95": float(np.quantile(own, HIGH)),
                "behind": float(behind.mean()),
                "behind_se": estimate(behind).se,
                "microseconds_per_round": 1e6 * float(mine["seconds"].sum()) / rounds,
                "projections_per_round": int(mine["projections"].sum()) / rounds,
                "intervals_held": float(covered.sum()) / covered.len() if covered.len() else None,
            }
        )
    return pl.DataFrame(rows, schema_overrides={"intervals_held": pl.Float64})


def over_time(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Mean and quantiles over runs of a column of the curves, by policy and round."""
    value = pl.col(column)
    return (
        frame.group_by("policy", "round")
        .agg(
            value.mean().alias("mean"),
            value.quantile(LOW, "linear").alias("q05"),
            value.quantile(HIGH, "linear").alias("q95"),
        )
        .sort("policy", "round")
    )


def shares(curves: pl.DataFrame, window: int) -> pl.DataFrame:
    """The share of rewarded rounds so far, and in the last `window` rounds, of every run."""
    pieces = []
    by_run = curves.sort("round").group_by("policy", "replicate", maintain_order=True)
    for _, run in by_run:
        rounds, reward = run["round"].to_numpy(), run["reward"].to_numpy()
        before = _reward_at(rounds, reward, rounds - window)
        recent = np.where(rounds >= window, (reward - before) / window, np.nan)
        pieces.append(
            run.select("policy", "replicate", "round").with_columns(
                pl.Series("so_far", reward / rounds), pl.Series("recent", recent).fill_nan(None)
            )
        )
    return pl.concat(pieces)


def recovery(recording: Recording, window: int) -> pl.DataFrame:
    """Mean share before the only change and in the last `window` rounds, by policy.

    The frame is empty unless there is exactly one change, with room on both sides.
    """
    changes, T = recording.changes, recording.horizon
    if len(changes) != 1 or not window <= min(changes[0] - 1, T - changes[0] + 1):
        return pl.DataFrame()
    last = changes[0] - 1
    edges = np.array([0, last, T - window, T])
    curves = recording.results.curves.sort("round")
    rows = []
    for label in recording.policies:
        mine = curves.filter(pl.col("policy") == label)
        at = np.mean(
            [
                _reward_at(run["round"].to_numpy(), run["reward"].to_numpy(), edges)
                for _, run in mine.group_by("replicate")
            ],
            axis=0,
        )
        before, end = at[1] / last, (at[3] - at[2]) / window
        rows.append((label, before, end, end / before))
    names = ["policy", "before_the_change", "end_of_run", "end_over_before"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _reward_at(rounds: Floats, reward: Floats, wanted: Floats) -> Floats:
    """Cumulative reward at other rounds than the recorded ones, along straight lines."""
    at: Floats = np.interp(wanted, np.r_[0, rounds], np.r_[0.0, reward])
    return at


def mean_theta(recording: Recording) -> pl.DataFrame:
    """policy, round, theta_hat (list, mean over runs), distance of that mean to the truth."""
    truth = recording.true_theta
    theta = recording.results.theta.sort("round", "replicate")
    rows = []
    for (label, at), group in theta.group_by("policy", "round", maintain_order=True):
        centre = np.array(group["theta_hat"].to_list(), dtype=np.float64).mean(axis=0)
        distance = math.nan
        if truth is not None:
            # an intercept, if there is one, comes last and has no counterpart
            distance = float(np.linalg.norm(centre[: truth.shape[1]] - truth[int(at) - 1]))
        rows.append((label, int(at), centre.tolist(), distance))
    schema: dict[str, Any] = {
        "policy": pl.String,
        "round": pl.Int64,
        "theta_hat": pl.List(pl.Float64),
        "distance": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def growth(recordings: Sequence[Recording], by: str) -> pl.DataFrame:
    """policy, x, mean, se over a sweep; x is the horizon or the number of changes."""
    at = {_swept(recording, by): recording for recording in recordings}
    rows = [
        (label, x, *estimate(values_of(at[x], label, REGRET)))
        for label in recordings[0].policies
        for x in sorted(at)
        if x > 0 and label in at[x].policies  # no changes at all have no logarithm
    ]
    return pl.DataFrame(rows, schema=["policy", by, "mean", "se", "runs"], orient="row")


def swept_by(recordings: Sequence[Recording]) -> str:
    """Return the key in which the variants of a sweep differ: horizon or changes."""
    horizons = {recording.horizon for recording in recordings}
    return "horizon" if len(horizons) == len(recordings) else "changes"


def _swept(recording: Recording, by: str) -> int:
    return recording.horizon if by == "horizon" else int(recording.spec["world"]["changes_a_run"])


def slopes(points: pl.DataFrame, by: str) -> pl.DataFrame:
    """The fitted power of each policy that has at least two points."""
    rows = []
    for (label,), group in points.group_by("policy", maintain_order=True):
        if group.height >= 2 and (group["mean"] > 0).all():
            x, mean, se = (group[c].cast(pl.Float64).to_numpy() for c in (by, "mean", "se"))
            rows.append((label, *log_log_slope(x, mean, se)))
    return pl.DataFrame(rows, schema=["policy", "slope", "se"], orient="row")


def log_log_slope(x: Floats, mean: Floats, se: Floats) -> tuple[float, float]:
    """The slope of log y against log x and its standard error, weighted by the errors of y.

    Where the points lie further from the line than their errors explain, the standard error of the
    slope is widened by that factor, so that a curve is not sold as a precise power.
    """
    log_x, log_y = np.log(x), np.log(mean)
    errors_known = bool(np.all(se > 0))  # with one run there are none
    weight = mean / se if errors_known else np.ones(len(x))
    (slope, intercept), covariance = np.polyfit(log_x, log_y, 1, w=weight, cov="unscaled")
    residual = weight * (log_y - intercept - slope * log_x)
    misfit = float(residual @ residual) / (len(x) - 2) if len(x) > 2 else math.nan
    widening = np.fmax(1.0, misfit) if errors_known else misfit
    return float(slope), math.sqrt(widening * covariance[0, 0])
