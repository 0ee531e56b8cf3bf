"""Running an experiment: the replicates that are missing, in blocks, on any executor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from driftbandits.errors import RunFailed
from driftbandits.experiments import results
from driftbandits.experiments.blocks import PlayedBlock, Recording, machine, play_block
from driftbandits.experiments.spec import Experiment
from driftbandits.workers import Block, blocks_of, run_blocks

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

    def keep(played: PlayedBlock) -> None:
        nonlocal done
        results.write_block(folder, played, spec)
        done += len(played.replicates)
        report(done, len(wanted))

    # Small enough for several workers to share a short experiment.
    size = max(1, min(LARGEST_BLOCK, len(missing) // 8))
    try:
        run_blocks(_task(experiment), blocks_of(missing, size=size), keep=keep, executor=executor)
    except RunFailed as error:
        raise RunFailed(f"{experiment.name}: {error}; finished runs are kept") from None
    return folder


def _task(experiment: Experiment) -> Callable[[Block], PlayedBlock]:
    """What a worker is sent: the little of an experiment that its runs depend on."""
    return partial(
        play_block,
        dict(experiment.players),
        experiment.world,
        experiment.seed,
        Recording(experiment.every, experiment.theta_every, experiment.coverage),
    )
