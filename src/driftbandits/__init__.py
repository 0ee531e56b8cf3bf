"""Contextual bandits with generalized linear rewards, for a world that changes."""

from importlib.metadata import version

from driftbandits.agent import Agent, BadSaveFile, Decision, Explanation, UnknownDecision
from driftbandits.environments import Trace, as_gymnasium, environment, environment_names
from driftbandits.policies import Policy, policy, policy_names
from driftbandits.simulate import Restarted, Result, simulate

__version__ = version("driftbandits")
__all__ = [
    "Agent",
    "BadSaveFile",
    "Decision",
    "Explanation",
    "Policy",
    "Restarted",
    "Result",
    "Trace",
    "UnknownDecision",
    "as_gymnasium",
    "environment",
    "environment_names",
    "policy",
    "policy_names",
    "simulate",
]
