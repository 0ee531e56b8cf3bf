"""Estimates of what another policy would have earned on a log, and readers of log files."""

from driftbandits.evaluate.comparison import (
    Evaluation,
    Window,
    evaluate,
    policy_for,
    rewards_outside,
)
from driftbandits.evaluate.estimators import Value
from driftbandits.evaluate.files import read_log, read_stored, write_log
from driftbandits.evaluate.frames import log_from_frame, log_from_tables
from driftbandits.evaluate.log import Log, LoggedDecision, log_of, timestamp

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
    "read_log",
    "read_stored",
    "rewards_outside",
    "timestamp",
    "write_log",
]
