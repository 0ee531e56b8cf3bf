"""The bodies of events: small MessagePack arrays, numbers as the bits they are."""

from __future__ import annotations

from typing import Any

import msgspec


class Record(msgspec.Struct, array_like=True, gc=False):
    """A body."""


class Configured(Record):
    """A version: the arguments of `driftbandits.policy`, and how the service uses it."""

    version: int
    arguments: dict[str, Any]
    seed: int
    mode: str
    reward_wait_s: float | None
    default_reward: float
    half_life_s: float | None
    window_s: float | None
    fresh: bool  # whether it starts without what was learned before
    key: str
    control: float = 0.0  # share of decisions in which the policy has no say
    shares: dict[str, tuple[float, float]] | None = None  # of an arm: the least and the largest
    budget: float | None = None  # what may be lost against the baseline, a decision
    limit_window: int = 1000  # decisions over which shares and the budget may be made up for
    keeps_change: bool = False  # a change that is being learned again is not called off


class Decided(Record):
    """A decision with everything that led to it."""

    version: int
    arms: tuple[str, ...]
    x: bytes  # (arms, dim) doubles, little-endian, row by row
    baseline: int  # index of the caller's own choice; -1: none
    index: int  # what was played
    suggested: int  # what the policy would have played by itself
    number: int  # of the decision in its version
    propensity: float  # of what was played, before it was known whether this is a control
    scores: bytes  # (arms,) doubles
    key: str
    context: bytes = b""  # (dim,) doubles that separate arms have in common, in place of x
    ranking: tuple[tuple[int, float], ...] = ()  # of a list: index and propensity of each place
    place: int = 0  # in a list; those behind the first have no x, context and table of their own
    table: bytes = b""  # JSON, values as they were sent: [context, [features of each arm]]
    caller_decided: bool = False  # whether the caller had played by itself, and said so later
    control: bool = False  # the policy had no say
    conditional: float = 0.0  # the propensity, given `control`; 0: there are no controls
    unit: str = ""  # by a keyed hash, on whose behalf it was made; decides about `control`
    excluded: tuple[int, ...] = ()  # indices of arms that must not be played
    reason: str = ""  # for playing anything else than `suggested`
    means: bytes = b""  # (arms,) floats of 4 bytes, for explanations; score = mean + width


class Rewarded(Record):
    """A reported value: learned, late, a duplicate, or in conflict with what is known."""

    value: float
    key: str


class Withdrawn(Record):
    """A decision that was never shown: it will have no outcome."""

    key: str


class Conflicted(Record):
    """A request that contradicts what is known about its event_id, or a reward out of range."""

    what: str  # decision, reward or withdrawal
    value: float | None
    key: str


class Erased(Record):
    """Events whose content is gone."""

    seqs: tuple[int, ...]
    reason: str  # request or retention
    key: str


class Begun(Record):
    """A candidate: a configuration that learns from the log beside the one that decides."""

    name: str | None  # of a shadow; None: the change that is to come
    configured: Configured
    key: str


class Promoted(Record):
    """A candidate has learned what the log holds, and decides from now on."""

    name: str | None
    configured: Configured


class Dropped(Record):
    """A candidate learns no longer."""

    name: str | None
    key: str


class Retired(Record):
    """The policy makes no more decisions, or makes some again."""

    retired: bool
    key: str


_encoder = msgspec.msgpack.Encoder()
_KINDS: dict[str, type[Record]] = {
    "configured": Configured,
    "decision": Decided,
    "corrected": Decided,
    "reward": Rewarded,
    "default": Rewarded,
    "late": Rewarded,
    "withdrawn": Withdrawn,
    "duplicate": Conflicted,
    "conflict": Conflicted,
    "refused": Conflicted,
    "erased": Erased,
    "begun": Begun,
    "promoted": Promoted,
    "dropped": Dropped,
    "retired": Retired,
}
_decoders = {kind: msgspec.msgpack.Decoder(type_) for kind, type_ in _KINDS.items()}


def packed(record: Record) -> bytes:
    return _encoder.encode(record)


def unpacked(kind: str, body: bytes) -> Any:
    """The record of an event of this kind."""
    return _decoders[kind].decode(body)
