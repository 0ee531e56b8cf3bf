"""Packages that come with an extra."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
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


def needed(who: str, *packages: str, extra: str) -> None:
    """Refuse to go on without these packages, none of which is imported.

    >>> needed("Dreams", "json", "no_such_package", extra="sleep")
    Traceback (most recent call last):
    ImportError: Dreams need no_such_package: pip install 'driftbandits[sleep]'
    """
    for package in packages:
        if find_spec(package) is None:
            raise ImportError(f"{who} need {package}: pip install 'driftbandits[{extra}]'")
