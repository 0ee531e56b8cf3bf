"""What the zoo plays: tables of installed packages, worlds of many arms, visits as tables.

The tables are read from the installed packages; nothing is downloaded and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import driftbandits as db
from driftbandits.bench import Task, read_task
from driftbandits.bench.readers import READERS, Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


# -- tables of installed packages ------------------------------------------------------------------


def table(package: str, file: str, label: str, **more: Any) -> Callable[[], Rows]:
    return lambda: READERS["classes"](
        rng=np.random.default_rng(0), package=package, file=file, label=label, **more
    )


def task(name: str) -> tuple[str, Callable[[], Rows]]:
    """The table of a task of the benchmark, without its changes."""
    data = dict(read_task(name).data)
    reader = READERS[data.pop("reader")]
    return data["package"], lambda: reader(rng=np.random.default_rng(0), **data)


VOTES = "datasets/anes96/anes96.csv"
TABLES: Mapping[str, tuple[str, Callable[[], Rows]]] = {
    "digits": task("digits"),
    "digits-in-order": task("digits"),
    "phishing": task("phishing"),
    "segment": task("segment"),
    "shuttle": ("river", table("river", "datasets/shuttle.csv.gz", "anomaly")),
    "solar-flare": ("river", table("river", "datasets/solar-flare.csv.zip", "zurich-class")),
    "yeast": task("yeast"),
    "fair": task("fair"),
    "vote": (
        "statsmodels",
        table(
            "statsmodels", "datasets/anes96/anes96.csv", "'vote'", drop=("'PID'",), separator="\t"
        ),
    ),
    "doctor": task("doctor"),
    "flights": task("flights"),
}
IN_ORDER = ("flights", "digits-in-order")


def table_task(name: str, seed: int, most: int) -> Task:
    rows = TABLES[name][1]()
    order = np.arange(len(rows.contexts))
    if name not in IN_ORDER:
        order = np.random.default_rng(seed).permutation(order)
    rows = rows.take(order[:most])
    return Task(rows.contexts, rows.rewards, rows.arms)


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
