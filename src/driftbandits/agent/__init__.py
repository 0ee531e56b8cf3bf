"""The objects that an application holds: an agent, its decisions and its save file."""

from driftbandits.agent.agent import Agent, relearned_arguments
from driftbandits.agent.explain import (
    CONSTANT,
    Decision,
    Explanation,
    UnknownDecision,
    has_probabilities,
    probabilities_of,
)
from driftbandits.agent.savefile import BadSaveFile
from driftbandits.agent.separate import SeparateLearner

__all__ = [
    "CONSTANT",
    "Agent",
    "BadSaveFile",
    "Decision",
    "Explanation",
    "SeparateLearner",
    "UnknownDecision",
    "has_probabilities",
    "probabilities_of",
    "relearned_arguments",
]
