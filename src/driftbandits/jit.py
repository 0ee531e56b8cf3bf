"""How kernels are compiled. The only module that imports numba.

Kernels never divide by an unchecked zero, so ``error_model="numpy"`` drops a test that would keep
loops from being vectorised. Fast-math stays off: without it a kernel gives the same bits whether
it is called from Python or from inside another kernel, which is what makes a replay exact.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel on first use and keep the machine code for the next process."""
    kernel: Callable[P, R] = numba.njit(cache=True, error_model="numpy")(function)
    return kernel
