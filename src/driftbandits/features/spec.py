"""Features: how a context and an arm become a vector, as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from driftbandits import checks
from driftbandits.features.columns import COLUMNS, Kind, is_missing, kind_of
from driftbandits.features.coordinates import UNLIMITED, Coordinates
from driftbandits.features.inputs import ID, Record, arm_rows, check_columns, records_of

ARM, EVERY = "arm", "*"
"""In a cross: the arm by its id, and every column of the context."""
EXTRA = REFUSE, IGNORE = "refuse", "ignore"
_LEAST_LIMIT = 16
_MOST_LIMIT = 4096
_LONGEST_NAME = 256


@dataclass(frozen=True)
class Features:
    """A recipe by which a context and an arm become a vector.

    context, arm   the kind of each column, see `driftbandits.features.KINDS`; the arm's column
                   `id` is its id
    cross          pairs of columns whose products count as well; ("arm", "*") gives every arm
                   coefficients of its own: "arm" is the arm by its id, "*" all of the context
    extra          what to do with a column that is not named: "refuse" it, "ignore" it, or a list:
                   ignore those that it names and refuse others
    limit          the most coordinates in all; what comes later shares some of them
    levels         the most coordinates of one column or cross, likewise
    fitted         what `fit` has found

    >>> features = Features(context={"age": "number"}, arm={"kind": "category"})
    >>> Features.from_dict(features.to_dict()) == features
    True
    """

    context: Mapping[str, str] = field(default_factory=dict)
    arm: Mapping[str, str] = field(default_factory=dict)
    cross: tuple[tuple[str, str], ...] = ()
    extra: str | tuple[str, ...] = REFUSE
    limit: int = 512
    levels: int = 200
    fitted: Mapping[str, Any] | None = None
    reasons: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        def hold(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        hold("context", _columns("context", self.context))
        hold("arm", _columns("arm", self.arm))
        if not self.context and not self.arm:
            raise ValueError("features must name at least one column of the context or of the arm")
        if both := self.context.keys() & self.arm.keys():
            raise ValueError(
                f"the columns of context and arm must differ; got {min(both)!r} in both"
            )
        if ARM in self.context or ARM in self.arm:
            raise ValueError(f"column {ARM!r} must have another name, as an arm's id has this one")
        if self.arm.get(ID, "category") != "category" or ID in self.context:
            raise ValueError("column 'id' is the id of the arm, which is a category of the arm")
        if isinstance(self.cross, (str, bytes, Mapping)) or not isinstance(self.cross, Iterable):
            raise ValueError(f"cross must be a list of pairs of columns; got {self.cross!r}")
        hold("cross", tuple(map(self._checked_pair, self.cross)))
        hold("extra", _extra(self.extra))
        hold("limit", checks.integer("limit", self.limit, least=_LEAST_LIMIT, most=_MOST_LIMIT))
        hold("levels", checks.integer("levels", self.levels, least=1, most=_MOST_LIMIT))
        if self.fitted is not None:
            hold("fitted", self._checked_fitted())
        elif 2 * self.least_dim > self.limit:
            # Columns that need coordinates from the start leave half of the limit to levels.
            raise ValueError(
                f"limit must be at least {2 * self.least_dim} for these columns; got {self.limit}"
            )

    def __hash__(self) -> int:
        return hash(self.to_json())

    def _checked_pair(self, pair: Any) -> tuple[str, str]:
        known = (*self.context, *self.arm, ARM, EVERY)
        if isinstance(pair, (str, bytes)) or not isinstance(pair, Iterable):
            raise ValueError(f"cross must be a list of pairs of columns; got {pair!r}")
        names = list(pair)
        if len(names) != 2 or names[0] == names[1]:
            raise ValueError(f"cross must hold pairs of two different columns; got {names!r}")
        for name in names:
            if name not in known:
                raise ValueError(
                    f"cross must name columns, {ARM!r} or {EVERY!r}; got {name!r}"
                    f"{checks.perhaps(str(name), known)}"
                )
        if EVERY in names:
            names.sort(key=lambda name: name == EVERY)  # the star comes last
            if names[0] in self.context:
                raise ValueError(
                    f"cross with {EVERY!r}, every column of the context, must name a column of "
                    f"the arm or {ARM!r}; got {names[0]!r}"
                )
        return names[0], names[1]

    def _checked_fitted(self) -> dict[str, dict[str, Any]]:
        """Check the results of `fit` for each column, as a file or a request may hold them."""
        if not isinstance(self.fitted, Mapping):
            raise ValueError(
                f"fitted must be what Features.fit has made; got {checks.brief(self.fitted)}"
            )
        checked = {}
        for column, kind in self.kinds().items():
            found, wanted = self.fitted.get(column), COLUMNS[kind.name].FITTED
            if not isinstance(found, Mapping) or not all(
                name in found and is_so(found[name]) for name, is_so in wanted.items()
            ):
                raise ValueError(
                    f"fitted must have {', '.join(wanted) or 'a table'} for column {column!r}, as "
                    f"Features.fit makes it; got {checks.brief(found)}"
                )
            checked[column] = {name: found[name] for name in wanted}
        return checked

    @property
    def least_dim(self) -> int:
        """The number of coordinates before any level has appeared."""
        book = Coordinates(limit=UNLIMITED, levels=UNLIMITED)
        for column, kind in self.kinds().items():
            COLUMNS[kind.name](column, kind, book, None)
        return len(book)

    # -- looking ---------------------------------------------------------------------------------

    def kinds(self) -> dict[str, Kind]:
        """Every column's kind, those of the context first; the id of an arm is `arm`."""
        known = {name: kind_of(name, text) for name, text in self.context.items()}
        known.update((name, kind_of(name, text)) for name, text in self.arm.items() if name != ID)
        if ID in self.arm or any(ARM in pair for pair in self.cross):
            known[ARM] = Kind("category")
        return known

    @property
    def is_fitted(self) -> bool:
        return self.fitted is not None

    @property
    def dim(self) -> int | None:
        """The number of coordinates of a vector; None where levels may still appear."""
        from driftbandits.features.encoding import Encoding

        return len(Encoding(self).book) if self.is_fitted else None

    @property
    def L(self) -> float | None:
        """The most a vector can be long; None where nothing was fitted."""
        return 1.0 if self.is_fitted else None

    def __str__(self) -> str:
        rows = [
            (where, name, f"{name:<16} {kind:<12}")
            for where, columns in (("context", self.context), ("arm", self.arm))
            for name, kind in columns.items()
        ]
        crosses = [" x ".join(pair) for pair in self.cross]
        rows += [("cross", name, f"{name:<29}") for name in crosses]
        rows += [("left out", name, f"{name:<29}") for name in self.left_out]
        lines = [f"{where:<8} {row} {self.reasons.get(name, '')}" for where, name, row in rows]
        if self.is_fitted:
            lines.append(f"fitted: {self.dim} coordinates, of length at most L = 1")
        return "\n".join(line.rstrip() for line in lines)

    @property
    def crossed(self) -> bool:
        """The context can change which arm is chosen: a cross has a column of each."""
        return any(
            EVERY in pair or (pair[0] in self.context) != (pair[1] in self.context)
            for pair in self.cross
        )

    @property
    def ignored(self) -> tuple[str, ...]:
        """The columns that are ignored by name."""
        return () if isinstance(self.extra, str) else self.extra

    @property
    def left_out(self) -> dict[str, str]:
        """The columns and crosses that a guess did not take, with the reasons."""
        taken = {*self.context, *self.arm, *(" x ".join(pair) for pair in self.cross)}
        return {name: reason for name, reason in self.reasons.items() if name not in taken}

    # -- keeping ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON and TOML; what is as by default is left out."""
        plain: dict[str, Any] = {"context": dict(self.context), "arm": dict(self.arm)}
        if self.cross:
            plain["cross"] = [list(pair) for pair in self.cross]
        for name in ("extra", "limit", "levels"):
            if getattr(self, name) != self.__dataclass_fields__[name].default:
                value = getattr(self, name)
                plain[name] = list(value) if isinstance(value, tuple) else value
        if self.fitted is not None:
            plain["fitted"] = self.fitted
        return plain

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Features from what `to_dict` gave."""
        if not isinstance(plain, Mapping):
            raise ValueError(f"features must be a table; got {checks.brief(plain)}")
        known = [name for name in cls.__dataclass_fields__ if name != "reasons"]
        for name in plain:
            if name not in known:
                raise ValueError(
                    f"features may have {', '.join(known)}; got {name!r}"
                    f"{checks.perhaps(str(name), known)}"
                )
        return cls(**plain)

    # -- making ----------------------------------------------------------------------------------

    @classmethod
    def guess(
        cls,
        frame: Any,
        arm: Any = None,
        *,
        leave_out: Iterable[str] = (),
        keep: Iterable[str] = (),
    ) -> Features:
        """Features for a table: a frame of pandas, polars or Arrow, or a list of dicts.

        `arm` is the table of the arms, a list of their ids, or the names of the arm's columns in
        the frame. `print` shows the reasons. Columns that are named like an outcome (clicked,
        reward, revenue, ...) or a propensity, or whose values are the ids of the arms, are left out
        unless they are in `keep`; list others that are not known before the decision in
        `leave_out`. The agent ignores the columns that were left out.
        """
        from driftbandits.features.guessing import guess

        return guess(frame, arm, leave_out=leave_out, keep=keep)

    def fit(self, frame: Any, arm: Any = None) -> Features:
        """Freeze levels and scales as a table has them, so that no vector is longer than L = 1.

        `frame` holds the columns of the context, and those of the arm unless `arm` is a table of
        the arms.
        """
        of_arm = [name for name in self.arm if name != ID]
        if ARM in self.kinds():
            of_arm.append(ID)
        check_columns("frame", frame, self.context)
        contexts = records_of(frame)
        arms = contexts if arm is None else arm_rows(arm)
        check_columns("frame" if arm is None else "arm", frame if arm is None else arm, of_arm)
        fitted = {}
        for name, kind in self.kinds().items():
            rows = contexts if name in self.context else arms
            values = _known_values(rows, ID if name == ARM else name)
            fitted[name] = COLUMNS[kind.name].fit(name, kind, values)
        made = replace(self, fitted=fitted)
        dim = made.dim or 0
        if dim > self.limit:
            raise ValueError(
                f"limit must be at least {dim} for the levels of this table; got {self.limit}. "
                f"{_largest(fitted)}Leave out columns, cross fewer of them, or give a larger limit."
            )
        return made

    def with_columns(self, **changes: Any) -> Features:
        """Return features with other fields, not fitted."""
        return replace(self, **{"fitted": None, **changes})


def _known_values(rows: Iterable[Record], name: str) -> list[Any]:
    """The values of a column that are not missing."""
    known = [value for value in (row.get(name) for row in rows) if not is_missing(value)]
    if not known:
        raise ValueError(f"column {name!r} must have a value in some row to be fitted; got none")
    return known


def features_from(given: Any) -> Features | None:
    """Features as a policy may be given them: as they are, or as plain data."""
    if given is None or isinstance(given, Features):
        return given
    return Features.from_dict(given)


def _columns(label: str, given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{label} must be a dict of columns and their kinds; got {given!r}")
    columns = {}
    for name, kind in given.items():
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or name == EVERY:
            raise ValueError(f"{label} must name its columns by texts; got {checks.brief(name)}")
        kind_of(name, kind)
        columns[name] = kind.strip()
    return columns


def _extra(given: Any) -> str | tuple[str, ...]:
    if isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given):
        return tuple(given)
    return checks.choice("extra", given, EXTRA)


def _largest(fitted: Mapping[str, Mapping[str, Any]]) -> str:
    """A sentence about the column with the most levels."""
    levels = {name: len(found.get("levels", ())) for name, found in fitted.items()}
    name = max(levels, key=lambda name: levels[name])
    return f"Column {name!r} has {levels[name]} levels. " if levels[name] else ""
