"""An agent as one file: arrays as npz, the rest as JSON inside it, a version and a checksum."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent.decisions import BadSaveFile

FORMAT_VERSION = 1

Arrays = dict[str, NDArray[Any]]


def packed(arrays: Arrays, meta: dict[str, Any]) -> bytes:
    """The content of a save file."""
    complete = {**meta, "format": FORMAT_VERSION}
    complete["checksum"] = digest(arrays, complete)
    text = np.frombuffer(json.dumps(complete).encode(), dtype=np.uint8)
    content: dict[str, Any] = {**arrays, "json": text}
    file = io.BytesIO()
    np.savez(file, **content)
    return file.getvalue()


def unpacked(content: bytes, source: str) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and JSON of a save file that is whole and unaltered."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("json").tobytes())
        version, checksum = meta["format"], meta.pop("checksum")
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        NotImplementedError,
        zipfile.BadZipFile,
    ) as error:
        raise BadSaveFile(
            f"path must name a saved agent; {source} cannot be read: {error}"
        ) from None
    if version != FORMAT_VERSION:
        raise BadSaveFile(
            f"path must name an agent saved in format {FORMAT_VERSION}; "
            f"{source} has format {version!r}"
        )
    if checksum != digest(arrays, meta):
        raise BadSaveFile(f"path must name an unaltered save; the checksum of {source} is wrong")
    return arrays, meta


def digest(arrays: Arrays, meta: dict[str, Any]) -> str:
    """SHA-256 of names, types, shapes and bits."""
    sha = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file in one step, so that a crash leaves the old one or the new one."""
    target = Path(path)
    beside = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
