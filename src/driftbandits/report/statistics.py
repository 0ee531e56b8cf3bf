"""The numbers behind the figures: every table of the report is a data frame made here.

Means are over runs; `se` is their standard error; quantiles are over runs, by linear interpolation.
All policies of a run play the same trace, so two policies are compared run by run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from driftbandits.report.recordings import Recording

LOW, HIGH = 0.05, 0.95
"""The quantiles over runs that are shown."""
LEVEL = 0.95
"""Of the intervals."""


class Estimate(NamedTuple):
    """A mean over runs and its standard error."""

    mean: float
    se: float
    runs: int

    @property
    def clear(self) -> bool:
        """Zero lies outside the interval of the mean."""
        return abs(self.mean) > float(half_width(self.se, self.runs))


NO_ESTIMATE = Estimate(math.nan, math.nan, 0)


def estimate(values: NDArray[np.float64]) -> Estimate:
    """A standard error needs two runs; with one it is not a number."""
    se = float(stats.sem(values)) if len(values) > 1 else math.nan
    return Estimate(float(np.mean(values)), se, len(values))


def half_width(se: ArrayLike, runs: ArrayLike) -> NDArray[np.float64]:
    """Of the interval of a mean over runs, by Student's t: few runs know their error badly.

    >>> [round(float(half_width(1.0, runs)), 2) for runs in (6, 40, 500)]
    [2.57, 2.02, 1.96]
    """
    quantile = stats.t.ppf((1.0 + LEVEL) / 2.0, np.asarray(runs) - 1)
    return np.asarray(quantile * np.asarray(se), dtype=np.float64)


def outcome(recording: Recording) -> pl.DataFrame:
    """policy, replicate, value: the final regret, or else the reward a round."""
    by_regret = recording.measure == "final regret"
    value = pl.col("final_regret") if by_regret else pl.col("total_reward") / pl.col("rounds")
    return recording.runs.select("policy", "replicate", value.cast(pl.Float64).alias("value"))


def values_of(recording: Recording, label: str) -> NDArray[np.float64]:
    """What one policy reached in each run, in the order of the replicates."""
    mine = outcome(recording).filter(pl.col("policy") == label).sort("replicate")
    return mine["value"].to_numpy()


def difference(recording: Recording, one: str, other: str) -> Estimate:
    """`one` less `other`, run by run."""
    frame = outcome(recording)
    pairs = frame.filter(pl.col("policy") == one).join(
        frame.filter(pl.col("policy") == other), on="replicate"
    )
    return estimate((pairs["value"] - pairs["value_right"]).to_numpy())


def summary(recording: Recording) -> pl.DataFrame:
    """One row a policy: what it reached and what that cost."""
    costs = recording.runs.group_by("policy").agg(
        (1e6 * pl.col("seconds").sum() / pl.col("rounds").sum()).alias("microseconds_per_round"),
        (pl.col("projections").sum() / pl.col("rounds").sum()).alias("projections_per_round"),
        (pl.col("passes").sum() / pl.col("rounds").sum()).alias("passes_per_round"),
    )
    rows = []
    for label in recording.policies:
        values = values_of(recording, label)
        mean, se, runs = estimate(values)
        low, high = np.quantile(values, (LOW, HIGH))
        rows.append((label, runs, mean, se, float(low), float(high)))
    table = pl.DataFrame(rows, schema=["policy", "runs", "mean", "se", "q05", "q95"], orient="row")
    chance = recording.at_random
    if chance is not None:
        worst = table.filter(pl.col("policy") == chance)["mean"].item()
        table = table.with_columns((1.0 - pl.col("mean") / worst).alias("share_of_the_way"))
    return table.join(costs, on="policy", how="left", maintain_order="left")


def ordering(recording: Recording) -> list[str]:
    """The labels, best first: least regret, or most reward."""
    more_is_better = recording.measure != "final regret"
    ranked = summary(recording).sort("mean", descending=more_is_better)
    return [str(label) for label in ranked["policy"]]


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


def shares(recording: Recording, window: int) -> pl.DataFrame:
    """The curves with the share of positives found so far, and in the last `window` rounds."""
    pieces = []
    curves = recording.curves.sort("policy", "replicate", "round")
    for _, run in curves.group_by("policy", "replicate", maintain_order=True):
        rounds = run["round"].to_numpy()
        reward = run["reward"].to_numpy()
        before = reward_at(rounds, reward, rounds - window)
        recent = np.where(rounds >= window, (reward - before) / window, np.nan)
        pieces.append(
            run.select("policy", "replicate", "round").with_columns(
                pl.Series("so_far", reward / rounds), pl.Series("recent", recent).fill_nan(None)
            )
        )
    return pl.concat(pieces)


def reward_at(
    rounds: NDArray[np.int64], reward: NDArray[np.float64], wanted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Cumulative reward at other rounds than the recorded ones, along straight lines."""
    at: NDArray[np.float64] = np.interp(wanted, np.r_[0, rounds], np.r_[0.0, reward])
    return at


class Stretches(NamedTuple):
    """The stretches of a paired run that are compared, as first and last round."""

    segment: tuple[int, int]  # before the change
    before: tuple[int, int]  # its last rounds, as many as in `after`
    after: tuple[int, int]  # the last eighth of the run


def recovery_stretches(recording: Recording) -> Stretches | None:
    """None unless there is exactly one change, with room on both sides."""
    if len(recording.changes) != 1:
        return None
    last, length = recording.changes[0] - 1, recording.horizon // 8
    if not 0 < length <= min(last, recording.horizon - last):
        return None
    return Stretches(
        (1, last), (last - length + 1, last), (recording.horizon - length + 1, recording.horizon)
    )


@cache
def recovery(recording: Recording) -> pl.DataFrame:
    """Shares of positives found: whole run, before the change and at the end, by policy."""
    stretches = recovery_stretches(recording)
    if stretches is None:
        return pl.DataFrame()
    curves = recording.curves.sort("replicate", "round")
    rows = []
    for label in recording.policies:
        found: list[list[float]] = []
        mine = curves.filter(pl.col("policy") == label)
        for _, run in mine.group_by("replicate", maintain_order=True):
            rounds, reward = run["round"].to_numpy(), run["reward"].to_numpy()
            edges = np.array([(0, recording.horizon), *((a - 1, b) for a, b in stretches)])
            at = reward_at(rounds, reward, edges)
            found.append(list((at[:, 1] - at[:, 0]) / (edges[:, 1] - edges[:, 0])))
        whole, segment, before, after = np.mean(found, axis=0)
        rows.append((label, whole, segment, before, after, after / segment, after / before))
    names = ["policy", "whole_run", "first_segment", "end_of_first_segment", "end_of_run"]
    names += ["end_over_first_segment", "end_over_end_of_first_segment"]
    return pl.DataFrame(rows, schema=names, orient="row")


def mean_theta(recording: Recording) -> pl.DataFrame:
    """policy, round, theta_hat (list, mean over runs), distance of that mean to the truth."""
    truth = recording.true_theta
    rows = []
    for label in recording.policies:
        mine = recording.theta.filter(pl.col("policy") == label).sort("round", "replicate")
        for (at,), group in mine.group_by("round", maintain_order=True):
            hats = np.array(group["theta_hat"].to_list(), dtype=np.float64)
            centre = hats.mean(axis=0)
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


def coverage(recording: Recording) -> pl.DataFrame:
    """Runs in which every interval held, of the policies for which that was recorded."""
    rows = []
    for label, policy in recording.policies.items():
        held = recording.runs.filter(pl.col("policy") == label)["covered"].drop_nulls()
        if held.len():
            hits, runs = int(held.sum()), held.len()
            low, high = share_interval(hits, runs)
            aim = 1.0 - float(policy.get("delta", 0.01))
            rows.append((label, hits, runs, hits / runs, low, high, aim))
    names = ["policy", "held", "runs", "share", "low", "high", "aim"]
    return pl.DataFrame(rows, schema=names, orient="row")


def share_interval(hits: int, runs: int) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a share.

    >>> [round(end, 4) for end in share_interval(99, 100)]
    [0.9455, 0.9997]
    """
    interval = stats.binomtest(hits, runs).proportion_ci(LEVEL, method="exact")
    return float(interval.low), float(interval.high)


class Slope(NamedTuple):
    """A straight line through log y against log x."""

    slope: float
    se: float
    intercept: float


def log_log_slope(
    x: NDArray[np.float64], mean: NDArray[np.float64], se: NDArray[np.float64]
) -> Slope:
    """Least squares with the weights that the standard errors ask for.

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
    return Slope(float(slope), math.sqrt(widening * covariance[0, 0]), float(intercept))


def growth(recordings: Sequence[Recording], by: str) -> pl.DataFrame:
    """policy, x, mean, se over a sweep; x is the horizon or the number of changes."""
    at = {
        (recording.horizon if by == "horizon" else recording.change_count): recording
        for recording in recordings
    }
    rows = [
        (label, x, *estimate(values_of(at[x], label)))
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
            fit = log_log_slope(
                *(group[name].cast(pl.Float64).to_numpy() for name in (by, "mean", "se"))
            )
            rows.append((label, *fit))
    return pl.DataFrame(rows, schema=["policy", "slope", "se", "intercept"], orient="row")
