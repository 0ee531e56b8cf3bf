"""Tables of the page: the templates choose the columns of a data frame and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from driftbandits.report.formats import number, plus_minus, ratio, shade
from driftbandits.report.style import Look

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """A data frame that is also a CSV file. Policies with a look are shown with it."""

    name: str
    frame: pl.DataFrame
    looks: Mapping[str, Look]

    @property
    def rows(self) -> Iterator[Row]:
        for row in self.frame.iter_rows(named=True):
            yield {**row, "look": self.looks.get(row.get("policy", ""))}


@dataclass(frozen=True)
class Column:
    """A heading, and what a row's cell says below it."""

    heading: str
    cell: Callable[[Row], str]
    kind: str = "number"  # or text, which is not broken, or prose, which is
    shade: Callable[[Row], str] = lambda row: ""  # the colour behind the cell


def text_column(heading: str, key: str) -> Column:
    return Column(heading, lambda row: str(row[key]), "text")


def prose_column(heading: str, key: str) -> Column:
    return Column(heading, lambda row: str(row[key]), "prose")


def number_column(heading: str, key: str, form: str = ",.1f") -> Column:
    """A dash where there is no number."""
    return Column(heading, lambda row: number(row[key], form))


def mean_column(heading: str, mean: str = "mean", se: str = "se") -> Column:
    return Column(heading, lambda row: plus_minus(row[mean], row[se]))


def ratio_column(heading: str, key: str) -> Column:
    """A ratio on the colour of its size."""
    return Column(heading, lambda row: ratio(row[key]), shade=lambda row: shade(row[key]))
