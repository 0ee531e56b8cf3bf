"""Run the replicates of an experiment that are missing, and keep them as files.

    spec.json               what was run, with its hash, and with what
    block-<first>-<last>.parquet    one row for each policy and replicate: rounds, seconds,
                            final_regret, total_reward, the counters of the estimator, covered,
                            detections, and as lists the points of its curves and its estimates

A folder belongs to an experiment, a file to a block of replicates, by whose first and last it is
called. It appears under its name when all of it is on disk; what an interrupted program left behind
is ignored and written again. A worker thins a run as soon as it is played, so memory does not grow
with the runs.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.checks import PART, RunFailed, SpecError, whole_file, write_whole
from driftbandits.core import theory
from driftbandits.environments import Trace
from driftbandits.experiments.kernels import Run
from driftbandits.experiments.player import Played, Player, Restarted, play_block
from driftbandits.experiments.spec import Experiment
from driftbandits.experiments.workers import Block, blocks_of, run_blocks
from driftbandits.jit import made_by
from driftbandits.policies import UCB, Policy

if TYPE_CHECKING:
    import polars as pl

LARGEST_BLOCK = 10
"""Replicates that an interruption may cost, on each worker."""

Record = dict[str, Any]
_BLOCK = re.compile(r"block-(\d+)-(\d+)\.parquet")
_CURVES = ("round", "regret", "reward")
_ESTIMATES = ("theta_round", "theta_hat")


def run_experiment(
    experiment: Experiment,
    *,
    out: str | Path,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] = lambda finished, wanted: None,
) -> Path:
    """Play the replicates that are missing in `out/<name>/`, and return that folder.

    Without an executor they are played in this process. Whatever happens, finished blocks stay, and
    the same call goes on from there. Results do not depend on the executor. `progress` is called
    with the replicates that are finished and those that are wanted.
    """
    polars()  # find out now, not after the first block
    spec, wanted = experiment.spec, experiment.runs
    folder = Path(out) / experiment.name
    _open_folder(folder, {**spec, **machine()})
    missing = set(range(wanted)) - _finished_replicates(folder)
    done = wanted - len(missing)
    progress(done, wanted)

    def keep(block: tuple[Block, list[Record], Record]) -> None:
        nonlocal done
        replicates, rows, made_on = block
        _write_block(folder, replicates, rows, {**spec, **made_on})
        done += len(replicates)
        progress(done, wanted)

    # Small enough for several workers to share a short experiment.
    size = max(1, min(LARGEST_BLOCK, len(missing) // 8))
    task = partial(_play, experiment)
    try:
        run_blocks(task, blocks_of(missing, size=size), keep, executor=executor)
    except RunFailed as error:
        raise RunFailed(f"{experiment.name}: {error}; finished runs are kept") from None
    return folder


def _play(experiment: Experiment, replicates: Block) -> tuple[Block, list[Record], Record]:
    """Return the rows of some replicates, and what they were made on."""
    players, world, seed = experiment.players, experiment.world, experiment.seed
    record = ["chosen", "theta_hat", "detections"] + ["intervals"] * experiment.coverage
    keep = partial(_row, experiment)
    return replicates, play_block(players, world, seed, record, keep, replicates), machine()


def _row(experiment: Experiment, played: Played) -> Record:
    """Return the row of a run in the results."""
    trace, run = played.trace, played.run
    T, every = trace.horizon, experiment.theta_every
    # Every so many rounds, and the last.
    rounds = np.unique(np.append(np.arange(experiment.every, T + 1, experiment.every), T))
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
        "covered": _covered(played.player, trace, run) if experiment.coverage else None,
        "detections": len(run.detections),
        "round": rounds.tolist(),
        "regret": regret[rounds - 1].tolist(),
        "reward": reward[rounds - 1].tolist(),
        "theta_round": theta_rounds.tolist(),
        "theta_hat": theta_hat[theta_rounds - 1].tolist(),
    }


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
        return np.ones(trace.horizon, dtype=np.bool_)
    if not isinstance(player, Policy) or player.row.score != UCB or trace.theta is None:
        return None
    if player.window is not None:
        return theory.covered_by_window(trace.theta, tau=player.window)
    if player.discount is not None:
        return theory.covered_by_discount(trace.theta, gamma=player.discount)
    return np.logical_and.accumulate(np.all(trace.theta == trace.theta[0], axis=1))


def machine() -> Record:
    """Versions and processor: results are the same bits only where these are the same."""
    file = Path("/proc/cpuinfo")  # Linux says more there
    named = re.search(r"^model name\s*: *(.*)", file.read_text() if file.exists() else "", re.M)
    model = named[1] if named else platform.processor()
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("driftbandits", "numpy")},
            "numba": made_by(),
        },
        "cpu": {"machine": platform.machine(), "model": model, "count": os.cpu_count()},
    }


# -- on disk ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    """The results of an experiment, as far as it has come, read from disk when asked for."""

    folder: Path
    spec: dict[str, Any]
    missing: int
    """Replicates that are still to be played."""

    @property
    def runs(self) -> pl.DataFrame:
        """One row a run: policy, replicate, rounds, seconds, final_regret, total_reward, ..."""
        return self._read(polars().exclude(*_CURVES, *_ESTIMATES))

    @property
    def curves(self) -> pl.DataFrame:
        """policy, replicate, round, regret and reward (both cumulative)."""
        return self._read("policy", "replicate", *_CURVES).explode(*_CURVES)

    @property
    def theta(self) -> pl.DataFrame:
        """policy, replicate, round, theta_hat."""
        table = self._read("policy", "replicate", *_ESTIMATES).explode(*_ESTIMATES)
        return table.rename({"theta_round": "round"}).drop_nulls("round")

    def _read(self, *columns: Any) -> pl.DataFrame:
        frames = polars()
        blocks = frames.scan_parquet(sorted(_blocks(self.folder)))
        # Two programs that ran at once may both have played a replicate, with the same outcome.
        key = ["policy", "replicate"]
        once = blocks.select(*columns).unique(subset=key, keep="first", maintain_order=True)
        try:
            table: pl.DataFrame = once.collect()
        except (OSError, frames.exceptions.PolarsError) as error:
            raise ValueError(f"{self.folder} has a block that cannot be read: {error}") from None
        return table


def polars() -> Any:
    """Import the package that reads and writes Parquet."""
    return checks.load("polars", "Results need polars")


def load(directory: str | Path) -> Results:
    """Read the results of one experiment."""
    folder = Path(directory)
    spec = read_spec(folder)
    if spec is None:
        raise ValueError(f"directory must hold an experiment's results; {folder} has no spec.json")
    finished = _finished_replicates(folder)
    if not finished:
        raise ValueError(f"directory must hold at least one finished block; {folder} has none")
    return Results(folder, spec, missing=len(set(range(spec["runs"])) - finished))


def read_spec(folder: Path) -> dict[str, Any] | None:
    """Read spec.json; None where there is none."""
    try:
        spec: dict[str, Any] = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{folder / 'spec.json'} cannot be read: {error}") from None
    return spec


def _open_folder(folder: Path, spec: Mapping[str, Any]) -> None:
    """Make the folder of an experiment, or make sure that it is this experiment's."""
    there = read_spec(folder)
    if there is not None and there.get("hash") != spec["hash"]:
        raise SpecError(
            f"{folder} holds results of another experiment of this name, which differs in more "
            "than its runs; choose another folder, or remove that one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"*{PART}"):
        leftover.unlink(missing_ok=True)
    write_whole(folder / "spec.json", json.dumps(spec, indent=2).encode())


def _finished_replicates(folder: Path) -> set[int]:
    """The replicates whose blocks are on disk."""
    return {i for first, last in _blocks(folder).values() for i in range(first, last + 1)}


def _blocks(folder: Path) -> dict[Path, tuple[int, int]]:
    """The files of a folder with the first and the last replicate of each."""
    matches = {path: _BLOCK.fullmatch(path.name) for path in folder.glob("block-*.parquet")}
    return {path: (int(match[1]), int(match[2])) for path, match in matches.items() if match}


def _write_block(folder: Path, replicates: Block, rows: list[Record], spec: Record) -> None:
    """Put a block on disk, with the spec, the versions and the seed inside the file."""
    pl = polars()
    types = {
        "policy": pl.String,
        "replicate": pl.Int32,
        "rounds": pl.Int32,
        "covered": pl.Boolean,
        "detections": pl.Int32,
        "round": pl.List(pl.Int32),
        "regret": pl.List(pl.Float64),
        "reward": pl.List(pl.Float64),
        "theta_round": pl.List(pl.Int32),
        # Policies with an intercept have a longer estimate, so a list and not an array.
        "theta_hat": pl.List(pl.List(pl.Float64)),
    }
    table = pl.DataFrame(rows, schema_overrides=types)
    about = {"spec": json.dumps(spec), "seed": str(spec["seed"])}
    name = f"block-{replicates[0]:06d}-{replicates[-1]:06d}.parquet"
    with whole_file(folder / name) as file:
        table.write_parquet(file, metadata=about)
