"""A state as bytes, with a format version and a checksum: less of the log has to be folded."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from driftbandits.service.guardrails import Accounts
from driftbandits.service.kernels import make_policy_ready
from driftbandits.service.observers import Observers
from driftbandits.service.state import Candidate, Name, Pending, Served, State, Version

FORMAT = b"driftbandits-state-1\n"
_CHECKSUM_SIZE = 32


class BadSnapshot(ValueError):
    """Bytes that are no whole and unaltered snapshot of this format."""


class _State(msgspec.Struct, array_like=True):
    """The attributes of a `State` that a snapshot keeps, under their names."""

    policy: str
    seq: int
    at_ns: int
    checksum: bytes
    versions: list[Version]
    agent: Served | None
    began_ns: int
    learned: int
    frozen_decisions: int
    pending: dict[str, Pending]
    awaited: dict[str, int]
    counts: dict[str, int]
    accounts: Accounts
    candidates: dict[Name, Candidate]
    retired: bool
    observers: Observers


def packed(state: State) -> bytes:
    kept = _State(**{name: getattr(state, name) for name in _State.__struct_fields__})
    content = encoded(kept)
    return FORMAT + hashlib.sha256(content).digest() + content


def encoded(value: Any) -> bytes:
    """MessagePack, in which agents are what they say of themselves."""
    return msgspec.msgpack.encode(value, enc_hook=Served.to_bytes)


def _made(kind: type[Served], plain: bytes) -> Served:
    return kind.from_bytes(plain)


def unpacked(data: bytes) -> State:
    """The state of a snapshot."""
    return unpacked_into(State, data)


def unpacked_into(make: Callable[[str], State], data: bytes) -> State:
    if not isinstance(data, bytes) or not data.startswith(FORMAT):
        raise BadSnapshot("the format is not known")
    start = len(FORMAT) + _CHECKSUM_SIZE
    checksum, content = data[len(FORMAT) : start], data[start:]
    if hashlib.sha256(content).digest() != checksum:
        raise BadSnapshot("the checksum is wrong")
    try:
        kept = msgspec.msgpack.decode(content, type=_State, dec_hook=_made)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadSnapshot(str(error)) from None
    state = make(kept.policy)
    for name in _State.__struct_fields__:
        setattr(state, name, getattr(kept, name))
    state.counts = Counter(kept.counts)
    state.learnable = {id: one.number for id, one in state.pending.items() if one.number}
    state.pending_of_key = Counter(waiting.key for waiting in state.pending.values())
    make_policy_ready(state.playing.policy)
    state.snapshot_seq, state.snapshot_bytes = state.seq, len(data)
    return state


def digest(state: State) -> str:
    """A fingerprint of everything that decides what this policy will do, and of its comparison."""
    told = (
        state.policy,
        state.seq,
        state.at_ns,
        state.checksum,
        [version[:3] for version in state.versions],
        state.playing.digest,
        state.began_ns,
        state.frozen_decisions,
        list(state.pending.items()),
        sorted(state.counts.items()),
        sorted(state.awaited),
        state.observers.lift,
        # not what candidates have learned: how far they have come is no part of the state
        [(name, *candidate[:4]) for name, candidate in state.candidates.items()],
        state.retired,
        state.accounts,
    )
    return hashlib.sha256(encoded(told)).hexdigest()
