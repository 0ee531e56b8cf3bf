"""A grid of an experiment file, written out as the policies it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from driftbandits.experiments import schema
from driftbandits.experiments.schema import Numbers, Spec, Table


def policies_of(spec: Spec, arguments: Iterable[str]) -> list[Table]:
    """One policy for every combination of the values of the axes that a grid is `over`."""
    schema.keys("axes.", spec.axes, arguments)
    axes = {key: schema.read(Numbers, given, f"axes.{key}") for key, given in spec.axes.items()}
    made = []
    for number, grid in enumerate(spec.grid, 1):
        over = schema.names(f"grid[{number}].over", grid.get("over"), axes)
        own = {key: value for key, value in grid.items() if key != "over"}
        for values in product(*(axes[key] for key in over)):
            point = dict(zip(over, values, strict=True))
            made.append({**own, **point, "label": _label(own, point)})
    return made


def _label(own: Mapping[str, Any], point: Mapping[str, Any]) -> str:
    words = [own.get("label", own.get("name", "")), *(f"{k}={v:g}" for k, v in point.items())]
    return ", ".join(map(str, words))
