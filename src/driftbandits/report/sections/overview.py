"""What stands above the sections: the findings, what is still to come, a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from driftbandits.report import hindsight, statistics
from driftbandits.report.contents import Contents
from driftbandits.report.formats import number
from driftbandits.report.hindsight import World
from driftbandits.report.recordings import Recording
from driftbandits.report.sections.parts import Reached, best, ranked, reached
from driftbandits.report.sections.today import TodayFinding, today_finding

MOST_KEY_FIGURES = 4


@dataclass(frozen=True)
class Overview:
    """What the template says above the sections."""

    today: TodayFinding | None
    paper: PaperFinding | None
    best: BestOfOne | None  # where neither the paper's world nor a suite was played
    worlds: WorldsFinding | None
    unfinished: Sequence[Recording]
    extremes: Sequence[Reached]  # least and most regret in the paper's world
    held: float | None  # share of runs within all intervals of the paper's policies
    recovered: Sequence[Recovered]


@dataclass(frozen=True)
class PaperFinding:
    """In the paper's world, the policies that forget against the one that does not."""

    recording: Recording
    forgetting: Sequence[Reached]
    shares: Sequence[str]  # of the regret of `stationary`
    stationary: Reached
    ranked: Sequence[Reached]

    @property
    def forgetting_leads(self) -> bool:
        leaders = self.ranked[: len(self.forgetting)]
        return {own.label for own in leaders} == {own.label for own in self.forgetting}


class BestOfOne(NamedTuple):
    """The best policy of an experiment."""

    recording: Recording
    best: Reached


@dataclass(frozen=True)
class WorldsFinding:
    """The best policy over many worlds."""

    count: int
    policy: str
    overall: float
    worst: float
    worst_world: str


class Recovered(NamedTuple):
    """How far a policy has come back to its level before the change."""

    policy: str
    experiment: str
    level: float


def overview(recordings: Sequence[Recording], found: Contents) -> Overview:
    paper, alone, worlds = found.paper, found.alone, found.worlds
    finding = None if paper is None else _paper_finding(paper)
    subject = next(iter(alone), None) if paper is None else paper
    extremes = [] if paper is None else [ranked(paper)[0], ranked(paper)[-1]]
    held = None if paper is None else _held(paper)
    room = MOST_KEY_FIGURES - len(extremes) - (held is not None)
    return Overview(
        today=today_finding(found.today) if found.today else None,
        paper=finding,
        best=BestOfOne(subject, best(subject)) if subject and not (finding or worlds) else None,
        worlds=_worlds_finding(worlds) if worlds else None,
        unfinished=[recording for recording in recordings if recording.missing],
        extremes=extremes,
        held=held,
        recovered=_recovered(alone)[:room],
    )


def _paper_finding(recording: Recording) -> PaperFinding | None:
    stationary = recording.labelled("LogisticUCB")
    rivals = [reached(recording, label) for label in recording.forgetting]
    if stationary is None or not rivals:
        return None
    own = reached(recording, stationary)
    shares = [number(rival.estimate.mean / own.estimate.mean, ".0%") for rival in rivals]
    return PaperFinding(
        recording, rivals, list(dict.fromkeys(shares)), own, ranked=ranked(recording)
    )


def _worlds_finding(worlds: Sequence[World]) -> WorldsFinding | None:
    """None where no policy has played in every world."""
    standings = hindsight.standings_of(worlds)
    if not standings:
        return None
    first = standings[0]
    worst = first.ratios[first.worst].mean
    return WorldsFinding(len(worlds), first.policy, first.overall, worst, first.worst)


def _held(recording: Recording) -> float | None:
    played = pl.col("policy").is_in(recording.forgetting)
    frame = statistics.coverage(recording).filter(played)
    return int(frame["held"].sum()) / int(frame["runs"].sum()) if frame.height else None


def _recovered(recordings: Sequence[Recording]) -> list[Recovered]:
    """D-GLUCB in pairs, with a narrower bonus than that of the theory."""
    found = []
    for recording in recordings:
        policy = recording.labelled("D-GLUCB")
        narrow = recording.shows_share and recording.bonus != 1.0
        if narrow and policy and statistics.recovery_stretches(recording):
            row = statistics.recovery(recording).row(
                by_predicate=pl.col("policy") == policy, named=True
            )
            found.append(Recovered(policy, recording.name, row["end_over_first_segment"]))
    return found
