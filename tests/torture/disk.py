"""A disk that remembers what was written and what was synced, and can fail as disks do.

It is a SQLite VFS over the real one. Every write is carried out and also noted, so that any moment
can be turned into the files that a loss of power would have left behind: synced writes are there;
of the others any may be missing, and one may be torn.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any, NamedTuple

import apsw


class Write(NamedTuple):
    """Bytes at an offset; None: the file was cut off there."""

    file: str
    offset: int
    data: bytes | None


class Sync(NamedTuple):
    """What was written to this file before is on the disk."""

    file: str


class Delete(NamedTuple):
    """The file is gone."""

    file: str


class Disk(apsw.VFS):
    """Register it by making one; open stores with `vfs=disk.name`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.guard = threading.Lock()
        self.notes: list[Write | Sync | Delete] = []
        self.room: int | None = None  # bytes that files may still grow by; None: no limit
        self.is_read_only = False
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> DiskFile:
        return DiskFile(self, name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:
        super().xDelete(name, sync_folder)
        self.note(Delete(Path(name).name))

    def note(self, what: Write | Sync | Delete) -> None:
        with self.guard:
            self.notes.append(what)

    @property
    def moment(self) -> int:
        return len(self.notes)

    def check_room(self, growth: int) -> None:
        if self.is_read_only:
            raise apsw.ReadOnlyError("the disk is read-only")
        if self.room is None or growth <= 0:
            return
        if growth > self.room:
            raise apsw.FullError("the disk is full")
        self.room -= growth

    def left_by_power_loss(
        self, moment: int, folder: Path, *, chance: random.Random, kept: float
    ) -> None:
        """Write the files as of a moment; unsynced writes are kept with this probability."""
        files: dict[str, bytearray] = {}
        unsynced: dict[str, list[Write]] = {}
        for note in self.notes[:moment]:
            if isinstance(note, Write):
                unsynced.setdefault(note.file, []).append(note)
            elif isinstance(note, Sync):
                image = files.setdefault(note.file, bytearray())
                for write in unsynced.pop(note.file, []):
                    _apply(image, write)
            else:
                files.pop(note.file, None)
                unsynced.pop(note.file, None)
        for file, writes in unsynced.items():
            image = files.setdefault(file, bytearray())
            torn = chance.randrange(len(writes))
            for i, write in enumerate(writes):
                if chance.random() < kept:
                    _apply(image, _torn(write, chance) if i == torn else write)
        folder.mkdir(parents=True, exist_ok=True)
        for file, image in files.items():
            (folder / file).write_bytes(image)


def _apply(image: bytearray, write: Write) -> None:
    if write.data is None:
        del image[write.offset :]
        return
    if len(image) < write.offset:
        image.extend(bytes(write.offset - len(image)))
    image[write.offset : write.offset + len(write.data)] = write.data


def _torn(write: Write, chance: random.Random) -> Write:
    if write.data is None:
        return write
    return write._replace(data=write.data[: chance.randrange(len(write.data) + 1)])


class DiskFile(apsw.VFSFile):
    """A file of the disk."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._file = Path(path or "temporary").name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.check_room(offset + len(data) - self.xFileSize())
        super().xWrite(data, offset)
        self._disk.note(Write(self._file, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._disk.note(Write(self._file, size, None))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.note(Sync(self._file))
