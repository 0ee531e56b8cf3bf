"""What is good to know about a policy before it has served for a year."""

from __future__ import annotations

from driftbandits.estimator import keeps_rows
from driftbandits.estimator.model import EVERYTHING, SINCE_RESTART
from driftbandits.policies import Policy, policy_names

_ONE_PASS = ("ECOLog", "GLOC")
"""Generalized linear policies whose state does not grow, as far as there are any."""


def notes(policy: Policy) -> list[str]:
    """For whoever configures it."""
    model = policy.model
    if not keeps_rows(model) or model.memory not in (EVERYTHING, SINCE_RESTART):
        return []
    until = "" if model.memory == EVERYTHING else " until it detects a change"
    others = [name for name in _ONE_PASS if name in policy_names()]
    one_pass = f"{' and '.join(others)} learn in one pass and keep no rows; " if others else ""
    return [
        f"{policy.name} keeps every row that it has learned from{until}: its memory, its snapshots "
        f"and the time of a decision grow with the log. {one_pass}SW-* and D-* forget, and auto "
        "stays small."
    ]
