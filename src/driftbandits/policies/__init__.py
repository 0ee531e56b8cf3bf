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
    decide_in,
    radius,
    refit,
    scoring_of,
    tick,
    update,
    update_in,
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
    "decide_in",
    "policy",
    "policy_names",
    "radius",
    "refit",
    "scoring_of",
    "tick",
    "update",
    "update_in",
]
