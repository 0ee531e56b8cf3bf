"""The experiments of a folder, and what their specs say of the world and of the policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits.experiments import REPRODUCED, Results, load

REGRET, SHARE, REWARD = "final regret", "share found", "reward a round"
"""The measures that policies are compared by."""


class Recording:
    """One experiment and what it recorded.

    file      the name that the variants of one experiment share
    policies  the lines of the policies that have results, by label, in the order of the file
    changes   the rounds at which every run changes; empty if they differ or nobody knows them
    measure   what policies are compared by: regret wherever it is known
    """

    def __init__(self, results: Results) -> None:
        self.results, self.spec, self.runs = results, results.spec, results.runs
        world = self.spec["world"]
        self.name, self.title = str(self.spec["name"]), str(self.spec["title"])
        self.section, self.file = str(self.spec["section"]), str(self.spec["sweep"] or self.name)
        self.horizon, self.changes = int(world["horizon"]), tuple(world["changes"] or ())
        self.replicates = self.runs["replicate"].n_unique()
        played = set(self.runs["policy"].unique())
        self.policies: dict[str, Mapping[str, Any]] = {
            p["label"]: p for p in self.spec["policies"] if p["label"] in played
        }
        known = self.section != "worlds" or bool(world["means_known"])
        by_regret = known and not self.runs["final_regret"].is_nan().any()
        self.measure = SHARE if self.section == "share" else REGRET if by_regret else REWARD

    @property
    def true_theta(self) -> NDArray[np.float64] | None:
        """The parameter of each round (T, d), where it is the same in every run."""
        parameters = self.spec["world"]["parameters"]
        if parameters is None:
            return None
        lengths = np.diff([1, *self.changes, self.horizon + 1])
        return np.repeat(np.array(parameters, dtype=np.float64), lengths, axis=0)


def find_recordings(directory: Path) -> list[Recording]:
    """Every experiment with results under a directory, variants in the order of their file."""
    found = [
        Recording(load(path))
        for path in sorted(directory.iterdir())
        # An experiment that was interrupted before its first block has a spec and no runs.
        if (path / "spec.json").is_file() and any(path.glob("block-*.parquet"))
    ]
    return sorted(found, key=_place)


def _place(recording: Recording) -> tuple[int, str, int, bool]:
    """The paper's experiments come first, in their order."""
    spec, file = recording.spec, recording.file.removesuffix("-grid")
    order = REPRODUCED.index(file) if file in REPRODUCED else len(REPRODUCED)
    return order, file, int(spec["position"]), bool(spec["is_grid"])


def grouped(recordings: Iterable[Recording]) -> dict[str, list[Recording]]:
    """Variants of one experiment by the name that they share; any other experiment alone."""
    groups: dict[str, list[Recording]] = {}
    for recording in recordings:
        groups.setdefault(recording.file, []).append(recording)
    return groups
