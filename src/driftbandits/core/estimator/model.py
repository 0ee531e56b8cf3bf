"""The numbers of an estimator, which never change.

Notation
--------
d          dimension of the model (the intercept counts)
N          clock: decisions and ticks so far; row s has age N - s
w_s        weight of row s: 1, or gamma^(N-s)
lam        penalty (lam/2)||theta||^2
c          c_mu, smallest slope; design matrices start at (lam/c) I           assumption_c_mu
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from driftbandits.core.links import Link
from driftbandits.jit import chosen_for, reader_of

Floats = NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")

EVERYTHING, WINDOW, DISCOUNT = 0, 1, 2
SINCE_RESTART = 3  # everything, until a policy forgets the oldest rows
BELIEF = 4  # hypotheses of `auto`, weighed by their probabilities
MEMORIES = (EVERYTHING, WINDOW, DISCOUNT, SINCE_RESTART, BELIEF)
NO_PROJECTION, RADIAL, EXACT = 0, 1, 2
PROJECTIONS = {"none": NO_PROJECTION, "radial": RADIAL, "exact": EXACT}

MOST_MONOMIALS = 220
HIGHEST_ORDER = 8
LOWEST_USEFUL_ORDER = 4
TRUNCATION_TOLERANCE = 2e-9


class Model(NamedTuple):
    """The numbers of an estimator."""

    d: int
    link: int
    linear: int  # whether the link is the identity
    m: float
    lam: float
    memory: int
    span: int  # rows of this age or older are forgotten; 0: never
    gamma: float
    S: float
    c: float
    projection: int
    order: int  # of the Taylor expansions of g, see expansion.py
    fast: int = 0  # whether the ways for large models are used; the last of all


MODEL_SIZE = len(Model._fields)
FAST = MODEL_SIZE - 1


class LargeModel(Model):
    """Numbers of a large model, as a type of their own for the compiler."""


model_of = reader_of(Model, given=["d", "fast"])
"""The numbers by name; d and fast from whoever may know them beforehand."""
large_model_of = reader_of(LargeModel, given=["d", "fast"])


def for_large(large: Callable[P, R], small: Callable[P, R]) -> Callable[P, R]:
    """A kernel whose first argument is a model: one for large models, or the other."""
    return chosen_for(LargeModel, large, small)


def model_in(numbers: Floats) -> Model:
    """The numbers by name, for Python."""
    read = large_model_of if numbers[FAST] else model_of
    return read(numbers, int(numbers[0]), int(numbers[FAST]))


def as_numbers(*records: tuple[Any, ...]) -> Floats:
    """Pack a model, and what a policy adds to it, for the kernels."""
    return np.array([number for record in records for number in record], dtype=np.float64)


def expansion_order(d: int, link_is_linear: bool) -> int:
    """The highest Taylor order whose monomials are few enough to be kept up to date each round.

    An order below LOWEST_USEFUL_ORDER reaches too little further than Newton's order 1 to
    save passes, and makes each dearer.
    """
    order = 1
    while order < HIGHEST_ORDER and math.comb(d + order + 2, d) <= MOST_MONOMIALS:
        order += 1
    return 1 if link_is_linear or order < LOWEST_USEFUL_ORDER else order


def truncation_span(gamma: float, *, m: float, L: float, lam: float, tolerance: float) -> int:
    """Age from which discounted rows may be dropped: they move theta-hat by at most `tolerance`.

    The dropped rows change the gradient by at most m L gamma^n/(1-gamma), and the penalised
    likelihood is lam-strongly concave. The bound on |X - mu| is m for bounded means; for Poisson
    it is checked against the residuals as rows leave (`LEAK`).
    """
    n = math.log(tolerance * lam * (1.0 - gamma) / (m * L)) / math.log(gamma)
    return max(1, math.ceil(n))


def estimator_model(
    link: Link,
    *,
    dim: int,
    lam: float,
    S: float,
    L: float,
    window: int | None = None,
    discount: float | None = None,
    projection: str = "exact",
) -> Model:
    """The numbers of an estimator: all rounds, or the last `window`, or discounted ones."""
    if window is not None and discount is not None:
        raise ValueError(f"give window or discount, not both; got {window!r} and {discount!r}")
    if window is not None and not (window == int(window) and window >= 1):
        raise ValueError(f"window must be a whole number of at least 1; got {window!r}")
    if discount is not None and not 0.0 < discount < 1.0:
        raise ValueError(f"discount must lie strictly between 0 and 1; got {discount!r}")
    if projection not in PROJECTIONS:
        raise ValueError(f"projection must be one of {', '.join(PROJECTIONS)}; got {projection!r}")
    for name, value in (("lam", lam), ("S", S), ("L", L)):
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"{name} must be positive and finite; got {value!r}")
    memory = WINDOW if window is not None else DISCOUNT if discount is not None else EVERYTHING
    span = 0
    if window is not None:
        span = int(window)
    elif discount is not None:
        span = truncation_span(discount, m=link.m, L=L, lam=lam, tolerance=TRUNCATION_TOLERANCE)
    return Model(
        d=dim,
        link=link.code,
        linear=int(link.linear),
        m=link.m,
        lam=lam,
        memory=memory,
        span=span,
        gamma=1.0 if discount is None else discount,
        S=S,
        c=link.c_mu(L=L, S=S),
        projection=PROJECTIONS[projection],
        order=expansion_order(dim, link.linear),
    )


# -- the monomials of expansions -------------------------------------------------------------------


def ladder_of(d: int, order: int) -> NDArray[np.uint32]:
    """Monomials in d variables of degree 0..order+1, by degree, each built from a parent.

    Columns: parent, variable that multiplies the parent, degree, length of the run that it is in
    (the monomials that differ from it in their powers of the last two variables alone, which stand
    in a row), and then for each variable j the index of this monomial times x_j (degree <= order
    only, else 0).
    """
    exponents: list[tuple[int, ...]] = [(0,) * d]
    index: dict[tuple[int, ...], int] = {exponents[0]: 0}
    built: list[tuple[int, int, int, int]] = [(0, 0, 0, 1)]
    first = 0
    for degree in range(1, order + 2):
        last = len(exponents)
        for parent in range(first, last):
            for j in range(built[parent][1], d):
                child = list(exponents[parent])
                child[j] += 1
                index[tuple(child)] = len(exponents)
                exponents.append(tuple(child))
                built.append((parent, j, degree, 1 + (sum(child[-2:]) if d > 1 else 0)))
        first = last
    ladder = np.zeros((len(exponents), 4 + d), dtype=np.uint32)
    ladder[:, :4] = built
    for i, powers in enumerate(exponents):
        if built[i][2] <= order:
            for j in range(d):
                up = list(powers)
                up[j] += 1
                ladder[i, 4 + j] = index[tuple(up)]
    return ladder
