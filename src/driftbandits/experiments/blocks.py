"""A block of replicates: what a worker plays, and the little of it that it sends back.

A run is thinned in the worker as soon as it is played, so memory does not grow with the runs.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits import theory
from driftbandits.checks import Floats
from driftbandits.environments import Environment, Trace
from driftbandits.policies import UCB, Policy
from driftbandits.simulation import Player, Restarted, Run, draw_trace, play, player_seed
from driftbandits.simulation.run import Ints
from driftbandits.workers import Block


class Recording(NamedTuple):
    """How much of a run to keep."""

    every: int
    theta_every: int
    coverage: bool


class Summary(NamedTuple):
    """What is kept of one policy's run."""

    policy: str
    replicate: int
    regret: Floats  # cumulative, at `PlayedBlock.rounds`; NaN where it cannot be measured
    reward: Floats  # cumulative, at `PlayedBlock.rounds`
    theta_hat: Floats  # (., d), at `PlayedBlock.theta_rounds`
    seconds: float
    work: dict[str, int]
    covered: bool | None
    detections: int


class PlayedBlock(NamedTuple):
    """What came of some replicates, and on which machine."""

    replicates: tuple[int, ...]
    horizon: int
    rounds: Ints
    theta_rounds: Ints
    summaries: list[Summary]
    machine: dict[str, Any]


def play_block(
    players: Mapping[str, Player],
    world: Environment,
    seed: int,
    recording: Recording,
    replicates: Block,
) -> PlayedBlock:
    """Play some replicates, one trace at a time; every policy of a replicate plays the same."""
    summaries = []
    horizon = 0
    for replicate in replicates:
        trace = draw_trace(world, seed, replicate)
        horizon = trace.horizon
        for label, player in players.items():
            run = play(player, trace, player_seed(seed, replicate), _record(trace, recording))
            summaries.append(_summary(label, replicate, player, trace, run, recording))
    return PlayedBlock(
        replicates=tuple(replicates),
        horizon=horizon,
        rounds=thinned(horizon, recording.every),
        theta_rounds=np.arange(recording.theta_every, horizon + 1, recording.theta_every),
        summaries=summaries,
        machine=machine(),
    )


def thinned(horizon: int, every: int) -> Ints:
    """Every `every`-th round, and the last."""
    return np.unique(np.append(np.arange(every, horizon + 1, every), horizon))


def machine() -> dict[str, Any]:
    """Versions and processor: results are the same bits only where these are the same."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("driftbandits", "numpy", "numba")},
        },
        "cpu": {"machine": platform.machine(), "model": _cpu_model(), "count": os.cpu_count()},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def _record(trace: Trace, recording: Recording) -> tuple[str, ...]:
    wanted = ["chosen", "theta_hat", "detections"]
    if trace.means is not None or not trace.partial:  # else nobody knows the best arm
        wanted.append("regret")
    if recording.coverage:
        wanted.append("intervals")
    return tuple(wanted)


def _summary(
    label: str,
    replicate: int,
    player: Player,
    trace: Trace,
    run: Run,
    recording: Recording,
) -> Summary:
    at = thinned(trace.horizon, recording.every) - 1
    received = trace.rewards[np.arange(trace.horizon), run.chosen]
    every = recording.theta_every
    return Summary(
        policy=label,
        replicate=replicate,
        regret=run.regret[at] if run.regret.size else np.full(at.size, np.nan),
        reward=np.cumsum(np.nan_to_num(received))[at],
        theta_hat=_believed(run, trace)[every - 1 :: every].copy(),
        seconds=run.seconds,
        work=run.work,
        covered=_covered(player, trace, run) if recording.coverage else None,
        detections=len(run.detections),
    )


def _believed(run: Run, trace: Trace) -> Floats:
    """theta-hat in every round; unknown of a player that has none."""
    if len(run.theta_hat) == trace.horizon:
        return run.theta_hat
    return np.full((trace.horizon, trace.dim), np.nan)


def _covered(player: Player, trace: Trace, run: Run) -> bool | None:
    """Does the interval hold for every available arm in every round that the theory covers?"""
    rounds = _covered_rounds(player, trace)
    if rounds is None or trace.means is None:
        return None
    outside = np.abs(run.means - trace.means) > run.widths  # never for an arm without an interval
    return not outside[rounds].any()


def _covered_rounds(player: Player, trace: Trace) -> NDArray[np.bool_] | None:
    """The rounds of Propositions 1 and 2; before the first change for what never forgets."""
    if isinstance(player, Restarted):
        if player.rounds is not None:
            return None
        return np.ones(trace.horizon, dtype=np.bool_)
    if not isinstance(player, Policy) or player.row.score != UCB or trace.theta is None:
        return None
    if player.window is not None:
        return theory.covered_by_window(trace.theta, tau=player.window)
    if player.discount is not None:
        return theory.covered_by_discount(trace.theta, gamma=player.discount)
    unchanged = np.all(trace.theta == trace.theta[0], axis=1)
    before_the_first_change: NDArray[np.bool_] = np.logical_and.accumulate(unchanged)
    return before_the_first_change
