"""Readers: tables of installed packages, or of a user's file, as contexts and rewards of arms.

Files are found without importing their package; nothing is downloaded and nothing is copied.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Line = Mapping[str, str]

MOST_LEVELS = 30
"""A column of texts becomes indicators of its most frequent values."""


class Rows(NamedTuple):
    """Rows in the order of their source. An arm that is not on offer has the id -1."""

    contexts: Floats  # (n, d)
    rewards: Floats  # (n, K), NaN where nobody knows it
    arms: Ints  # (n, K)
    costs: Floats | None = None

    def take(self, order: Ints) -> Rows:
        return Rows(*(None if part is None else part[order] for part in self))  # type: ignore[arg-type]


def open_text(path: Path) -> io.StringIO:
    """The text of a file that may be compressed, as .gz or as the first file of a .zip."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            content = archive.read(archive.namelist()[0])
    return io.StringIO(content.decode("utf-8-sig"), newline="")


def package_file(package: str, file: str) -> Path:
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"The data is in {package}, which is not installed")
    path = Path(found.submodule_search_locations[0], file)
    if not path.is_file():
        raise ImportError(f"The installed {package} has no {file}; another version may")
    return path


def lines_of(
    path: Path, *, separator: str = ",", header: bool = True, first: int | None = None
) -> list[dict[str, str]]:
    """The lines of a table by column; without a header columns are c0, c1, ..."""
    lines = islice(csv.reader(open_text(path), delimiter=separator), first)
    rows = list(lines)
    names = rows.pop(0) if header else [f"c{j}" for j in range(len(rows[0]))]
    return [dict(zip(names, row, strict=True)) for row in rows]


def columns_of(lines: Sequence[Line], names: Sequence[str]) -> Floats:
    """Numbers as they are, texts as indicators of their most frequent values."""
    blocks: list[Floats] = []
    for name in names:
        cells = [line[name] for line in lines]
        try:
            blocks.append(np.array([float(cell or "nan") for cell in cells])[:, None])
        except ValueError:
            levels, counts = np.unique(cells, return_counts=True)
            most = levels[np.argsort(-counts, kind="stable")][:MOST_LEVELS]
            blocks.append((np.array(cells)[:, None] == most).astype(np.float64))
    table = np.hstack(blocks)
    return np.where(np.isnan(table), 0.0, table)


def every_arm(contexts: Floats, rewards: Floats) -> Rows:
    n, K = rewards.shape
    return Rows(contexts, rewards, np.tile(np.arange(K), (n, 1)))


def classes(
    *,
    rng: np.random.Generator,
    label: str,
    file: str = "",
    package: str | None = None,
    path: Path | None = None,
    context: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    cuts: Sequence[float] | None = None,
    sort: Sequence[str] = (),
    separator: str = ",",
    header: bool = True,
    first: int | None = None,
) -> Rows:
    """Name the class of each row. With `cuts` the label is a number, and classes are its ranges.

    `first` is how many lines are read.
    """
    source = package_file(package, file) if package else path
    if source is None:
        raise ValueError("data must have package and file, or path")
    lines = lines_of(source, separator=separator, header=header, first=first)
    if cuts is not None:
        lines = [line for line in lines if line[label] not in ("", "NA")]
    if sort:
        lines.sort(key=lambda line: tuple((len(line[n]), line[n]) for n in sort))
    names = [name for name in lines[0] if name != label and name not in drop]
    contexts = columns_of(lines, context or names)
    if cuts is None:
        _, labels = np.unique([line[label] for line in lines], return_inverse=True)
    else:
        labels = np.digitize([float(line[label]) for line in lines], cuts, right=True)
    return every_arm(contexts, np.eye(int(labels.max()) + 1)[labels])


def several(*, rng: np.random.Generator, package: str, file: str, prefix: str) -> Rows:
    """Name any one of the classes that a row has: its columns with this prefix are 0 or 1."""
    lines = lines_of(package_file(package, file))
    found = [name for name in lines[0] if name.startswith(prefix)]
    return every_arm(
        columns_of(lines, [name for name in lines[0] if name not in found]),
        columns_of(lines, found),
    )


READERS: Mapping[str, Callable[..., Rows]] = {"classes": classes, "several": several}
