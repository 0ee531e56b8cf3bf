"""Features proposed from a table, with the reasons."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from driftbandits import checks
from driftbandits.checks import nearest, perhaps
from driftbandits.features.columns import LONGEST_LEVEL, is_missing
from driftbandits.features.inputs import ID, Record, arm_rows, is_frame, records_of
from driftbandits.features.spec import ARM, EVERY, REFUSE, Features

MOST_LEVELS = 50
"""A whole number with no more different values than a root of the rows, and than this, is a level;
a text with more levels is left out, or taken for words."""
MOST_CROSSED = 192
"""The number of coordinates that crosses may ask for."""
_FEW = 12
_MANY = 100
"""Whole numbers that all differ are ids or times if there are at least so many."""
_SKEWED = 1.5
_CYCLES = {"hour": 24, "weekday": 7, "dayofweek": 7, "day_of_week": 7, "month": 12, "minute": 60}

_OUTCOMES = {"y", "p", "label", "target"}
"""Whole names of outcomes and propensities."""
_OF_OUTCOMES = {
    *("outcome", "reward", "revenue", "profit", "sale", "sold", "bought", "purchase", "purchased"),
    *("click", "clicked", "conversion", "converted", "ordered", "orders"),
    *("read", "dwell", "opened", "watched", "prob", "probability", "propensity", "pscore"),
}
"""Words in the names of outcomes and propensities, in the singular or plural ..."""
_OF_THE_PAST = {
    *("last", "past", "previous", "prev", "prior", "before", "since", "ago", "days", "history"),
    *("lifetime", "avg", "mean", "rate"),
}
"""... unless one of these says that the column tells of earlier visits."""
_LONG_TAILED = ("price", "amount", "cost", "basket", "income", "salary", "revenue", "spend")


class Guess(NamedTuple):
    """The guessed kind of a column; an empty kind leaves it out."""

    kind: str
    reason: str
    coordinates: int


def guess(frame: Any, arm: Any, *, leave_out: Iterable[str], keep: Iterable[str]) -> Features:
    """Features for the rows of a table and the arms."""
    rows = records_of(frame)
    if not rows:
        raise ValueError("frame must have at least one row; got none")
    names = _names(rows)
    chosen_from, of_arm = _arms(arm, rows, names)
    everything = list(dict.fromkeys([*names, *of_arm]))
    leave_out, keep = (
        _known("leave_out", leave_out, everything),
        _known("keep", keep, everything),
    )
    of_context = [name for name in names if chosen_from is not rows or name not in of_arm]
    has_ids = ID in of_arm
    found = {
        name: _guess(name, [row.get(name) for row in where])
        for where, columns in ((rows, of_context), (chosen_from, of_arm))
        for name in columns
        if name != ID and name not in leave_out
    }
    ids_of_arms = {str(row[ID]) for row in chosen_from if ID in row} if has_ids else set()
    unknown = {}
    for name in found.keys() - {*keep}:
        if is_outcome(name):
            unknown[name] = "named like an outcome or a propensity"
        elif _shows_choice(name, found[name], rows, ids_of_arms):
            unknown[name] = "its values are the ids of the arms"
    if unknown:
        left = [name for name in found if name in unknown]
        _warn(
            f"{', '.join(left)} left out of the features: the names are those of outcomes or "
            "propensities, or the values are the ids of the arms, which are not known before a "
            f"decision. Use keep={left} to include them, and leave_out=[...] for other columns "
            "that you know only later."
        )
        found |= {name: Guess("", f"{unknown[name]}; keep includes it", 0) for name in left}
    kinds = {name: one.kind for name, one in found.items() if one.kind}
    context = {name: kinds[name] for name in of_context if name in kinds}
    chosen = {name: kinds[name] for name in of_arm if name in kinds}
    cross, reasons = _crosses(context, chosen, found, has_ids)
    if context and not cross:
        _warn(
            "no column of the context is crossed with the arm, so that the context cannot change "
            "which arm is chosen (except with arms='separate'): give guess the arms with their "
            "'id', or features a cross such as ('arm', '*')."
        )
    reasons |= {name: one.reason for name, one in found.items()}
    left_out = tuple(name for name in everything if name not in {ID, *context, *chosen})
    return Features(context, chosen, tuple(cross), extra=left_out or REFUSE, reasons=reasons)


def _arms(
    arm: Any, rows: Sequence[Record], names: Sequence[str]
) -> tuple[Sequence[Record], list[str]]:
    """The rows that have the columns of the arm, and these columns."""
    if arm is None:
        return rows, []
    if hasattr(arm, "__iter__") and not isinstance(arm, (str, Mapping)) and not is_frame(arm):
        may_name_columns, arm = isinstance(arm, (list, tuple)), list(arm)
        if any(isinstance(one, (float, np.floating)) for one in arm):
            raise ValueError(
                "the ids of arms must be texts or whole numbers; got "
                f"{next(one for one in arm if isinstance(one, (float, np.floating)))!r}. Leave out "
                "rows without an arm and convert the others: log.shown.dropna().astype(int)"
            )
        if all(isinstance(one, (str, int, np.integer)) for one in arm):
            ids = list(dict.fromkeys(arm))
            if may_name_columns and _name_columns(ids, names, rows):
                return rows, _known("arm", ids, names)
            arm = [{ID: one} for one in ids]
    table = arm_rows(arm)
    return table, _names(table)


def _name_columns(listed: Sequence[Any], names: Sequence[str], rows: Sequence[Record]) -> bool:
    """True if a list holds names of columns; ids of arms are the values of a column, or unlike."""
    known = {str(one) for one in listed}
    if len(known) > 1 and any(known <= {str(row.get(name)) for row in rows} for name in names):
        return False
    return len(known) < 2 or any(nearest(one, names) for one in known)


def _shows_choice(name: str, one: Guess, rows: Sequence[Record], ids: set[str]) -> bool:
    values = {str(row[name]) for row in rows if not is_missing(row.get(name))}
    return len(values) > 1 and values <= ids


def is_outcome(name: str) -> bool:
    """Say whether a column is named like something that is not known before a decision."""
    plain = name.lower()
    words = re.findall(r"[^\W_]+", plain)
    if plain in _OUTCOMES or words[:1] == ["p"]:
        return True
    named = any({word, word.removesuffix("s")} & _OF_OUTCOMES for word in words)
    return named and not _OF_THE_PAST & {*words}


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)


def _known(label: str, given: Iterable[str], names: Sequence[str]) -> list[str]:
    """The columns of a list, all of which there must be."""
    listed = checks.listed(label, given)
    for name in listed:
        if name not in names:
            raise ValueError(
                f"{label} must name columns of the table; got {name!r}{perhaps(str(name), names)}. "
                f"It has {', '.join(map(str, names))}"
            )
    return listed


def _names(rows: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _guess(name: str, values: list[Any]) -> Guess:
    known = [value for value in values if not is_missing(value)]
    one = _of_known(name, known)
    if not one.kind or len(known) == len(values):
        return one
    missing = f"; {1 - len(known) / len(values):.0%} missing"
    return Guess(one.kind, one.reason + missing, one.coordinates + 1)


def _of_known(name: str, known: list[Any]) -> Guess:
    def are(*types: type) -> bool:
        return all(isinstance(value, types) for value in known)

    if not known:
        return Guess("", "has no values", 0)
    if are(bool, np.bool_):
        return Guess("flag", "true or false", 1)
    if are(int, float, np.integer, np.floating):
        return _of_numbers(name, [float(x) for x in known])
    if are(str, int, np.integer, bool, np.bool_):
        return _of_texts([str(x) for x in known])
    if are(list, tuple, np.ndarray, set, frozenset):
        return _of_lists([list(x) for x in known])
    return Guess("", f"values of type {type(known[0]).__name__} have no kind", 0)


def _of_numbers(name: str, numbers: list[float]) -> Guess:
    if not all(map(math.isfinite, numbers)):
        return Guess("", "has infinite values", 0)
    different = len(set(numbers))
    whole = all(x.is_integer() for x in numbers)
    low, high = min(numbers), max(numbers)
    if different == 1:
        return Guess("", f"is always {low:g}", 0)
    period = _CYCLES.get(name.lower())
    if period is not None and low >= 0 and high <= period:
        return Guess(f"cycle:{period}", f"{low:g} to {high:g}, comes round", 2)
    if whole and set(numbers) <= {0.0, 1.0}:
        return Guess("flag", "0 or 1", 1)
    if whole and "id" in name.lower().split("_"):
        few = different <= _FEW
        return Guess("category", f"{different} ids", different) if few else _id_like(different)
    if whole and different == len(numbers) >= _MANY:
        return _id_like(different)
    if low >= 0 and _skewness(numbers) > _SKEWED:
        return Guess("log", f"{low:g} to {high:g} with a long tail", 1)
    if low >= 0 and any(word in _LONG_TAILED for word in name.lower().split("_")):
        return Guess("log", f"{low:g} to {high:g}, long tail, judged by its name", 1)
    return Guess("number", f"{low:g} to {high:g}", 1)


def _id_like(different: int) -> Guess:
    return Guess("", f"{different} different values, as an id or a time has", 0)


def _of_texts(texts: list[str]) -> Guess:
    levels = len(set(texts))
    longest = max(map(len, texts))
    if levels == 1:
        return Guess("", f"is always {texts[0][:20]!r}", 0)
    if all(map(_is_time, texts)):
        return Guess("", "times do not come again: give hour, weekday or month as columns", 0)
    if (levels <= MOST_LEVELS or levels <= 0.1 * len(texts)) and longest <= LONGEST_LEVEL:
        return Guess("category", f"{levels} levels", levels)
    words = sum(len(text.split()) for text in texts) / len(texts)
    if words > 2.0:
        return Guess("text", f"{words:.1f} words in the mean", 32)
    return Guess("", f"{levels} different values in {len(texts)} rows, as an id has", 0)


def _is_time(text: str) -> bool:
    try:
        return "-" in text and bool(datetime.fromisoformat(text.strip()))
    except ValueError:
        return False


def _of_lists(lists: list[list[Any]]) -> Guess:
    sizes = {len(one) for one in lists}
    numbers = all(isinstance(x, (int, float, np.number)) for one in lists for x in one)
    if numbers and len(sizes) == 1 and sizes != {0}:
        size = sizes.pop()
        return Guess(f"vector:{size}", f"lists of {size} numbers", size)
    if all(isinstance(x, (str, int)) for one in lists for x in one):
        levels = len({str(x) for one in lists for x in one})
        return Guess("tags", f"lists of {levels} levels", levels)
    return Guess("", "lists of different things have no kind", 0)


def _crosses(
    context: Mapping[str, str], arm: Mapping[str, str], found: Mapping[str, Guess], has_ids: bool
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """The crosses that let the context change which arm is chosen, with the reasons.

    Levels of the arm are crossed with all of the context, numbers of the arm with its numbers.
    """
    if not context or not (arm or has_ids):
        return [], {}
    if not arm:
        return [(ARM, EVERY)], {f"{ARM} x {EVERY}": "every arm has coefficients of its own"}
    pairs: list[tuple[str, str]] = []
    reasons = {}
    budget = MOST_CROSSED
    wanted = sorted(
        ((a, b) for a in arm for b in context if not _is_number(arm[a]) or _is_number(context[b])),
        key=lambda pair: found[pair[0]].coordinates * found[pair[1]].coordinates,
    )
    for first, second in wanted:
        size = found[first].coordinates * found[second].coordinates
        fits = size <= budget
        if fits:
            budget -= size
            pairs.append((first, second))
        too_many = "" if fits else " would be too many"
        reasons[f"{first} x {second}"] = f"{size} coordinates{too_many}"
    return pairs, reasons


def _is_number(kind: str) -> bool:
    return kind in ("number", "log")


def _skewness(numbers: list[float]) -> float:
    values = np.array(numbers)
    spread = float(values.std())
    return float((((values - values.mean()) / spread) ** 3).mean()) if spread > 0.0 else 0.0
