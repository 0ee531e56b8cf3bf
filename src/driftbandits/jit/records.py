"""Kernels made from declarations: numbers by name, arrays by name, and one function of several.

What a kernel receives is an array of numbers and some stacks of arrays. What stands where in them
follows from NamedTuples alone, so that nothing is counted by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_type_hints

from driftbandits.jit.kernels import inlined, leaf

T = TypeVar("T")


def reader_of(record: type[T], *, first: int = 0, given: Sequence[str] = ()) -> Callable[..., T]:
    """Make a kernel that reads a NamedTuple of ints and floats from numbers, from the `first` on.

    Fields that are `given` come from the caller instead, as further arguments: a constant that
    the compiler knows is worth more than a number that it reads.
    """

    def read(i: int, name: str, kind: type) -> str:
        if name in given:
            return name
        return f"int(numbers[{first + i}])" if kind is int else f"numbers[{first + i}]"

    fields = [read(i, *field) for i, field in enumerate(get_type_hints(record).items())]
    return leaf(_maker(record, ["numbers", *given], fields))


class Share(NamedTuple):
    """The next entries of a store, so many as `size` says, make a field of a record."""

    store: str
    size: int | None = 1  # None: all that are left

    def view(self, start: int) -> str:
        """One entry of a stack is a vector or a matrix; several are a stack; scalars stay a list.

        The first of a store are given with all that follow: a slice has limits to be looked after.
        """
        whole = f"stores.{self.store}"
        if start == 0 and self.size != 1:
            return whole
        if self.size is None:
            return f"{whole}[{start}:]"
        one = self.size == 1 and self.store not in ("counters", "gauges")
        return f"{whole}[{start}]" if one else f"{whole}[{start}:{start + self.size}]"


class Layout(NamedTuple):
    """The places of a record's fields in the stores."""

    sizes: Mapping[str, int]
    """The number of entries taken of each store, those of other records before it included."""
    of: Callable[[Any], Any]
    """A kernel that gives the fields by name, from a NamedTuple of stores out of a handle.

    References are not counted: views of arrays that are would be freed under way.
    """
    in_python: Callable[[Any], Any]
    """A function for Python that gives the same fields."""


def layout_of(record: type, *, after: Mapping[str, int] | None = None, **parts: Layout) -> Layout:
    """Lay out a NamedTuple whose fields are annotated with their shares.

    Fields that are `parts` have a layout of their own. A field `stores` is the stores themselves.
    """
    taken = dict(after or {})
    views = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        if name in parts:
            views.append(f"{name}(stores)")
        elif name == "stores":
            views.append("stores")
        else:
            share: Share = hint.__metadata__[0]
            start = taken.get(share.store, 0)
            views.append(share.view(start))
            taken[share.store] = start + (share.size or 0)
    kernels = {name: part.of for name, part in parts.items()}
    functions = {name: part.in_python for name, part in parts.items()}
    return Layout(
        taken,
        of=inlined(_maker(record, ["stores"], views, kernels)),
        in_python=_maker(record, ["stores"], views, functions),
    )


def one_of(name: str, functions: Mapping[int, Callable[..., T]]) -> Callable[..., T]:
    """Make a function of that name whose first argument is the number of the one that is meant."""
    *others, last = functions
    lines = [f"    if number == {i}: return f{i}(*arguments)" for i in others]
    lines = [f"def {name}(number, *arguments):", *lines, f"    return f{last}(*arguments)"]
    made: Callable[..., T] = _defined(
        name, "\n".join(lines), {f"f{i}": function for i, function in functions.items()}
    )
    return made


def _maker(
    record: type,
    arguments: Sequence[str],
    fields: Sequence[str],
    scope: Mapping[str, Any] | None = None,
) -> Any:
    name = f"{record.__name__}_of"
    source = f"def {name}({', '.join(arguments)}): return record({', '.join(fields)})"
    return _defined(name, source, {"record": record, **(scope or {})})


def _defined(name: str, source: str, scope: Mapping[str, Any]) -> Any:
    """Return the function that a source defines; numba keeps it as one of this module."""
    names = {"__name__": __name__, **scope}
    exec(source, names)
    return names[name]
