"""The policies: rows of data, and the kernels that play them."""

from driftbandits.policies.rows import ALIASES, ROWS, Policy, Row, policy, policy_names
from driftbandits.policies.scoring import (
    ACCEPTED,
    NOT_FINITE,
    TOO_LONG,
    UCB,
    Scoring,
    check_actions,
    decide,
    next_radius,
    radius,
    refit,
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
    "Policy",
    "Row",
    "Scoring",
    "check_actions",
    "decide",
    "next_radius",
    "policy",
    "policy_names",
    "radius",
    "refit",
    "tick",
    "update",
]
