"""Contextual bandits with generalized linear rewards, for a world that changes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftbandits.agent import Agent, BadSaveFile, Decision, Explanation, UnknownDecision
    from driftbandits.environments import Trace, as_gymnasium, environment, environment_names
    from driftbandits.experiments import Restarted, Result, simulate
    from driftbandits.features import Features
    from driftbandits.policies import (
        Detection,
        Hypothesis,
        LimitedColumn,
        Policy,
        policy,
        policy_names,
    )

    __version__: str

_HOMES = {
    "agent": ("Agent", "BadSaveFile", "Decision", "Explanation", "UnknownDecision"),
    "environments": ("Trace", "as_gymnasium", "environment", "environment_names"),
    "features": ("Features",),
    "policies": ("Detection", "Hypothesis", "LimitedColumn", "Policy", "policy", "policy_names"),
    "experiments": ("Restarted", "Result", "simulate"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "BadSaveFile",
    "Decision",
    "Detection",
    "Explanation",
    "Features",
    "Hypothesis",
    "LimitedColumn",
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


def __getattr__(name: str) -> Any:
    """Public names are imported on first use: a command's help must not wait for the compiler."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("driftbandits")
    elif name in _HOME_OF:
        value = getattr(import_module(f"driftbandits.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module 'driftbandits' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
