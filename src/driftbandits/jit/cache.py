"""Keep compiled kernels on disk, and let processes that start together share the work.

The code lies in the user's cache folder, or where that cannot be written, in a private one among
the temporary files; site-packages is never written to. The first process that misses a kernel takes
the kernel's lock and compiles; others wait and load.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from driftbandits.jit.native import source_hash

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows compiles in every process that starts at once
    fcntl = None  # type: ignore[assignment]

LONGEST_WAIT_SECONDS = 180.0
AGAIN_AFTER_SECONDS = 60.0


@cache
def cache_directory() -> Path:
    """Return the first of the places for compiled code that can be written to."""
    chosen = os.environ.get("DRIFTBANDITS_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    mine = f"driftbandits-{os.getuid() if hasattr(os, 'getuid') else os.getlogin()}"
    candidates = [Path(chosen)] if chosen else []
    for parent in [*candidates, base / "driftbandits", Path(tempfile.gettempdir()) / mine]:
        directory = parent / source_hash()
        if _is_private_and_writable(directory):
            return directory
    directory = Path(tempfile.mkdtemp(prefix="driftbandits-")) / source_hash()
    directory.mkdir()
    return directory


def _is_private_and_writable(directory: Path) -> bool:
    """Compiled code is loaded from here: it must be ours alone to write."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=directory):
            pass
        return not hasattr(os, "getuid") or directory.stat().st_uid == os.getuid()
    except OSError:
        return False


def say_that_it_compiles(kernel: str = "") -> None:
    """Say it once for all processes of a while, and on a terminal name each slow kernel."""
    lines = []
    announced = cache_directory() / "announced"
    with contextlib.suppress(OSError):
        if time.time() - announced.stat().st_mtime > AGAIN_AFTER_SECONDS:
            announced.unlink()
    with contextlib.suppress(OSError):
        announced.open("x").close()
        lines.append(
            "driftbandits: compiling its kernels, each once for this installation; "
            "this takes a minute or two ..."
        )
    if kernel and sys.stderr.isatty():
        lines.append(f"driftbandits: compiling {kernel}")
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def locked(path: Path) -> contextlib.AbstractContextManager[Any]:
    """Return an open file that holds the lock, or nothing where locks do not work in time."""
    if fcntl is not None:
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
    return contextlib.nullcontext()
