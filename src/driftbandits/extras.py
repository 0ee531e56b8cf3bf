"""Packages that come with an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(module: str, need: str, *, extra: str = "all") -> Any:
    """A module of an optional package; without it, an error that says the need and the cure.

    >>> load("no_such_package", "Dreams need no_such_package", extra="sleep")
    Traceback (most recent call last):
    ImportError: Dreams need no_such_package: pip install 'driftbandits[sleep]'
    """
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f"{need}: pip install 'driftbandits[{extra}]'") from None
