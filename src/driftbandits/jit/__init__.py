"""How kernels are compiled. The only room that imports numba."""

from driftbandits.jit.arrays import (
    LANES,
    Handle,
    floats_of,
    handle_of,
    ints_of,
    length_of,
    places_of,
    row_product,
    span_product,
)
from driftbandits.jit.kernels import (
    allocating,
    compiled,
    compiled_for,
    inlined,
    internal,
    is_kept,
    leaf,
    place,
)
from driftbandits.jit.records import (
    Layout,
    Share,
    layout_of,
    one_of,
    reader_of,
)

__all__ = [
    "LANES",
    "Handle",
    "Layout",
    "Share",
    "allocating",
    "compiled",
    "compiled_for",
    "floats_of",
    "handle_of",
    "inlined",
    "internal",
    "ints_of",
    "is_kept",
    "layout_of",
    "leaf",
    "length_of",
    "one_of",
    "place",
    "places_of",
    "reader_of",
    "row_product",
    "span_product",
]
