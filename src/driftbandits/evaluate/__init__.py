"""What another policy would have earned on a log, and the files that logs are kept in."""

from __future__ import annotations

import os
from pathlib import Path

from driftbandits.evaluate.comparison import Evaluation, Window, evaluate
from driftbandits.evaluate.dsjson import read_dsjson, write_dsjson
from driftbandits.evaluate.estimators import Value
from driftbandits.evaluate.frames import log_from_tables
from driftbandits.evaluate.log import Log, LoggedDecision, log_of
from driftbandits.evaluate.parquet import read_parquet, write_parquet
from driftbandits.evaluate.stored import read_stored
from driftbandits.features import Features

__all__ = [
    "Evaluation",
    "Log",
    "LoggedDecision",
    "Value",
    "Window",
    "evaluate",
    "log_from_tables",
    "log_of",
    "read_dsjson",
    "read_log",
    "read_parquet",
    "read_stored",
    "write_dsjson",
    "write_log",
    "write_parquet",
]

_DSJSON = (".json", ".dsjson", ".jsonl")


def read_log(path: str | os.PathLike[str], *, features: Features | None = None) -> Log:
    """The log in a file: .parquet, or .dsjson, .json and .jsonl (see `read_dsjson`)."""
    if _is_dsjson(path):
        return read_dsjson(path, features=features)
    return read_parquet(path)


def write_log(log: Log, path: str | os.PathLike[str]) -> None:
    """Write a log in the format that the file's name tells."""
    if _is_dsjson(path):
        write_dsjson(log, path)
    else:
        write_parquet(log, path)


def _is_dsjson(path: str | os.PathLike[str]) -> bool:
    suffix = Path(path).suffix.lower()
    if suffix not in (".parquet", *_DSJSON):
        raise ValueError(
            f"path must end in .parquet, {', '.join(_DSJSON[:-1])} or {_DSJSON[-1]}; "
            f"got {str(path)!r}"
        )
    return suffix != ".parquet"
