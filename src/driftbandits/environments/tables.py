"""Real data: tables of cases with features and an outcome, made into actions of length at most 1.

`fair` and `randhie` come with statsmodels. The Pima diabetes table may not be redistributed, so it
is read from the user's own copy, or from the package `faraway` where the user has installed it.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks, extras

PIMA_COLUMNS = (
    "Pregnancies",
    "Glucose",
    "BloodPressure",
    "SkinThickness",
    "Insulin",
    "BMI",
    "DiabetesPedigreeFunction",
    "Age",
    "Outcome",
)
PIMA_ROWS = 768
# Of the numbers of the well-known table, in its usual order; see `numbers_digest`.
PIMA_DIGEST = "3e5bd23b2c24c83178bcc3a4649e4339c1a248d5bead9c896b19af974b2cdee5"


@dataclass(frozen=True, eq=False)
class Table:
    """Cases (n, d) and what each of them is worth (n,): 0 for a negative case, above 0 otherwise.

    >>> table = Table(features=[[0.0], [2.0], [4.0]], outcome=[0, 1, 1])
    >>> table.actions().round(3).tolist()
    [[-0.775, 0.632], [0.0, 0.632], [0.775, 0.632]]
    """

    features: NDArray[np.float64]
    outcome: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", checks.array("features", self.features, ndim=2))
        object.__setattr__(self, "outcome", checks.array("outcome", self.outcome, ndim=1))
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
        """The shape only: a table may be long."""
        rows, columns = self.features.shape
        return f"Table({rows} rows, {columns} features)"

    def actions(self) -> NDArray[np.float64]:
        """Standardised features and a constant (n, d + 1), divided by the largest row's length."""
        centred = self.features - self.features.mean(axis=0)
        standard = centred / centred.std(axis=0)
        rows = np.column_stack([standard, np.ones(len(standard))])
        scaled: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1).max()
        return scaled


def load_table(name: str, *, path: str | Path | None = None) -> Table:
    """A table by name.

    fair     6366 women, 8 features; outcome 1 if there was an affair (statsmodels)
    randhie  20190 person-years, 9 features; outcome: visits to a doctor, a count (statsmodels)
    pima     768 women, 8 features; outcome 1 for diabetes; from `path`, a file in the Kaggle form,
             or without a path from the package faraway
    """
    checks.choice("table", name, ("fair", "pima", "randhie"))
    if name == "pima":
        if path is None:
            return _pima_from_faraway()
        numbers = read_known_csv(path, columns=PIMA_COLUMNS, rows=PIMA_ROWS, digest=PIMA_DIGEST)
        return _split_last(numbers)
    if path is not None:
        raise ValueError(f"path is only for the table pima; got {path!r} for {name}")
    return _from_statsmodels(name)


def read_known_csv(
    path: str | Path, *, columns: tuple[str, ...], rows: int, digest: str
) -> NDArray[np.float64]:
    """The numbers of a CSV file, after checking that it holds exactly the table that is expected.

    The digest is of the numbers, so line ends, blanks, quotes and "0.340" for "0.34" do not matter.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"path must be a readable CSV file; got {str(path)!r}: {error}") from None
    lines = [[cell.strip() for cell in line] for line in csv.reader(text.splitlines())]
    lines = [line for line in lines if any(line)]
    if not lines or tuple(lines[0]) != columns:
        found = ",".join(lines[0]) if lines else "an empty file"
        raise ValueError(
            f"path must be a file whose first line is {','.join(columns)}; "
            f"{str(path)!r} starts with {found[:120]}"
        )
    body = lines[1:]
    if len(body) != rows:
        raise ValueError(f"path must be a file with {rows} rows; {str(path)!r} has {len(body)}")
    try:
        numbers = np.array([[float(cell) for cell in line] for line in body])
    except ValueError as error:
        raise ValueError(
            f"path must be a file of {len(columns)} numbers a row; {str(path)!r}: {error}"
        ) from None
    _check_digest(f"path must be a file with the expected numbers; {str(path)!r}", numbers, digest)
    return numbers


def numbers_digest(numbers: NDArray[np.float64]) -> str:
    """A SHA-256 of the numbers, row by row, in a byte order that is the same on every machine."""
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).hexdigest()


def _check_digest(what: str, numbers: NDArray[np.float64], expected: str) -> None:
    found = numbers_digest(numbers)
    if found != expected:
        raise ValueError(f"{what} has other numbers: digest {found[:12]}, expected {expected[:12]}")


def _split_last(numbers: NDArray[np.float64]) -> Table:
    return Table(features=numbers[:, :-1], outcome=numbers[:, -1])


def _pima_from_faraway() -> Table:
    try:
        data: Any = importlib.import_module("faraway.datasets.pima")
    except ImportError:
        raise ImportError(
            "The pima table needs path=, a file in the Kaggle form, or `pip install faraway`"
        ) from None
    numbers = np.asarray(data.load(), dtype=np.float64)
    _check_digest("The pima table of the installed package faraway", numbers, PIMA_DIGEST)
    return _split_last(numbers)


def _from_statsmodels(name: str) -> Table:
    need = f"The table {name} needs statsmodels"
    data = extras.load(f"statsmodels.datasets.{name}", need, extra="data")
    columns = data.load_pandas().data
    outcome_name = {"fair": "affairs", "randhie": "mdvis"}[name]
    outcome = np.asarray(columns.pop(outcome_name), dtype=np.float64)
    # In `fair` the outcome is a rate; the question asked of it is yes or no.
    worth = (outcome > 0).astype(np.float64) if name == "fair" else outcome
    return Table(features=np.asarray(columns, dtype=np.float64), outcome=worth)
