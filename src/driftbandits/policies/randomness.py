"""Random numbers that can be replayed: each is a function of the seed and the round alone."""

from __future__ import annotations

import math

from driftbandits.core.estimator.model import Floats
from driftbandits.jit import inlined, internal, place

TAKEN = -math.inf
MIXTURE, TIES, WINDOW_DRAW = map(place, range(3))
"""Streams of random numbers."""
NORMALS = place(2)
"""The normal numbers of a round use the streams from twice this on."""
ARM_DRAWS = place(4)
"""The draws of single arms use the streams from this on: no policy needs both."""
KEYS = place(1 << 20)
"""Streams from this number on are seeds of their own, see `key_of`."""


@inlined
def _hash(x: int) -> int:
    """Mix 32 bits; every product fits 63, so that compiled and plain Python agree."""
    x ^= x >> 16
    x = (x * 0x21F0AAAD) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 0x735A2D97) & 0xFFFFFFFF
    return x ^ (x >> 15)


@internal
def uniform(seed: int, t: int, stream: int) -> float:
    """A number in [0, 1) that is a function of (seed, round, stream) alone."""
    h = _hash(0x9E3779B9 ^ (seed & 0xFFFFFFFF))
    h = _hash(h ^ (seed >> 32))
    h = _hash(h ^ (t & 0xFFFFFFFF))
    h = _hash(h ^ (t >> 32))
    h = _hash(h ^ (2 * stream))
    low = _hash(h ^ (2 * stream + 1))
    return ((h >> 5) * 67108864.0 + (low >> 6)) / 9007199254740992.0


@internal
def normal(seed: int, t: int, number: int) -> float:
    """The standard normal of that number, by Box and Muller."""
    stream = 2 * (NORMALS + number)
    length = math.sqrt(-2.0 * math.log1p(-uniform(seed, t, stream)))
    return length * math.cos(2.0 * math.pi * uniform(seed, t, stream + 1))


@internal
def key_of(seed: int, t: int, number: int) -> int:
    """A seed that is a function of (seed, round, number) alone, for draws by the thousand."""
    return int(uniform(seed, t, KEYS + number) * 9007199254740992.0)


@inlined
def pick(epsilon: float, table: Floats, seed: int, t: int) -> tuple[int, float]:
    """The action with the best score in row 3, ties by the seed, mixed with a uniform draw.

    Actions with the score TAKEN are not considered. Returns the index and its probability.
    """
    free, tied = 0, 0
    best = TAKEN
    for i in range(table.shape[1]):
        if table[3, i] > best:
            best = table[3, i]
            tied = 0
        if table[3, i] == best:
            tied += 1
        free += table[3, i] > TAKEN
    explore = epsilon > 0.0 and uniform(seed, t, MIXTURE) < epsilon
    candidates = free if explore else tied
    place = int(uniform(seed, t, TIES) * candidates) if candidates > 1 else 0
    chosen = -1
    for i in range(table.shape[1]):
        if table[3, i] == best or (explore and table[3, i] > TAKEN):
            if place == 0:
                chosen = i
                break
            place -= 1
    share = (1.0 - epsilon) / tied if table[3, chosen] == best else 0.0
    return chosen, share + epsilon / free


@inlined
def choose(epsilon: float, seed: int, first: int, table: Floats, picks: Floats) -> None:
    """Pick distinct actions, best first, as the decisions first, first + 1, ...

    Row 2 of `table` holds the scores, row 3 is scratch; picks (2, n) receives indices and
    propensities.
    """
    for i in range(table.shape[1]):
        table[3, i] = table[2, i]
    for rank in range(picks.shape[1]):
        index, propensity = pick(epsilon, table, seed, first + rank)
        picks[0, rank] = index
        picks[1, rank] = propensity
        table[3, index] = TAKEN
