"""What the theory promises, against the runs: confidence intervals and regret bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from driftbandits import theory
from driftbandits.policies import Policy, recorded_policy
from driftbandits.report import statistics
from driftbandits.report.files import ReportFolder
from driftbandits.report.recordings import Recording, bonus_of, policy_kind
from driftbandits.report.sections.parts import reached
from driftbandits.report.style import looks
from driftbandits.report.tables import Row, Table

_STATEMENTS = {"SW-GLUCB": "Proposition 1", "D-GLUCB": "Proposition 2"}


@dataclass(frozen=True)
class Coverage:
    """Of one experiment, the runs in which every confidence interval held."""

    recording: Recording
    table: Table

    @property
    def promised(self) -> list[Row]:
        """The policies for which the paper promises something."""
        return [row for row in self.table.rows if row["promised_by"] in _STATEMENTS.values()]


def coverage(folder: ReportFolder, recordings: Sequence[Recording]) -> list[Coverage]:
    """Of those experiments that recorded it."""
    found = []
    for recording in recordings:
        frame = statistics.coverage(recording)
        if frame.height:
            entries = [recording.policies[label] for label in frame["policy"]]
            rounds = [_covered_rounds(recording, entry) for entry in entries]
            frame = frame.with_columns(
                pl.Series("promised_by", [_promise(entry) for entry in entries]),
                pl.Series("rounds_covered", rounds),
            )
            name = f"{recording.name}-coverage"
            table = folder.table(name, frame, looks(recording.policies))
            found.append(Coverage(recording, table))
    return found


def _promise(entry: Mapping[str, Any]) -> str:
    scale = bonus_of(entry)
    if scale != 1.0:
        return f"none (bonus × {scale:g})"
    return _STATEMENTS.get(policy_kind(entry), "none in this paper")


def _covered_rounds(recording: Recording, entry: Mapping[str, Any]) -> float:
    """Share of the rounds about which the propositions say anything."""
    truth, player = recording.true_theta, _made(entry)
    if truth is None:
        return np.nan
    if player.window is not None:
        return float(theory.covered_by_window(truth, tau=player.window).mean())
    if player.discount is not None:
        return float(theory.covered_by_discount(truth, gamma=player.discount).mean())
    changes, horizon = recording.changes, recording.horizon
    return ((changes[0] - 1) if changes else horizon) / horizon


def _made(entry: Mapping[str, Any]) -> Policy:
    """The policy that a line of a spec describes."""
    arguments = {key: value for key, value in entry.items() if key not in ("label", "restart")}
    return recorded_policy(arguments)


@dataclass(frozen=True)
class Bounds:
    """The regret bounds with their constants, against what was measured."""

    table: Table
    vacuous: int  # bounds above what a policy could lose at all
    forgetting: ForgettingTime | None


class ForgettingTime(NamedTuple):
    """Rounds after which the discounted policy is said to have forgotten a change."""

    rounds: float
    shortest: int  # stretch without a change


def has_bounds(recording: Recording) -> bool:
    known = bool(recording.facts.get("means_known"))
    return known and any(recording.labelled(name) for name in _STATEMENTS)


def bounds(folder: ReportFolder, recording: Recording) -> Bounds | None:
    rows, forgetting = [], None
    for label, entry in recording.policies.items():
        if policy_kind(entry) in _STATEMENTS:
            player = _made(entry)
            theorem, memory, bound = _bound(recording, player)
            if player.discount is not None:
                forgetting = _forgetting_time(recording, player.discount)
            mean, se, _ = reached(recording, label).estimate
            worst = recording.horizon * player.link.m
            measured = (mean, se, bound / mean, bound > worst)
            rows.append((label, theorem, memory, bound, worst, *measured))
    if not rows:
        return None
    names = ["policy", "theorem", "memory", "bound", "most_possible", "mean", "se", "ratio"]
    frame = pl.DataFrame(rows, schema=[*names, "vacuous"], orient="row")
    return Bounds(
        folder.table(f"{recording.name}-bounds", frame, looks(recording.policies)),
        vacuous=int(frame["vacuous"].sum()),
        forgetting=forgetting,
    )


def _bound(recording: Recording, player: Policy) -> tuple[str, str, float]:
    """The theorem, the memory that it is about, and the bound."""
    known: dict[str, Any] = {"horizon": recording.horizon, "changes": recording.change_count}
    if player.window is not None:
        bound = theory.regret_bound_window(player.problem, tau=player.window, **known)
        return "Theorem 1", f"τ = {player.window:,}", bound
    gamma = float(player.discount or 0.0)
    bound = theory.regret_bound_discount(player.problem, gamma=gamma, **known)
    return "Theorem 2", f"γ = {gamma:.5f}", bound


def _forgetting_time(recording: Recording, gamma: float) -> ForgettingTime:
    segments = np.diff([1, *recording.changes, recording.horizon + 1])
    return ForgettingTime(theory.forgetting_time(gamma), int(segments.min()))
