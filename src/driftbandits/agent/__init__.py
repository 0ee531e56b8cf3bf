"""What an application holds: an agent, its decisions, and its save file."""

from driftbandits.agent.agent import Agent
from driftbandits.agent.decisions import BadSaveFile, Decision, Explanation, UnknownDecision

__all__ = ["Agent", "BadSaveFile", "Decision", "Explanation", "UnknownDecision"]
