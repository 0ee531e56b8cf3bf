"""How kernels are compiled. The only room that imports numba.

Kernels never divide by an unchecked zero, so ``error_model="numpy"`` drops a test that would keep
loops from being vectorised. Fast-math stays off: without it a kernel gives the same bits whether
it is called from Python or from inside another kernel, which is what makes a replay exact.

A kernel is compiled as an entry, for Python, or as a part, for other kernels (see parts.py). Parts
do not count references: whoever called the entry holds the arrays, and few kernels make any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.compiler import Compiler
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

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
A = TypeVar("A")
Handle = NDArray[np.int64]

_INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "1"
# Everything is said, because a kernel inherits what is not from the first caller.
_OPTIONS = {"nopython": True, "error_model": "numpy", "forceinline": False}
_MAKES_ARRAYS, _MAKES_NO_ARRAYS = {"_nrt": True}, {"_nrt": False}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel on first use and keep the machine code for the next process."""
    return _entry(function)


def compiled_for(family: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a kernel that is made from the same lines for several families."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        function.__qualname__ = f"{family}.{function.__name__}"  # by which it is kept
        return _entry(function, **_MAKES_ARRAYS)

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
    if _INTERPRETED:
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
    if _INTERPRETED:
        return function
    no_way_in = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    options = {**_OPTIONS, **_MAKES_NO_ARRAYS, **no_way_in, **options}
    make: Any = numba.jit(**options, pipeline_class=PartCompiler)
    return cast(Callable[P, R], make(function))


def is_kept(kernel: Callable[P, R]) -> bool:
    """Whether the machine code of an entry is in the cache."""
    return _INTERPRETED or bool(cast(Any, kernel)._cache.holds_anything())


def place(index: int) -> int:
    """A constant index that kernels may hand to one another.

    A plain int would be a literal type, and each kernel compiled anew for every literal.
    """
    return cast(int, np.int64(index))


_LONGEST_SHAPE = 3


def handle_of(arrays: Sequence[NDArray[Any]]) -> Handle:
    """Where some arrays lie, and their shapes: for a kernel they are one argument instead of many.

    The handle does not hold the arrays. Whoever hands it to a kernel does, for as long.
    """
    if _INTERPRETED:
        return cast(Handle, arrays)
    lines = [
        [array.ctypes.data, *array.shape, *[0] * (_LONGEST_SHAPE - array.ndim)] for array in arrays
    ]
    return np.array(lines, dtype=np.int64)


def array_of(kind: type, dimensions: int) -> Callable[[Handle, int], NDArray[Any]]:
    """What gives a kernel one of the arrays of a handle, by its place."""
    if _INTERPRETED:
        return lambda handle, place: handle[place]
    element = numba.from_dtype(np.dtype(kind))
    array = types.Array(element, dimensions, "C")

    def typed(typing_context: Any, handle: Any, place: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            handed = context.make_array(handle)(context, builder, args[0])
            line = ir.Constant(args[1].type, 1 + _LONGEST_SHAPE)
            first = builder.mul(args[1], line)
            entries = [
                builder.load(builder.gep(handed.data, [builder.add(first, first.type(i))]))
                for i in range(1 + dimensions)
            ]
            view = context.make_array(array)(context, builder)
            size = context.get_abi_sizeof(context.get_data_type(element))
            strides = [first.type(size)]
            for length in entries[:1:-1]:
                strides.insert(0, builder.mul(strides[0], length))
            fill: Any = populate_array
            fill(
                view,
                data=builder.inttoptr(entries[0], view.data.type),
                shape=entries[1:],
                strides=strides,
                itemsize=first.type(size),
                meminfo=None,
            )
            return view._getvalue()

        return array(handle, place), codegen

    made: Any = intrinsic(typed)
    return cast(Callable[[Handle, int], NDArray[Any]], made)


def _of_width(typing_context: Any, stack: Any, d: Any) -> Any:
    """For numba: the type of the view, and the code that makes it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tools: Any = cgutils
        view = context.make_array(stack)(context, builder, args[0])
        length = builder.extract_value(view.shape, 0)
        view.shape = tools.pack_array(builder, [length] + [args[1]] * (stack.ndim - 1))
        return view._getvalue()

    return stack(stack, d), codegen


def _as_it_is(stack: A, d: int) -> A:
    return stack


_stack: Any = intrinsic(_of_width)
of_width = _as_it_is if _INTERPRETED else _stack
"""A stack of vectors or square matrices, of which the caller says how wide they are.

The compiler unrolls loops over a width that it knows.
"""


LANES = 16
"""A sum over lanes is made of this many; tables of lanes are a multiple of it wide."""


def _product_of_rows(typing_context: Any, x: Any, i: Any, y: Any, j: Any) -> Any:
    """For numba: the type of the sum, and the code that makes it in vectors of four."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tools: Any = cgutils
        four: Any = ir.VectorType(ir.DoubleType(), 4)
        zero = ir.Constant(four, [0.0] * 4)
        parts = [tools.alloca_once_value(builder, zero) for _ in range(LANES // 4)]
        starts = []
        for array, row, type_ in (
            (args[0], args[1], signature.args[0]),
            (args[2], args[3], signature.args[2]),
        ):
            table = context.make_array(type_)(context, builder, array)
            width = tools.unpack_tuple(builder, table.shape, 2)[1]
            starts.append(builder.gep(table.data, [builder.mul(row, width)]))
        stop, step = width, ir.Constant(width.type, LANES)
        with tools.for_range_slice(builder, ir.Constant(width.type, 0), stop, step) as (lane, _):
            for n, part in enumerate(parts):
                offset = builder.add(lane, ir.Constant(lane.type, 4 * n))
                left, right = (
                    builder.load(
                        builder.bitcast(builder.gep(start, [offset]), four.as_pointer()), align=8
                    )
                    for start in starts
                )
                product = builder.fmul(left, right)
                builder.store(builder.fadd(builder.load(part), product), part)
        total = builder.load(parts[0])
        for part in parts[1:]:
            total = builder.fadd(total, builder.load(part))
        index = ir.IntType(32)
        lanes = [builder.extract_element(total, ir.Constant(index, n)) for n in range(4)]
        return builder.fadd(builder.fadd(lanes[0], lanes[1]), builder.fadd(lanes[2], lanes[3]))

    return types.float64(x, types.intp, y, types.intp), codegen


_product: Any = intrinsic(_product_of_rows)


def _row_product(x: Any, i: int, y: Any, j: int) -> float:
    total: float = _product(x, i, y, j)
    return total


def _plain_row_product(x: Any, i: int, y: Any, j: int) -> float:
    return float(np.dot(x[i], y[j]))


row_product = _plain_row_product if _INTERPRETED else leaf(_row_product)
"""x[i] . y[j] for rows of lanes.

The compiler may not reorder a sum, so it makes one addition after the other. Here the order is
fixed in vectors, which is several times as fast and gives the same bits everywhere.
"""
