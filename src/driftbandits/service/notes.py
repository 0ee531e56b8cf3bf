"""What is good to know about a policy before it has served for a year."""

from __future__ import annotations

from driftbandits.estimator import keeps_rows
from driftbandits.estimator.model import EVERYTHING, SINCE_RESTART
from driftbandits.policies import Policy


def notes(policy: Policy) -> list[str]:
    """For whoever configures it."""
    model = policy.model
    if not keeps_rows(model) or model.memory not in (EVERYTHING, SINCE_RESTART):
        return []
    until = "" if model.memory == EVERYTHING else " until it detects a change"
    return [
        f"{policy.name} keeps every row that it has learned from{until}: its memory, its snapshots "
        "and the time of a decision grow with the log. GLOC learns in one pass and keeps no rows, "
        "SW-* and D-* forget, and auto stays small."
    ]
