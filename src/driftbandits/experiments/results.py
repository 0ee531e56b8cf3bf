"""Results on disk: a folder an experiment, one Parquet file a block, nothing half-written.

    spec.json               what was run, with its hash, and with what
    block-<first>-<last>.parquet    one row for each policy and replicate: rounds, seconds,
                            final_regret, total_reward, the counters of the estimator, covered,
                            detections, and as lists the points of its curves and its estimates

A block is called by its first and last replicate. It appears under its name when all of it is on
disk; what an interrupted program left behind is ignored and written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbandits import checks
from driftbandits.checks import PART, SpecError, whole_file, write_whole

if TYPE_CHECKING:
    import polars as pl

_BLOCK = re.compile(r"block-(\d+)-(\d+)\.parquet")
_CURVES = ("round", "regret", "reward")
_ESTIMATES = ("theta_round", "theta_hat")


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
    finished = finished_replicates(folder)
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
    """The replicates whose blocks are on disk."""
    return {
        replicate
        for first, last in _blocks(folder).values()
        for replicate in range(first, last + 1)
    }


def _blocks(folder: Path) -> dict[Path, tuple[int, int]]:
    """The files of a folder with the first and the last replicate of each."""
    matches = {path: _BLOCK.fullmatch(path.name) for path in folder.glob("block-*.parquet")}
    return {path: (int(match[1]), int(match[2])) for path, match in matches.items() if match}


def write_block(
    folder: Path, replicates: Sequence[int], rows: list[dict[str, Any]], spec: Mapping[str, Any]
) -> None:
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
