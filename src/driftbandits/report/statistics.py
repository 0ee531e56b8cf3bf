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


def estimate(values: Floats) -> Estimate:
    """The mean of some runs. A standard error needs two of them; with one it is not a number."""
    count = len(values)
    se = float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return Estimate(float(np.mean(values)), se, count)


def values_of(recording: Recording, label: str, measure: str) -> Floats:
    """The final values of one policy in each run, in the order of the replicates."""
    mine = recording.runs.filter(policy=label).sort("replicate")
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
    best = values_of(recording, ranked(recording)[0][0], measure)
    rows = []
    for label in recording.policies:
        own, mine = values_of(recording, label, measure), recording.runs.filter(policy=label)
        reached, behind = estimate(own), estimate(own - best if measure == REGRET else best - own)
        rounds = int(mine["rounds"].sum())
        rows.append(
            {
                "policy": label,
                "runs": reached.runs,
                "mean": reached.mean,
                "se": reached.se,
                "q05": float(np.quantile(own, LOW)),
                "q95": float(np.quantile(own, HIGH)),
                "behind": behind.mean,
                "behind_se": behind.se,
                "microseconds_per_round": 1e6 * float(mine["seconds"].sum()) / rounds,
                "projections_per_round": int(mine["projections"].sum()) / rounds,
                "intervals_held": mine["covered"].mean(),
            }
        )
    return pl.DataFrame(rows, schema_overrides={"intervals_held": pl.Float64})


def over_time(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Mean and quantiles over runs of a column of the curves, by policy and round."""
    value = pl.col(column)
    low, high = (value.quantile(share, "linear") for share in (LOW, HIGH))
    by_round = frame.group_by("policy", "round").agg(mean=value.mean(), q05=low, q95=high)
    return by_round.sort("policy", "round")


def shares(curves: pl.DataFrame, window: int) -> pl.DataFrame:
    """The share of rewarded rounds so far, and in the last `window` rounds, of every run."""
    pieces = []
    by_run = curves.sort("round").group_by("policy", "replicate", maintain_order=True)
    for _, run in by_run:
        rounds, reward = run["round"].to_numpy(), run["reward"].to_numpy()
        recent = np.where(rounds >= window, reward - _reward_at(run, rounds - window), np.nan)
        pieces.append(
            run.select(
                *("policy", "replicate", "round"),
                so_far=pl.Series(reward / rounds),
                recent=pl.Series(recent / window).fill_nan(None),
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
    curves = recording.results.curves.sort("round")
    rows = []
    for label in recording.policies:
        runs = curves.filter(policy=label).group_by("replicate")
        at = np.mean([_reward_at(run, np.array([last, T - window, T])) for _, run in runs], axis=0)
        before, end = at[0] / last, (at[2] - at[1]) / window
        rows.append((label, before, end, end / before))
    names = ["policy", "before_the_change", "end_of_run", "end_over_before"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _reward_at(run: pl.DataFrame, wanted: NDArray[np.int64]) -> Floats:
    """Cumulative reward at other rounds than the recorded ones, along straight lines."""
    at: Floats = np.interp(wanted, np.r_[0, run["round"]], np.r_[0.0, run["reward"]])
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


def swept_by(recordings: Sequence[Recording]) -> str:
    """Return the key in which the variants of a sweep differ: horizon or changes."""
    horizons = {recording.horizon for recording in recordings}
    return "horizon" if len(horizons) == len(recordings) else "changes"


def growth(recordings: Sequence[Recording], by: str) -> pl.DataFrame:
    """policy, x, mean, se over a sweep; x is the horizon or the number of changes."""
    key = "horizon" if by == "horizon" else "changes_a_run"
    at = {int(recording.spec["world"][key]): recording for recording in recordings}
    rows = [
        (label, x, *estimate(values_of(at[x], label, REGRET)))
        for label in recordings[0].policies
        for x in sorted(at)
        if x > 0 and label in at[x].policies  # no changes at all have no logarithm
    ]
    return pl.DataFrame(rows, schema=["policy", by, "mean", "se", "runs"], orient="row")


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
