"""The arguments of a policy, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from driftbandits import checks
from driftbandits.estimator.model import PROJECTIONS
from driftbandits.policies.catalogue import ALIASES, ROWS, policy_names


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


ARMS = SHARED, SEPARATE = "shared", "separate"
"""Whether one model serves all actions, or each arm has its own."""

_positive = partial(checks.number, above=0.0)
_not_negative = partial(checks.number, at_least=0.0)
_within_0_and_1 = partial(checks.number, above=0.0, below=1.0)


def _as_it_is(label: str, value: Any) -> Any:
    """For what `links.link` checks."""
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
}
_MAY_BE_MISSING = (
    "window",
    "discount",
    "horizon",
    "changes",
    "path_length",
    "lam",
    "intercept",
    "false_alarm_rate",
    "tolerance",
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
    if values["intercept"] is None:
        values["intercept"] = values["arms"] == SEPARATE
    return Arguments(**values)
