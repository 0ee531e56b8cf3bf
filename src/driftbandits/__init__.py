"""Contextual bandits with generalized linear rewards, for a world that changes."""

from importlib.metadata import version

from driftbandits.agent import Agent, BadSaveFile, Decision, Explanation, UnknownDecision
from driftbandits.policies import Policy, policy, policy_names

__version__ = version("driftbandits")
__all__ = [
    "Agent",
    "BadSaveFile",
    "Decision",
    "Explanation",
    "Policy",
    "UnknownDecision",
    "policy",
    "policy_names",
]
