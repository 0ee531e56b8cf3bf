"""Arrays that are handed to a kernel all at once, and sums over lanes.

A handle holds where some arrays lie, and their shapes: for Python it is one argument instead of
many, each of which would be unboxed at every call. The handle does not hold the arrays; whoever
hands it to a kernel does, for as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

from driftbandits.jit.kernels import INTERPRETED, inlined, leaf

Handle = NDArray[np.int64]

_LONGEST_SHAPE = 3


def handle_of(arrays: Sequence[NDArray[Any]]) -> Handle:
    """Where some arrays lie, and their shapes."""
    if INTERPRETED:
        return cast(Handle, arrays)
    lines = [
        [array.ctypes.data, *array.shape, *[0] * (_LONGEST_SHAPE - array.ndim)] for array in arrays
    ]
    return np.array(lines, dtype=np.int64)


def _array_of(kind: type) -> Any:
    """What gives a kernel array `place` of a handle, in a shape that the kernel may know.

    The compiler unrolls loops over a length that it knows.
    """
    if INTERPRETED:
        return lambda handle, place, shape: handle[place]
    element = numba.from_dtype(np.dtype(kind))

    def typed(typing_context: Any, handle: Any, place: Any, shape: Any) -> Any:
        array = types.Array(element, shape.count, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            tools, fill = cast(Any, cgutils), cast(Any, populate_array)
            addresses = context.make_array(handle)(context, builder, args[0])
            line = builder.mul(args[1], args[1].type(1 + _LONGEST_SHAPE))
            address = builder.load(builder.gep(addresses.data, [line]))
            view = context.make_array(array)(context, builder)
            lengths = tools.unpack_tuple(builder, args[2], shape.count)
            size = lengths[0].type(context.get_abi_sizeof(context.get_data_type(element)))
            strides = [size]
            for length in lengths[:0:-1]:
                strides.insert(0, builder.mul(strides[0], length))
            data = builder.inttoptr(address, view.data.type)
            fill(view, data=data, shape=lengths, strides=strides, itemsize=size, meminfo=None)
            return view._getvalue()

        return array(handle, place, shape), codegen

    made: Any = intrinsic(typed)
    return made


floats_of, ints_of, places_of = map(_array_of, (np.float64, np.int64, np.uint32))


def _length_of(handle: Any, place: int, axis: int) -> int:
    return int(handle[place].shape[axis])


@inlined
def _length_from(handle: Handle, place: int, axis: int) -> int:
    return int(handle[place, 1 + axis])


length_of = _length_of if INTERPRETED else _length_from
"""How long array `place` of a handle is along an axis."""


LANES = 16
"""A sum over lanes is made of this many; tables of lanes are a multiple of it wide."""

_QUARTERS = [[4 * n + lane for lane in range(4)] for n in range(LANES // 4)]


def _product_of_rows(typing_context: Any, x: Any, i: Any, first: Any, y: Any, j: Any) -> Any:
    """For numba: the type of the sum, and the code that makes it in vectors of lanes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tools: Any = cgutils
        lanes: Any = ir.VectorType(ir.DoubleType(), LANES)

        def start_of(table: Any, row: Any, kind: Any) -> tuple[Any, Any]:
            table = context.make_array(kind)(context, builder, table)
            width = tools.unpack_tuple(builder, table.shape, 2)[1]
            return builder.gep(table.data, [builder.mul(row, width)]), width

        left, _ = start_of(args[0], args[1], signature.args[0])
        left = builder.gep(left, [args[2]])
        right, width = start_of(args[3], args[4], signature.args[3])
        sums = tools.alloca_once_value(builder, ir.Constant(lanes, [0.0] * LANES))
        zero, step = ir.Constant(width.type, 0), ir.Constant(width.type, LANES)
        with tools.for_range_slice(builder, zero, width, step) as (lane, _):
            factors = [
                builder.load(
                    builder.bitcast(builder.gep(start, [lane]), lanes.as_pointer()), align=8
                )
                for start in (left, right)
            ]
            builder.store(builder.fadd(builder.load(sums), builder.fmul(*factors)), sums)
        total, undefined = builder.load(sums), ir.Constant(lanes, ir.Undefined)
        index = ir.VectorType(ir.IntType(32), 4)
        first, *others = (
            builder.shuffle_vector(total, undefined, ir.Constant(index, quarter))
            for quarter in _QUARTERS
        )
        for quarter in others:
            first = builder.fadd(first, quarter)
        a, b, c, d = (builder.extract_element(first, ir.IntType(32)(n)) for n in range(4))
        return builder.fadd(builder.fadd(a, b), builder.fadd(c, d))

    return types.float64(x, types.intp, types.intp, y, types.intp), codegen


_product: Any = intrinsic(_product_of_rows)


def _row_product(x: Any, i: int, y: Any, j: int) -> float:
    total: float = _product(x, i, 0, y, j)
    return total


def _span_product(x: Any, i: int, first: int, y: Any, j: int) -> float:
    total: float = _product(x, i, first, y, j)
    return total


def _plain_row_product(x: Any, i: int, y: Any, j: int) -> float:
    return float(np.dot(x[i], y[j]))


def _plain_span_product(x: Any, i: int, first: int, y: Any, j: int) -> float:
    span = x[i, first : first + y.shape[1]]
    return float(np.dot(span, y[j, : span.size]))


row_product = _plain_row_product if INTERPRETED else leaf(_row_product)
"""x[i] . y[j] for rows of lanes.

The compiler may not reorder a sum, so it makes one addition after the other. Here the order is
fixed in vectors, which is several times as fast and gives the same bits everywhere.
"""

span_product = _plain_span_product if INTERPRETED else leaf(_span_product)
"""As `row_product`, with a span of x[i] that begins at `first`.

Where y is wider than what is left of the row, y must be 0 there and another row of numbers follow.
"""
