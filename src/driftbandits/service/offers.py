"""Offers, from which a decision chooses: read from a request or the log, checked by a policy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from driftbandits import api
from driftbandits.agent import Agent, has_probabilities
from driftbandits.features import Features
from driftbandits.policies import ACCEPTED, Policy, check_actions
from driftbandits.service.refusals import invalid
from driftbandits.store.records import Decided

Floats = NDArray[np.float64]


class Offer(NamedTuple):
    """The arms that a decision chooses from, with their features."""

    arms: tuple[str, ...]
    x: Floats  # (arms, dim)
    baseline: int  # -1: none
    key: str
    propensity: float = 1.0  # with which the caller chose by itself, as far as is known
    context: Floats | None = None  # (dim,), what separate arms have in common; then x has no rows
    n: int = 0  # places of a ranked list; 0: a decision by itself
    table: bytes = b""  # what the features are to be made of, see `Decided`
    played: int = -1  # what the caller has played by itself; -1: it asks
    unit: str = ""  # a hash of on whose behalf it is, see `State.tag_of`
    excluded: tuple[int, ...] = ()

    @property
    def context_bytes(self) -> bytes:
        return b"" if self.context is None else self.context.tobytes()

    def asked_of(self, agent: Agent) -> dict[str, Any]:
        """Return the arguments of the agent's `decide`."""
        if agent.policy.features is not None:
            context, rows = self.values
            return {"context": context, "arms": dict(zip(self.arms, rows, strict=True))}
        if not agent.policy.separate:
            return {"actions": self.x}
        return {"actions": self.x if self.context is None else self.context, "arms": self.arms}

    def within(self, features: Features) -> Offer:
        """Without the columns that these features do not have."""
        context, rows = self.values
        kept = _columns_of(context, features.context), [_columns_of(r, features.arm) for r in rows]
        return self if kept == (context, rows) else self._replace(table=msgspec.json.encode(kept))

    @property
    def values(self) -> tuple[dict[str, Any] | None, list[dict[str, Any] | None]]:
        """The columns of the context and of each arm."""
        if not self.table:
            return None, [None] * len(self.arms)
        context, rows = msgspec.json.decode(self.table)
        return context, rows


def _columns_of(row: dict[str, Any] | None, known: Mapping[str, str]) -> dict[str, Any] | None:
    return None if row is None else {name: row[name] for name in row if name in known}


def place_ids(event_id: str, n: int) -> list[str]:
    """Return the ids of the places of a list: the first has the id of the list."""
    return [event_id, *(f"{event_id}/{place}" for place in range(2, n + 1))]


def offer_of(record: Decided) -> Offer:
    """Return the offer of a logged decision; it is empty for later places of a list."""
    context = _numbers(record.context) if record.context else None
    x = _numbers(record.x).reshape(len(record.arms) if record.x else 0, -1 if record.x else 0)
    n = len(record.ranking)
    return Offer(
        record.arms,
        x,
        record.baseline,
        record.key,
        record.propensity,
        context,
        n,
        record.table,
        record.index if record.caller_decided else -1,
        record.unit,
        record.excluded,
    )


def _numbers(content: bytes) -> Floats:
    return np.array(np.frombuffer(content, dtype="<f8"), dtype=np.float64)


_ID = re.compile(api.ID_PATTERN)
_COLUMN = re.compile(r"column '([^']*)'")


def offer_from(request: api.DecisionRequest, key: str) -> Offer:
    """The offer of a request, whatever the policy will say to it."""
    arms = [api.OfferedArm(arm) if isinstance(arm, str) else arm for arm in request.arms]
    ids, context, n = tuple([arm.id for arm in arms]), request.context, request.n or 0
    if len(set(ids)) < len(ids):
        twice = next(i for i, id in enumerate(ids) if id in ids[:i])
        raise invalid(f"the arm {ids[twice]!r} is there twice", f"$.arms[{twice}].id")
    if n > len(ids):
        raise invalid(f"n must be at most the number of arms, {len(ids)}; got {n}", "$.n")
    if not _ID.match(place_ids(request.event_id, n)[-1]):
        raise invalid("event_id must leave room for the number of a place", "$.event_id")
    if request.played is None and request.propensity is not None:
        raise invalid("propensity must not be given without played", "$.propensity")
    if request.played is not None and n:
        raise invalid("played is one arm: n must not be given", "$.n")
    return Offer(
        ids,
        _rows(arms),
        _place("baseline", request.baseline, ids),
        key,
        context=np.array(context) if isinstance(context, list) else None,
        n=n,
        table=_table(context if isinstance(context, dict) else None, arms),
        played=_place("played", request.played, ids),
        propensity=1.0 if request.propensity is None else request.propensity,
        excluded=_excluded(request, ids),
    )


def _table(context: dict[str, Any] | None, arms: list[api.OfferedArm]) -> bytes:
    rows = [None if arm.features is UNSET else arm.features for arm in arms]
    if context is None and not any(row is not None for row in rows):
        return b""
    return msgspec.json.encode([context, rows])


def _place(name: str, id: str | None, ids: tuple[str, ...]) -> int:
    """The place of the arm that a field names, or -1 where it names none."""
    if id is None:
        return -1
    if id not in ids:
        raise invalid(f"{name} must be the id of an arm; got {id!r}", f"$.{name}")
    return ids.index(id)


def _excluded(request: api.DecisionRequest, ids: tuple[str, ...]) -> tuple[int, ...]:
    """The places of arms that must not be played."""
    wanted = set(request.exclude or ())
    for i, id in enumerate(request.exclude or ()):
        if id not in ids:
            raise invalid(f"exclude must hold ids of arms; got {id!r}", f"$.exclude[{i}]")
        if id == request.baseline:
            raise invalid(f"the baseline, {id!r}, must not be excluded", f"$.exclude[{i}]")
    if len(ids) - len(wanted) < (request.n or 1):
        raise invalid(
            f"exclude must leave {request.n or 1} of the {len(ids)} arms; got {len(wanted)} ids",
            "$.exclude",
        )
    return tuple([i for i, id in enumerate(ids) if id in wanted])


def _rows(arms: list[api.OfferedArm]) -> Floats:
    """A row for each arm, or none at all."""
    sizes = [-1 if arm.x is UNSET else len(arm.x) for arm in arms]
    size = sizes[0]
    if sizes.count(size) < len(sizes):
        i = next(i for i, other in enumerate(sizes) if other != size)
        if -1 in (size, sizes[i]):
            raise invalid("x must be given for all arms or for none", f"$.arms[{i}]")
        raise invalid(
            f"x must be as long as that of the first arm, {size}; got {sizes[i]} numbers",
            f"$.arms[{i}].x",
        )
    if size < 0:
        return np.empty((0, 0))
    numbers = chain.from_iterable([arm.x or () for arm in arms])
    return np.fromiter(numbers, np.float64, len(arms) * size).reshape(len(arms), size)


def check_offer(agent: Agent, offer: Offer) -> None:
    """Refuse what the agent of a policy would refuse."""
    policy = agent.policy
    if offer.excluded and not has_probabilities(policy):
        raise invalid(
            f"exclude must not be given to {policy.name}, which samples: it knows the probability "
            "of its own choice alone. Leave the arms out of the offer instead.",
            "$.exclude",
        )
    if policy.features is None:
        _check_vectors(policy, offer)
    elif offer.context is not None or len(offer.x):
        raise invalid(
            "this policy has features: give context and the features of each arm as objects of "
            "columns and values, not vectors",
            "$.context" if offer.context is not None else "$.arms[0].x",
        )
    if policy.separate or policy.features is not None:
        try:
            agent.check(**offer.asked_of(agent))
        except ValueError as error:
            raise invalid(str(error), _place_of(str(error), offer)) from None


def _check_vectors(policy: Policy, offer: Offer) -> None:
    name, path, vectors = "x", "$.arms[{row}].x", offer.x
    if offer.table:
        context, rows = offer.values
        first = next((i for i, row in enumerate(rows) if row is not None), 0)
        raise invalid(
            "features must not be given: this policy decides by vectors",
            f"$.arms[{first}].features" if context is None else "$.context",
        )
    if offer.context is not None:
        if not policy.separate:
            raise invalid(
                "context must not be given to a policy whose arms share a model: give x for each "
                "arm, or configure arms = 'separate'",
                "$.context",
            )
        if len(offer.x):
            raise invalid("give context or x for each arm, not both", "$.context")
        name, path, vectors = "context", "$.context", offer.context[None, :]
    elif not len(offer.x):
        wanted = "context, or x for each arm," if policy.separate else "x"
        raise invalid(f"{wanted} must be given: this policy decides by vectors", "$.arms[0]")
    size = vectors.shape[1]
    if size != policy.dim:
        raise invalid(f"{name} must have {policy.dim} numbers; got {size}", path.format(row=0))
    if check_actions(policy.numbers, vectors) != ACCEPTED:
        lengths = np.linalg.norm(vectors, axis=1)
        longest = int(np.argmax(lengths))
        raise invalid(
            f"{name} must not be longer than L = {policy.L:g}; its length is "
            f"{lengths[longest]:.6g}. Configure a larger L, or too_long = 'rescale'.",
            path.format(row=longest),
        )


def _place_of(message: str, offer: Offer) -> str:
    """Where the arm and the column are that a message names."""
    column = _COLUMN.search(message)
    within = f".{column[1]}" if column else ""
    for i, arm in enumerate(offer.arms):
        if message.startswith(f"arm {arm!r}: "):
            return f"$.arms[{i}].features{within}"
    return f"$.context{within}" if column else "$.arms"
