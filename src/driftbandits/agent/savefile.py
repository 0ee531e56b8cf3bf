"""An agent as one file: arrays as npz, the rest as JSON inside it, a version and a checksum."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent.explain import Decision, Ledger, Made, frozen
from driftbandits.features import Encoded
from driftbandits.policies import Policy

FORMAT_VERSION = 1
_CHECKSUM_SIZE = 64

Arrays = dict[str, NDArray[Any]]


class BadSaveFile(ValueError):
    """A file is not a whole, unaltered save of an agent."""


def packed(arrays: Arrays, plain: dict[str, Any]) -> bytes:
    """The content of a save file: an npz archive whose comment is the checksum of all before it."""
    text = json.dumps({**plain, "format": FORMAT_VERSION}).encode()
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
    if not isinstance(content, bytes):
        raise BadSaveFile(f"content must be the bytes of a save; got {type(content).__name__}")
    archive, checksum = content[:-_CHECKSUM_SIZE], content[-_CHECKSUM_SIZE:]
    if checksum != _checksum(archive):
        raise BadSaveFile(
            f"path must name a whole and unaltered save; the checksum of {source} is wrong"
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        plain = json.loads(arrays.pop("json").tobytes())
        version = plain.pop("format")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise BadSaveFile(
            f"path must name a saved agent; {source} cannot be read: {error}"
        ) from None
    if version != FORMAT_VERSION:
        raise BadSaveFile(
            f"path must name an agent saved in format {FORMAT_VERSION}; "
            f"{source} has format {version!r}"
        )
    return arrays, plain


def digest(arrays: Arrays, plain: dict[str, Any]) -> str:
    """SHA-256 of names, types, shapes and bits."""
    sha = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


# -- decisions -------------------------------------------------------------------------------------


def ledger_contents(ledger: Ledger, dim: int) -> tuple[Arrays, dict[str, Any]]:
    """Vectors and tables of all decisions in a few flat arrays, and the rest as plain data."""
    waiting, made = ledger.pending, list(ledger.made.values())
    actions = [action[0] for _, action, _ in waiting.values()]
    tables = [one.decision.table[:2] for one in made]
    arrays = {
        "pending": np.array(actions).reshape(-1, dim),
        "tables": np.concatenate([np.empty((2, 0)), *tables], axis=1),
        "estimates": np.frombuffer(b"".join(one.estimates for one in made)),
    }
    plain = {
        "pending": [(id, t, arm) for id, (t, _, arm) in waiting.items()],
        "made": list(map(_plain, made)),
        "last_expired": ledger.last_expired,
    }
    return arrays, plain


def _plain(made: Made) -> list[Any]:
    d = made.decision
    pairs = made.encoded and (made.encoded.shared, made.encoded.own)
    size, limits = d.table.shape[1], list(made.limits.items())
    return [d.id, d.index, d.round, d.propensity, size, d.arms, made.radius, pairs, limits]


def revived_ledger(arrays: Arrays, plain: dict[str, Any], policy: Policy) -> Ledger:
    """The ledger whose contents these are."""
    ledger = Ledger()
    ledger.last_expired = plain["last_expired"]
    for (id, t, arm), action in zip(plain["pending"], arrays["pending"], strict=True):
        ledger.pending[id] = t, action[None, :], arm
    estimates = arrays["estimates"].reshape(-1, 2 * policy.model_dim)
    offered = used = 0
    for id, index, t, propensity, size, arms, radius, pairs, limits in plain["made"]:
        means, widths = arrays["tables"][:, offered : offered + size]
        table = frozen(np.stack([means, widths, means + widths]))
        names = None if arms is None else tuple(arms)
        encoded = None if pairs is None else Encoded(names or (), *pairs)
        models = size if policy.separate else 1
        by = estimates[used : used + models].tobytes()
        decision = Decision(id, index, t, propensity, table, names)
        known = {at: tuple(limit) for at, limit in limits}
        ledger.made[id] = Made(decision, by, radius, encoded, known)
        offered, used = offered + size, used + models
    return ledger
