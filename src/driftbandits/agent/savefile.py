"""An agent as one file: arrays as npz, the rest as JSON inside it, a version and a checksum."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent.decisions import BadSaveFile

FORMAT_VERSION = 2
_CHECKSUM_SIZE = 64

Arrays = dict[str, NDArray[Any]]


def packed(arrays: Arrays, meta: dict[str, Any]) -> bytes:
    """The content of a save file: an npz archive whose comment is the checksum of all before it."""
    text = json.dumps({**meta, "format": FORMAT_VERSION}).encode()
    content: dict[str, Any] = {**arrays, "json": np.frombuffer(text, dtype=np.uint8)}
    file = io.BytesIO()
    np.savez(file, **content)
    archive = file.getvalue()
    # The last two bytes of an archive without a comment are the length of the comment.
    archive = archive[:-2] + _CHECKSUM_SIZE.to_bytes(2, "little")
    return archive + _checksum(archive)


def _checksum(archive: bytes) -> bytes:
    return hashlib.sha256(archive).hexdigest().encode()


def unpacked(content: bytes, source: str) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and JSON of a save file that is whole and unaltered."""
    archive, checksum = content[:-_CHECKSUM_SIZE], content[-_CHECKSUM_SIZE:]
    if checksum != _checksum(archive):
        raise BadSaveFile(
            f"path must name a whole and unaltered save; the checksum of {source} is wrong"
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("json").tobytes())
        version = meta.pop("format")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise BadSaveFile(
            f"path must name a saved agent; {source} cannot be read: {error}"
        ) from None
    if version != FORMAT_VERSION:
        raise BadSaveFile(
            f"path must name an agent saved in format {FORMAT_VERSION}; "
            f"{source} has format {version!r}"
        )
    return arrays, meta


def digest(arrays: Arrays, meta: dict[str, Any]) -> str:
    """SHA-256 of names, types, shapes and bits."""
    sha = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
