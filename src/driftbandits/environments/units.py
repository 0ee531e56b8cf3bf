"""The same world in other units: what a policy sees changes, what it can earn does not.

A trace is drawn first and told in other units afterwards, so a world and the same world in other
units have the same draws, the same means and the same best arms.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.environments.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Units:
    """How the actions and rewards of a trace are told.

    condition     a symmetric matrix of this condition number mixes the features: its eigenvalues
                  lie between 1 and 1/condition, equally far apart in their logarithms, its
                  eigenvectors are drawn for each run
    scale         what each feature is multiplied with, after that
    shift         what is added to each feature, at last; the parameter then needs a constant that
                  no feature stands for, and the trace does not tell it
    reward_shift  what is added to every reward and mean
    """

    condition: float = 1.0
    scale: tuple[float, ...] | None = None
    shift: tuple[float, ...] | None = None
    reward_shift: float = 0.0

    def __post_init__(self) -> None:
        hold = functools.partial(object.__setattr__, self)
        hold("condition", checks.number("units.condition", self.condition, at_least=1))
        hold("reward_shift", checks.number("units.reward_shift", self.reward_shift))
        for name in ("scale", "shift"):
            if (given := getattr(self, name)) is not None:
                hold(name, tuple(checks.array(f"units.{name}", given, ndim=1).tolist()))
        if self.scale is not None and 0.0 in self.scale:
            raise ValueError(f"units.scale must not have a 0; got {self.scale}")

    def told(self, trace: Trace, rng: np.random.Generator) -> Trace:
        """The trace in these units. Only a condition above 1 draws from `rng`."""
        actions, theta = trace.actions, trace.theta
        if self.condition > 1.0:
            mixed, back = _mixing(rng, trace.dim, self.condition)
            actions = np.ascontiguousarray(actions @ mixed)
            theta = None if theta is None else theta @ back
        if self.scale is not None:
            actions = actions * np.array(self.scale)
            theta = None if theta is None else theta / np.array(self.scale)
        if self.shift is not None:
            actions, theta = actions + np.array(self.shift), None
        return replace(
            trace,
            actions=actions,
            theta=theta,
            rewards=trace.rewards + self.reward_shift,
            means=None if trace.means is None else trace.means + self.reward_shift,
        )

    def bound(self, length: float) -> float:
        """No coordinate of an action that was no longer than `length` is larger."""
        scale = 1.0 if self.scale is None else float(np.abs(self.scale).max())
        shift = 0.0 if self.shift is None else float(np.abs(self.shift).max())
        return length * scale + shift


def as_units(given: Any, dim: int) -> Units:
    """What was given for a world of so many features: units, or a table of their options."""
    if isinstance(given, Mapping):
        allowed = tuple(Units.__dataclass_fields__)
        for key in given:
            if key not in allowed:
                raise ValueError(
                    f"units must be a table of {', '.join(allowed)}; "
                    f"got {key!r}{checks.perhaps(str(key), allowed)}"
                )
        given = Units(**given)
    if not isinstance(given, Units):
        raise ValueError(f"units must be a table, or Units; got {given!r}")
    for name in ("scale", "shift"):
        values = getattr(given, name)
        if values is not None and len(values) != dim:
            raise ValueError(
                f"units.{name} must have {dim} numbers, one for each feature; got {len(values)}"
            )
    return given


def _mixing(
    rng: np.random.Generator, dim: int, condition: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A symmetric matrix with this condition number and largest eigenvalue 1, and its inverse."""
    vectors, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    values = condition ** -np.linspace(0.0, 1.0, dim)
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
