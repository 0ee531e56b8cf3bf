"""The policies: a catalogue of rows, and the kernels that play them."""

from driftbandits.policies.adaptations.belief import Hypothesis
from driftbandits.policies.arguments import USED_BY, takes, uses
from driftbandits.policies.catalogue import ALIASES, ROWS, Row, policy_names
from driftbandits.policies.configuration import Policy, policy, recorded_policy
from driftbandits.policies.detection import (
    Detection,
    last_detection,
    record_detection,
    rows_of,
)
from driftbandits.policies.kernels import (
    ANY,
    BELIEVING,
    FAMILIES,
    LARGE_FAMILY,
    PLAIN,
    POOLED,
    SPECIAL,
    Kernels,
    family_of,
    kernels_of,
    parts_of,
)
from driftbandits.policies.scoring import (
    ACCEPTED,
    NOT_FINITE,
    TOO_LONG,
    UCB,
    Scoring,
    check_actions,
)

__all__ = [
    "ACCEPTED",
    "ALIASES",
    "ANY",
    "BELIEVING",
    "FAMILIES",
    "LARGE_FAMILY",
    "NOT_FINITE",
    "PLAIN",
    "POOLED",
    "ROWS",
    "SPECIAL",
    "TOO_LONG",
    "UCB",
    "USED_BY",
    "Detection",
    "Hypothesis",
    "Kernels",
    "Policy",
    "Row",
    "Scoring",
    "check_actions",
    "family_of",
    "kernels_of",
    "last_detection",
    "parts_of",
    "policy",
    "policy_names",
    "record_detection",
    "recorded_policy",
    "rows_of",
    "takes",
    "uses",
]
