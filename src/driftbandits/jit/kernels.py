"""Make kernels of functions: an entry is for Python, a part is for other kernels.

Kernels never divide by an unchecked zero, so ``error_model="numpy"`` drops a test that would keep
loops from being vectorised. Fast-math stays off: without it a kernel gives the same bits whether
it is called from Python or from inside another kernel, which is what makes a replay exact.

Parts (see compiler.py) do not count references: whoever called the entry holds the arrays, and few
kernels make any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from driftbandits.checks import needed
from driftbandits.jit.native import BUILT, PLAIN

if not PLAIN:
    needed("Kernels that are not compiled yet", "numba", extra="compile")
    from driftbandits.jit.compiler import Choice, entry_of, part_of

P = ParamSpec("P")
R = TypeVar("R")

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
    if PLAIN:
        return (BUILT or {}).get(f"{function.__module__}:{function.__qualname__}", function)
    part, options = _part(function, **options), {**_OPTIONS, **options, **_MAKES_ARRAYS}
    return cast(Callable[P, R], entry_of(function, part, options))


def _part(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    if PLAIN:
        return function
    no_way_in = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    options = {**_OPTIONS, **_MAKES_NO_ARRAYS, **no_way_in, **options}
    return cast(Callable[P, R], part_of(function, options))


def chosen_for(record: type, then: Callable[P, R], otherwise: Callable[P, R]) -> Callable[P, R]:
    """Choose `then` where the first argument is a NamedTuple of that class, else `otherwise`."""
    if not PLAIN:
        return cast(Callable[P, R], Choice(record, then, otherwise))

    def choose(*arguments: P.args, **keywords: P.kwargs) -> R:
        kernel = then if type(arguments[0]) is record else otherwise
        return kernel(*arguments, **keywords)

    return choose


def is_kept(kernel: Callable[P, R]) -> bool:
    """Return True if the machine code of an entry is in the wheel or in the cache."""
    return PLAIN or bool(cast(Any, kernel)._cache._cache_file._load_index())


def place(index: int) -> int:
    """Return a constant index that kernels may hand to one another.

    A plain int would be a literal type, and each kernel compiled anew for every literal.
    """
    return cast(int, np.int64(index))
