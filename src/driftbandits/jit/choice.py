"""A kernel that is one of two, by the type of its first argument.

A branch on a number is compiled with all that either side calls, even if the optimiser drops one of
them afterwards. A choice by type is made before: what is not chosen is not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from numba import types

from driftbandits.jit.kernels import INTERPRETED

P = ParamSpec("P")
R = TypeVar("R")


class _Choice:
    """What numba calls in place of the kernel that is chosen."""

    is_compiling = False  # only kernels that call themselves are asked for while they are compiled

    def __init__(self, record: type, then: Any, otherwise: Any) -> None:
        self._record, self._then, self._otherwise = record, then, otherwise
        self.__name__ = then.__name__
        make: Any = types.Dispatcher
        self._numba_type_ = make(self)

    def _chosen(self, arguments: Any) -> Any:
        named = getattr(arguments[0], "instance_class", None)
        return self._then if named is self._record else self._otherwise

    def get_call_template(self, arguments: Any, keywords: Any) -> Any:
        return self._chosen(arguments).get_call_template(arguments, keywords)

    def get_overload(self, arguments: Any) -> Any:
        return self._chosen(arguments).get_overload(arguments)


def chosen_for(record: type, then: Callable[P, R], otherwise: Callable[P, R]) -> Callable[P, R]:
    """`then` where the first argument is a NamedTuple of that class, else `otherwise`."""
    if not INTERPRETED:
        return cast(Callable[P, R], _Choice(record, then, otherwise))

    def choose(*arguments: P.args, **keywords: P.kwargs) -> R:
        kernel = then if type(arguments[0]) is record else otherwise
        return kernel(*arguments, **keywords)

    return choose
