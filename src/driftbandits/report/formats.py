"""Numbers and lists in words, as tables and sentences show them."""

from __future__ import annotations

import math
from collections.abc import Sequence

NONE = "–"
"""Stands where there is no number."""


def number(value: float | None, form: str = ",.1f") -> str:
    """Write a number in a form, with a true minus and a space before % that does not break."""
    if value is None or not math.isfinite(value):
        return NONE
    text = format(value, form).replace("%", "\N{NO-BREAK SPACE}%")
    return f"\N{MINUS SIGN}{text[1:]}" if text.startswith("-") else text


def plus_minus(mean: float, se: float) -> str:
    r"""A mean with as many digits as its standard error supports, not to be broken.

    >>> plus_minus(298.83, 0.72), plus_minus(918.2, 8.4), plus_minus(0.7213, 0.0012)
    ('298.8\xa0±\xa00.7', '918\xa0±\xa08', '0.7213\xa0±\xa00.0012')
    >>> plus_minus(10514.0, math.nan), plus_minus(1.04127, math.nan), plus_minus(-0.25, 0.03)
    ('10,514', '1.041', '−0.25\xa0±\xa00.03')
    >>> plus_minus(1.0, 3e-16), plus_minus(0.0, 0.0)
    ('1', '0')
    """
    if not math.isfinite(se) or se <= 1e-12 * abs(mean):  # none, or rounding
        return number(mean, ",.0f" if abs(mean) >= 1000 else ".4g")
    power = math.floor(math.log10(se))
    digits = max(0, -power + (1 if se < 2 * 10.0**power else 0))
    own = number(mean, f"z,.{digits}f")  # z: what rounds to zero has no sign
    return f"{own}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{se:,.{digits}f}"


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def joined(words: Sequence[str]) -> str:
    """A list in a sentence.

    >>> joined(["one", "two", "three"]), joined(["one"])
    ('one, two and three', 'one')
    """
    return " and ".join([", ".join(words[:-1]), *words[-1:]] if len(words) > 1 else words)
