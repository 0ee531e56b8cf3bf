"""Arrays that are handed to a kernel all at once.

A handle holds where some arrays lie, and their shapes: for Python it is one argument instead of
many, each of which would be unboxed at every call. The handle does not hold the arrays; whoever
hands it to a kernel does, for as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits.jit.kernels import inlined
from driftbandits.jit.native import PLAIN

Handle = NDArray[np.int64]

_LONGEST_SHAPE = 3
LINE = 1 + _LONGEST_SHAPE
"""Numbers that a handle has for each array."""


def handle_of(arrays: Sequence[NDArray[Any]]) -> Handle:
    """Return where some arrays lie, and their shapes."""
    lines = [
        [array.ctypes.data, *array.shape, *[0] * (_LONGEST_SHAPE - array.ndim)] for array in arrays
    ]
    return np.array(lines, dtype=np.int64)


def line_of(handle: Handle) -> bytes:
    """Return where a handle lies, for a handle of handles."""
    return handle_of([handle]).tobytes()


def handles_of(lines: Sequence[bytes]) -> Handle:
    """Make a handle of handles from their lines; a kernel takes each by `ints_of`, LINE wide."""
    return np.frombuffer(bytearray().join(lines), dtype=np.int64).reshape(-1, LINE)


def _plain_array_of(kind: type) -> Callable[..., NDArray[Any]]:
    element = np.ctypeslib.as_ctypes_type(np.dtype(kind))

    def array_of(handle: Handle, place: int, shape: tuple[int, ...]) -> NDArray[Any]:
        memory = (element * math.prod(map(int, shape))).from_address(int(handle[place, 0]))
        return np.ctypeslib.as_array(memory).reshape(shape)

    return array_of


def _compiled_array_of(kind: type) -> Any:
    """Give a kernel array `place` of a handle, in a shape that the kernel may know.

    The compiler unrolls loops over a length that it knows.
    """
    import numba
    from numba.core import cgutils
    from numba.extending import intrinsic
    from numba.np.arrayobj import populate_array

    element = numba.from_dtype(np.dtype(kind))

    def typed(typing_context: Any, handle: Any, place: Any, shape: Any) -> Any:
        array = numba.types.Array(element, shape.count, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            addresses = context.make_array(handle)(context, builder, args[0])
            line = builder.mul(args[1], args[1].type(LINE))
            address = builder.load(builder.gep(addresses.data, [line]))
            view = context.make_array(array)(context, builder)
            lengths = cgutils.unpack_tuple(builder, args[2], shape.count)
            size = lengths[0].type(context.get_abi_sizeof(context.get_data_type(element)))
            strides = [size]
            for length in lengths[:0:-1]:
                strides.insert(0, builder.mul(strides[0], length))
            data = builder.inttoptr(address, view.data.type)
            populate_array(
                view, data=data, shape=lengths, strides=strides, itemsize=size, meminfo=None
            )
            return view._getvalue()

        return array(handle, place, shape), codegen

    return intrinsic(typed)


_array_of: Callable[[type], Any] = _plain_array_of if PLAIN else _compiled_array_of
floats_of, ints_of, places_of = map(_array_of, (np.float64, np.int64, np.uint32))


@inlined
def length_of(handle: Handle, place: int, axis: int) -> int:
    """Return how long array `place` of a handle is along an axis."""
    return int(handle[place, 1 + axis])
