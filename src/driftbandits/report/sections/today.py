"""The paper's world as a user would meet it today: `auto` and tuned policies beside the six."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftbandits.report.files import ReportFolder
from driftbandits.report.recordings import Recording, bonus_of, policy_kind
from driftbandits.report.sections.parts import (
    Reached,
    RegretOverTime,
    ranked,
    reached,
    regret_over_time,
)

TOLD_NOTHING = "auto"


@dataclass(frozen=True)
class TodayFinding:
    """What is told nothing against the best of the paper's policies and the best tuned one."""

    recording: Recording
    auto: Reached
    paper: Reached | None
    tuned: Reached | None

    @property
    def share(self) -> float | None:
        """Of the regret of the best of the paper's policies."""
        return None if self.paper is None else self.auto.estimate.mean / self.paper.estimate.mean


@dataclass(frozen=True)
class Today:
    """What the template says."""

    finding: TodayFinding
    regret: RegretOverTime


def today(folder: ReportFolder, recording: Recording) -> Today:
    return Today(today_finding(recording), regret_over_time(folder, recording))


def today_finding(recording: Recording) -> TodayFinding:
    label = recording.labelled(TOLD_NOTHING)
    assert label is not None  # by this such an experiment is known
    others = [own for own in ranked(recording) if own.label != label]
    as_published = [o for o in others if _as_published(recording.policies[o.label])]
    tuned = [own for own in others if own not in as_published]
    return TodayFinding(
        recording,
        reached(recording, label),
        next(iter(as_published), None),
        next(iter(tuned), None),
    )


def _as_published(policy: Mapping[str, Any]) -> bool:
    return bonus_of(policy) == 1.0 and policy["label"] == policy_kind(policy)
