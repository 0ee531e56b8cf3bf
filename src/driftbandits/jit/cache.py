"""Where compiled kernels are kept, and how processes that start together share the work.

numba keys the machine code of a function on the file that the function is in. A kernel that calls
kernels of other files would then be served stale after an edit there, so here the key is a hash of
all the sources. The code lies in the user's cache folder, or where that cannot be written, in a
private one among the temporary files; site-packages is never written to.

The first process that misses a kernel takes the kernel's lock and compiles; others wait and load.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching
from numba.core.runtime.nrt import rtsys

from driftbandits.jit.known import IS_KNOWN

# numba's classes carry no types
_start_runtime: Any = rtsys.initialize
_CacheLocator: Any = caching._CacheLocator
_CompileResultCacheImpl: Any = caching.CompileResultCacheImpl
_FunctionCache: Any = caching.FunctionCache

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows compiles in every process that starts at once
    fcntl = None  # type: ignore[assignment]

QUIET_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 180.0
_PACKAGE = Path(__file__).resolve().parents[1]
_ROOMS_WITH_KERNELS = ("jit", "links", "linalg", "theory", "estimator", "policies", "simulation")


@cache
def source_hash() -> str:
    """A hash of every source that a kernel may be made of."""
    digest = hashlib.sha256()
    for room in _ROOMS_WITH_KERNELS:
        for path in [_PACKAGE / f"{room}.py", *sorted((_PACKAGE / room).rglob("*.py"))]:
            if path.exists():
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_directory() -> Path:
    """The first of the places for compiled code that can be written to."""
    chosen = os.environ.get("DRIFTBANDITS_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    mine = f"driftbandits-{os.getuid() if hasattr(os, 'getuid') else os.getlogin()}"
    candidates = [Path(chosen)] if chosen else []
    for parent in [*candidates, base / "driftbandits", Path(tempfile.gettempdir()) / mine]:
        directory = parent / source_hash()
        if _is_private_and_writable(directory):
            return directory
    return Path(tempfile.mkdtemp(prefix="driftbandits-"))


def _is_private_and_writable(directory: Path) -> bool:
    """Compiled code is loaded from here: it must be ours alone to write."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=directory):
            pass
        return not hasattr(os, "getuid") or directory.stat().st_uid == os.getuid()
    except OSError:
        return False


@cache
def say_that_it_compiles() -> None:
    """Once for a process."""
    sys.stderr.write("driftbandits: compiling its kernels, once for this installation ...\n")
    sys.stderr.flush()


def _locked(path: Path) -> Any:
    """An open file that holds the lock; None where locks do not work or take too long."""
    if fcntl is None:
        return None
    with contextlib.suppress(OSError):
        file = path.open("w")
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except BlockingIOError:
                time.sleep(0.05)
        file.close()
    return None


class _Locator(_CacheLocator):  # type: ignore[misc]
    def __init__(self, line: int) -> None:
        self._py_file = str(_PACKAGE)
        self._line = line

    def get_cache_path(self) -> str:
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        return source_hash()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func.__code__.co_firstlineno)


class _Implementation(_CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class KernelCache(_FunctionCache):  # type: ignore[misc]
    """numba's cache of a function, keyed on all sources and shared between processes.

    Whoever misses a kernel takes its turn: it waits while another process compiles the same one,
    and looks into the cache again.
    """

    _impl_class = _Implementation

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._lock: Any = None
        self._notice: threading.Timer | None = None

    def holds_anything(self) -> bool:
        """Whether some machine code of this kernel is kept."""
        return bool(self._cache_file._load_index())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._loaded(sig, target_context)
        if found is None:
            self._begin_turn()
            found = self._loaded(sig, target_context)
            if found is not None:
                self._end_turn()
        return found

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        if not IS_KNOWN:
            return super().load_overload(sig, target_context)
        # numba would first load all that its compiler knows, which takes longer than the kernels
        _start_runtime(target_context)
        return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)
        self._end_turn()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple()  # the sources and the name are the rest of the key

    def _begin_turn(self) -> None:
        self._end_turn()  # of a compilation that failed
        self._notice = threading.Timer(QUIET_SECONDS, say_that_it_compiles)
        self._notice.daemon = True
        self._notice.start()
        self._lock = _locked(cache_directory() / f"{self._impl.filename_base}.lock")

    def _end_turn(self) -> None:
        if self._notice is not None:
            self._notice.cancel()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
