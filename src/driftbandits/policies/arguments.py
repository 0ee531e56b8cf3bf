"""The arguments of a policy, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from driftbandits import checks
from driftbandits.estimator.model import DISCOUNT, POOL, PROJECTIONS, WINDOW
from driftbandits.features import Features, features_from
from driftbandits.policies.catalogue import ALIASES, ROWS, Row, policy_names
from driftbandits.policies.scoring import CONSTANT, GREEDY


class Arguments(NamedTuple):
    """What `policy` was given."""

    name: str
    dim: int
    link: str
    window: int | None
    discount: float | None
    horizon: int | None
    changes: int | None
    path_length: float | None
    lam: float | None
    S: float
    L: float
    m: float | None
    delta: float
    bonus_scale: float
    intercept: bool
    projection: str
    centre: float
    epsilon: float
    too_long: str
    false_alarm_rate: float | None
    tolerance: float | None
    arms: str
    reward: str | None
    outside: str | None
    features: Features | None


ARMS = SHARED, SEPARATE = "shared", "separate"
"""Whether one model serves all actions, or each arm has its own."""

_LEAST_ROOM = 16  # from which on models are computed in the ways for large ones

_positive = partial(checks.number, above=0.0)
_not_negative = partial(checks.number, at_least=0.0)
_within_0_and_1 = partial(checks.number, above=0.0, below=1.0)


def _as_it_is(label: str, value: Any) -> Any:
    """For what `links.link` and `rewards.reward` check."""
    return value


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "name": lambda label, value: checks.choice(label, value, policy_names()),
    "dim": partial(checks.integer, least=1),
    "link": _as_it_is,
    "window": partial(checks.integer, least=1),
    "discount": _within_0_and_1,
    "horizon": partial(checks.integer, least=1),
    "changes": partial(checks.integer, least=0),
    "path_length": _not_negative,
    "lam": _positive,
    "S": _positive,
    "L": _positive,
    "m": _as_it_is,
    "delta": _within_0_and_1,
    "bonus_scale": _not_negative,
    "intercept": checks.flag,
    "projection": partial(checks.choice, allowed=PROJECTIONS),
    "centre": checks.number,
    "epsilon": partial(checks.number, at_least=0.0, at_most=1.0),
    "too_long": partial(checks.choice, allowed=("refuse", "rescale")),
    "false_alarm_rate": _within_0_and_1,
    "tolerance": _positive,
    "arms": partial(checks.choice, allowed=ARMS),
    "reward": _as_it_is,
    "outside": _as_it_is,
    "features": lambda label, value: features_from(value),
}
_MAY_BE_MISSING = (
    "dim",
    "window",
    "discount",
    "horizon",
    "changes",
    "path_length",
    "lam",
    "intercept",
    "false_alarm_rate",
    "tolerance",
    "reward",
    "outside",
    "features",
)


def checked(given: Mapping[str, Any]) -> Arguments:
    """The arguments, each as what it should be; the name of an alias is that of its row."""
    values: dict[str, Any] = {}
    for label, value in given.items():
        missing = value is None and label in _MAY_BE_MISSING
        values[label] = None if missing else _CHECKS[label](label, value)
    values["name"] = ALIASES.get(values["name"], values["name"])
    if values["false_alarm_rate"] is None:
        values["false_alarm_rate"] = ROWS[values["name"]].false_alarm_rate
    has_features = values["features"] is not None
    if values["intercept"] is None:
        believes = ROWS[values["name"]].adaptation == "belief"
        values["intercept"] = believes or has_features or values["arms"] == SEPARATE
    values["dim"] = _dimension(values)
    return Arguments(**values)


def _dimension(values: Mapping[str, Any]) -> int:
    """That of the features, which for those that may grow is the room that they have."""
    dim, features = values["dim"], values["features"]
    if features is None:
        if dim is None:
            raise ValueError("dim must be given, or features=driftbandits.Features(...); got None")
        return int(dim)
    if values["arms"] == SEPARATE and "arm" in features.kinds():
        raise ValueError(
            "features of separate arms must not name the arm, in a cross or as the column 'id': "
            "all coefficients are the arm's own already"
        )
    if features.is_fitted:
        if dim not in (None, features.dim):
            raise ValueError(f"dim must be {features.dim} for these features; got {dim!r}")
        return int(features.dim)
    least = room_for(features.least_dim, features, intercept=values["intercept"])
    return max(least, dim or 0)


def room_for(coordinates: int, features: Features, *, intercept: bool) -> int:
    """The dimension of a model that has room for so many coordinates of these features.

    Models grow in steps, as each is made anew: 16, 24, 32, 48, 64, 96 ... with the intercept.
    """
    wanted, room = coordinates + intercept, _LEAST_ROOM
    while room < wanted:
        room = room * 3 // 2 if room & (room - 1) == 0 else room * 4 // 3
    return max(_LEAST_ROOM - intercept, min(room - intercept, features.limit))


# -- which policy uses what ------------------------------------------------------------------------


def _pooled(row: Row) -> bool:
    return row.memory == POOL


def _informed(row: Row) -> bool:
    return row.score != CONSTANT


def _with_bonus(row: Row) -> bool:
    return row.score not in (CONSTANT, GREEDY)


def _by_count(row: Row) -> bool:
    return row.radius == "count"


def _confident(row: Row) -> bool:
    """An index of counts or a posterior needs no bound on the parameter, and no confidence."""
    return not _pooled(row) and row.radius not in ("count", "posterior")


def _tests_arms(row: Row) -> bool:
    return row.adaptation == "arm tests"


def _window_given(row: Row) -> bool:
    return row.memory in (WINDOW, None) and row.adaptation != "bandit over windows"


USED_BY: Mapping[str, Callable[[Row], bool]] = {
    "link": lambda row: not row.linear,
    "window": _window_given,
    "discount": lambda row: row.memory in (DISCOUNT, None),
    "path_length": lambda row: (
        row.periodic or (row.one_matrix and row.memory == DISCOUNT and not _by_count(row))
    ),
    "horizon": lambda row: row.memory in (WINDOW, DISCOUNT) or _tests_arms(row),
    "changes": lambda row: (
        (row.memory in (WINDOW, DISCOUNT) and row.adaptation == "none") or _tests_arms(row)
    ),
    "lam": _informed,
    "S": lambda row: _informed(row) and _confident(row),
    "L": lambda row: not _pooled(row),
    "delta": lambda row: _with_bonus(row) and _confident(row),
    "bonus_scale": _with_bonus,
    "intercept": _informed,
    "centre": _informed,
    "epsilon": _informed,
    "projection": lambda row: row.projected,
    "too_long": lambda row: not _pooled(row),
    "false_alarm_rate": lambda row: row.false_alarm_rate > 0.0,
}
"""The rows that an argument has an effect on; one that is not listed has it on all."""
OF_ANY_WORLD = ("horizon", "changes", "projection")
"""Accepted by every policy, whether or not it has a use for them."""


def uses(name: str, argument: str) -> bool:
    """Whether a policy has a use for an argument.

    >>> uses("auto", "discount"), uses("D-GLUCB", "discount")
    (False, True)
    """
    row = ROWS[ALIASES.get(name, name)]
    return argument not in USED_BY or USED_BY[argument](row)


def takes(name: str, argument: str) -> bool:
    """Whether a policy may be given an argument.

    One that tunes itself refuses what would tune it. The others are compared with each other, and
    one dictionary may be given to all of them.
    """
    row = ROWS[ALIASES.get(name, name)]
    return uses(name, argument) or argument in OF_ANY_WORLD or not _pooled(row)


def refuse_without_effect(given: Arguments, defaults: Mapping[str, Any]) -> None:
    """Refuse what would be ignored; a value that is the default is none that was given."""
    for argument, value in given._asdict().items():
        if value == defaults.get(argument, value) or takes(given.name, argument):
            continue
        if argument == "false_alarm_rate" and value == ROWS[given.name].false_alarm_rate:
            continue
        raise ValueError(
            f"{argument} has no effect on {given.name} and must not be given; got {value!r}. "
            "`driftbandits policies` shows what each policy uses."
        )
