"""Kernels that Python calls, and that kernels may call as well."""

from __future__ import annotations

from typing import Any

from numba.core.registry import CPUDispatcher

_Dispatcher: Any = CPUDispatcher  # numba's classes carry no types


class Entry(_Dispatcher):  # type: ignore[misc]
    """A kernel for Python. Where another kernel names it, its part is meant.

    So a kernel never waits for machine code of what it calls, which only Python would use.
    """

    part: Any

    @property
    def _numba_type_(self) -> Any:
        return self.part._numba_type_
