"""Load the kernels of a wheel, which were compiled when it was built.

The folder `built` of this room holds one extension module for each processor level, the best first
in its manifest. A module is used when it is whole, was made from these very sources, and runs on
this processor, which it checks itself before anything else. Otherwise numba compiles the kernels.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOMS_WITH_KERNELS = ("jit", "core", "policies", "experiments/kernels")
_BUILT = Path(__file__).resolve().parent / "built"

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "1"
"""True if kernels run as plain Python, for a debugger or to count lines."""


@cache
def source_hash() -> str:
    """Return a hash of every source that a kernel may be made of."""
    digest = hashlib.sha256()
    for room in _ROOMS_WITH_KERNELS:
        for path in [_PACKAGE / f"{room}.py", *sorted((_PACKAGE / room).rglob("*.py"))]:
            if path.exists():
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def built_module(folder: Path) -> Any:
    """Return the best module of a folder that may run here; None if there is none."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        files = dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    for name, digest in files.items():
        path = folder / name
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() == digest:
                module = _imported(path)
                if module.sources == source_hash():
                    return module
        except (OSError, ImportError):
            continue  # damaged, or for another processor, system or Python
    return None


def _imported(path: Path) -> Any:
    name = path.name.partition(".")[0]
    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_module = None
if not INTERPRETED and os.environ.get("DRIFTBANDITS_COMPILE", "0") != "1":
    _module = built_module(_BUILT)

BUILT: Mapping[str, Callable[..., Any]] | None = getattr(_module, "kernels", None)
"""The kernels of the wheel by module and name; None: numba compiles them."""

PLAIN = INTERPRETED or BUILT is not None
"""True if functions that are not in the wheel run as plain Python, without numba."""


def made_by() -> str:
    """Return the version of numba that makes the kernels; in a wheel, made them for a processor."""
    if _module is not None:
        return f"{_module.numba} for {_module.level}"
    return "none" if INTERPRETED else version("numba")
