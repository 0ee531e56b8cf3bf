"""The memory and the penalty of a row where the caller leaves them to the rule of its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from driftbandits import theory
from driftbandits.estimator.model import DISCOUNT, EVERYTHING, POOL, SINCE_RESTART, WINDOW
from driftbandits.policies.scoring import WEIGHTED

if TYPE_CHECKING:
    from driftbandits.policies.catalogue import Row


class Setting(NamedTuple):
    """What the rules go by."""

    d: int
    k: float
    c: float
    S: float
    horizon: int | None
    changes: int | None
    path_length: float | None

    @property
    def drift(self) -> float:
        """P_T as given, or the longest path of so many changes; 1 where nothing is known."""
        if self.path_length is not None:
            return float(self.path_length)
        return 1.0 if self.changes is None else 2.0 * self.S * self.changes


FIXED_ARMS_PENALTY = 1e-3
"""Sources of fixed arms have none. This one is a thousandth of a reward."""


def tuned_penalty(row: Row, setting: Setting) -> float:
    """The penalty that the source of a row asks for; 1 where it does not, or not without T."""
    if row.radius == "count":
        return FIXED_ARMS_PENALTY
    if row.radius in ("local", "self-concordant"):
        T = setting.horizon
        return 1.0 if T is None else theory.self_concordant_penalty(dim=setting.d, horizon=T)
    return theory.drift_penalty(dim=setting.d, slope=setting.c) if row.one_matrix else 1.0


def tuned_memory(
    name: str, row: Row, setting: Setting, window: int | None, discount: float | None
) -> tuple[int | None, float | None]:
    """The window or discount that a row works with; the rule of its source where none is given."""
    if row.adaptation == "bandit over windows":
        if setting.horizon is None:
            raise ValueError(f"{name} needs horizon=...: it is what its windows follow from")
        return None, None
    if row.memory == WINDOW:
        return (_window(name, row, setting) if window is None else int(window)), None
    if row.memory == DISCOUNT:
        return None, (_discount(name, row, setting) if discount is None else float(discount))
    if row.memory in (EVERYTHING, SINCE_RESTART, POOL):
        return None, None
    if window is not None and discount is not None:
        raise ValueError(f"give window or discount, not both; got {window!r} and {discount!r}")
    return (
        None if window is None else int(window),
        None if discount is None else float(discount),
    )


def _window(name: str, row: Row, setting: Setting) -> int:
    T = _horizon(name, "window", row, setting)
    if row.score == WEIGHTED:
        told = setting.changes if setting.path_length is None else setting.path_length
        variation = 1.0 if told is None else float(told)
        return theory.restart_batch(arms=setting.d, horizon=T, variation=variation)
    if row.radius == "count":
        return theory.fixed_arms_window(horizon=T, changes=setting.changes)
    if row.periodic:
        return theory.restart_period(dim=setting.d, horizon=T, path_length=setting.drift)
    slope = setting.c if row.radius == "self-concordant" else 1.0
    return theory.tuned_window(dim=setting.d, horizon=T, changes=setting.changes, slope=slope)


def _discount(name: str, row: Row, setting: Setting) -> float:
    T = _horizon(name, "discount", row, setting)
    if row.radius == "count":
        return theory.fixed_arms_discount(horizon=T, changes=setting.changes)
    if row.one_matrix:
        slope = setting.k if row.radius == "local" else setting.k * setting.c
        return theory.drift_discount(
            dim=setting.d, horizon=T, path_length=setting.drift, slope=slope
        )
    slope = setting.c if row.radius == "self-concordant" else 1.0
    return theory.tuned_discount(dim=setting.d, horizon=T, changes=setting.changes, slope=slope)


def _horizon(name: str, label: str, row: Row, setting: Setting) -> int:
    if setting.horizon is None:
        drifts = (row.one_matrix and row.radius != "count") or row.periodic
        helpful = "path_length" if drifts else "changes"
        raise ValueError(
            f"{name} needs {label}=..., or horizon=... (and {helpful}=... if known) to tune it"
        )
    return int(setting.horizon)
