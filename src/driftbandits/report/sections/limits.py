"""What a reader needs beside the paper's figures, to know how far they carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from driftbandits import theory
from driftbandits.policies import Policy, policy
from driftbandits.report import charts, claims, statistics
from driftbandits.report.files import PageFigure, ReportFolder
from driftbandits.report.recordings import (
    Recording,
    bonus_of,
    bonus_words,
    is_linear,
    policy_kind,
)
from driftbandits.report.sections.parts import (
    Reached,
    RegretOverTime,
    best,
    ranked,
    reached,
    regret_over_time,
)
from driftbandits.report.statistics import Estimate
from driftbandits.report.style import looks
from driftbandits.report.tables import Row, Table


class Limits(NamedTuple):
    """What the template says; every part may be absent."""

    narrow_bonus: NarrowBonus | None
    intercept: Intercept | None
    known_changes: KnownChanges | None
    coverage: Sequence[Coverage]
    bounds: Bounds | None
    growth: Sequence[Growth]


# -- variations of figure 1 ---------------------------------------------------------------------


@dataclass(frozen=True)
class NarrowBonus:
    """The paper's world with a narrower bonus, all else equal."""

    regret: RegretOverTime
    best: Reached
    beside: BesideTheory | None


@dataclass(frozen=True)
class BesideTheory:
    """The same policies with the bonus of the theory."""

    recording: Recording
    best: Reached
    table: Table
    lower: int  # policies that have less regret with the narrower bonus
    shared: int  # policies that have played with both


def narrow_bonus(folder: ReportFolder, narrow: Recording, *, wide: Recording | None) -> NarrowBonus:
    return NarrowBonus(
        regret_over_time(folder, narrow),
        best(narrow),
        None if wide is None else _beside_theory(folder, wide, narrow),
    )


def _beside_theory(folder: ReportFolder, wide: Recording, narrow: Recording) -> BesideTheory:
    rows = []
    for label in wide.policies:
        if label in narrow.policies:
            one, two = (reached(recording, label).estimate for recording in (wide, narrow))
            rows.append((label, one.mean, one.se, two.mean, two.se, two.mean / one.mean))
    names = ["policy", "mean", "se", "mean_here", "se_here", "ratio"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return BesideTheory(
        wide,
        best(wide),
        folder.table(f"{narrow.name}-beside", frame, looks(wide.policies)),
        lower=frame.filter(pl.col("mean_here") < pl.col("mean")).height,
        shared=frame.height,
    )


@dataclass(frozen=True)
class Intercept:
    """The linear policies with an intercept, or told about where rewards lie."""

    regret: RegretOverTime
    comparisons: Sequence[LinearAgainstLink]


@dataclass(frozen=True)
class LinearAgainstLink:
    """With one bonus, the best linear policy against the best that knows the link."""

    bonus: str
    linear: Reached
    rival: str | None
    gain: Estimate | None  # regret of the rival less that of the linear policy


def intercept(folder: ReportFolder, recording: Recording) -> Intercept:
    return Intercept(regret_over_time(folder, recording), _linear_against_link(recording))


def _linear_against_link(recording: Recording) -> list[LinearAgainstLink]:
    """The widest bonus first."""
    order = claims.ordering(recording)
    found = []
    for scale in sorted({bonus_of(p) for p in recording.policies.values()}, reverse=True):
        same = [label for label in order if bonus_of(recording.policies[label]) == scale]
        linear = [label for label in same if is_linear(recording.policies[label])]
        rival = next((label for label in same if label not in linear), None)
        if linear:
            own = linear[0]
            gain = None if rival is None else statistics.difference(recording, rival, own)
            found.append(
                LinearAgainstLink(bonus_words(scale), reached(recording, own), rival, gain)
            )
    return found


@dataclass(frozen=True)
class KnownChanges:
    """Policies that forget everything at each true change, and what that is worth."""

    regret: RegretOverTime
    ranked: Sequence[Reached]
    rivals: Sequence[Rival]


class Rival(NamedTuple):
    """The best policy without that knowledge."""

    label: str
    bonus: str
    factor: float  # its regret over the least that is reached with the knowledge


def known_changes(
    folder: ReportFolder, recording: Recording, *, rivals: Sequence[Recording]
) -> KnownChanges:
    order = ranked(recording)
    least = order[0].estimate.mean
    return KnownChanges(
        regret_over_time(folder, recording),
        order,
        [
            Rival(own.label, rival.bonus_in_words, own.estimate.mean / least)
            for rival in rivals
            for own in [best(rival)]
        ],
    )


# -- what the theory promises -------------------------------------------------------------------

_STATEMENTS = {"SW-GLUCB": "Proposition 1", "D-GLUCB": "Proposition 2"}


@dataclass(frozen=True)
class Coverage:
    """Of one experiment, the runs in which every confidence interval held."""

    recording: Recording
    table: Table

    @property
    def promised(self) -> list[Row]:
        """The policies for which the paper promises something."""
        return [row for row in self.table.rows if row["promised_by"] in _STATEMENTS.values()]


def coverage(folder: ReportFolder, recordings: Sequence[Recording]) -> list[Coverage]:
    """Of those experiments that recorded it."""
    found = []
    for recording in recordings:
        frame = statistics.coverage(recording)
        if frame.height:
            entries = [recording.policies[label] for label in frame["policy"]]
            rounds = [_covered_rounds(recording, entry) for entry in entries]
            frame = frame.with_columns(
                pl.Series("promised_by", [_promise(entry) for entry in entries]),
                pl.Series("rounds_covered", rounds),
            )
            name = f"{recording.name}-coverage"
            table = folder.table(name, frame, looks(recording.policies))
            found.append(Coverage(recording, table))
    return found


def _promise(entry: Mapping[str, Any]) -> str:
    scale = bonus_of(entry)
    if scale != 1.0:
        return f"none (bonus × {scale:g})"
    return _STATEMENTS.get(policy_kind(entry), "none in this paper")


def _covered_rounds(recording: Recording, entry: Mapping[str, Any]) -> float:
    """Share of the rounds about which the propositions say anything."""
    truth, player = recording.true_theta, _made(entry)
    if truth is None:
        return np.nan
    if player.window is not None:
        return float(theory.covered_by_window(truth, tau=player.window).mean())
    if player.discount is not None:
        return float(theory.covered_by_discount(truth, gamma=player.discount).mean())
    changes, horizon = recording.changes, recording.horizon
    return ((changes[0] - 1) if changes else horizon) / horizon


def _made(entry: Mapping[str, Any]) -> Policy:
    """The policy that a line of a spec describes."""
    arguments = {key: value for key, value in entry.items() if key not in ("label", "restart")}
    return policy(**arguments)


@dataclass(frozen=True)
class Bounds:
    """The regret bounds with their constants, against what was measured."""

    table: Table
    vacuous: int  # bounds above what a policy could lose at all
    forgetting: ForgettingTime | None


class ForgettingTime(NamedTuple):
    """Rounds after which the discounted policy is said to have forgotten a change."""

    rounds: float
    shortest: int  # stretch without a change


def has_bounds(recording: Recording) -> bool:
    known = bool(recording.facts.get("means_known"))
    return known and any(recording.labelled(name) for name in _STATEMENTS)


def bounds(folder: ReportFolder, recording: Recording) -> Bounds | None:
    rows, forgetting = [], None
    for label, entry in recording.policies.items():
        if policy_kind(entry) in _STATEMENTS:
            player = _made(entry)
            theorem, memory, bound = _bound(recording, player)
            if player.discount is not None:
                forgetting = _forgetting_time(recording, player.discount)
            mean, se, _ = reached(recording, label).estimate
            worst = recording.horizon * player.link.m
            measured = (mean, se, bound / mean, bound > worst)
            rows.append((label, theorem, memory, bound, worst, *measured))
    if not rows:
        return None
    names = ["policy", "theorem", "memory", "bound", "most_possible", "mean", "se", "ratio"]
    frame = pl.DataFrame(rows, schema=[*names, "vacuous"], orient="row")
    return Bounds(
        folder.table(f"{recording.name}-bounds", frame, looks(recording.policies)),
        vacuous=int(frame["vacuous"].sum()),
        forgetting=forgetting,
    )


def _bound(recording: Recording, player: Policy) -> tuple[str, str, float]:
    """The theorem, the memory that it is about, and the bound."""
    known: dict[str, Any] = {"horizon": recording.horizon, "changes": recording.change_count}
    if player.window is not None:
        bound = theory.regret_bound_window(player.problem, tau=player.window, **known)
        return "Theorem 1", f"τ = {player.window:,}", bound
    gamma = float(player.discount or 0.0)
    bound = theory.regret_bound_discount(player.problem, gamma=gamma, **known)
    return "Theorem 2", f"γ = {gamma:.5f}", bound


def _forgetting_time(recording: Recording, gamma: float) -> ForgettingTime:
    segments = np.diff([1, *recording.changes, recording.horizon + 1])
    return ForgettingTime(theory.forgetting_time(gamma), int(segments.min()))


# -- growth -------------------------------------------------------------------------------------


class Rate(NamedTuple):
    """How the theory says that regret grows, up to logarithms."""

    axis: str
    symbol: str
    power: Fraction

    @property
    def in_words(self) -> str:
        return f"growth as {self.symbol}^({self.power})"


RATES = {
    "horizon": Rate("horizon T", "T", Fraction(2, 3)),
    "changes": Rate("number of changes Γ", "Γ", Fraction(1, 3)),
}
"""By what differs between the variants of a sweep."""


@dataclass(frozen=True)
class Growth:
    """Regret against the horizon or the number of changes."""

    rate: Rate
    figure: PageFigure
    powers: Table


def swept_by(group: Sequence[Recording]) -> str | None:
    """What differs between the variants of a sweep: the horizon, or else the number of changes."""
    if len({recording.horizon for recording in group}) == len(group):
        return "horizon"
    if len({recording.change_count for recording in group}) == len(group):
        return "changes"
    return None


def growth(folder: ReportFolder, sweeps: Mapping[str, Sequence[Recording]]) -> list[Growth]:
    """Sweeps of the horizon first."""
    found = [
        _growth(folder, name, by, group)
        for by in RATES
        for name, group in sweeps.items()
        if swept_by(group) == by
    ]
    return [one for one in found if one is not None]


def _growth(folder: ReportFolder, name: str, by: str, group: Sequence[Recording]) -> Growth | None:
    points = statistics.growth(group, by)
    fitted = statistics.slopes(points, by)
    if not fitted.height:
        return None
    folder.save(name, points)
    chart = charts.growth_chart(
        group[0],
        points,
        by=by,
        x_title=RATES[by].axis,
        power=float(RATES[by].power),
        rate=RATES[by].in_words,
    )
    return Growth(
        RATES[by],
        folder.figure(charts.Figure(name, [chart])),
        folder.table(f"{name}-slopes", fitted, looks(group[0].policies)),
    )
