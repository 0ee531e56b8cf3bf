"""The page: its sections in their order, written with the files beside it."""

from __future__ import annotations

from pathlib import Path

from driftbandits.files import write_whole
from driftbandits.report.contents import Contents, contents_of
from driftbandits.report.files import ReportFolder
from driftbandits.report.recordings import find_recordings
from driftbandits.report.rendering import Section, rendered
from driftbandits.report.sections.further import further
from driftbandits.report.sections.limits import limits
from driftbandits.report.sections.many_worlds import many_worlds
from driftbandits.report.sections.overview import overview
from driftbandits.report.sections.paper_world import paper_world
from driftbandits.report.sections.provenance import provenance
from driftbandits.report.sections.real_data import real_data
from driftbandits.report.sections.side_by_side import side_by_side
from driftbandits.report.sections.today import today

TITLE = "Generalized linear bandits in a changing world"


def write_page(directory: Path, *, title: str | None) -> Path:
    if not directory.is_dir():
        raise ValueError(f"directory must be a folder with results; got {str(directory)!r}")
    recordings = find_recordings(directory)
    if not recordings:
        raise ValueError(
            f"directory must hold at least one experiment with finished runs; "
            f"{str(directory)!r} has none"
        )
    folder, found = ReportFolder(directory), contents_of(recordings)
    text = rendered(
        title=title or TITLE,
        overview=overview(recordings, found),
        sections=_sections(folder, found),
        provenance=provenance(folder, recordings, alone=found.alone),
    )
    path = directory / "report.html"
    write_whole(path, text.encode())
    return path


def _sections(folder: ReportFolder, found: Contents) -> list[Section]:
    """In the order of the page; what has no experiments is left out."""
    worlds = (
        many_worlds(folder, found.worlds, [*found.resting, *found.alone]) if found.worlds else None
    )
    world = paper_world(folder, found.paper) if found.paper else None
    now = today(folder, found.today) if found.today else None
    data = real_data(folder, paired=found.paired, counts=found.counts)
    sections = [
        Section("many-worlds", "Many worlds", worlds),
        Section("paper-world", "A world that changes abruptly", world),
        Section("today", "What a user would get today", now),
        Section("real-data", "Real data", data),
        Section("side-by-side", "Side by side", side_by_side(folder, found.side_by_side)),
        Section("limits", "How far these figures carry", limits(folder, found)),
        Section("further", "Further experiments", further(folder, found.further)),
    ]
    return [section for section in sections if section.content]
