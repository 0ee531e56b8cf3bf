"""Kernels made ready before anybody waits for them.

What is not in the cache is compiled by two processes side by side, and then loaded: the service is
spared the compiler's memory, and its threads go on.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping

import numpy as np

from driftbandits.agent import Agent, SeparateLearner
from driftbandits.jit import is_kept
from driftbandits.jit.cache import say_that_it_compiles
from driftbandits.policies import (
    BELIEVING,
    LARGE,
    LARGE_FAMILY,
    PLAIN,
    SPECIAL,
    Policy,
    family_of,
    kernels_of,
    policy,
)

logger = logging.getLogger("driftbandits.service")

USUAL_FAMILIES = (PLAIN, BELIEVING)
"""Kernels that a service without policies makes ready."""

_EXAMPLES: Mapping[str, str] = {
    PLAIN: "LogisticUCB",
    SPECIAL: "CD-GLUCB",
    BELIEVING: "auto",
}
_USES: Mapping[str, Callable[[Agent], object]] = {
    "decide": lambda agent: agent.decide(np.eye(2, agent.policy.dim)),
    "update": lambda agent: agent.learn(np.eye(1, agent.policy.dim), [1.0], ages=[0]),
    "tick": lambda agent: agent.tick(1),
}

_ready: set[str] = set()
_one_at_a_time = threading.Lock()


def make_policy_ready(made: Policy) -> Policy:
    """The policy itself, once its kernels are compiled or loaded."""
    make_ready([family_of(made)])
    if made.separate:
        _rehearse(made)
    return made


def _rehearse(made: Policy) -> None:
    """Use the kernels that separate arms need besides, once for each family."""
    family = f"separate {family_of(made)}"
    if family in _ready:
        return
    learner = SeparateLearner(made, seed=0, counts_apart=False)
    rows, arms = np.eye(2, made.dim) * min(made.longest, 1.0), ("a", "b")
    learner.decide(rows, 1, arms)
    learner.learn(rows[:1], max(made.model_range()[0], 0.0), 1, "a")
    _ready.add(family)


def make_ready(families: Collection[str]) -> None:
    """Compile the kernels of these families, or load them from the cache."""
    if _ready.issuperset(families):
        return
    with _one_at_a_time:
        wanted = [family for family in families if family not in _ready]
        kernels = [(family, name) for family in wanted for name in _USES]
        _compile_apart([kernel for kernel in kernels if not is_kept(_kernel(*kernel))])
        for kernel in kernels:
            _use(*kernel)
        _ready.update(wanted)


def _kernel(family: str, name: str) -> Callable[..., object]:
    kernel: Callable[..., object] = getattr(kernels_of(family), name)
    return kernel


def _use(family: str, name: str) -> None:
    example = _EXAMPLES[family.removeprefix(LARGE_FAMILY)]
    dim = LARGE if family.startswith(LARGE_FAMILY) else 2
    _USES[name](Agent(policy(example, dim=dim)))


def _compile_apart(kernels: list[tuple[str, str]]) -> None:
    """Let two processes begin from both ends; the locks of the cache keep them apart."""
    if not kernels:
        return
    say_that_it_compiles()
    compilers = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, *(".".join(kernel) for kernel in order)],
            stderr=subprocess.DEVNULL,
        )
        for order in (kernels, kernels[::-1])
    ]
    for compiler in compilers:
        if compiler.wait() != 0:  # what it leaves is compiled here
            logger.warning("a process that compiles ended with %d", compiler.returncode)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        _use(*argument.split("."))
