"""Rewards as people have them: a reward model, and a linear map of values to what it takes.

    click             0 or 1, or a share between them
    rating:1..5       grades; the ends are whole numbers
    count, count:20   how many, at most so many
    amount:0..500     a quantity of which more is better; without a range, any number
    cost:0..500       a quantity of which less is better

A value v is worth v, or -v where it is a cost, and the model sees r = (worth - level) / unit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.core import links

Floats = NDArray[np.float64]

OUTSIDE = CLIP, REFUSE = "clip", "refuse"
"""The two ways to handle a value outside the range."""
LARGEST = 1e100
"""The largest value without a range: its square has to be a number."""
_LARGEST_COUNT = 1e9
_KINDS = ("click", "rating", "count", "amount", "cost")
_FORMS = "click, rating:1..5, count, count:20, amount, amount:0..500, cost or cost:0..500"
_RANGE = re.compile(r"(?P<low>[^.]*(?:\.\d+)?)\.\.(?P<high>.*)")


class Range(NamedTuple):
    """The closed interval of values that are taken as they are."""

    low: float
    high: float


@dataclass(frozen=True)
class Reward:
    """The meaning of values to a policy. Make it with `reward`."""

    text: str  # as it was given
    outside: str
    link: links.Link
    range: Range
    sign: float  # -1 for a cost
    level: float
    unit: float

    @property
    def model_range(self) -> Range:
        """The range as the model sees it."""
        return Range(*sorted(map(self._model_value, self.range)))

    def _model_value(self, value: float) -> float:
        return (self.sign * value - self.level) / self.unit

    def taken(self, value: Any) -> tuple[float, bool]:
        """Map a value to what the model sees; also True if it had to be clipped for that."""
        known = checks.number(
            "reward", int(value) if isinstance(value, (bool, np.bool_)) else value
        )
        if abs(known) > LARGEST and math.isinf(self.range.high):
            raise ValueError(f"reward must be between -{LARGEST:g} and {LARGEST:g}; got {value!r}")
        low, high = self.range
        held = min(max(known, low), high)
        clipped = held != known
        if clipped and self.outside == REFUSE:
            raise ValueError(
                f"reward must be in [{low:g}, {high:g}] for reward={self.text!r}; got {value!r}. "
                "Give reward a wider range, or outside='clip'."
            )
        return self._model_value(held), clipped

    def all_taken(self, values: Floats) -> Floats:
        """Map an array of values, NaN where it is NaN."""
        flat = [math.nan if math.isnan(v) else self.taken(v)[0] for v in values.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(values.shape)

    def worth(self, means: Floats) -> Floats:
        """Means of the model in the units of the values; of a cost with a minus."""
        return self.level + self.unit * means

    def values(self, means: Floats) -> Floats:
        """Means of the model as values."""
        return self.sign * self.worth(means)

    def shown(self, table: Floats) -> Floats:
        """Means, widths and scores of a decision in the units of the values."""
        means, widths = self.worth(table[0]), self.unit * table[1]
        return np.stack([means, widths, means + widths])


def reward(
    text: Any, *, outside: str | None, linear: bool, any_number: bool, name: str = "this policy"
) -> Reward:
    """A reward from its text.

    linear      the model is the identity, whatever the text would suggest
    any_number  values may be without a range

    >>> reward("cost:0..500", outside=None, linear=True, any_number=False).taken(125.0)
    (0.75, False)
    """
    if not isinstance(text, str):
        raise ValueError(f"reward must be one of {_FORMS}; got {text!r}")
    handling = CLIP if outside is None else checks.choice("outside", outside, OUTSIDE)
    kind, _, rest = text.partition(":")
    if kind not in _KINDS or (rest == "" and ":" in text):
        meant = "" if kind in _KINDS else checks.perhaps(kind, _KINDS)
        raise ValueError(f"reward must be one of {_FORMS}; got {text!r}{meant}")
    model, limits = _suggested(kind, text, rest)
    if not rest and kind != "click" and not any_number:
        example = "count:20" if kind == "count" else f"{kind}:0..500"
        raise ValueError(
            f"reward must have a range for {name}, whose confidence rests on the largest reward: "
            f"give one as in {example!r}, or use auto; got {text!r}"
        )
    sign = -1.0 if kind == "cost" else 1.0
    level, unit = 0.0, 1.0
    if model.linear or linear:
        model = links.link("identity")
    if model.linear and math.isfinite(limits.high):
        level, unit = min(sign * limits.low, sign * limits.high), limits.high - limits.low
    elif kind == "rating":
        level = limits.low
    return Reward(text, handling, model, limits, sign, level, unit)


def _suggested(kind: str, text: str, rest: str) -> tuple[links.Link, Range]:
    """The model that suits a kind of reward, and its range."""
    if kind == "click":
        if rest:
            raise ValueError(
                f"reward must be 'click' without a range, or as in 'rating:1..5'; got {text!r}"
            )
        return links.link("logistic"), Range(0.0, 1.0)
    if kind == "count":
        most = _number(text, rest) if rest else _LARGEST_COUNT
        if not 0.0 < most <= _LARGEST_COUNT:
            raise ValueError(
                f"reward must be a count of at most {_LARGEST_COUNT:g}, as in 'count:20'; "
                f"got {text!r}"
            )
        return links.link("poisson", m=most), Range(0.0, most)
    if kind != "rating":
        limits = _range(text, rest) if rest else Range(-math.inf, math.inf)
        return links.link("identity"), limits
    low, high = _range(text, rest)
    if low != math.floor(low) or high != math.floor(high):
        raise ValueError(
            f"reward must be a rating between whole numbers: give 'amount:{rest}' for any others, "
            f"or count half grades; got {text!r}"
        )
    return links.link("binomial", m=high - low), Range(low, high)


def _range(text: str, rest: str) -> Range:
    found = _RANGE.fullmatch(rest)
    if found is None:
        raise ValueError(
            f"reward must have a range LOW..HIGH, as in 'rating:1..5' or 'amount:0..500'; "
            f"got {text!r}"
        )
    low, high = _number(text, found["low"]), _number(text, found["high"])
    if not low < high:
        raise ValueError(f"reward must have a range that ends above its start; got {text!r}")
    return Range(low, high)


def _number(text: str, part: str) -> float:
    try:
        value = float(part)
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:
        raise ValueError(
            f"reward must have numbers for its limits, as in 'amount:0..500'; got {text!r}"
        )
    return value
