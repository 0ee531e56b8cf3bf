"""An agent's decisions: the pending ones, and the last ones for who asks why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent.decisions import ArmId, Decision, Floats, Made, frozen

EXPLAINED_DECISIONS = 1000
Pending = tuple[int, Floats, Any]
"""The round of a decision whose reward has not come, the action that was played (1, dim), and its
arm where arms are separate."""


class Ledger:
    """Which decisions are pending, and by what the last were made; both in the order of ids."""

    def __init__(self) -> None:
        self.pending: dict[int, Pending] = {}
        self.made: dict[int, Made] = {}
        self.last_expired = 0

    def enter(
        self,
        decisions: list[Decision],
        estimates: bytes,
        radius: float,
        actions: Floats,
        played: int | None,
    ) -> None:
        """New decisions, by what they were made, and which action's reward will be learned."""
        for decision in decisions:
            id = decision.id
            row = decision.index if played is None else played
            arm = None if decision.arms is None else decision.arms[row]
            self.pending[id] = decision.round, actions[row : row + 1].copy(), arm
            self.made[id] = decision, estimates, radius
        while len(self.made) > EXPLAINED_DECISIONS:
            del self.made[next(iter(self.made))]

    def expire(self, last_forgotten_round: int) -> None:
        """Let go of decisions whose rewards can no longer matter, so that memory stays bounded."""
        pending = self.pending
        while pending:
            oldest = next(iter(pending))
            if pending[oldest][0] > last_forgotten_round:
                break
            del pending[oldest]
            self.last_expired = oldest

    # -- keeping ---------------------------------------------------------------------------------

    def packed(self, dim: int, model_dim: int) -> dict[str, NDArray[Any]]:
        """Decisions of different sizes as a few flat arrays."""
        actions = [action[0] for _, action, _ in self.pending.values()]
        return {
            **_packed(list(self.made.values()), model_dim),
            "pending": np.array(list(self.pending), dtype=np.int64),
            "pending_actions": np.array(actions).reshape(-1, dim),
        }

    def packed_rounds(self) -> dict[str, NDArray[Any]]:
        """What is packed as well where ids are not rounds."""
        rounds = [t for t, _, _ in self.pending.values()]
        return {"pending_rounds": np.array(rounds, dtype=np.int64)}

    def packed_arms(self, known: Sequence[ArmId]) -> dict[str, NDArray[Any]]:
        """What is packed as well where arms are separate: their places among those known."""
        places = {arm: i for i, arm in enumerate(known)}
        played = [places[arm] for _, _, arm in self.pending.values() if arm is not None]
        offered = [
            places[arm] for decision, _, _ in self.made.values() for arm in decision.arms or ()
        ]
        return {
            "pending_arms": np.array(played, dtype=np.int64),
            "made_arms": np.array(offered, dtype=np.int64),
        }

    def revive(
        self,
        arrays: dict[str, NDArray[Any]],
        last_expired: int,
        known: Sequence[ArmId] | None = None,
    ) -> None:
        """Go on from what was packed, with the arms that are known where they are separate."""
        ids = arrays["pending"].tolist()
        rounds = arrays.get("pending_rounds", arrays["pending"]).tolist()
        played: list[Any] = [None] * len(ids)
        if known is not None:
            played = [known[i] for i in arrays["pending_arms"].tolist()]
        self.pending = {
            id: (t, action[None, :], arm)
            for id, t, action, arm in zip(
                ids, rounds, arrays["pending_actions"], played, strict=True
            )
        }
        self.made = dict(_unpacked(arrays, known))
        self.last_expired = last_expired


def _packed(made: list[Made], d: int) -> dict[str, NDArray[Any]]:
    decisions = [decision for decision, _, _ in made]
    labels = [(x.id, x.index, x.round, x.table.shape[1]) for x in decisions]
    means, widths = np.concatenate([x.table[:2] for x in decisions] or [np.empty((2, 0))], axis=1)
    return {
        "made": np.array(labels, dtype=np.int64).reshape(-1, 4),
        "made_propensities": np.array([x.propensity for x in decisions]),
        "made_radii": np.array([radius for _, _, radius in made]),
        "made_estimates": np.frombuffer(b"".join([x for _, x, _ in made])).reshape(-1, 2, d),
        "made_means": means,
        "made_widths": widths,
    }


def _unpacked(
    arrays: dict[str, NDArray[Any]], known: Sequence[ArmId] | None
) -> Iterable[tuple[int, Made]]:
    ends = np.cumsum(arrays["made"][:, 3]).tolist()
    for number, ((id, index, when, size), propensity, radius, end) in enumerate(
        zip(
            arrays["made"].tolist(),
            arrays["made_propensities"].tolist(),
            arrays["made_radii"].tolist(),
            ends,
            strict=True,
        )
    ):
        offered = slice(end - size, end)
        means, widths = arrays["made_means"][offered], arrays["made_widths"][offered]
        table = frozen(np.stack([means, widths, means + widths]))
        arms = None
        estimates = arrays["made_estimates"][number]
        if known is not None:
            arms = tuple(known[i] for i in arrays["made_arms"][offered].tolist())
            estimates = arrays["made_estimates"][offered]
        decision = Decision(id, index, when, propensity, table, arms)
        yield id, (decision, estimates.tobytes(), radius)
