"""Which experiment is shown where, found by what it recorded, and the page made of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from driftbandits.agent.savefile import write_whole
from driftbandits.report import claims, hindsight
from driftbandits.report.files import ReportFolder
from driftbandits.report.hindsight import World
from driftbandits.report.page import Section, page
from driftbandits.report.recordings import (
    PAPER_WORLD,
    Recording,
    find_recordings,
    is_linear,
    sweeps,
)
from driftbandits.report.sections import limits
from driftbandits.report.sections.further import further
from driftbandits.report.sections.limits import Limits
from driftbandits.report.sections.many_worlds import many_worlds
from driftbandits.report.sections.overview import overview
from driftbandits.report.sections.paper_world import paper_world
from driftbandits.report.sections.provenance import provenance
from driftbandits.report.sections.real_data import real_data

TITLE = "Generalized linear bandits in a changing world"


def write_contents(directory: Path, *, title: str | None) -> Path:
    if not directory.is_dir():
        raise ValueError(f"directory must be a folder with results; got {str(directory)!r}")
    recordings = find_recordings(directory)
    if not recordings:
        raise ValueError(
            f"directory must hold at least one experiment with finished runs; "
            f"{str(directory)!r} has none"
        )
    folder, found = ReportFolder(directory), contents_of(recordings)
    text = page(
        title=title or TITLE,
        overview=overview(recordings, paper=found.paper, alone=found.alone, worlds=found.worlds),
        sections=_sections(folder, found),
        provenance=provenance(folder, recordings, alone=found.alone),
    )
    path = directory / "report.html"
    write_whole(path, text.encode())
    return path


@dataclass(frozen=True)
class Contents:
    """Experiments by the place where they are shown."""

    worlds: Sequence[World]
    resting: Sequence[Recording]  # beside the worlds: what policies report where nothing changes
    paper: Recording | None
    narrow_bonus: Recording | None
    intercept: Recording | None
    known_changes: Recording | None
    paired: Sequence[Recording]
    counts: Sequence[Recording]
    sweeps: Mapping[str, Sequence[Recording]]
    further: Sequence[Recording]
    alone: Sequence[Recording]  # all but those of the worlds


def contents_of(recordings: Sequence[Recording]) -> Contents:
    worlds = hindsight.worlds_of(recordings)
    inside = hindsight.members(recordings)
    outside = [recording for recording in recordings if recording not in inside]
    resting = hindsight.at_rest(outside) if worlds else []
    alone = [recording for recording in outside if recording not in resting]
    swept = {
        name: group
        for name, group in sweeps(alone).items()
        if len(group) > 1 and limits.swept_by(group)
    }
    single = [r for r in alone if r.spec.get("sweep") not in swept]
    paired, counts = ([r for r in single if r.world == world] for world in ("paired", "counts"))
    variations = _variations([r for r in single if r.world == PAPER_WORLD])
    placed = [*paired, *counts, *variations.values()]
    return Contents(
        worlds=worlds,
        resting=resting,
        paper=variations.get("paper"),
        narrow_bonus=variations.get("narrow bonus"),
        intercept=variations.get("intercept"),
        known_changes=variations.get("known changes"),
        paired=paired,
        counts=counts,
        sweeps=swept,
        further=[recording for recording in single if recording not in placed],
        alone=alone,
    )


def _variations(in_paper_world: Sequence[Recording]) -> dict[str, Recording]:
    """At most one experiment of each variation, all on the same traces."""
    ranked = sorted(in_paper_world, key=_paper_policies, reverse=True)
    papers_own = (recording for recording in ranked if _variation(recording) == "paper")
    first = next(papers_own, next(iter(ranked), None))
    found: dict[str, Recording] = {}
    for recording in ranked:
        variation = _variation(recording)
        if variation is not None and first is not None and recording.traces == first.traces:
            found.setdefault(variation, recording)
    return found


def _paper_policies(recording: Recording) -> int:
    return sum(recording.labelled(name) is not None for pair in claims.PAIRS for name in pair)


def _variation(recording: Recording) -> str | None:
    """What is particular to the policies of an experiment; None where nothing fits."""
    policies = recording.policies.values()
    if all(policy.get("restart") == "changes" for policy in policies):
        return "known changes"
    if any(policy.get("restart") for policy in policies):
        return None
    if any(is_linear(p) and (p.get("intercept") or p.get("centre")) for p in policies):
        return "intercept"
    if recording.bonus == 1.0:
        return "paper"
    return "narrow bonus" if recording.bonus is not None and recording.bonus < 1.0 else None


def _sections(folder: ReportFolder, found: Contents) -> list[Section]:
    """In the order of the page; what has no experiments is left out."""
    made = []
    if found.worlds:
        content = many_worlds(folder, found.worlds, found.resting)
        made.append(Section("many-worlds", "Many worlds", "many_worlds.html", content))
    if found.paper:
        world = paper_world(folder, found.paper)
        title = "A world that changes abruptly"
        made.append(Section("paper-world", title, "paper_world.html", world))
    if data := real_data(folder, paired=found.paired, counts=found.counts):
        made.append(Section("real-data", "Real data", "real_data.html", data))
    if any(shown := _limits(folder, found)):
        made.append(Section("limits", "How far these figures carry", "limits.html", shown))
    if own := further(folder, found.further):
        made.append(Section("further", "Further experiments", "further.html", own))
    return made


def _limits(folder: ReportFolder, found: Contents) -> Limits:
    paper, narrow = found.paper, found.narrow_bonus
    bounded = paper or next(filter(limits.has_bounds, found.alone), None)
    rivals = [recording for recording in (paper, narrow) if recording]
    return Limits(
        narrow_bonus=limits.narrow_bonus(folder, narrow, wide=paper) if narrow else None,
        intercept=limits.intercept(folder, found.intercept) if found.intercept else None,
        known_changes=limits.known_changes(folder, found.known_changes, rivals=rivals)
        if found.known_changes
        else None,
        coverage=limits.coverage(folder, found.alone),
        bounds=limits.bounds(folder, bounded) if bounded else None,
        growth=limits.growth(folder, found.sweeps),
    )
