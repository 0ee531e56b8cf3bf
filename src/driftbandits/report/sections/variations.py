"""The paper's world with other policies: a narrower bonus, an intercept, known changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from driftbandits.report import statistics
from driftbandits.report.files import ReportFolder
from driftbandits.report.recordings import Recording, bonus_of, bonus_words, is_linear
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
from driftbandits.report.tables import Table


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


def narrow_bonus(folder: ReportFolder, narrow: Recording, wide: Recording | None) -> NarrowBonus:
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
    order = statistics.ordering(recording)
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
    folder: ReportFolder, recording: Recording, rivals: Sequence[Recording]
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
