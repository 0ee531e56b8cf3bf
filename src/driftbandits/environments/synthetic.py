"""Worlds that draw rewards from a known model, so that regret is exact.

Every round offers `arms` actions drawn uniformly in the ball of radius `radius`; the reward of
action a is drawn with mean mu(a . theta_t). The worlds differ only in the path that theta_t takes.

What the reward models mean here:

- logistic: 0 or 1; binomial with m: ratings 0..m; both with mean m sigma(a . theta).
- poisson: counts with mean exp(a . theta). Counts above m are recorded as m, and `means` does not
  know it: choose m well above exp(norm * radius).
- identity: rewards 0 or m with mean `centre` + a . theta, where `centre` is m/2 and theta is scaled
  so that the mean stays in [0, m]. A linear policy must be told this centre or given an intercept.

`base_rate` makes good rewards rare: the last feature of every action is then a constant, and
theta's last coordinate is set so that an action with nothing else has this mean (as a share of m
for logistic, binomial and identity, a count for poisson). Actions (u, radius) are divided by
sqrt(2), so `radius` still bounds them. The identity model then needs no centre: it is 0. With
`constant_feature` false the base rate is there and the feature is not: the centre is what theta's
last coordinate would have added.

`one_hot` arms have no features but their names, and are the same in every round. `units` give the
features and rewards of a world in other units: what a policy sees changes, what it can earn does
not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.core import links
from driftbandits.environments.trace import Trace, change_rounds, hold

ARM_SET_CYCLES = 4
"""The number of times that a varying arm set shrinks and grows back within a run."""


@dataclass(frozen=True, kw_only=True)
class Units:
    """The units in which the actions and rewards of a trace are given.

    A trace is drawn first and converted afterwards, so a world and the same world in other units
    have the same draws, the same means and the same best arms.

    condition     a symmetric matrix of this condition number mixes the features: its eigenvalues
                  lie between 1 and 1/condition, equally far apart in their logarithms, its
                  eigenvectors are drawn for each run
    scale         what each feature is multiplied with, after that
    shift         what is added to each feature, at last; the parameter then needs a constant that
                  no feature stands for, so the trace has no theta
    reward_shift  what is added to every reward and mean
    """

    condition: float = 1.0
    scale: tuple[float, ...] | None = None
    shift: tuple[float, ...] | None = None
    reward_shift: float = 0.0

    def __post_init__(self) -> None:
        hold(self, condition=checks.number("units.condition", self.condition, at_least=1))
        hold(self, reward_shift=checks.number("units.reward_shift", self.reward_shift))
        for name in ("scale", "shift"):
            if (given := getattr(self, name)) is not None:
                hold(self, **{name: tuple(checks.array(f"units.{name}", given, ndim=1).tolist())})
        if self.scale is not None and 0.0 in self.scale:
            raise ValueError(f"units.scale must not have a 0; got {self.scale}")

    def convert(self, trace: Trace, rng: np.random.Generator) -> Trace:
        """Return the trace in these units. Only a condition above 1 draws from `rng`."""
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
        """Return a bound on the coordinates of actions that were no longer than `length`."""
        scale = 1.0 if self.scale is None else float(np.abs(self.scale).max())
        shift = 0.0 if self.shift is None else float(np.abs(self.shift).max())
        return length * scale + shift


def as_units(given: Any, dim: int) -> Units:
    """Return units for `dim` features, from `Units` or a table of their options."""
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
    """Draw a symmetric matrix with this condition number and norm 1; return it and its inverse."""
    vectors, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    values = condition ** -np.linspace(0.0, 1.0, dim)
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """The base of the synthetic worlds. A world adds `_path`: how theta moves.

    horizon      rounds
    dim          features of an action, with the constant one of `base_rate`; 2 unless given
    arms         actions offered in a round
    link, m      the reward model, as in `links.link`
    norm         length of theta without its constant part; 1 unless given
    radius       no action is longer
    base_rate    mean reward of an action without features; None: no constant feature
    fewest_arms  the number of available arms swings between this and `arms`; None: always all
    one_hot      action k is coordinate k alone, in every round; `dim` is then `arms`
    first_scale  what the actions of the first round are multiplied with; 0: all are zero
    constant_feature  whether the constant of `base_rate` is a feature
    units        a table of `Units`
    """

    horizon: int = 6000
    dim: int = field(default=None)  # type: ignore[assignment]  # an int once constructed
    arms: int = 6
    link: str = "logistic"
    m: float = field(default=None)  # type: ignore[assignment]  # a float once constructed
    norm: float | None = None
    radius: float = 1.0
    base_rate: float | None = None
    fewest_arms: int | None = None
    one_hot: bool = False
    first_scale: float = 1.0
    constant_feature: bool = True
    units: Units = field(default_factory=Units)

    def __post_init__(self) -> None:
        hold(self, horizon=checks.integer("horizon", self.horizon, least=1))
        hold(self, arms=checks.integer("arms", self.arms, least=1))
        hold(self, one_hot=checks.flag("one_hot", self.one_hot))
        hold(self, first_scale=checks.number("first_scale", self.first_scale))
        hold(self, constant_feature=checks.flag("constant_feature", self.constant_feature))
        if not self.constant_feature and self.base_rate is None:
            raise ValueError("constant_feature must be true where there is no base_rate; got False")
        dim = unless_given(self.dim, self.arms if self.one_hot else self._natural_dim())
        hold(self, dim=checks.integer("dim", dim, least=2 if self._has_constant else 1))
        if self.one_hot and (self.dim != self.arms or self._has_constant):
            raise ValueError(
                f"dim must be that of the arms, {self.arms}, and no feature constant, for one_hot "
                f"actions; got dim={self.dim}, base_rate={self.base_rate}"
            )
        hold(self, units=as_units(self.units, self.dim))
        hold(self, m=links.link(self.link, m=self.m).m)
        if self.norm is not None:
            hold(self, norm=checks.number("norm", self.norm, above=0))
        hold(self, radius=checks.number("radius", self.radius, above=0))
        if self.base_rate is not None:
            hold(self, base_rate=checks.number("base_rate", self.base_rate, above=0))
            if self.link != "poisson" and self.base_rate >= 1:
                raise ValueError(
                    f"base_rate must be a share between 0 and 1 for the {self.link} model; "
                    f"got {self.base_rate!r}"
                )
            if self.link == "poisson" and self.base_rate >= self.m:
                raise ValueError(f"base_rate must be below m={self.m:g}; got {self.base_rate!r}")
        if self.fewest_arms is not None:
            fewest = checks.integer("fewest_arms", self.fewest_arms, least=1, most=self.arms)
            hold(self, fewest_arms=fewest)

    def draw(self, rng: np.random.Generator) -> Trace:
        checks.generator("rng", rng)
        free_theta, changes = self._path(rng)
        theta = self._with_constant(free_theta)
        actions = self._actions(rng)
        z = self.centre + np.einsum("tkd,td->tk", actions, theta)
        if self.link == "identity":
            z = np.clip(z, 0.0, self.m)  # beyond the ends by rounding, or for the first actions
        model = links.link(self.link, m=self.m)
        trace = Trace(
            actions=actions,
            rewards=model.draw(rng, z),
            means=model.mean(z),
            available=self._available(rng),
            theta=theta,
            changes=changes,
        )
        return self.units.convert(trace, rng)

    @property
    def centre(self) -> float:
        """The mean reward is mu(centre + a . theta), in the units of the world's own."""
        if self.base_rate is None:
            return self.m / 2 if self.link == "identity" else 0.0
        return 0.0 if self.constant_feature else self._constant_part(self.base_rate)

    @property
    def action_bound(self) -> float:
        """No coordinate of an action is larger."""
        return self.units.bound(self.radius * max(1.0, abs(self.first_scale)))

    @property
    def _has_constant(self) -> bool:
        return self.base_rate is not None and self.constant_feature

    @property
    def _free_dim(self) -> int:
        """Features that are drawn: all but the constant one."""
        return self.dim - self._has_constant

    def _natural_dim(self) -> int:
        return 2

    def _path(self, rng: np.random.Generator) -> tuple[NDArray[np.float64], tuple[int, ...]]:
        """theta_t without its constant part (T, free_dim), and the rounds at which it jumps."""
        raise NotImplementedError

    def _random_parameters(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """`count` parameters of length `norm`, uniform in direction."""
        return (1.0 if self.norm is None else self.norm) * directions(rng, (count, self._free_dim))

    def _actions(self, rng: np.random.Generator) -> NDArray[np.float64]:
        shape = (self.horizon, self.arms, self._free_dim)
        if self.one_hot:
            actions = np.tile(self.radius * np.eye(self.arms), (self.horizon, 1, 1))
        else:
            length = self.radius * rng.random(shape[:2]) ** (1.0 / self._free_dim)
            actions = directions(rng, shape)
            actions *= length[:, :, None]
        if self._has_constant:
            constant = np.full((*shape[:2], 1), self.radius)
            actions = np.concatenate([actions, constant], axis=2) / math.sqrt(2.0)
        actions[0] *= self.first_scale
        return actions

    def _with_constant(self, free: NDArray[np.float64]) -> NDArray[np.float64]:
        """theta as `actions` meets it: scaled into range, and with its constant coordinate."""
        if self.link == "identity":
            share = 0.5 if self.base_rate is None else min(self.base_rate, 1.0 - self.base_rate)
            largest = self.radius * float(np.linalg.norm(free, axis=1).max())
            free = free * (share * self.m / max(1.0, largest))
        if self.base_rate is None or not self.constant_feature:
            return free
        constant = np.full((self.horizon, 1), self._constant_part(self.base_rate) / self.radius)
        return np.concatenate([free, constant], axis=1) * math.sqrt(2.0)

    def _constant_part(self, base_rate: float) -> float:
        if self.link == "poisson":
            return math.log(base_rate)
        if self.link == "identity":
            return base_rate * self.m
        return math.log(base_rate / (1.0 - base_rate))

    def _available(self, rng: np.random.Generator) -> NDArray[np.bool_] | None:
        """A cosine between all arms and the fewest; which arms remain is random every round."""
        if self.fewest_arms is None:
            return None
        phase = 2.0 * np.pi * ARM_SET_CYCLES * np.arange(self.horizon) / self.horizon
        size = self.fewest_arms + (self.arms - self.fewest_arms) * (1.0 + np.cos(phase)) / 2.0
        rank = rng.permuted(np.tile(np.arange(self.arms), (self.horizon, 1)), axis=1)
        mask: NDArray[np.bool_] = rank < np.rint(size)[:, None]
        return mask


@dataclass(frozen=True, kw_only=True)
class Stepwise(Synthetic):
    """The base of the worlds in which theta stays the same between jumps.

    parameters  one for each stretch between jumps; None: drawn for each run. `norm`, if given,
                rescales them
    """

    parameters: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.parameters is not None:  # as tuples, so that a world stays plain data
            rows = checks.array("parameters", self.parameters, ndim=2).tolist()
            hold(self, parameters=tuple(tuple(row) for row in rows))
        super().__post_init__()

    def _natural_dim(self) -> int:
        return 2 if self.parameters is None else len(self.parameters[0]) + self._has_constant

    def _check_parameters(self, count: int, why: str) -> None:
        """Refuse parameters that are not `count` vectors of as many numbers as features."""
        rows = self.parameters
        if rows is None:
            return
        if len(rows[0]) != self._free_dim:
            raise ValueError(
                f"parameters must have {self._free_dim} coordinates (dim, less the constant one of "
                f"base_rate); got {len(rows[0])}"
            )
        if self.norm is not None and not all(any(row) for row in rows):
            raise ValueError(
                "parameters must not be zero when norm is given: they have no direction"
            )
        if len(rows) != count:
            raise ValueError(f"parameters must be {count}, {why}; got {len(rows)}")

    def _steps(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """The given parameters, or `count` drawn ones."""
        if self.parameters is None:
            return self._random_parameters(rng, count)
        rows = np.array(self.parameters)
        if self.norm is None:
            return rows
        scaled: NDArray[np.float64] = self.norm * rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return scaled


@dataclass(frozen=True, kw_only=True)
class Stationary(Stepwise):
    """One parameter for the whole run: the one given, or one drawn for each run.

    >>> trace = Stationary(horizon=100, parameters=[[0.5, 0.0]]).draw(np.random.default_rng(0))
    >>> trace.theta[99].tolist(), trace.changes
    ([0.5, 0.0], ())
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_parameters(1, "since nothing changes")

    def _path(self, rng: np.random.Generator) -> tuple[NDArray[np.float64], tuple[int, ...]]:
        return np.repeat(self._steps(rng, 1), self.horizon, axis=0), ()


@dataclass(frozen=True, kw_only=True)
class Abrupt(Stepwise):
    """theta jumps at change points.

    changes     the rounds at which a new parameter takes effect, or how many: then the rounds are
                drawn for each run, uniformly
    coordinate  only this coordinate of a drawn parameter changes: it carries half of the squared
                norm and flips its sign

    >>> world = Abrupt(horizon=100, parameters=[[1, 0], [0, 1]], changes=[51])
    >>> trace = world.draw(np.random.default_rng(0))
    >>> trace.theta[49].tolist(), trace.theta[50].tolist()
    ([1.0, 0.0], [0.0, 1.0])
    """

    changes: int | tuple[int, ...] = 3
    coordinate: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.changes, (int, np.integer)):
            count = checks.integer("changes", self.changes, least=0, most=self.horizon - 1)
            hold(self, changes=count)
        else:
            hold(self, changes=change_rounds(self.changes, horizon=self.horizon))
            count = len(self.changes)
        self._check_parameters(count + 1, "one more than the changes")
        if self.coordinate is not None:
            if self.parameters is not None:
                raise ValueError("coordinate must be left out when parameters are given")
            if self._free_dim < 2:
                raise ValueError(
                    f"coordinate needs at least 2 drawn features; got {self._free_dim}"
                )
            most = self._free_dim - 1
            hold(self, coordinate=checks.integer("coordinate", self.coordinate, least=0, most=most))

    def _path(self, rng: np.random.Generator) -> tuple[NDArray[np.float64], tuple[int, ...]]:
        if isinstance(self.changes, int):
            later = rng.choice(self.horizon - 1, size=self.changes, replace=False)
            changes = tuple(int(offset) + 2 for offset in np.sort(later))
        else:
            changes = self.changes
        if self.coordinate is None:
            rows = self._steps(rng, len(changes) + 1)
        else:
            rows = self._flipping_coordinate(rng, len(changes) + 1, self.coordinate)
        segment = np.searchsorted(changes, np.arange(1, self.horizon + 1), side="right")
        return rows[segment], changes

    def _flipping_coordinate(
        self, rng: np.random.Generator, count: int, coordinate: int
    ) -> NDArray[np.float64]:
        norm = 1.0 if self.norm is None else self.norm
        others = directions(rng, (self._free_dim - 1,))
        row = np.insert(others, coordinate, 1.0) * norm / math.sqrt(2.0)
        rows = np.tile(row, (count, 1))
        rows[1::2, coordinate] *= -1.0
        return rows


def abrupt2d(
    *,
    horizon: int = 6000,
    arms: int = 6,
    link: str = "logistic",
    m: float | None = None,
    norm: float = 1.0,
) -> Abrupt:
    """The paper's simulated world: theta is (1,0), (-1,0), (0,1), (0,-1), new at 1001, 2001, 3001.

    Another `horizon` moves the changes in proportion: they stay at one, two and three sixths.
    """
    checks.integer("horizon", horizon, least=6)
    return Abrupt(
        horizon=horizon,
        arms=arms,
        link=link,
        m=m,  # type: ignore[arg-type]  # None: the model's own
        norm=norm,
        parameters=((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)),
        changes=tuple(horizon * sixths // 6 + 1 for sixths in (1, 2, 3)),
    )


@dataclass(frozen=True, kw_only=True)
class Drift(Synthetic):
    """theta turns at a constant `speed`, in radians a round, in a plane drawn for each run."""

    speed: float = 0.002

    def __post_init__(self) -> None:
        super().__post_init__()
        hold(self, speed=checks.number("speed", self.speed, above=0))
        if self._free_dim < 2:
            raise ValueError(
                f"dim must leave at least 2 drawn features to turn in; got {self._free_dim}"
            )

    def _path(self, rng: np.random.Generator) -> tuple[NDArray[np.float64], tuple[int, ...]]:
        start, other = self._random_parameters(rng, 2)
        across = other - start * (other @ start) / (start @ start)
        across *= np.linalg.norm(start) / np.linalg.norm(across)
        angle = self.speed * np.arange(self.horizon)
        return np.outer(np.cos(angle), start) + np.outer(np.sin(angle), across), ()


@dataclass(frozen=True, kw_only=True)
class Seasonal(Stepwise):
    """theta goes through `seasons` parameters in turn and comes back to the first every `period`.

    period   rounds of a whole cycle; a third of the horizon unless given
    seasons  parameters in a cycle, equally long; 4, or as many as `parameters`
    """

    period: int = field(default=None)  # type: ignore[assignment]  # an int once constructed
    seasons: int = field(default=None)  # type: ignore[assignment]  # an int once constructed

    def __post_init__(self) -> None:
        super().__post_init__()
        seasons = unless_given(self.seasons, 4 if self.parameters is None else len(self.parameters))
        hold(self, seasons=checks.integer("seasons", seasons, least=2))
        period = unless_given(self.period, max(self.horizon // 3, self.seasons))
        hold(self, period=checks.integer("period", period, least=self.seasons))
        self._check_parameters(self.seasons, "as many as the seasons")

    def _path(self, rng: np.random.Generator) -> tuple[NDArray[np.float64], tuple[int, ...]]:
        season = (np.arange(self.horizon) % self.period) * self.seasons // self.period
        changes = np.flatnonzero(np.diff(season)) + 2
        return self._steps(rng, self.seasons)[season], tuple(int(change) for change in changes)


def unless_given(value: Any, default: int) -> Any:
    """`default` for a field that depends on others and was left out."""
    return default if value is None else value


def directions(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Vectors along the last axis, uniform on the unit sphere."""
    normal = rng.standard_normal(shape)
    unit: NDArray[np.float64] = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    return unit
