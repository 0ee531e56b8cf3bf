"""Files that are there whole or not at all, whenever the program or the machine stops."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PART = ".part"
"""How the name of a file ends that is still being written."""


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` in one step when all of it is on disk.

    Files written one after the other also appear one after the other.
    """
    target = Path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}{PART}")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(target.parent)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file in one step, so that a crash leaves the old one or the new one."""
    with whole_file(path) as file:
        file.write(content)


def _sync_folder(folder: Path) -> None:
    """Without this the new name of a file may be lost, or come to disk after a later one's."""
    if not hasattr(os, "O_DIRECTORY"):  # pragma: no cover - Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
