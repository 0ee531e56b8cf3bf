"""What was run, with what, and how to make it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from driftbandits.experiments import published
from driftbandits.report.files import ReportFolder
from driftbandits.report.recordings import Recording
from driftbandits.report.tables import Table


@dataclass(frozen=True)
class Provenance:
    """What the template says below the sections."""

    versions: Sequence[str]
    processors: Sequence[str]
    commands: Sequence[str]
    table: Table


def provenance(
    folder: ReportFolder, recordings: Sequence[Recording], *, alone: Sequence[Recording]
) -> Provenance:
    return Provenance(
        versions=_versions(recordings),
        processors=_processors(recordings),
        commands=_commands(recordings, alone),
        table=folder.table("provenance", _frame(recordings)),
    )


def _frame(recordings: Sequence[Recording]) -> pl.DataFrame:
    rows = [
        {
            "experiment": recording.name,
            "runs": recording.replicates,
            "seed": int(recording.spec["seed"]),
            "spec_hash": str(recording.spec["hash"])[:12],
            "rounds": recording.horizon,
            "seconds_in_policies": float(recording.runs["seconds"].sum()),
        }
        for recording in recordings
    ]
    return pl.DataFrame(rows)


def _versions(recordings: Sequence[Recording]) -> list[str]:
    used: dict[str, set[str]] = {}
    for recording in recordings:
        for package, version in dict(recording.spec.get("versions") or {}).items():
            used.setdefault(str(package), set()).add(str(version))
    return [f"{package} {' and '.join(sorted(found))}" for package, found in used.items()]


def _processors(recordings: Sequence[Recording]) -> list[str]:
    found = (recording.spec.get("cpu") for recording in recordings)
    return sorted({str(cpu.get("model") or cpu.get("machine")) for cpu in found if cpu})


def _commands(recordings: Sequence[Recording], alone: Sequence[Recording]) -> list[str]:
    """What to type to make the results and the page again."""
    known = published()
    files = {recording.name: recording.spec.get("sweep") or recording.name for recording in alone}
    own = dict.fromkeys(file for file in files.values() if file not in known)
    commands = [f"driftbandits run {file}.toml --out results" for file in own]
    if any(file in known for file in files.values()):
        runs = max(recording.replicates for recording in alone)
        commands.insert(0, f"driftbandits reproduce --runs {runs} --out results")
    last = "make suite" if len(alone) < len(recordings) else "driftbandits report results"
    return [*commands, last]
