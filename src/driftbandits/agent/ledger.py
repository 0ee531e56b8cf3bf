"""An agent's decisions: the pending ones, and the last ones for who asks why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits.agent.decisions import ArmId, Decision, Floats, Made, frozen
from driftbandits.features import Encoded
from driftbandits.policies import Policy
from driftbandits.policies.carrying import Move

EXPLAINED_DECISIONS = 1000
Pending = tuple[int, Floats, Any]
"""The round of a decision whose reward has not come, the action that was played (1, dim), and its
arm where arms have ids."""


class Ledger:
    """Which decisions are pending, and by what the last were made; both in the order of ids."""

    def __init__(self) -> None:
        self.pending: dict[int, Pending] = {}
        self.made: dict[int, Made] = {}
        self.encoded: dict[int, Encoded] = {}  # of `made`, where actions came from tables
        self.last_expired = 0

    def enter(
        self,
        decisions: list[Decision],
        estimates: bytes,
        radius: float,
        actions: Floats,
        played: Sequence[int] | None,
        encoded: Encoded | None = None,
    ) -> None:
        """New decisions, by what they were made, and which action's reward will be learned."""
        for place, decision in enumerate(decisions):
            id = decision.id
            row = decision.index if played is None else played[place]
            arm = None if decision.arms is None else decision.arms[row]
            self.pending[id] = decision.round, actions[row : row + 1].copy(), arm
            self.made[id] = decision, estimates, radius
            if encoded is not None:
                self.encoded[id] = encoded
        while len(self.made) > EXPLAINED_DECISIONS:
            oldest = next(iter(self.made))
            del self.made[oldest]
            self.encoded.pop(oldest, None)

    def expire(self, last_forgotten_round: int) -> None:
        """Let go of decisions whose rewards can no longer matter, so that memory stays bounded."""
        pending = self.pending
        while pending:
            oldest = next(iter(pending))
            if pending[oldest][0] > last_forgotten_round:
                break
            del pending[oldest]
            self.last_expired = oldest

    def moved(self, old: Policy, new: Policy, move: Move) -> Ledger:
        """The same decisions in other coordinates."""
        of_model = move.with_intercept(old, new)

        def estimates(content: bytes) -> bytes:
            vectors = np.frombuffer(content).reshape(-1, old.model_dim)
            return of_model.moved(vectors, new.model_dim).tobytes()

        other = Ledger()
        other.pending = {
            id: (t, move.moved(action, new.dim), arm)
            for id, (t, action, arm) in self.pending.items()
        }
        other.made = {
            id: (decision, estimates(content), radius)
            for id, (decision, content, radius) in self.made.items()
        }
        places = dict(zip(move.sources.tolist(), move.targets.tolist(), strict=True))
        other.encoded = {id: encoded.moved(places) for id, encoded in self.encoded.items()}
        other.last_expired = self.last_expired
        return other

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

    def offered_arms(self) -> list[ArmId]:
        """The ids of all arms that are spoken of."""
        arms = {arm: None for decision, _, _ in self.made.values() for arm in decision.arms or ()}
        arms.update((arm, None) for _, _, arm in self.pending.values())
        return list(arms)

    def packed_encoded(self) -> dict[str, NDArray[Any]]:
        """What is packed as well where actions came from tables."""
        found = [self.encoded[id] for id in self.made]
        pairs = [pair for one in found for row in (one.shared, *one.own) for pair in row]
        sizes = [len(row) for one in found for row in (one.shared, *one.own)]
        return {
            "made_sizes": np.array(sizes, dtype=np.int64),
            "made_coordinates": np.array([at for at, _ in pairs], dtype=np.int32),
            "made_values": np.array([x for _, x in pairs], dtype=np.float64),
        }

    def packed_arms(self, known: Sequence[ArmId]) -> dict[str, NDArray[Any]]:
        """What is packed as well where arms have ids: their places among those known."""
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
        *,
        separate: bool = True,
    ) -> None:
        """Go on from what was packed, with the arms that are known where they have ids."""
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
        self.made = dict(_unpacked(arrays, known, separate))
        self.encoded = dict(_unpacked_rows(arrays, self.made)) if "made_sizes" in arrays else {}
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
    arrays: dict[str, NDArray[Any]], known: Sequence[ArmId] | None, separate: bool
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
            estimates = arrays["made_estimates"][offered if separate else number]
        decision = Decision(id, index, when, propensity, table, arms)
        yield id, (decision, estimates.tobytes(), radius)


def _unpacked_rows(
    arrays: dict[str, NDArray[Any]], made: dict[int, Made]
) -> Iterable[tuple[int, Encoded]]:
    pairs = iter(
        zip(arrays["made_coordinates"].tolist(), arrays["made_values"].tolist(), strict=True)
    )
    sizes = iter(arrays["made_sizes"].tolist())
    for id, (decision, _, _) in made.items():
        arms = decision.arms or ()
        shared, *own = (list(islice(pairs, next(sizes))) for _ in range(len(arms) + 1))
        yield id, Encoded(arms, shared, own)
