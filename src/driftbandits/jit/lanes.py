"""Sums over tables whose rows lie in memory one lane beside the other, in vectors of lanes.

The compiler may not reorder a sum, so it makes one addition after the other. Here the order is
fixed in vectors, which is several times as fast and gives the same bits everywhere. Several rows
are taken at once: what is read from memory, which is what takes the time, then serves several sums.

A span of a row of x begins at `first` and is as wide as y. Where y is wider than what is left of
the row, y must be 0 there, or is not looked at, and another row of numbers follow in x.
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
    _UNKNOWN, _NOTHING = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_VECTOR, [0.0] * LANES)
    _QUARTER, _EVERYWHERE = (ir.VectorType(ir.IntType(32), count) for count in (4, LANES))


class _Code:
    """The code of a kernel under construction."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder = context, builder
        self.kinds, self.args = signature.args, args

    def rows(self, table: int, row: Any, count: int, lane: Any = None) -> tuple[list[Any], Any]:
        """Return where some rows of an argument begin, or lanes of them, and how wide it is."""
        builder, make = self.builder, self.context.make_array(self.kinds[table])
        made = make(self.context, builder, self.args[table])
        width = cgutils.unpack_tuple(builder, made.shape, 2)[1]
        places = [builder.mul(builder.add(row, row.type(n)), width) for n in range(count)]
        if lane is not None:
            places = [builder.add(place, lane) for place in places]
        return [builder.gep(made.data, [place]) for place in places], width

    def place(self, start: Any, lane: Any) -> Any:
        """Return where the lanes from one on stand."""
        return self.builder.bitcast(self.builder.gep(start, [lane]), _VECTOR.as_pointer())

    def load(self, start: Any, lane: Any) -> Any:
        return self.builder.load(self.place(start, lane), align=8)

    def over_lanes(self, width: Any) -> Any:
        return cgutils.for_range_slice(self.builder, width.type(0), width, width.type(LANES))

    def spread(self, start: Any, lane: Any) -> Any:
        """Return a vector with the number that stands there in every lane."""
        number = self.builder.load(self.builder.gep(start, [lane]))
        one = self.builder.insert_element(_UNKNOWN, number, ir.IntType(32)(0))
        return self.builder.shuffle_vector(one, _UNKNOWN, _EVERYWHERE([0] * LANES))

    def multiply_add(self, x: Any, y: Any, total: Any) -> Any:
        return self.builder.fadd(total, self.builder.fmul(x, y))

    def sum_of(self, lanes: Any) -> Any:
        builder, add = self.builder, self.builder.fadd
        quarters = [[4 * n + lane for lane in range(4)] for n in range(LANES // 4)]
        first, *others = (
            builder.shuffle_vector(lanes, _UNKNOWN, _QUARTER(quarter)) for quarter in quarters
        )
        for quarter in others:
            first = add(first, quarter)
        a, b, c, d = (builder.extract_element(first, ir.IntType(32)(n)) for n in range(4))
        return add(add(a, b), add(c, d))

    def products(self, left: list[Any], right: list[Any], width: Any) -> list[list[Any]]:
        """Return the products of each row on the left with each on the right."""
        builder = self.builder
        sums = [[cgutils.alloca_once_value(builder, _NOTHING) for _ in right] for _ in left]
        with self.over_lanes(width) as (lane, _):
            factors = [self.load(start, lane) for start in right]
            for start, totals in zip(left, sums, strict=True):
                row = self.load(start, lane)
                for factor, total in zip(factors, totals, strict=True):
                    builder.store(self.multiply_add(row, factor, builder.load(total)), total)
        return [[self.sum_of(builder.load(total)) for total in totals] for totals in sums]


def _product() -> Any:
    def typed(typing_context: Any, x: Any, i: Any, y: Any, j: Any) -> Any:
        def codegen(*given: Any) -> Any:
            code = _Code(*given)
            left, _ = code.rows(0, code.args[1], 1)
            right, width = code.rows(2, code.args[3], 1)
            return code.products(left, right, width)[0][0]

        return types.float64(x, types.intp, y, types.intp), codegen

    return intrinsic(typed)


def _add_products(of_x: int, of_y: int) -> Any:
    def typed(typing_context: Any, x: Any, i: Any, first: Any, y: Any, out: Any, k: Any) -> Any:
        def codegen(*given: Any) -> Any:
            code = _Code(*given)
            _, i, first, _, _, k = code.args
            left, _ = code.rows(0, i, of_x, first)
            right, width = code.rows(3, i.type(0), of_y)
            targets, _ = code.rows(4, k, of_y, i)
            for n, totals in enumerate(code.products(left, right, width)):
                for start, total in zip(targets, totals, strict=True):
                    target = code.builder.gep(start, [i.type(n)])
                    code.builder.store(code.builder.fadd(code.builder.load(target), total), target)
            return code.context.get_dummy_value()

        return types.void(x, types.intp, types.intp, y, out, types.intp), codegen

    return intrinsic(typed)


def _add_multiples(of_x: int, of_y: int) -> Any:
    def typed(typing_context: Any, x: Any, i: Any, first: Any, factors: Any, y: Any) -> Any:
        def codegen(*given: Any) -> Any:
            code = _Code(*given)
            _, i, first, _, _ = code.args
            left, _ = code.rows(0, i, of_x, first)
            rows, _ = code.rows(3, i.type(0), of_y, i)
            factors = [[code.spread(row, i.type(n)) for n in range(of_x)] for row in rows]
            right, width = code.rows(4, i.type(0), of_y)
            with code.over_lanes(width) as (lane, _):
                sources = [code.load(start, lane) for start in left]
                for start, own in zip(right, factors, strict=True):
                    total = code.load(start, lane)
                    for source, factor in zip(sources, own, strict=True):
                        total = code.multiply_add(source, factor, total)
                    code.builder.store(total, code.place(start, lane), align=8)
            return code.context.get_dummy_value()

        return types.void(x, types.intp, types.intp, factors, y), codegen

    return intrinsic(typed)


def _times_matrix(count: int) -> Any:
    """Keep the sums in registers, each made in the order of the loops of `linalg.multiply_rows`."""

    def typed(typing_context: Any, x: Any, i: Any, matrix: Any, first: Any, out: Any) -> Any:
        def codegen(*given: Any) -> Any:
            code = _Code(*given)
            builder, (_, i, _, first, _) = code.builder, code.args
            left, length = code.rows(0, i, count)
            (origin,), width = code.rows(2, i.type(0), 1)
            columns = [builder.add(first, first.type(LANES * n)) for n in range(SPAN // LANES)]
            sums = [[cgutils.alloca_once_value(builder, _NOTHING) for _ in columns] for _ in left]

            def add(k: Any, terms: int) -> None:
                places = [builder.add(k, k.type(n)) for n in range(terms)]
                rows = [builder.gep(origin, [builder.mul(place, width)]) for place in places]
                factors = [[code.spread(start, place) for place in places] for start in left]
                for n, column in enumerate(columns):
                    entries = [code.load(row, column) for row in rows]
                    for own, totals in zip(factors, sums, strict=True):
                        found = builder.fmul(own[0], entries[0])
                        for factor, entry in zip(own[1:], entries[1:], strict=True):
                            found = code.multiply_add(factor, entry, found)
                        total = builder.load(totals[n])
                        builder.store(builder.fadd(total, found), totals[n])

            four, one = length.type(4), length.type(1)
            whole = builder.sub(length, builder.srem(length, four))
            with cgutils.for_range_slice(builder, i.type(0), whole, four) as (k, _):
                add(k, 4)
            with cgutils.for_range_slice(builder, whole, length, one) as (k, _):
                add(k, 1)
            right, _ = code.rows(4, i, count)
            for start, totals in zip(right, sums, strict=True):
                for column, total in zip(columns, totals, strict=True):
                    builder.store(builder.load(total), code.place(start, column), align=8)
            return code.context.get_dummy_value()

        return types.void(x, types.intp, matrix, types.intp, out), codegen

    return intrinsic(typed)


def _plain_product() -> Any:
    return lambda x, i, y, j: float(np.dot(x[i], y[j]))


def _plain_add_products(of_x: int, of_y: int) -> Any:
    def add(x: Any, i: int, first: int, y: Any, out: Any, k: int) -> None:
        for m in range(i, i + of_x):
            for n in range(of_y):
                out[k + n, m] += np.dot(_span(x, m, first, y), y[n])

    return add


def _plain_add_multiples(of_x: int, of_y: int) -> Any:
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


row_product = (_plain_product if PLAIN else _product)()
"""(x, i, y, j): x[i] . y[j] for rows of lanes."""
multiply_span, multiply_two_spans = map(_plain_times_matrix if PLAIN else _times_matrix, (1, 2))
"""(x, i, matrix, first, out): set out[i], or out[i + 1] too, to x[i] matrix in SPAN columns."""
_products_adder = _plain_add_products if PLAIN else _add_products
_multiples_adder = _plain_add_multiples if PLAIN else _add_multiples


def _products_of(of_x: int) -> Any:
    for_one, for_two = (_products_adder(of_x, of_y) for of_y in (1, 2))

    def add(x: Any, i: int, first: int, y: Any, out: Any, k: int) -> None:
        if y.shape[0] == 1:
            for_one(x, i, first, y, out, k)
        else:
            for_two(x, i, first, y, out, k)

    return inlined(add)


def _multiples_of(of_x: int) -> Any:
    to_one, to_two, to_three = (_multiples_adder(of_x, of_y) for of_y in (1, 2, 3))

    def add(x: Any, i: int, first: int, factors: Any, y: Any) -> None:
        if factors.shape[0] == 1:
            to_one(x, i, first, factors, y)
        elif factors.shape[0] == 2:
            to_two(x, i, first, factors, y)
        else:
            to_three(x, i, first, factors, y)

    return inlined(add)


add_span_product, add_four_span_products = map(_products_of, (1, 4))
"""(x, i, first, y, out, k): add to out[k + j, i] the span of x[i] times y[j], for one or two j;
or likewise those of x[i], ..., x[i + 3]."""
add_multiple, add_four_multiples = map(_multiples_of, (1, 4))
"""(x, i, first, factors, y): add factors[j, i] times the span of x[i] to y[j], for one to three j;
or those of x[i], ..., x[i + 3] together."""
