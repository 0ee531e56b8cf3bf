"""Sums over tables whose rows lie in memory one lane beside the other, in vectors of lanes.

The compiler may not reorder a sum, so it makes one addition after the other. Here the order is
fixed in vectors, which is several times as fast and gives the same bits everywhere. Several rows
are taken at once: what is read from memory, which is what takes the time, then serves several sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from driftbandits.jit.kernels import inlined
from driftbandits.jit.native import PLAIN

SPAN = 32
"""Columns of a matrix that a product is made of at once."""
LANES = 16
"""A sum over lanes is made of this many; tables of lanes are a multiple of it wide."""

if not PLAIN:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    _VECTOR = ir.VectorType(ir.DoubleType(), LANES)

_QUARTERS = [[4 * n + lane for lane in range(4)] for n in range(LANES // 4)]


class _Code:
    """The code of a kernel under construction."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder

    def rows_of(self, kind: Any, table: Any, row: Any, count: int) -> tuple[list[Any], Any]:
        """Return where some rows of a table begin, and how wide it is."""
        made = self.context.make_array(kind)(self.context, self.builder, table)
        width = cgutils.unpack_tuple(self.builder, made.shape, 2)[1]
        rows = [self.builder.add(row, row.type(n)) for n in range(count)]
        starts = [self.builder.gep(made.data, [self.builder.mul(i, width)]) for i in rows]
        return starts, width

    def place(self, start: Any, lane: Any) -> Any:
        """Return where the lanes from one on stand."""
        return self.builder.bitcast(self.builder.gep(start, [lane]), _VECTOR.as_pointer())

    def load(self, start: Any, lane: Any) -> Any:
        return self.builder.load(self.place(start, lane), align=8)

    def over_lanes(self, width: Any) -> Any:
        zero, step = ir.Constant(width.type, 0), ir.Constant(width.type, LANES)
        return cgutils.for_range_slice(self.builder, zero, width, step)

    def spread(self, number: Any) -> Any:
        """Return a vector with this number in every lane."""
        one = self.builder.insert_element(
            ir.Constant(_VECTOR, ir.Undefined), number, ir.IntType(32)(0)
        )
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), everywhere)

    def multiply_add(self, x: Any, y: Any, total: Any) -> Any:
        return self.builder.fadd(total, self.builder.fmul(x, y))

    def sum_of(self, lanes: Any) -> Any:
        add, index = self.builder.fadd, ir.VectorType(ir.IntType(32), 4)
        first, *others = (
            self.builder.shuffle_vector(
                lanes, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(index, quarter)
            )
            for quarter in _QUARTERS
        )
        for quarter in others:
            first = add(first, quarter)
        a, b, c, d = (self.builder.extract_element(first, ir.IntType(32)(n)) for n in range(4))
        return add(add(a, b), add(c, d))


def _products(of_x: int, of_y: int) -> Any:
    """Make code for the products of some rows of x, from a lane on, with some rows of y."""

    def typed(typing_context: Any, x: Any, i: Any, first: Any, y: Any, j: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = _Code(context, builder)
            left, _ = code.rows_of(signature.args[0], args[0], args[1], of_x)
            left = [builder.gep(start, [args[2]]) for start in left]
            right, width = code.rows_of(signature.args[3], args[3], args[4], of_y)
            nothing = ir.Constant(_VECTOR, [0.0] * LANES)
            sums = [[cgutils.alloca_once_value(builder, nothing) for _ in right] for _ in left]
            with code.over_lanes(width) as (lane, _):
                factors = [code.load(start, lane) for start in right]
                for start, totals in zip(left, sums, strict=True):
                    row = code.load(start, lane)
                    for factor, total in zip(factors, totals, strict=True):
                        builder.store(code.multiply_add(row, factor, builder.load(total)), total)
            found = [code.sum_of(builder.load(total)) for totals in sums for total in totals]
            if len(found) == 1:
                return found[0]
            return context.make_tuple(builder, signature.return_type, found)

        count = of_x * of_y
        total = types.float64 if count == 1 else types.UniTuple(types.float64, count)
        return total(x, types.intp, types.intp, y, types.intp), codegen

    return intrinsic(typed)


def _multiples(of_x: int, of_y: int) -> Any:
    """Make code that adds multiples of some rows of x, from a lane on, to the first rows of y.

    Row i of x is multiplied with factors[j, i] for row j of y.
    """

    def typed(typing_context: Any, x: Any, i: Any, first: Any, factors: Any, y: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = _Code(context, builder)
            left, _ = code.rows_of(signature.args[0], args[0], args[1], of_x)
            left = [builder.gep(start, [args[2]]) for start in left]
            none = args[1].type(0)
            rows, _ = code.rows_of(signature.args[3], args[3], none, of_y)
            at = [builder.add(args[1], args[1].type(n)) for n in range(of_x)]
            factors = [
                [code.spread(builder.load(builder.gep(row, [n]))) for n in at] for row in rows
            ]
            right, width = code.rows_of(signature.args[4], args[4], none, of_y)
            with code.over_lanes(width) as (lane, _):
                sources = [code.load(start, lane) for start in left]
                for start, own in zip(right, factors, strict=True):
                    total = code.load(start, lane)
                    for source, factor in zip(sources, own, strict=True):
                        total = code.multiply_add(source, factor, total)
                    builder.store(total, code.place(start, lane), align=8)
            return context.get_dummy_value()

        return types.void(x, types.intp, types.intp, factors, y), codegen

    return intrinsic(typed)


def _times_matrix(count: int) -> Any:
    """Make code that multiplies some rows of x with SPAN columns of a matrix, from one on.

    The sums stay in registers. Each is made in the order of the loops of `linalg.multiply_rows`.
    """

    def typed(typing_context: Any, x: Any, i: Any, matrix: Any, first: Any, out: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = _Code(context, builder)
            left, length = code.rows_of(signature.args[0], args[0], args[1], count)
            none = args[1].type(0)
            (origin,), width = code.rows_of(signature.args[2], args[2], none, 1)
            columns = [builder.add(args[3], args[3].type(LANES * n)) for n in range(SPAN // LANES)]
            nothing = ir.Constant(_VECTOR, [0.0] * LANES)
            sums = [[cgutils.alloca_once_value(builder, nothing) for _ in columns] for _ in left]

            def add(k: Any, terms: int) -> None:
                places = [builder.add(k, k.type(n)) for n in range(terms)]
                rows = [builder.gep(origin, [builder.mul(place, width)]) for place in places]
                factors = [
                    [code.spread(builder.load(builder.gep(start, [place]))) for place in places]
                    for start in left
                ]
                for n, column in enumerate(columns):
                    entries = [code.load(row, column) for row in rows]
                    for own, totals in zip(factors, sums, strict=True):
                        found = builder.fmul(own[0], entries[0])
                        for factor, entry in zip(own[1:], entries[1:], strict=True):
                            found = code.multiply_add(factor, entry, found)
                        total = builder.load(totals[n])
                        builder.store(builder.fadd(total, found), totals[n])

            four, one = ir.Constant(length.type, 4), ir.Constant(length.type, 1)
            whole = builder.sub(length, builder.srem(length, four))
            with cgutils.for_range_slice(builder, none, whole, four) as (k, _):
                add(k, 4)
            with cgutils.for_range_slice(builder, whole, length, one) as (k, _):
                add(k, 1)
            right, _ = code.rows_of(signature.args[4], args[4], args[1], count)
            for start, totals in zip(right, sums, strict=True):
                for column, total in zip(columns, totals, strict=True):
                    builder.store(builder.load(total), code.place(start, column), align=8)
            return context.get_dummy_value()

        return types.void(x, types.intp, matrix, types.intp, out), codegen

    return intrinsic(typed)


def _plain_products(of_x: int, of_y: int) -> Any:
    def products(x: Any, i: int, first: int, y: Any, j: int) -> Any:
        rows = [_span(x, i + m, first, y) for m in range(of_x)]
        found = [float(np.dot(row, y[j + n])) for row in rows for n in range(of_y)]
        return found[0] if len(found) == 1 else tuple(found)

    return products


def _plain_multiples(of_x: int, of_y: int) -> Any:
    def add(x: Any, i: int, first: int, factors: Any, y: Any) -> None:
        for m in range(i, i + of_x):
            y[:of_y] += np.outer(factors[:of_y, m], _span(x, m, first, y))

    return add


def _plain_times_matrix(count: int) -> Any:
    def multiply(x: Any, i: int, matrix: Any, first: int, out: Any) -> None:
        columns = slice(first, first + SPAN)
        out[i : i + count, columns] = x[i : i + count] @ matrix[:, columns]

    return multiply


def _span(x: Any, i: int, first: int, y: Any) -> Any:
    """Return a span of x[i], and 0 where the row has ended."""
    found = x[i, first : first + y.shape[1]]
    return np.append(found, np.zeros(y.shape[1] - found.size))


_sums_of = _plain_products if PLAIN else _products
_adder_of = _plain_multiples if PLAIN else _multiples
_multiplier_of = _plain_times_matrix if PLAIN else _times_matrix

span_product = _sums_of(1, 1)
"""(x, i, first, y, j): the product of y[j] and the span of x[i] that begins at `first`.

Where y is wider than what is left of the row, y must be 0 there and another row of numbers follow.
"""
four_span_products = _sums_of(4, 1)
"""The products of y[j] with spans of x[i], ..., x[i + 3]."""
eight_span_products = _sums_of(4, 2)
"""The products of spans of x[i], ..., x[i + 3] with y[j], and with y[j + 1]."""
multiply_span, multiply_two_spans = _multiplier_of(1), _multiplier_of(2)
"""(x, i, matrix, first, out): set out[i], or out[i + 1] too, to x[i] matrix in SPAN columns."""


def _adder(count: int) -> Any:
    to_one, to_two, to_three = (_adder_of(count, of_y) for of_y in (1, 2, 3))

    def add(x: Any, i: int, first: int, factors: Any, y: Any) -> None:
        if factors.shape[0] == 1:
            to_one(x, i, first, factors, y)
        elif factors.shape[0] == 2:
            to_two(x, i, first, factors, y)
        else:
            to_three(x, i, first, factors, y)

    return inlined(add)


add_multiple, add_four_multiples = _adder(1), _adder(4)
"""(x, i, first, factors, y): add factors[j, i] times the span of x[i] to y[j], for one to three j;
or those of x[i], ..., x[i + 3] together.

y has at least as many rows, and is as wide as the span. Another row of numbers follows in x.
"""
