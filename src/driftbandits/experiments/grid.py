"""A grid of an experiment file, written out as the policies it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from driftbandits.errors import SpecError
from driftbandits.experiments import checks
from driftbandits.experiments.checks import Table


def policies_of(spec: Mapping[str, Any], arguments: Iterable[str]) -> list[Table]:
    """One policy for every combination of the values of the axes that a grid is `over`.

    >>> spec = {"axes": {"window": [50, 100]}, "grid": [{"name": "SW-GLUCB", "over": ["window"]}]}
    >>> [policy["label"] for policy in policies_of(spec, ["window"])]
    ['SW-GLUCB, window=50', 'SW-GLUCB, window=100']
    """
    axes = checks.table(spec, "axes", default={})
    checks.keys("axes.", axes, arguments)
    for key, values in axes.items():
        numbers = isinstance(values, list) and all(type(v) in (int, float) for v in values)
        if not numbers or not values:
            raise SpecError(f"axes.{key}: must be a list of numbers; got {values!r}")
    made = []
    for number, grid in enumerate(checks.tables(spec, "grid"), 1):
        over = checks.names(f"grid[{number}].over", grid.get("over"), axes)
        own = {key: value for key, value in grid.items() if key != "over"}
        for values in product(*(axes[key] for key in over)):
            point = dict(zip(over, values, strict=True))
            made.append({**own, **point, "label": _label(own, point)})
    return made


def _label(own: Mapping[str, Any], point: Mapping[str, Any]) -> str:
    words = [own.get("label", own.get("name", "")), *(f"{k}={v:g}" for k, v in point.items())]
    return ", ".join(map(str, words))
