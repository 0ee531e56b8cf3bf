"""What a decision chooses from, as it was asked or as the log has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from driftbandits.agent import Agent
from driftbandits.features import Features
from driftbandits.store.records import Decided

Floats = NDArray[np.float64]


class Offer(NamedTuple):
    """What a decision chooses from."""

    arms: tuple[str, ...]
    x: Floats  # (arms, dim)
    baseline: int  # -1: none
    key: str
    propensity: float = 1.0  # with which the caller chose by itself, as far as is known
    context: Floats | None = None  # (dim,), what separate arms have in common; then x has no rows
    n: int = 0  # places of a ranked list; 0: a decision by itself
    table: bytes = b""  # what the features are to be made of, see `Decided`
    told: int = -1  # what the caller has played by itself; -1: it asks
    unit: str = ""  # a hash of on whose behalf it is, see `Fold.tag_of`
    excluded: tuple[int, ...] = ()

    @property
    def context_bytes(self) -> bytes:
        return b"" if self.context is None else self.context.tobytes()

    def asked_of(self, agent: Agent) -> dict[str, Any]:
        """What the agent is given."""
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
    """Those of the places of a list: the first has the id of the list."""
    return [event_id, *(f"{event_id}/{place}" for place in range(2, n + 1))]


def offer_of(record: Decided) -> Offer:
    """What a logged decision chose from; nothing for a place behind the first of a list."""
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
        record.index if record.told else -1,
        record.unit,
        record.excluded,
    )


def _numbers(content: bytes) -> Floats:
    return np.array(np.frombuffer(content, dtype="<f8"), dtype=np.float64)
