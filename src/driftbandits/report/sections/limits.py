"""What a reader needs beside the paper's figures, to know how far they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from driftbandits.report.contents import Contents
from driftbandits.report.files import ReportFolder
from driftbandits.report.sections.growth import Growth, growth
from driftbandits.report.sections.promises import Bounds, Coverage, bounds, coverage, has_bounds
from driftbandits.report.sections.variations import (
    Intercept,
    KnownChanges,
    NarrowBonus,
    intercept,
    known_changes,
    narrow_bonus,
)


class Limits(NamedTuple):
    """What the template says; every part may be absent."""

    narrow_bonus: NarrowBonus | None
    intercept: Intercept | None
    known_changes: KnownChanges | None
    coverage: Sequence[Coverage]
    bounds: Bounds | None
    growth: Sequence[Growth]


def limits(folder: ReportFolder, found: Contents) -> Limits | None:
    """None where there is nothing to say."""
    wide, narrow = found.paper, found.narrow_bonus
    rivals = [recording for recording in (wide, narrow) if recording]
    bounded = wide or next(filter(has_bounds, found.alone), None)
    made = Limits(
        narrow_bonus(folder, narrow, wide) if narrow else None,
        intercept(folder, found.intercept) if found.intercept else None,
        known_changes(folder, found.known_changes, rivals) if found.known_changes else None,
        coverage(folder, found.alone),
        bounds(folder, bounded) if bounded else None,
        growth(folder, found.sweeps),
    )
    return made if any(made) else None
