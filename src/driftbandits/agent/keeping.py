"""An agent as a file, and as a fingerprint."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from driftbandits.agent import savefile
from driftbandits.agent.changing import relearned_arguments
from driftbandits.agent.separate import SeparateLearner
from driftbandits.agent.tables import Tables
from driftbandits.agent.views import Views
from driftbandits.estimator.state import FITTED
from driftbandits.files import write_whole
from driftbandits.policies import Policy, recorded_policy


class Kept(Views):
    """An agent as it can be kept."""

    if TYPE_CHECKING:

        def __init__(self, policy: Policy, *, seed: int, clock: str) -> None: ...

        def _read_by(self, tables: Tables | None) -> None: ...

    @property
    def digest(self) -> str:
        """A fingerprint of everything that decides what this agent will do."""
        with self._lock:
            arrays, meta = self._contents()
        return savefile.digest(arrays, meta)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, which is replaced in one step."""
        write_whole(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The agent as it was saved; a file that is not whole raises `BadSaveFile`."""
        return cls.from_bytes(Path(path).read_bytes(), source=str(path))

    def to_bytes(self) -> bytes:
        """What `save` writes."""
        with self._lock:
            return savefile.packed(*self._contents())

    @classmethod
    def from_bytes(cls, content: bytes, *, source: str = "the content") -> Self:
        """An agent from what `to_bytes` gave."""
        return cls._revived(*savefile.unpacked(content, source))

    def with_policy(self, policy: Policy, *, seed: int | None = None) -> Self:
        """An agent that goes on with another policy or seed, and with all that this one knows.

        The policies may differ in what the estimate does not depend on, such as epsilon, delta or
        bonus_scale; for other arguments there is nothing to carry over.
        """
        seed = self.seed if seed is None else seed
        policy = policy.with_dim(self.policy.dim) if policy.features is not None else policy
        lost = relearned_arguments(self.policy, policy, old_seed=self.seed, new_seed=seed)
        if lost:
            raise ValueError(
                f"policy must not differ in {', '.join(lost)}, on which what was learned depends"
            )
        with self._lock:
            arrays, meta = self._contents()
            content = savefile.packed(arrays, {**meta, "policy": policy.arguments, "seed": seed})
        arrays, meta = savefile.unpacked(content, "the agent")
        arrays["counters"][..., FITTED] = 0  # so that the radius is that of the new policy
        return type(self)._revived(arrays, meta)

    @classmethod
    def _revived(cls, arrays: savefile.Arrays, meta: dict[str, Any]) -> Self:
        apart = meta.get("apart")
        clock = "decisions" if apart is None else "ticks"
        agent = cls(recorded_policy(meta["policy"]), seed=meta["seed"], clock=clock)
        issued, last_expired = apart or (0, 0)
        agent._learner.revive(arrays, issued, meta)
        if agent._tables is not None:
            agent._read_by(Tables(agent._tables.features, meta["encoding"]))
        known = meta.get("arms" if agent._separate else "offered")
        agent._ledger.revive(arrays, last_expired, known, separate=agent._separate)
        agent.late, agent.clipped = meta["late"], meta.get("clipped", 0)
        return agent

    def _contents(self) -> tuple[savefile.Arrays, dict[str, Any]]:
        learner, ledger = self._learner, self._ledger
        arrays = {
            **learner.essence(),
            **ledger.packed(self.policy.dim, self.policy.model_dim),
            **learner.shown(),
        }
        meta: dict[str, Any] = {
            "policy": self.policy.arguments,
            "seed": self.seed,
            "late": self.late,
        }
        if self._reward is not None:
            meta["clipped"] = self.clipped
        if isinstance(learner, SeparateLearner):
            meta |= learner.labels()
            arrays |= ledger.packed_arms(meta["arms"])
        elif self._tables is not None:
            meta["offered"] = ledger.offered_arms()
            arrays |= ledger.packed_arms(meta["offered"])
        if self._tables is not None:
            meta["encoding"] = self._tables.encoding.to_dict()
            arrays |= ledger.packed_encoded()
        if learner.counts_apart:
            arrays |= ledger.packed_rounds()
            meta["apart"] = [learner.issued, ledger.last_expired]
        return arrays, meta
