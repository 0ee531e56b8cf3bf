"""What an experiment recorded: its results, its world and its policies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from driftbandits import experiments
from driftbandits.policies import ALIASES, ROWS

Policies = Mapping[str, Mapping[str, Any]]
"""Lines of a spec, by label."""

PAPER_WORLD = "abrupt2d"
"""The world of the paper's Figures 1 and 2."""

FORGETTING = ("D-GLUCB", "SW-GLUCB")
"""The paper's own policies."""


@dataclass(frozen=True, eq=False)
class Recording:
    """One experiment and what it recorded."""

    folder: Path
    spec: Mapping[str, Any]
    theta: pl.DataFrame
    runs: pl.DataFrame
    missing: int = 0
    """Runs that the experiment asks for and that are still to be played."""

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def curves(self) -> pl.DataFrame:
        """Read anew each time: the curves of all recordings at once would fill the memory."""
        return experiments.load(self.folder).curves

    @property
    def title(self) -> str:
        return str(self.spec.get("title") or self.name)

    @property
    def world(self) -> str:
        return str(self.spec["environment"]["name"])

    @property
    def traces(self) -> tuple[str, int]:
        """Experiments in which this is the same have played the same traces."""
        return json.dumps(self.spec["environment"], sort_keys=True), int(self.spec["seed"])

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the spec says of the world: horizon, changes, parameters, ..."""
        facts: Mapping[str, Any] = self.spec["world"]
        return facts

    @property
    def shows_share(self) -> bool:
        """Where one arm is right, what counts is the share of rounds that found it."""
        return self.world in ("paired", "stream")

    @cached_property
    def has_regret(self) -> bool:
        """Not where rewards of a log are missing: nobody knows the best action."""
        return not bool(self.runs["final_regret"].is_nan().any())

    @property
    def measure(self) -> str:
        """What the policies are compared by."""
        if self.shows_share:
            return "share found"
        return "final regret" if self.has_regret else "reward a round"

    @cached_property
    def policies(self) -> Policies:
        """The policies that have results, by label, in the order of the spec."""
        played = set(self.runs["policy"].unique())
        return {p["label"]: p for p in self.spec["policies"] if p["label"] in played}

    def labelled(self, name: str) -> str | None:
        """The label of the first policy of this kind."""
        return next((label for label, p in self.policies.items() if policy_kind(p) == name), None)

    @property
    def at_random(self) -> str | None:
        """The label of the policy by whose regret that of others can be judged."""
        return self.labelled("random") if self.measure == "final regret" else None

    @property
    def forgetting(self) -> list[str]:
        """The labels of the paper's own policies, as far as they have played."""
        return [label for name in FORGETTING if (label := self.labelled(name))]

    @property
    def bonus(self) -> float | None:
        """The scale of the bonus that all policies share; None where they differ in it."""
        scales = {bonus_of(policy) for policy in self.policies.values()}
        return scales.pop() if len(scales) == 1 else None

    @property
    def bonus_in_words(self) -> str:
        """Or the title, where the policies differ in their bonus."""
        return self.title if self.bonus is None else bonus_words(self.bonus)

    @property
    def replicates(self) -> int:
        return self.runs["replicate"].n_unique()

    @property
    def horizon(self) -> int:
        return int(self.facts["horizon"])

    @property
    def changes(self) -> tuple[int, ...]:
        """The rounds at which every run changes; empty if they differ or nobody knows them."""
        return tuple(self.facts.get("changes") or ())

    @property
    def change_count(self) -> int:
        """How often a run changes; 0 if nobody knows it."""
        return int(self.facts.get("changes_a_run") or 0)

    @property
    def rests(self) -> bool:
        """Is it known that nothing changes?"""
        return self.facts.get("changes_a_run") == 0

    @cached_property
    def true_theta(self) -> NDArray[np.float64] | None:
        """The parameter of each round (T, d), where it is the same in every run."""
        parameters = self.facts.get("parameters")
        if parameters is None:
            return None
        lengths = np.diff([1, *self.changes, self.horizon + 1])
        return np.repeat(np.array(parameters, dtype=np.float64), lengths, axis=0)


def policy_kind(policy: Mapping[str, Any]) -> str:
    """The policy's own name, whatever its label says; one that restarts is of a kind of its own."""
    name = _own_name(policy)
    return f"{name}, restarted" if policy.get("restart") else name


def is_linear(policy: Mapping[str, Any]) -> bool:
    """Does it do without the link?"""
    row = ROWS.get(_own_name(policy))
    return row is not None and row.linear


def _own_name(policy: Mapping[str, Any]) -> str:
    return ALIASES.get(policy["name"], str(policy["name"]))


def bonus_of(policy: Mapping[str, Any]) -> float:
    return float(policy.get("bonus_scale", 1.0))


def bonus_words(scale: float) -> str:
    return "bonus of the theory" if scale == 1.0 else f"bonus × {scale:g}"


def find_recordings(directory: Path) -> list[Recording]:
    """Every experiment with results under a directory, variants in the order of their file.

    Of two with one name, the last.
    """
    found: dict[str, Recording] = {}
    for path in sorted(directory.iterdir()):
        # An experiment that was interrupted before its first block has a spec and no runs.
        if (path / "spec.json").is_file() and any(path.glob("runs-*.parquet")):
            results = experiments.load(path)
            recording = Recording(path, results.spec, results.theta, results.runs, results.missing)
            found[recording.name] = recording
    return sorted(found.values(), key=_place)


def _place(recording: Recording) -> tuple[str, int, str]:
    spec = recording.spec
    return str(spec.get("sweep") or recording.name), int(spec.get("position", 1)), recording.name


def sweeps(recordings: Iterable[Recording]) -> dict[str, list[Recording]]:
    """Variants of one experiment, by the name they share."""
    grouped: dict[str, list[Recording]] = {}
    for recording in recordings:
        if recording.spec.get("sweep"):
            grouped.setdefault(str(recording.spec["sweep"]), []).append(recording)
    return grouped


def swept_by(group: Sequence[Recording]) -> str | None:
    """What differs between the variants of a sweep: the horizon, or else the number of changes."""
    if len({recording.horizon for recording in group}) == len(group):
        return "horizon"
    if len({recording.change_count for recording in group}) == len(group):
        return "changes"
    return None
