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
sqrt(2), so `radius` still bounds them. The identity model then needs no centre: it is 0.

`one_hot` arms have no features but their names, and are the same in every round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.core import links
from driftbandits.environments.trace import Trace, change_rounds, check_options, hold, option

Floats = NDArray[np.float64]

ARM_SET_CYCLES = 4
"""The number of times that a varying arm set shrinks and grows back within a run."""


def _rows(label: str, value: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in checks.array(label, value, ndim=2).tolist())


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
    """

    horizon: int = option(6000, checks.integer, least=1)
    dim: int = field(default=None)  # type: ignore[assignment]  # an int once constructed
    arms: int = option(6, checks.integer, least=1)
    link: str = "logistic"
    m: float = field(default=None)  # type: ignore[assignment]  # a float once constructed
    norm: float | None = option(None, checks.number, above=0)
    radius: float = option(1.0, checks.number, above=0)
    base_rate: float | None = option(None, checks.number, above=0)
    fewest_arms: int | None = None
    one_hot: bool = option(False, checks.flag)

    def __post_init__(self) -> None:
        check_options(self)
        has_constant = self.base_rate is not None
        dim = unless_given(self.dim, self.arms if self.one_hot else self._natural_dim())
        hold(self, dim=checks.integer("dim", dim, least=1 + has_constant))
        if self.one_hot and (self.dim != self.arms or has_constant):
            raise ValueError(
                f"dim must be that of the arms, {self.arms}, and no feature constant, for one_hot "
                f"actions; got dim={self.dim}, base_rate={self.base_rate}"
            )
        hold(self, m=links.link(self.link, m=self.m).m)
        most = self.m if self.link == "poisson" else 1.0
        if self.base_rate is not None and self.base_rate >= most:
            raise ValueError(
                f"base_rate must be a share between 0 and 1, or a count below m for the poisson "
                f"model; got {self.base_rate!r}"
            )
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
            z = np.clip(z, 0.0, self.m)  # beyond the ends by rounding
        model = links.link(self.link, m=self.m)
        rewards, means = model.draw(rng, z), model.mean(z)
        available = self._available(rng)
        return Trace(actions, rewards, means, available, theta, changes)

    @property
    def centre(self) -> float:
        """The mean reward is mu(centre + a . theta)."""
        return self.m / 2 if self.link == "identity" and self.base_rate is None else 0.0

    @property
    def action_bound(self) -> float:
        """No coordinate of an action is larger."""
        return self.radius

    @property
    def _free_dim(self) -> int:
        """Features that are drawn: all but the constant one."""
        return self.dim - (self.base_rate is not None)

    def _natural_dim(self) -> int:
        return 2

    def _path(self, rng: np.random.Generator) -> tuple[Floats, tuple[int, ...]]:
        """theta_t without its constant part (T, free_dim), and the rounds at which it jumps."""
        raise NotImplementedError

    def _random_parameters(self, rng: np.random.Generator, count: int) -> Floats:
        """`count` parameters of length `norm`, uniform in direction."""
        return (self.norm or 1.0) * directions(rng, (count, self._free_dim))

    def _actions(self, rng: np.random.Generator) -> Floats:
        rounds = self.horizon, self.arms
        if self.one_hot:
            actions = np.tile(self.radius * np.eye(self.arms), (self.horizon, 1, 1))
        else:
            length = self.radius * rng.random(rounds) ** (1.0 / self._free_dim)
            actions = directions(rng, (*rounds, self._free_dim)) * length[:, :, None]
        if self.base_rate is not None:
            constant = np.full((*rounds, 1), self.radius)
            actions = np.concatenate([actions, constant], axis=2) / math.sqrt(2.0)
        return actions

    def _with_constant(self, free: Floats) -> Floats:
        """theta as `actions` meets it: scaled into range, and with its constant coordinate."""
        if self.link == "identity":
            share = 0.5 if self.base_rate is None else min(self.base_rate, 1.0 - self.base_rate)
            largest = self.radius * float(np.linalg.norm(free, axis=1).max())
            free = free * (share * self.m / max(1.0, largest))
        if self.base_rate is None:
            return free
        if self.link == "poisson":
            z = math.log(self.base_rate)
        elif self.link == "identity":
            z = self.base_rate * self.m
        else:
            z = math.log(self.base_rate / (1.0 - self.base_rate))
        constant = np.full((self.horizon, 1), z / self.radius)
        return np.concatenate([free, constant], axis=1) * math.sqrt(2.0)

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

    parameters: tuple[tuple[float, ...], ...] | None = option(None, _rows)

    def _natural_dim(self) -> int:
        return (
            2 if self.parameters is None else len(self.parameters[0]) + (self.base_rate is not None)
        )

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

    def _steps(self, rng: np.random.Generator, count: int) -> Floats:
        """The given parameters, or `count` drawn ones."""
        if self.parameters is None:
            return self._random_parameters(rng, count)
        rows = np.array(self.parameters)
        if self.norm is not None:
            rows = self.norm * rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


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

    def _path(self, rng: np.random.Generator) -> tuple[Floats, tuple[int, ...]]:
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
                raise ValueError(f"coordinate needs 2 drawn features; got {self._free_dim}")
            most = self._free_dim - 1
            hold(self, coordinate=checks.integer("coordinate", self.coordinate, least=0, most=most))

    def _path(self, rng: np.random.Generator) -> tuple[Floats, tuple[int, ...]]:
        if isinstance(self.changes, int):
            later = rng.choice(self.horizon - 1, size=self.changes, replace=False)
            changes = tuple(int(offset) + 2 for offset in np.sort(later))
        else:
            changes = self.changes
        if self.coordinate is None:
            rows = self._steps(rng, len(changes) + 1)
        else:
            others = directions(rng, (self._free_dim - 1,))
            row = np.insert(others, self.coordinate, 1.0) * (self.norm or 1.0) / math.sqrt(2.0)
            rows = np.tile(row, (len(changes) + 1, 1))
            rows[1::2, self.coordinate] *= -1.0
        segment = np.searchsorted(changes, np.arange(1, self.horizon + 1), side="right")
        return rows[segment], changes


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

    speed: float = option(0.002, checks.number, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._free_dim < 2:
            raise ValueError(
                f"dim must leave at least 2 drawn features to turn in; got {self._free_dim}"
            )

    def _path(self, rng: np.random.Generator) -> tuple[Floats, tuple[int, ...]]:
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

    def _path(self, rng: np.random.Generator) -> tuple[Floats, tuple[int, ...]]:
        season = (np.arange(self.horizon) % self.period) * self.seasons // self.period
        changes = np.flatnonzero(np.diff(season)) + 2
        return self._steps(rng, self.seasons)[season], tuple(int(change) for change in changes)


def unless_given(value: Any, default: int) -> Any:
    """`default` for a field that depends on others and was left out."""
    return default if value is None else value


def directions(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Vectors along the last axis, uniform on the unit sphere."""
    unit: Floats = rng.standard_normal(shape)
    unit /= np.linalg.norm(unit, axis=-1, keepdims=True)
    return unit
