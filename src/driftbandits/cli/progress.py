"""How far a long command is: a line that changes on a terminal, and a line now and then without."""

from __future__ import annotations

import sys
import time

_ON_TERMINAL_S, _IN_FILE_S = 0.2, 10.0


class Progress:
    """Call it with what is done, and how much of how much."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._every_s = _ON_TERMINAL_S if self._is_terminal else _IN_FILE_S
        self._began: dict[str, float] = {}
        self._last = time.monotonic()
        self._width = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        began = self._began.setdefault(what, now)
        if now - self._last < self._every_s:
            return
        self._last = now
        share = done / total if total else 1.0
        line = f"{what}: {done:,} of {total:,} events, {share:.0%}"
        if 0.0 < share < 1.0 and now > began:
            line += f", about {_duration((now - began) * (1.0 - share) / share)} left"
        if self._is_terminal:
            sys.stderr.write(f"\r{line.ljust(self._width)}")
            self._width = len(line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the terminal as it was."""
        if self._is_terminal and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
