"""Running an experiment: the replicates that are missing, in blocks, on any executor.

A run is thinned by the worker as soon as it is played, so memory does not grow with the runs.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits.checks import RunFailed
from driftbandits.core import theory
from driftbandits.environments import Environment, Trace
from driftbandits.experiments import results
from driftbandits.experiments.kernels import Run
from driftbandits.experiments.player import (
    Block,
    Ints,
    Played,
    Player,
    Restarted,
    play_block,
)
from driftbandits.experiments.spec import Experiment
from driftbandits.experiments.workers import blocks_of, run_blocks
from driftbandits.jit import made_by
from driftbandits.policies import UCB, Policy

LARGEST_BLOCK = 10
"""Replicates that an interruption may cost, on each worker."""

Progress = Callable[[int, int], None]
"""Called with the replicates that are finished and those that are wanted."""


def run_experiment(
    experiment: Experiment,
    *,
    out: str | Path,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Path:
    """Play the replicates that are missing in `out/<name>/`, and return that folder.

    Without an executor they are played in this process. Whatever happens, finished blocks stay, and
    the same call goes on from there. Results do not depend on the executor.
    """
    results.polars()  # find out now, not after the first block
    spec = experiment.spec
    folder = Path(out) / experiment.name
    results.open_folder(folder, {**spec, **machine()})
    finished = results.finished_replicates(folder)
    wanted = set(range(experiment.runs))
    missing = wanted - finished
    done = len(wanted) - len(missing)
    report = progress or (lambda done, wanted: None)
    report(done, len(wanted))

    def keep(block: PlayedBlock) -> None:
        nonlocal done
        results.write_block(folder, block.replicates, block.rows, {**spec, **block.machine})
        done += len(block.replicates)
        report(done, len(wanted))

    # Small enough for several workers to share a short experiment.
    size = max(1, min(LARGEST_BLOCK, len(missing) // 8))
    task = partial(
        _play,
        dict(experiment.players),
        experiment.world,
        experiment.seed,
        Recording(experiment.every, experiment.theta_every, experiment.coverage),
    )
    try:
        run_blocks(task, blocks_of(missing, size=size), keep, executor=executor)
    except RunFailed as error:
        raise RunFailed(f"{experiment.name}: {error}; finished runs are kept") from None
    return folder


@dataclass(frozen=True)
class Recording:
    """The parts of a run to keep."""

    every: int
    theta_every: int
    coverage: bool


@dataclass(frozen=True)
class PlayedBlock:
    """The results that a worker sends back."""

    replicates: Block
    rows: list[dict[str, Any]]
    machine: dict[str, Any]


def _play(
    players: dict[str, Player],
    world: Environment,
    seed: int,
    recording: Recording,
    replicates: Block,
) -> PlayedBlock:
    record = ("chosen", "theta_hat", "detections", *(("intervals",) if recording.coverage else ()))
    rows = play_block(players, world, seed, record, partial(_row, recording), replicates)
    return PlayedBlock(replicates, rows, machine())


def _row(recording: Recording, played: Played) -> dict[str, Any]:
    """Return the row of a run in the results."""
    trace, run = played.trace, played.run
    T, every = trace.horizon, recording.theta_every
    rounds = _thinned(T, recording.every)
    measurable = trace.means is not None or not trace.partial  # else nobody knows the best arm
    regret = np.cumsum(trace.regret(run.chosen)) if measurable else np.full(T, np.nan)
    reward = np.cumsum(np.nan_to_num(trace.rewards[np.arange(T), run.chosen]))
    theta_rounds = np.arange(every, T + 1, every) if every else np.empty(0, dtype=np.int64)
    theta_hat = run.theta_hat if len(run.theta_hat) else np.full((T, trace.dim), np.nan)
    return {
        "policy": played.label,
        "replicate": played.replicate,
        "rounds": T,
        "seconds": run.seconds,
        "final_regret": float(regret[-1]),
        "total_reward": float(reward[-1]),
        **run.work,
        "covered": _covered(played.player, trace, run) if recording.coverage else None,
        "detections": len(run.detections),
        "round": rounds.tolist(),
        "regret": regret[rounds - 1].tolist(),
        "reward": reward[rounds - 1].tolist(),
        "theta_round": theta_rounds.tolist(),
        "theta_hat": theta_hat[theta_rounds - 1].tolist(),
    }


def _thinned(horizon: int, every: int) -> Ints:
    """Every `every`-th round, and the last."""
    return np.unique(np.append(np.arange(every, horizon + 1, every), horizon))


def _covered(player: Player, trace: Trace, run: Run) -> bool | None:
    """Return whether the interval of every available arm held in every covered round."""
    rounds = _covered_rounds(player, trace)
    if rounds is None or trace.means is None:
        return None
    outside = np.abs(run.means - trace.means) > run.widths  # never for an arm without an interval
    return not outside[rounds].any()


def _covered_rounds(player: Player, trace: Trace) -> NDArray[np.bool_] | None:
    """The rounds of Propositions 1 and 2; before the first change for what never forgets."""
    if isinstance(player, Restarted):
        return None if player.rounds is not None else np.ones(trace.horizon, dtype=np.bool_)
    if not isinstance(player, Policy) or player.row.score != UCB or trace.theta is None:
        return None
    if player.window is not None:
        return theory.covered_by_window(trace.theta, tau=player.window)
    if player.discount is not None:
        return theory.covered_by_discount(trace.theta, gamma=player.discount)
    unchanged = np.all(trace.theta == trace.theta[0], axis=1)
    before_the_first_change: NDArray[np.bool_] = np.logical_and.accumulate(unchanged)
    return before_the_first_change


def machine() -> dict[str, Any]:
    """Versions and processor: results are the same bits only where these are the same."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("driftbandits", "numpy")},
            "numba": made_by(),
        },
        "cpu": {"machine": platform.machine(), "model": _cpu_model(), "count": os.cpu_count()},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()
