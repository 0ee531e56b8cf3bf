"""What the tests of experiments share: small specs, and what it means that results are equal."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from polars.testing import assert_frame_equal

from driftbandits import experiments

# A run long enough to be interrupted; as plain Python it takes a hundred times as long.
LONG = 24 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 12_000
PATIENCE = 600.0
"""Seconds after which a program hangs, however busy the machine is."""


def spec(**changes: Any) -> dict[str, Any]:
    """A small experiment, with some of its sections changed or, by None, left out."""
    whole = {
        "experiment": {"name": "small", "runs": 5, "seed": 3, "every": 7, "theta_every": 10},
        "environment": {"name": "abrupt2d", "horizon": 30},
        "policies": [{"name": "SW-GLUCB"}, {"name": "LinUCB", "intercept": True}],
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def small_spec(*, horizon: int = 30, **heading: Any) -> dict[str, Any]:
    given = spec(environment={"name": "abrupt2d", "horizon": horizon})
    return {**given, "experiment": {**given["experiment"], **heading}}


def small(**changes: Any) -> experiments.Experiment:
    (experiment,) = experiments.experiments_of(small_spec(**changes))
    return experiment


def toml(folder: Path, **sizes: int) -> Path:
    """The file that says what `small` says; its tables are written in a line each."""
    inline = {key: json.dumps(table) for key, table in small_spec(**sizes).items()}
    lines = [f"{key} = {text}\n" for key, text in inline.items()]
    path = folder / "small.toml"
    path.write_text("".join(lines).replace('": ', '" = '), encoding="utf-8")
    return path


def assert_same_results(folder: Path, expected: Path) -> None:
    """Bit for bit, but for the time it took and the order in which blocks were finished."""
    ours, theirs = experiments.load(folder), experiments.load(expected)
    assert ours.spec["hash"] == theirs.spec["hash"]
    assert ours.missing == theirs.missing == 0
    for what in ("curves", "theta", "runs"):
        frames: list[pl.DataFrame] = [
            getattr(results, what).drop("seconds", strict=False) for results in (ours, theirs)
        ]
        keys = [key for key in ("policy", "replicate", "round") if key in frames[0].columns]
        assert_frame_equal(*(frame.sort(keys) for frame in frames), check_exact=True)


def finished_blocks(folder: Path) -> int:
    return len(list(folder.glob("block-*.parquet")))


def wait_until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def start(*arguments: Any, terminal: int | None = None, **options: Any) -> subprocess.Popen[str]:
    """A program of its own, in a process group of its own; its errors may go to a terminal."""
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if terminal is None else terminal,
        text=True,
        start_new_session=True,
        **options,
    )


def driftbandits(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
    return start("-m", "driftbandits", *arguments, **options)


# Kernels are being compiled; Dask fetches again what lay on a worker that is gone.
NEWS = re.compile(
    r"compiling its kernels|: \d+ of \d+ runs|distributed.client - WARNING - Couldn't"
)


def complaints(err: str) -> list[str]:
    """What a program said on stderr, but for news of what it is doing."""
    return [line for line in err.splitlines() if line and not NEWS.search(line)]
