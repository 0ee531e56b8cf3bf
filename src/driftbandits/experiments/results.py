"""Results on disk: a folder an experiment, three Parquet files a block, nothing half-written.

    spec.json                what was run, with its hash, and with what
    curves-<block>.parquet   policy, replicate, round, regret, reward (both cumulative)
    theta-<block>.parquet    policy, replicate, round, theta_hat
    runs-<block>.parquet     policy, replicate, rounds, seconds, final_regret, total_reward, the
                             work of the estimator, covered, detections (how many)

A block is called by its first and last replicate. Its `runs` file is written last, so a block that
has one is whole; what an interrupted program left behind is ignored and written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbandits import extras
from driftbandits.errors import SpecError
from driftbandits.experiments.blocks import PlayedBlock
from driftbandits.files import PART, whole_file, write_whole

if TYPE_CHECKING:
    import polars as pl

_BLOCK = re.compile(r"runs-(\d+)-(\d+)\.parquet")
_KINDS = ("curves", "theta", "runs")


@dataclass(frozen=True)
class Results:
    """The results of an experiment, as far as it has come."""

    spec: dict[str, Any]
    curves: pl.DataFrame
    theta: pl.DataFrame
    runs: pl.DataFrame
    missing: int
    """Replicates that are still to be played."""


def polars() -> Any:
    """The package that reads and writes Parquet."""
    return extras.load("polars", "Results need polars")


def load(directory: str | Path) -> Results:
    """Read the results of one experiment."""
    folder = Path(directory)
    spec = read_spec(folder)
    if spec is None:
        raise ValueError(f"directory must hold an experiment's results; {folder} has no spec.json")
    finished = finished_replicates(folder)
    if not finished:
        raise ValueError(f"directory must hold at least one finished block; {folder} has none")
    tables = {kind: _read(folder, kind) for kind in _KINDS}
    missing = len(set(range(spec["runs"])) - finished)
    return Results(spec, tables["curves"], tables["theta"], tables["runs"], missing)


def read_spec(folder: Path) -> dict[str, Any] | None:
    """What spec.json says; None where there is none."""
    try:
        spec: dict[str, Any] = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{folder / 'spec.json'} cannot be read: {error}") from None
    return spec


def open_folder(folder: Path, spec: Mapping[str, Any]) -> None:
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


def finished_replicates(folder: Path) -> set[int]:
    """The replicates whose blocks are whole."""
    finished: set[int] = set()
    for block in _block_names(folder):
        first, last = map(int, block.split("-"))
        finished.update(range(first, last + 1))
    return finished


def write_block(folder: Path, block: PlayedBlock, spec: Mapping[str, Any]) -> None:
    """Put a block on disk, with the spec, the versions and the seed inside each file."""
    name = f"{block.replicates[0]:06d}-{block.replicates[-1]:06d}"
    about = {"spec": json.dumps({**spec, **block.machine}), "seed": str(spec["seed"])}
    frames = _frames(block)
    for kind in _KINDS:
        with whole_file(folder / f"{kind}-{name}.parquet") as file:
            frames[kind].write_parquet(file, metadata=about)


def _frames(block: PlayedBlock) -> dict[str, Any]:
    pl = polars()
    summaries = block.summaries

    def repeated(rounds: int) -> dict[str, Any]:
        return {
            "policy": pl.Series([s.policy for s in summaries for _ in range(rounds)], dtype=str),
            "replicate": np.repeat([s.replicate for s in summaries], rounds).astype(np.int32),
        }

    def stacked(parts: list[Any]) -> Any:
        return np.concatenate(parts) if parts else []

    points, estimates = len(block.rounds), len(block.theta_rounds)
    curves = pl.DataFrame(
        {
            **repeated(points),
            "round": np.tile(block.rounds, len(summaries)).astype(np.int32),
            "regret": stacked([s.regret for s in summaries]),
            "reward": stacked([s.reward for s in summaries]),
        }
    )
    theta = pl.DataFrame(
        {
            **repeated(estimates),
            "round": np.tile(block.theta_rounds, len(summaries)).astype(np.int32),
            # Policies with an intercept have a longer estimate, so a list and not an array.
            "theta_hat": pl.Series(
                [row for s in summaries for row in s.theta_hat.tolist()], dtype=pl.List(pl.Float64)
            ),
        }
    )
    runs = pl.DataFrame(
        {
            **repeated(1),
            "rounds": np.full(len(summaries), block.horizon, dtype=np.int32),
            "seconds": [s.seconds for s in summaries],
            "final_regret": [float(s.regret[-1]) for s in summaries],
            "total_reward": [float(s.reward[-1]) for s in summaries],
            **{name: [s.work[name] for s in summaries] for name in summaries[0].work},
            "covered": pl.Series([s.covered for s in summaries], dtype=pl.Boolean),
            "detections": np.array([s.detections for s in summaries], dtype=np.int32),
        }
    )
    return {"curves": curves, "theta": theta, "runs": runs}


def _block_names(folder: Path) -> list[str]:
    matches = (_BLOCK.fullmatch(path.name) for path in folder.glob("runs-*.parquet"))
    return sorted(f"{match[1]}-{match[2]}" for match in matches if match)


def _read(folder: Path, kind: str) -> pl.DataFrame:
    package = polars()
    files = [folder / f"{kind}-{block}.parquet" for block in _block_names(folder)]
    try:
        frame: pl.DataFrame = package.read_parquet(files)
    except (OSError, package.exceptions.PolarsError) as error:
        raise ValueError(f"{folder} has a block that cannot be read: {error}") from None
    # Two programs that ran at once may both have played a replicate, with the same outcome.
    key = ["policy", "replicate"] if kind == "runs" else ["policy", "replicate", "round"]
    return frame.unique(subset=key, keep="first", maintain_order=True)
