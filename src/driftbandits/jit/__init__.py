"""Compile kernels, or take them from a wheel. This is the only room that imports numba."""

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
from driftbandits.jit.kernels import (
    allocating,
    chosen_for,
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
    SPAN,
    add_four_multiples,
    add_four_span_products,
    add_multiple,
    add_span_product,
    multiply_span,
    multiply_two_spans,
    row_product,
)
from driftbandits.jit.native import made_by
from driftbandits.jit.records import Layout, Share, layout_of, one_of, reader_of
