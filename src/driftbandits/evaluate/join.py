"""Events of a service, joined to a log: decisions and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from driftbandits.evaluate.log import (
    Log,
    LoggedDecision,
    log_by_arm,
    log_of,
    log_of_tables,
)
from driftbandits.features import Features
from driftbandits.store import DEFAULT, LATE, REWARD


class Join:
    """Give it the events in their order; then it makes the log.

    The reward is the one that was learned; one that came too late counts where nothing was.
    Decisions over actions of another dimension than those of the last one are left out; so are
    those over vectors where the last one had a table, which becomes vectors by `features`.
    """

    def __init__(self) -> None:
        self.features: Features | None = None
        self.served: Mapping[str, Any] | None = None
        self._rows: dict[str, LoggedDecision] = {}
        self._late: dict[str, float] = {}

    def decided(self, row: LoggedDecision) -> None:
        """A decision, or what was really shown in its place."""
        known = self._rows.get(row.event_id)
        if known is not None:
            row = known._replace(chosen=row.chosen, propensity=row.propensity)
        self._rows[row.event_id] = row

    def came_of(self, event_id: str, kind: str, value: float) -> None:
        """An event that has a value; kinds other than outcomes do nothing."""
        if kind in (REWARD, DEFAULT) and event_id in self._rows:
            self._rows[event_id] = self._rows[event_id]._replace(reward=value)
        elif kind == LATE:
            self._late[event_id] = value

    def log(self) -> Log:
        """The log; arms that had models of their own have coordinates of their own."""
        found = self._log()
        if self.served is None:
            return found
        separate = self.served.get("arms") == "separate"
        return replace(log_by_arm(found) if separate else found, served=self.served)

    def _log(self) -> Log:
        if not self._rows:
            raise ValueError("events must hold at least one decision; got none")
        rows = [
            row._replace(reward=self._late.get(row.event_id)) if row.reward is None else row
            for row in self._rows.values()
        ]
        if rows[-1].table is not None:
            return log_of_tables([row for row in rows if row.table is not None], self.features)
        dim = rows[-1].arms.shape[1]
        return log_of([row for row in rows if row.table is None and row.arms.shape[1] == dim])
