"""A simulated shop: visits and offers as tables, with taste that changes half-way.

A visit has an age, a country, a device, an hour and a basket; ages and baskets are not always
known. An offer has a category, a price and a margin; offers come and go. Whether a visitor clicks
depends on how the taste for a category differs by country, device, hour and age, and on the
price, which matters less to those with a full basket. Half-way the countries change their taste and
prices start to matter more.

A trace has the tables, for policies with features. Its actions are the vectors that an expert would
make of them: logarithms, numbers in standard units, levels and missing values as flags, and the
products that are in the world.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits import checks
from driftbandits.environments.trace import Trace, check_options, option

Floats = NDArray[np.float64]

COUNTRIES = ("DE", "FR", "PL", "US", "NL", "JP")
_SHARES = (0.3, 0.2, 0.15, 0.15, 0.1, 0.1)
DEVICES = ("phone", "desktop", "tablet")
CATEGORIES = ("shoes", "books", "food", "garden", "games")
_AGE, _LOG_BASKET, _LOG_PRICE = (45.0, 16.0), (3.3, 1.1), (3.0, 0.8)  # centre and spread
_BASE = -1.2
_WIDEST = 3.0  # standard units beyond which the expert clips


@dataclass(frozen=True)
class Shop:
    """Visits to a shop, and the offers to choose from.

    horizon    visits
    offers     number of offers at a time
    lifetime   mean number of visits for which an offer exists
    missing    share of unknown ages and baskets
    """

    horizon: int = option(4000, checks.integer, least=2)
    offers: int = option(8, checks.integer, least=2)
    lifetime: float = option(600.0, checks.number, at_least=1.0)
    missing: float = option(0.1, checks.number, at_least=0.0, below=1.0)

    def __post_init__(self) -> None:
        check_options(self)

    def draw(self, rng: np.random.Generator) -> Trace:
        """Draw one run: the customers are alike in all runs, their tastes differ."""
        T, K = self.horizon, self.offers
        visits = _visits(rng, T, self.missing)
        table, places = self._offers(rng)
        change = T // 2
        z = np.empty((T, K))
        for price, half in ((0.5, slice(change)), (1.1, slice(change, T))):
            z[half] = _liking(
                rng, _Visits._make(x[half] for x in visits), table, places[half], price
            )
        means = 1.0 / (1.0 + np.exp(-z))
        rewards = (rng.random((T, K)) < means).astype(np.float64)
        rows = table.records()
        return Trace(
            actions=_by_hand(visits, table, places),
            rewards=rewards,
            means=means,
            changes=(change + 1,),
            contexts=visits.records(),
            offers=[[rows[i] for i in row] for row in places.tolist()],
        )

    def _offers(self, rng: np.random.Generator) -> tuple[_Offers, NDArray[np.int64]]:
        """Draw the offers, and which of them is in which place in each round."""
        places = np.empty((self.horizon, self.offers), dtype=np.int64)
        numbers = itertools.count()
        for k in range(self.offers):
            t = 0
            while t < self.horizon:
                end = t + max(1, int(rng.exponential(self.lifetime)))
                places[t:end, k] = next(numbers)
                t = end
        count = next(numbers)
        return _Offers(
            category=rng.integers(len(CATEGORIES), size=count),
            log_price=rng.normal(*_LOG_PRICE, size=count),
            margin=rng.uniform(0.05, 0.5, size=count),
        ), places


class _Offers(NamedTuple):
    category: NDArray[np.int64]
    log_price: Floats
    margin: Floats

    def records(self) -> list[dict[str, Any]]:
        return [
            {
                "id": f"offer-{number}",
                "category": CATEGORIES[self.category[number]],
                "price": round(math.exp(self.log_price[number]), 2),
                "margin": round(float(self.margin[number]), 3),
            }
            for number in range(len(self.category))
        ]


class _Visits(NamedTuple):
    age: Floats
    country: NDArray[np.int64]
    device: NDArray[np.int64]
    hour: Floats
    log_basket: Floats
    age_known: NDArray[np.bool_]
    basket_known: NDArray[np.bool_]

    def records(self) -> list[dict[str, Any]]:
        return [
            {
                "age": int(self.age[t]) if self.age_known[t] else None,
                "country": COUNTRIES[self.country[t]],
                "device": DEVICES[self.device[t]],
                "hour": round(float(self.hour[t]), 2),
                "basket": round(math.exp(self.log_basket[t]), 2) if self.basket_known[t] else None,
            }
            for t in range(len(self.age))
        ]


def _visits(rng: np.random.Generator, count: int, missing: float) -> _Visits:
    return _Visits(
        age=np.floor(np.clip(rng.normal(*_AGE, size=count), 18, 95)),
        country=rng.choice(len(COUNTRIES), p=_SHARES, size=count),
        device=rng.choice(len(DEVICES), p=(0.6, 0.3, 0.1), size=count),
        hour=np.mod(rng.normal(18.0, 5.0, size=count), 24.0),
        log_basket=rng.normal(*_LOG_BASKET, size=count),
        age_known=rng.random(count) >= missing,
        basket_known=rng.random(count) >= missing,
    )


def _liking(
    rng: np.random.Generator,
    visits: _Visits,
    offers: _Offers,
    places: NDArray[np.int64],
    price: float,
) -> Floats:
    """Draw a taste, and return the log-odds of a click on every offer (T, K)."""
    n = len(CATEGORIES)
    own = rng.normal(0.0, 0.4, size=n)
    by_country = rng.normal(0.0, 1.0, size=(n, len(COUNTRIES)))
    by_device = rng.normal(0.0, 0.4, size=(n, len(DEVICES)))
    by_hour = rng.normal(0.0, 0.4, size=(n, 2))
    by_age = rng.normal(0.0, 0.5, size=n)
    sine, cosine = _hands(visits.hour)
    by_visit = (
        by_country.T[visits.country]
        + by_device.T[visits.device]
        + sine[:, None] * by_hour[:, 0]
        + cosine[:, None] * by_hour[:, 1]
        + _standard(visits.age, _AGE)[:, None] * by_age
    )  # (T, categories)
    category = offers.category[places]  # (T, K)
    liked = own[category] + np.take_along_axis(by_visit, category, axis=1)
    dear = price * _standard(offers.log_price, _LOG_PRICE)[places]
    purse = 1.0 - 0.5 * _standard(visits.log_basket, _LOG_BASKET)
    scores: Floats = _BASE + liked - dear * purse[:, None]
    return scores


def _standard(values: Floats, units: tuple[float, float]) -> Floats:
    return (values - units[0]) / units[1]


def _hands(hour: Floats) -> tuple[Floats, Floats]:
    angle = 2.0 * np.pi * hour / 24.0
    return np.sin(angle), np.cos(angle)


def _by_hand(visits: _Visits, offers: _Offers, places: NDArray[np.int64]) -> Floats:
    """Return the vectors of an expert (T, K, d), none longer than 1."""
    T, K = places.shape

    def clipped(values: Floats, units: tuple[float, float]) -> Floats:
        return np.clip(_standard(values, units), -_WIDEST, _WIDEST) / _WIDEST

    age = np.where(visits.age_known, clipped(visits.age, _AGE), 0.0)
    basket = np.where(visits.basket_known, clipped(visits.log_basket, _LOG_BASKET), 0.0)
    of_visit = np.column_stack(
        [
            age,
            ~visits.age_known,
            np.eye(len(COUNTRIES))[visits.country],
            np.eye(len(DEVICES))[visits.device],
            *_hands(visits.hour),
        ]
    )
    purse = np.column_stack([basket, ~visits.basket_known])
    price = clipped(offers.log_price, _LOG_PRICE)[places]
    category = np.eye(len(CATEGORIES))[offers.category][places]  # (T, K, categories)
    crossed = category[:, :, :, None] * of_visit[:, None, None, :]
    parts = [
        category,
        price[:, :, None],
        (offers.margin[places] - 0.275)[:, :, None],
        np.broadcast_to(of_visit[:, None, :], (T, K, of_visit.shape[1])),
        np.broadcast_to(purse[:, None, :], (T, K, 2)),
        crossed.reshape(T, K, -1),
        price[:, :, None] * purse[:, None, :],
    ]
    rows = np.concatenate(parts, axis=2)
    # category, country and device are flags; what they multiply adds as much again
    longest = math.sqrt(2.0 * (1.0 + 1.0 + 1.0 + 1.0 + 1.0) + 3.0)
    return np.ascontiguousarray(rows / longest)
