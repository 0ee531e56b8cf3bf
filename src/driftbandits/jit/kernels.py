"""How a function becomes a kernel: an entry, for Python, or a part, for other kernels.

Kernels never divide by an unchecked zero, so ``error_model="numpy"`` drops a test that would keep
loops from being vectorised. Fast-math stays off: without it a kernel gives the same bits whether
it is called from Python or from inside another kernel, which is what makes a replay exact.

Parts (see parts.py) do not count references: whoever called the entry holds the arrays, and few
kernels make any.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core.compiler import Compiler

from driftbandits.jit.cache import KernelCache
from driftbandits.jit.entries import Entry
from driftbandits.jit.known import IS_KNOWN

EntryCompiler: Any
PartCompiler: Any
if IS_KNOWN:
    from driftbandits.jit.parts import EntryCompiler, PartCompiler
else:
    EntryCompiler = PartCompiler = Compiler

P = ParamSpec("P")
R = TypeVar("R")

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "1"
# Everything is said, because a kernel inherits what is not from the first caller.
_OPTIONS = {"nopython": True, "error_model": "numpy", "forceinline": False}
_MAKES_ARRAYS, _MAKES_NO_ARRAYS = {"_nrt": True}, {"_nrt": False}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel on first use and keep the machine code for the next process."""
    return _entry(function)


def compiled_for(
    family: str, *, lets_others_run: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a kernel that is made from the same lines for several families.

    `lets_others_run` gives the interpreter to other threads meanwhile. It costs some 50 ns, which
    is little for a kernel that takes milliseconds.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        function.__qualname__ = f"{family}.{function.__name__}"  # by which it is kept
        return _entry(function, nogil=lets_others_run, **_MAKES_ARRAYS)

    return decorate


def leaf(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel of a few lines into its callers, and for Python too."""
    return _entry(function, forceinline=True)


def internal(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that only kernels call."""
    return _part(function)


def allocating(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that only kernels call, and that makes arrays."""
    return _part(function, **_MAKES_ARRAYS)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small kernel into its callers: handing over a state costs more than its work."""
    return _part(function, forceinline=True)


def _entry(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    if INTERPRETED:
        return function
    kernel: Any = Entry(
        function,
        targetoptions={**_OPTIONS, **options, **_MAKES_ARRAYS},
        pipeline_class=EntryCompiler,
    )
    kernel.part = _part(function, **options)
    kernel._cache = KernelCache(function)
    return cast(Callable[P, R], kernel)


def _part(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    if INTERPRETED:
        return function
    no_way_in = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    options = {**_OPTIONS, **_MAKES_NO_ARRAYS, **no_way_in, **options}
    make: Any = numba.jit(**options, pipeline_class=PartCompiler)
    return cast(Callable[P, R], make(function))


def is_kept(kernel: Callable[P, R]) -> bool:
    """Whether the machine code of an entry is in the cache."""
    return INTERPRETED or bool(cast(Any, kernel)._cache.holds_anything())


def place(index: int) -> int:
    """A constant index that kernels may hand to one another.

    A plain int would be a literal type, and each kernel compiled anew for every literal.
    """
    return cast(int, np.int64(index))
