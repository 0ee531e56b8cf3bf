"""Vowpal Wabbit as a player whose arms share a context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import vowpalwabbit


class VowpalWabbit:
    """One multiline example a round: the context in the namespace of its arm.

    A reward r costs `worst - r`.
    """

    def __init__(self, options: str, seed: int, *, worst: float = 1.0) -> None:
        self.vw = vowpalwabbit.Workspace(f"--cb_explore_adf --quiet {options}")
        self.rng = np.random.default_rng(seed)
        self.worst = worst
        self.pending: tuple[list[str], float] = ([], 1.0)

    def decide(self, context: np.ndarray, arms: Sequence[int]) -> int:
        words = " ".join(f"f{j}:{x:.7g}" for j, x in enumerate(context.tolist()) if x)
        lines = [f"|a{k} c {words}" for k in arms]
        shares = np.array(self.vw.predict(lines))
        index = int(np.searchsorted(np.cumsum(shares), self.rng.random() * shares.sum()))
        index = min(index, len(lines) - 1)
        self.pending = (lines, float(shares[index]))
        return index

    def update(self, index: int, reward: float) -> None:
        lines, share = self.pending
        lines[index] = f"0:{self.worst - reward:g}:{share:.9g} {lines[index]}"
        self.vw.learn(lines)
