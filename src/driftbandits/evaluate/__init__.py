"""Estimates of what another policy would have earned on a log, and readers of log files."""

from driftbandits.evaluate.comparison import (
    Evaluation,
    Window,
    evaluate,
    policy_for,
    rewards_outside,
)
from driftbandits.evaluate.dsjson import read_dsjson, timestamp, write_dsjson
from driftbandits.evaluate.estimators import Value
from driftbandits.evaluate.files import (
    read_log,
    read_parquet,
    read_stored,
    write_log,
    write_parquet,
)
from driftbandits.evaluate.frames import log_from_frame, log_from_tables
from driftbandits.evaluate.log import Log, LoggedDecision, log_of

__all__ = [
    "Evaluation",
    "Log",
    "LoggedDecision",
    "Value",
    "Window",
    "evaluate",
    "log_from_frame",
    "log_from_tables",
    "log_of",
    "policy_for",
    "read_dsjson",
    "read_log",
    "read_parquet",
    "read_stored",
    "rewards_outside",
    "timestamp",
    "write_dsjson",
    "write_log",
    "write_parquet",
]
