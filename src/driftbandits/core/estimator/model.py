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

from driftbandits import checks
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


def truncation_span(gamma: float, *, m: float, L: float, lam: float) -> int:
    """Age from which discounted rows are dropped: they move theta-hat by TRUNCATION_TOLERANCE.

    The dropped rows change the gradient by at most m L gamma^n/(1-gamma), and the penalised
    likelihood is lam-strongly concave. The bound on |X - mu| is m for bounded means; for Poisson
    it is checked against the residuals as rows leave (`LEAK`).
    """
    n = math.log(TRUNCATION_TOLERANCE * lam * (1.0 - gamma) / (m * L)) / math.log(gamma)
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
    checks.choice("projection", projection, PROJECTIONS)
    for name, value in (("lam", lam), ("S", S), ("L", L)):
        checks.number(name, value, above=0)
    memory, span, gamma = EVERYTHING, 0, 1.0
    if window is not None:
        memory, span = WINDOW, checks.integer("window", window, least=1)
    elif discount is not None:
        memory, gamma = DISCOUNT, checks.number("discount", discount, above=0, below=1)
        span = truncation_span(gamma, m=link.m, L=L, lam=lam)
    return Model(
        d=dim,
        link=link.code,
        linear=int(link.linear),
        m=link.m,
        lam=lam,
        memory=memory,
        span=span,
        gamma=gamma,
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
    exponents = [(0,) * d]
    index = {exponents[0]: 0}
    built = [(0, 0, 0, 1)]

    def times(powers: tuple[int, ...], j: int) -> tuple[int, ...]:
        return (*powers[:j], powers[j] + 1, *powers[j + 1 :])

    first = 0
    for degree in range(1, order + 2):
        last = len(exponents)
        for parent in range(first, last):
            for j in range(built[parent][1], d):
                child = times(exponents[parent], j)
                index[child] = len(exponents)
                exponents.append(child)
                built.append((parent, j, degree, 1 + (sum(child[-2:]) if d > 1 else 0)))
        first = last
    ladder = np.zeros((len(exponents), 4 + d), dtype=np.uint32)
    ladder[:, :4] = built
    for i, powers in enumerate(exponents[:first]):  # of degree `order` at most
        ladder[i, 4:] = [index[times(powers, j)] for j in range(d)]
    return ladder
