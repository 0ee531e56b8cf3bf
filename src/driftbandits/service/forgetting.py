"""Forgetting by the clock: a half-life or a window in seconds is a number of ticks to the agent."""

from __future__ import annotations

TICKS = 1000
"""Ticks of the agent's clock in a half-life or a window."""

_NANOSECONDS = 1_000_000_000


def arguments_by_time(
    *, half_life_s: float | None, window_s: float | None
) -> dict[str, float | int]:
    """The arguments of a policy that forgets by the clock."""
    arguments: dict[str, float | int] = {}
    if half_life_s is not None:
        arguments["discount"] = 0.5 ** (1.0 / TICKS)
    if window_s is not None:
        arguments["window"] = TICKS
    return arguments


def ticks_of(elapsed_ns: int, *, seconds: float) -> int:
    """How often the clock has ticked, where a half-life or a window has so many seconds."""
    return int(elapsed_ns * TICKS // max(1, round(seconds * _NANOSECONDS)))
