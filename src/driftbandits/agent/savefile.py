"""An agent as one file: arrays as npz, the rest as JSON inside it, a version and a checksum."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent.explain import Decision, Ledger, Made, frozen
from driftbandits.features import ArmId, Encoded

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
    """Decisions of different sizes as a few flat arrays, and the ids of their arms."""
    waiting, made = ledger.pending, list(ledger.made.values())
    decisions = [one.decision for one in made]
    arms = {arm: None for decision in decisions for arm in decision.arms or ()}
    arms.update((arm, None) for _, _, arm in waiting.values() if arm is not None)
    places: dict[Any, int] = {arm: place for place, arm in enumerate(arms)}
    vectors = [pairs for one in made if one.encoded for pairs in _vectors(one.encoded)]
    pairs = [pair for vector in vectors for pair in vector]
    none = np.empty((2, 0))
    arrays = {
        "pending": _integers(
            [(id, t, places.get(arm, -1)) for id, (t, _, arm) in waiting.items()], 3
        ),
        "pending_actions": np.array([action[0] for _, action, _ in waiting.values()]).reshape(
            -1, dim
        ),
        "made": _integers([(d.id, d.index, d.round, d.table.shape[1]) for d in decisions], 4),
        "made_arms": _integers([(places[arm],) for d in decisions for arm in d.arms or ()], 1),
        "made_numbers": _numbers([(one.decision.propensity, one.radius) for one in made], 2),
        "made_tables": np.concatenate([none, *(d.table[:2] for d in decisions)], axis=1),
        "made_estimates": np.frombuffer(b"".join(one.estimates for one in made)),
        "made_vectors": _integers([(len(vector),) for vector in vectors], 1),
        "made_pairs": _numbers(pairs, 2),
        "made_limits": _numbers(
            [(id, at, *x) for id, one in ledger.made.items() for at, x in one.limits.items()], 6
        ),
    }
    return arrays, {"offered": list(arms), "last_expired": ledger.last_expired}


def _integers(rows: list[tuple[int, ...]], width: int) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(-1, width)


def _numbers(rows: list[Any], width: int) -> NDArray[np.float64]:
    return np.array(rows, dtype=np.float64).reshape(-1, width)


def _vectors(encoded: Encoded) -> list[list[tuple[int, float]]]:
    return [encoded.shared, *encoded.own]


def revived_ledger(
    arrays: Arrays, plain: dict[str, Any], *, model_dim: int, separate: bool
) -> Ledger:
    """The ledger whose contents these are."""
    known: Sequence[ArmId] = plain["offered"]
    ledger = Ledger()
    ledger.last_expired = plain["last_expired"]
    for (id, t, place), action in zip(
        arrays["pending"].tolist(), arrays["pending_actions"], strict=True
    ):
        ledger.pending[id] = (t, action[None, :], known[place] if place >= 0 else None)
    limits: dict[int, dict[int, Any]] = {}
    for id, at, *limit in arrays["made_limits"].tolist():
        limits.setdefault(int(id), {})[int(at)] = tuple(limit)
    estimates = arrays["made_estimates"].reshape(-1, 2 * model_dim)
    arms = iter(arrays["made_arms"][:, 0].tolist())
    sizes = iter(arrays["made_vectors"][:, 0].tolist())
    pairs = ((int(at), x) for at, x in arrays["made_pairs"].tolist())
    offered = used = 0
    for (id, index, t, size), (propensity, radius) in zip(
        arrays["made"].tolist(), arrays["made_numbers"].tolist(), strict=True
    ):
        means, widths = arrays["made_tables"][:, offered : offered + size]
        table = frozen(np.stack([means, widths, means + widths]))
        names = tuple(known[i] for i in islice(arms, size)) if known else None
        encoded = None
        if names and len(arrays["made_vectors"]):
            shared, *own = (list(islice(pairs, next(sizes))) for _ in range(size + 1))
            encoded = Encoded(names, shared, own)
        models = size if separate else 1
        by = estimates[used : used + models].tobytes()
        decision = Decision(id, index, t, propensity, table, names)
        ledger.made[id] = Made(decision, by, radius, encoded, limits.get(id, {}))
        offered, used = offered + size, used + models
    return ledger
