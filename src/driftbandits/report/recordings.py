"""The experiments of a folder, and what their specs say of the world and of the policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from driftbandits.experiments import REPRODUCED, Results, load
from driftbandits.policies import ALIASES

REGRET, SHARE, REWARD = "final regret", "share found", "reward a round"
"""The measures that policies are compared by."""


@dataclass(frozen=True, eq=False)
class Recording:
    """One experiment and what it recorded."""

    results: Results

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.results.spec

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def title(self) -> str:
        return str(self.spec["title"])

    @property
    def section(self) -> str:
        return str(self.spec["section"])

    @cached_property
    def runs(self) -> pl.DataFrame:
        return self.results.runs

    @cached_property
    def policies(self) -> dict[str, Mapping[str, Any]]:
        """The lines of the policies that have results, by label, in the order of the file."""
        played = set(self.runs["policy"].unique())
        return {p["label"]: p for p in self.spec["policies"] if p["label"] in played}

    @cached_property
    def measure(self) -> str:
        """Return the quantity that policies are compared by: regret wherever it is known."""
        if self.section == "share":
            return SHARE
        known = self.section != "worlds" or bool(self.spec["world"]["means_known"])
        return REGRET if known and not self.runs["final_regret"].is_nan().any() else REWARD

    @property
    def replicates(self) -> int:
        return self.runs["replicate"].n_unique()

    @property
    def horizon(self) -> int:
        return int(self.spec["world"]["horizon"])

    @property
    def changes(self) -> tuple[int, ...]:
        """The rounds at which every run changes; empty if they differ or nobody knows them."""
        return tuple(self.spec["world"]["changes"] or ())

    @cached_property
    def true_theta(self) -> NDArray[np.float64] | None:
        """The parameter of each round (T, d), where it is the same in every run."""
        parameters = self.spec["world"]["parameters"]
        if parameters is None:
            return None
        lengths = np.diff([1, *self.changes, self.horizon + 1])
        return np.repeat(np.array(parameters, dtype=np.float64), lengths, axis=0)


def policy_kind(policy: Mapping[str, Any]) -> str:
    """The policy's own name, whatever its label says; one that restarts is of a kind of its own."""
    name = ALIASES.get(policy["name"], str(policy["name"]))
    return f"{name}, restarted" if policy.get("restart") else name


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
    spec = recording.spec
    file = str(spec["sweep"] or recording.name).removesuffix("-grid")
    order = REPRODUCED.index(file) if file in REPRODUCED else len(REPRODUCED)
    return order, file, int(spec["position"]), bool(spec["is_grid"])


def grouped(recordings: Iterable[Recording]) -> dict[str, list[Recording]]:
    """Variants of one experiment by the name that they share; any other experiment alone."""
    groups: dict[str, list[Recording]] = {}
    for recording in recordings:
        groups.setdefault(str(recording.spec["sweep"] or recording.name), []).append(recording)
    return groups
