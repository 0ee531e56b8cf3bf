"""The paper's simulated world: its Figures 1 and 2, and what it says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driftbandits.report import claims
from driftbandits.report.files import ReportFolder
from driftbandits.report.recordings import Recording
from driftbandits.report.sections.parts import (
    Estimates,
    Reached,
    RegretOverTime,
    estimates,
    ranked,
    regret_over_time,
)
from driftbandits.report.tables import Table


@dataclass(frozen=True)
class PaperWorld:
    """What the template says of the paper's world."""

    recording: Recording
    regret: RegretOverTime
    ranked: Sequence[Reached]
    claims: Table | None  # none unless all policies of the paper have played
    spread_ratio: float | None
    estimates: Estimates | None


def paper_world(folder: ReportFolder, recording: Recording) -> PaperWorld:
    found = claims.claims_about(recording)
    name = f"{recording.name}-claims"
    return PaperWorld(
        recording,
        regret=regret_over_time(folder, recording),
        ranked=ranked(recording),
        claims=folder.table(name, claims.as_frame(found)) if found else None,
        spread_ratio=claims.spread_ratio(recording),
        estimates=estimates(folder, recording),
    )
