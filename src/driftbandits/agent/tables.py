"""Tables as an agent reads them: what it was offered, as coordinates that it may have to learn of.

Reading gives coordinates to levels that were never seen. That is for good only when the decision
is made: `Reading` takes it back otherwise, together with the larger model it may have led to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from driftbandits.agent.decisions import ArmId, Explanation, Floats
from driftbandits.checks import brief
from driftbandits.features import Encoded, Encoding, Features
from driftbandits.features.tables import (
    ID,
    Offered,
    Record,
    check_columns,
    check_count,
    is_frame,
    offered,
    offers_of,
    played,
    record_of,
    records_of,
)
from driftbandits.policies import Policy
from driftbandits.policies.carrying import Move

if TYPE_CHECKING:
    from driftbandits.agent.agent import Agent

CONSTANT = "constant"
"""What the intercept is called among the features."""


class Read(NamedTuple):
    """An offer in coordinates, and how many there were when it was read."""

    encoded: Encoded
    coordinates: int


class Tables:
    """The encoding of an agent, and what it accepts."""

    def __init__(self, features: Features, kept: Mapping[str, Any] | None = None) -> None:
        self.features = features
        self.encoding = Encoding(features, kept)
        self._of_arm = [name for name in features.arm if name != ID]

    def offer(self, actions: Any, context: Any, arms: Any) -> Read:
        """One decision: a context and the arms to choose from."""
        self._refuse_actions(actions)
        return self._read(self._context(context), offered(arms, self._of_arm))

    def offers(self, actions: Any, contexts: Any, arms: Any) -> list[Read]:
        """Decisions: contexts, and arms that are the same for all or a list of them for each."""
        self._refuse_actions(actions)
        rows = self._contexts(contexts)
        return self._numbered(rows, offers_of(arms, len(rows), self._of_arm))

    def plays(self, actions: Any, contexts: Any, arms: Any) -> list[Read]:
        """What was played: a context and one arm in each row."""
        self._refuse_actions(actions)
        arms_of_rows = played(arms, self._of_arm)
        rows = self._contexts(contexts, len(arms_of_rows))
        check_count("arm", len(arms_of_rows), len(rows))
        return self._numbered(rows, [[arm] for arm in arms_of_rows])

    def carried_to(self, features: Any) -> tuple[Tables, Move]:
        """Tables by other features, and where the coordinates that both have are there."""
        if not isinstance(features, Features):
            raise ValueError(f"features must be driftbandits.Features; got {brief(features)}")
        encoding, places = self.encoding.carried_to(features)
        tables = Tables(features)
        tables.encoding = encoding
        return tables, Move(*(np.array(list(x), dtype=np.int64) for x in (places, places.values())))

    # -- names -----------------------------------------------------------------------------------

    def named(self, theta: Floats, policy: Policy) -> dict[str, float]:
        """Coefficients by name, without the room for those to come."""
        names = self.encoding.book.names
        found = dict(zip(names, theta[: len(names)].tolist(), strict=True))
        return {**found, **({CONSTANT: float(theta[-1])} if policy.intercept else {})}

    def explained(self, explanation: Explanation, encoded: Encoded, policy: Policy) -> Explanation:
        """The same with what each feature adds to the a . theta of each arm."""
        names = self.encoding.book.names
        found: dict[ArmId, dict[str, float]] = {}
        for arm, own in zip(encoded.arms, encoded.own, strict=True):
            theta = explanation.theta[arm] if policy.separate else explanation.theta
            parts = {CONSTANT: float(theta[-1])} if policy.intercept else {}
            for at, x in (*encoded.shared, *own):
                parts[names[at]] = parts.get(names[at], 0.0) + x * float(theta[at])
            found[arm] = parts
        return explanation._replace(contributions=found)

    # -- reading ---------------------------------------------------------------------------------

    def _numbered(self, rows: Sequence[Record | None], offers: Sequence[Offered]) -> list[Read]:
        found = []
        for number, pair in enumerate(zip(rows, offers, strict=True)):
            try:
                found.append(self._read(*pair))
            except ValueError as error:
                raise ValueError(f"row {number}: {error}") from None
        return found

    def _read(self, context: Record | None, arms: Offered) -> Read:
        encoded = self.encoding.encode(context, arms)
        return Read(encoded, len(self.encoding))

    def _context(self, context: Any) -> Record | None:
        if context is None and not self.features.context:
            return None
        if is_frame(context):
            check_columns("context", context, self.features.context)
        return record_of(context, "context")

    def _contexts(self, contexts: Any, count: int | None = None) -> Sequence[Record | None]:
        if contexts is None and not self.features.context and count is not None:
            return [None] * count
        check_columns("context", contexts, self.features.context)
        return records_of(contexts, "context")

    @staticmethod
    def _refuse_actions(actions: Any) -> None:
        if actions is not None:
            raise ValueError(
                "context= and arms= must be given instead of actions, as this policy has features; "
                f"got {brief(actions)}"
            )


class Reading:
    """A turn of an agent with tables: all of it happens, or nothing."""

    def __init__(self, agent: Agent, tables: Tables) -> None:
        self._agent, self._tables = agent, tables
        self.is_rehearsal = False

    def __enter__(self) -> Self:
        agent = self._agent
        agent._lock.acquire()
        self.is_rehearsal = False
        self._before = len(self._tables.encoding)
        self._held = agent.policy, agent._dim, agent._learner, agent._ledger
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        agent = self._agent
        if kind is None and not self.is_rehearsal:
            self._tables.encoding.commit()
        else:
            self._tables.encoding.take_back(self._before)
            agent.policy, agent._dim, agent._learner, agent._ledger = self._held
        agent._lock.release()
