"""Worlds made of public data sets, which are read from installed packages or the user's own file.

`Paired` and `Counts` offer cases of a table. What a case pays is its outcome, so the means are
unknown and regret is realised regret: the best outcome on offer less the outcome chosen. `fair` and
`randhie` come with statsmodels. The Pima diabetes table may not be redistributed, so it is read
from the user's own copy, or from the package `faraway` where that is installed.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.core import links
from driftbandits.environments.trace import Trace, check_options, hold, option

Floats = NDArray[np.float64]

PIMA_DIGEST = "3e5bd23b2c24c83178bcc3a4649e4339c1a248d5bead9c896b19af974b2cdee5"
"""SHA-256 of the numbers of the well-known table, row by row."""


@dataclass(frozen=True, eq=False)
class Table:
    """Cases (n, d) and what each of them is worth (n,): 0 for a negative case, above 0 otherwise.

    >>> table = Table(features=[[0.0], [2.0], [4.0]], outcome=[0, 1, 1])
    >>> table.actions().round(3).tolist()
    [[-0.775, 0.632], [0.0, 0.632], [0.775, 0.632]]
    """

    features: Floats
    outcome: Floats

    def __post_init__(self) -> None:
        hold(self, features=checks.array("features", self.features, ndim=2))
        hold(self, outcome=checks.array("outcome", self.outcome, ndim=1))
        if len(self.outcome) != len(self.features):
            raise ValueError(
                f"outcome must have one value for each of the {len(self.features)} rows of "
                f"features; got {len(self.outcome)}"
            )
        if self.outcome.min() < 0:
            raise ValueError(f"outcome must not be negative; got {self.outcome.min():g}")
        same = np.flatnonzero(np.ptp(self.features, axis=0) == 0)
        if same.size:
            raise ValueError(
                f"features must vary, to be standardised; column {same[0] + 1} is constant"
            )

    def __repr__(self) -> str:
        rows, columns = self.features.shape
        return f"Table({rows} rows, {columns} features)"

    def actions(self) -> Floats:
        """Return standardised features and a constant (n, d + 1), divided by the longest row."""
        centred = self.features - self.features.mean(axis=0)
        standard = centred / centred.std(axis=0)
        rows = np.column_stack([standard, np.ones(len(standard))])
        scaled: Floats = rows / np.linalg.norm(rows, axis=1).max()
        return scaled


def load_table(name: str, *, path: str | Path | None = None) -> Table:
    """Load a table by name.

    fair     6366 women, 8 features; outcome 1 if there was an affair (statsmodels)
    randhie  20190 person-years, 9 features; outcome: visits to a doctor, a count (statsmodels)
    pima     768 women, 8 features; outcome 1 for diabetes; from `path`, a CSV file in the Kaggle
             form, or without a path from the package faraway
    """
    checks.choice("table", name, ("fair", "pima", "randhie"))
    if name == "pima":
        return _pima(path)
    if path is not None:
        raise ValueError(f"path is only for the table pima; got {path!r} for {name}")
    need = f"The table {name} needs statsmodels"
    data = checks.load(f"statsmodels.datasets.{name}", need, extra="data")
    columns = data.load_pandas().data
    outcome = np.asarray(columns.pop({"fair": "affairs", "randhie": "mdvis"}[name]), np.float64)
    # In `fair` the outcome is a rate; the question asked of it is yes or no.
    worth = (outcome > 0).astype(np.float64) if name == "fair" else outcome
    return Table(features=np.asarray(columns, dtype=np.float64), outcome=worth)


def _pima(path: str | Path | None) -> Table:
    try:
        if path is None:
            data: Any = importlib.import_module("faraway.datasets.pima")
            numbers = np.asarray(data.load(), np.float64)
        else:
            numbers = np.genfromtxt(path, delimiter=",", skip_header=1, encoding="utf-8-sig")
    except ImportError:
        raise ImportError(
            "The pima table needs path=, a file in the Kaggle form, or `pip install faraway`"
        ) from None
    except (OSError, ValueError) as error:
        raise ValueError(f"path must be a readable CSV file; got {str(path)!r}: {error}") from None
    found = hashlib.sha256(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).hexdigest()
    if found != PIMA_DIGEST:
        raise ValueError(
            f"The Pima table must have the well-known 768 rows of 9 numbers; "
            f"{path or 'the installed package faraway'} has other numbers: shape {numbers.shape}, "
            f"digest {found[:12]}, expected {PIMA_DIGEST[:12]}"
        )
    return Table(features=numbers[:, :-1], outcome=numbers[:, -1])


@dataclass(frozen=True, kw_only=True)
class Cases:
    """The base of worlds made of a table. The world carries its rows to the workers.

    table    a name for `load_table`, or a `Table`
    path     the user's file, for the table pima
    horizon  rounds; the world changes after the first half of them
    link, m  the reward model that the outcomes must suit, as in `links.link`; outcomes above m are
             recorded as m, so the logistic model sees counts as none or some
    """

    table: str | Table = "fair"
    path: str | Path | None = None
    horizon: int = option(2000, checks.integer, least=2)
    link: str = "logistic"
    m: float | None = None
    cases: Table = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_options(self)
        hold(self, m=links.link(self.link, m=self.m).m)
        if isinstance(self.table, Table):
            if self.path is not None:
                raise ValueError(f"path is only for the table pima; got {self.path!r}")
            hold(self, cases=self.table)
        else:
            hold(self, cases=load_table(self.table, path=self.path))
        fractional = self._worth() % 1 != 0
        if self.link != "identity" and fractional.any():
            raise ValueError(
                f"table must have whole outcomes for the {self.link} model; "
                f"got {self._worth()[fractional][0]:g}"
            )

    def draw(self, rng: np.random.Generator) -> Trace:
        rows = self._rows(checks.generator("rng", rng))
        actions, rewards = self.cases.actions()[rows], self._worth()[rows]
        switch = self.horizon // 2
        self._change(actions[switch:], rewards[switch:])
        return Trace(actions=actions, rewards=rewards, changes=(switch + 1,))

    @property
    def dim(self) -> int:
        """The features of the table and the constant one."""
        return int(self.cases.features.shape[1]) + 1

    @property
    def action_bound(self) -> float:
        """No coordinate of an action is larger."""
        return 1.0

    def _rows(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the rows of the table offered in each round (T, K)."""
        raise NotImplementedError

    def _change(self, actions: Floats, rewards: Floats) -> None:
        """Turn the rounds after the change into the other world, in place."""
        raise NotImplementedError

    def _worth(self) -> Floats:
        return np.minimum(self.cases.outcome, np.inf if self.m is None else self.m)


@dataclass(frozen=True, kw_only=True)
class Paired(Cases):
    """The paper's real-data design: one positive and one negative case, in random order.

    The positive one pays its outcome (1 in a yes-or-no table), the other nothing. After the change
    the roles are inverted: the negative case pays what the positive one would have.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        positive = self.cases.outcome > 0
        if positive.all() or not positive.any():
            raise ValueError(
                f"table must have outcomes of 0 and above 0; got {positive.sum()} above 0 "
                f"among {positive.size}"
            )

    def _rows(self, rng: np.random.Generator) -> NDArray[np.int64]:
        positive = np.flatnonzero(self.cases.outcome > 0)
        negative = np.flatnonzero(self.cases.outcome == 0)
        pairs = np.column_stack(
            [rng.choice(positive, size=self.horizon), rng.choice(negative, size=self.horizon)]
        )
        return rng.permuted(pairs, axis=1)

    def _change(self, actions: Floats, rewards: Floats) -> None:
        rewards[:] = rewards[:, ::-1].copy()


@dataclass(frozen=True, kw_only=True)
class Counts(Cases):
    """Offers `arms` cases drawn at random; a case pays its count, recorded as m where it is larger.

    After the change every feature but the constant one has the opposite sign. So what spoke for
    many visits now speaks for few, while counts, base rate and difficulty stay as they were.
    """

    table: str | Table = "randhie"
    link: str = "poisson"
    m: float | None = 20.0
    arms: int = option(6, checks.integer, least=1)

    def _rows(self, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.integers(len(self.cases.outcome), size=(self.horizon, self.arms))

    def _change(self, actions: Floats, rewards: Floats) -> None:
        actions[:, :, :-1] *= -1.0
