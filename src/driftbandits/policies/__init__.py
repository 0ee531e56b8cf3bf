"""The policies: rows of data, and the kernels that play them."""

from driftbandits.policies.detection import Detection, last_detection, record_detection
from driftbandits.policies.rows import (
    ALIASES,
    ROWS,
    Policy,
    Row,
    policy,
    policy_names,
    weights_of_ages,
)
from driftbandits.policies.scoring import (
    ACCEPTED,
    NOT_FINITE,
    TOO_LONG,
    UCB,
    Scoring,
    check_actions,
    decide,
    radius,
    tick,
    update,
)

__all__ = [
    "ACCEPTED",
    "ALIASES",
    "NOT_FINITE",
    "ROWS",
    "TOO_LONG",
    "UCB",
    "Detection",
    "Policy",
    "Row",
    "Scoring",
    "check_actions",
    "decide",
    "last_detection",
    "policy",
    "policy_names",
    "radius",
    "record_detection",
    "tick",
    "update",
    "weights_of_ages",
]
