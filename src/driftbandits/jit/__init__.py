"""How kernels are compiled. The only room that imports numba."""

from driftbandits.jit.arrays import (
    LINE,
    Handle,
    floats_of,
    handle_of,
    handles_of,
    ints_of,
    length_of,
    line_of,
    places_of,
)
from driftbandits.jit.choice import chosen_for
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
from driftbandits.jit.lanes import (
    LANES,
    add_four_multiples,
    add_multiple,
    eight_span_products,
    four_span_products,
    row_product,
    span_product,
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
    "LINE",
    "Handle",
    "Layout",
    "Share",
    "add_four_multiples",
    "add_multiple",
    "allocating",
    "chosen_for",
    "compiled",
    "compiled_for",
    "eight_span_products",
    "floats_of",
    "four_span_products",
    "handle_of",
    "handles_of",
    "inlined",
    "internal",
    "ints_of",
    "is_kept",
    "layout_of",
    "leaf",
    "length_of",
    "line_of",
    "one_of",
    "place",
    "places_of",
    "reader_of",
    "row_product",
    "span_product",
]
