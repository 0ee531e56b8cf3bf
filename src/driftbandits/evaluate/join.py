"""Events of a service, joined to a log: decisions and what came of them."""

from __future__ import annotations

from driftbandits.evaluate.log import Log, LoggedDecision, log_of
from driftbandits.store import DEFAULT, LATE, REWARD


class Join:
    """Give it the events in their order; then it makes the log.

    The reward is the one that was learned; one that came too late counts where nothing was.
    Decisions over actions of another dimension than those of the last one are left out.
    """

    def __init__(self) -> None:
        self._rows: dict[str, LoggedDecision] = {}
        self._late: dict[str, float] = {}

    def decided(self, row: LoggedDecision) -> None:
        self._rows[row.event_id] = row

    def came_of(self, event_id: str, kind: str, value: float) -> None:
        """An event that has a value; kinds other than outcomes do nothing."""
        if kind in (REWARD, DEFAULT) and event_id in self._rows:
            self._rows[event_id] = self._rows[event_id]._replace(reward=value)
        elif kind == LATE:
            self._late[event_id] = value

    def log(self) -> Log:
        if not self._rows:
            raise ValueError("events must hold at least one decision; got none")
        rows = [
            row._replace(reward=self._late.get(row.event_id)) if row.reward is None else row
            for row in self._rows.values()
        ]
        dim = rows[-1].arms.shape[1]
        return log_of([row for row in rows if row.arms.shape[1] == dim])
