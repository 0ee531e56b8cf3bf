"""Confidence radii: how far theta may be from its estimate, in the norm of the bonus.

A radius is a kernel (numbers, t, n, inside) -> float with its citation, and a row of RADII. It is
evaluated before the t-th decision, from n rows that count; `inside` says whether theta-hat lies in
the ball of radius S. Decisions, `driftbandits tune` and the bounds all use the same kernel.

See theory/__init__.py for the notation. S and lam of a `Confidence` are what they are for actions
of length 1: S L and lam/L^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from driftbandits.jit import compiled, inlined, internal, one_of, reader_of


class Problem(NamedTuple):
    """The constants that the bounds of the paper share."""

    d: int
    k: float
    c: float
    lam: float = 1.0
    L: float = 1.0
    S: float = 1.0
    m: float = 1.0
    delta: float = 0.01


class Confidence(NamedTuple):
    """The numbers of a radius."""

    radius: int  # place in RADII
    d: float
    k: float
    root_c: float
    L: float
    S: float
    lam: float
    m: float
    delta: float
    window: int  # 0: none
    gamma: float  # 1: none
    horizon: float  # 0: not known
    lag: int  # 1 where n counts the t-1 samples seen, 0 where it counts t
    sigma: float
    coefficient: float
    scale: float
    offset: float


# -- what radii are made of ------------------------------------------------------------------------


@compiled
def deviation(n: float, log_confidence: float, sigma: float, d: float, coefficient: float) -> float:
    """sigma sqrt(2 log(1/confidence) + d log(1 + coefficient n)): the c_t of every radius.

    corollary_anytime_deviation, with n = `discounted_count` under discounting.
    """
    return sigma * math.sqrt(2.0 * log_confidence + d * math.log1p(coefficient * n))


@compiled
def discounted_count(gamma: float, t: float) -> float:
    """Sum of gamma^(2s) over t rows: the n of a discounted radius."""
    return -math.expm1(2.0 * t * math.log(gamma)) / -math.expm1(2.0 * math.log(gamma))


@inlined
def _union_rounds(t: float, horizon: float) -> float:
    """T up to a known horizon; beyond it, or without one (0), t(t+1)."""
    return horizon if t <= horizon else t * (t + 1.0)


@inlined
def _local_deviation(r: Confidence, n: float, log_confidence: float) -> float:
    """Deviation of the noise in the norm of the curvature, for actions of length 1 at most.

    A Bernstein bound: the variance is mu'(a.theta), and the noise at most m (Faury, Abeille,
    Calauzenes, Fercoq 2020, Theorem 1, with det H <= (lam + k n/d)^d).
    """
    root = math.sqrt(r.lam)
    unknown = log_confidence + r.d * math.log(2.0) + 0.5 * r.d * math.log1p(r.k * n / (r.d * r.lam))
    return root / (2.0 * r.m) + 2.0 * r.m / root * unknown


@inlined
def _inside_radius(r: Confidence, rho: float, reach: float) -> float:
    """k sqrt(1+2S) (sqrt(lam) reach + rho), where both parameters lie in the ball of S."""
    return r.k * math.sqrt(1.0 + 2.0 * r.S) * (math.sqrt(r.lam) * reach + rho)


@inlined
def _anywhere_radius(r: Confidence, rho: float, reach: float) -> float:
    """beta of Russac et al. (2021), wherever theta-hat lies, to be divided by sqrt(c)."""
    out = 1.0 + reach + math.sqrt((1.0 + reach) / r.lam) * rho + rho * rho / r.lam
    return r.k * math.sqrt(r.lam) * math.pow(out, 1.5)


# -- the radii -------------------------------------------------------------------------------------


@inlined
def _deviation_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """rho of the paper, and of the linear policies with k = c = 1, no factor 2 and no bias."""
    log_confidence = math.log(1.0 / r.delta)
    if r.window > 0:
        log_confidence = math.log(_union_rounds(t, r.horizon) / r.delta)
    c_t = deviation(n, log_confidence, r.sigma, r.d, r.coefficient)
    return r.scale * (c_t + r.offset)  # eq_rho_SW, eq_rho_D


@internal
def _self_concordant_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """beta / sqrt(c) of Russac, Faury, Cappe, Garivier (2021)."""
    T = _union_rounds(t, r.horizon)
    reach = r.S
    if r.gamma < 1.0:
        # what rounds that weigh less than 1/T add
        reach = r.S + (2.0 * r.S * r.k + r.m) / (T * r.lam * (1.0 - r.gamma))
        n = (1.0 - 1.0 / (T * T)) / (1.0 - r.gamma * r.gamma)
    rho = _local_deviation(r, n, math.log(T / r.delta))
    wide = _anywhere_radius(r, rho, reach)
    if inside:
        wide = min(wide, _inside_radius(r, rho, reach))
    return wide / r.root_c


@internal
def _local_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """That of SCB-WeightUCB, Wang, Zhao, Zhou (2023)."""
    rho = _local_deviation(r, n, math.log(1.0 / r.delta))
    # twice, because the projection is as far from theta-hat as the truth may be
    return 2.0 * _inside_radius(r, rho, r.S) / r.root_c


@internal
def _predictor_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """That of UCB-GLM: of a . theta, not of the mean (Li, Lu, Zhou 2017, Theorem 2, T at t)."""
    wide = 0.5 * r.d * math.log1p(2.0 * n / r.d) + math.log(1.0 / r.delta)
    return r.sigma * math.sqrt(wide) / (r.root_c * r.root_c)


@internal
def _count_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """m sqrt(w log n): the index of a fixed arm, whose norm is 1 over the root of its rewards.

    w is 2 for UCB1 (Auer, Cesa-Bianchi, Fischer 2002). Garivier, Moulines (2011) have
    B sqrt(xi log n/N) for SW-UCB and 2 B sqrt(xi log n/N) for D-UCB, whose n is the sum of the
    discounted weights; xi is .6 and .5, as in their experiments. It is never 0, so that arms
    without a reward come first.
    """
    weight = 0.6 if r.window > 0 else 2.0
    if r.gamma < 1.0:
        n = -math.expm1((t - r.lag) * math.log(r.gamma)) / (1.0 - r.gamma)
    return r.m * math.sqrt(weight * math.log(max(n, 2.0)))


@inlined
def _posterior_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """k: the width is the standard deviation of a posterior, not a bound of the theory."""
    return r.k


RADII: Mapping[str, Callable[[Confidence, float, float, bool], float]] = {
    "deviation": _deviation_radius,
    "self-concordant": _self_concordant_radius,
    "local": _local_radius,
    "predictor": _predictor_radius,
    "count": _count_radius,
    "posterior": _posterior_radius,
}

_SELF_CONCORDANT = list(RADII).index("self-concordant")
_radius_of = inlined(one_of("radius_of", dict(enumerate(RADII.values()))))


# -- using them ------------------------------------------------------------------------------------


def confidence_reader(first: int) -> Callable[..., Confidence]:
    """A kernel that reads a `Confidence` from an array of numbers."""
    return reader_of(Confidence, first=first)


@inlined
def rows_that_count(r: Confidence, t: float, window: int) -> float:
    """n in round t where every round has a row, and a window is as long as given."""
    n = t - r.lag
    if r.window > 0:
        return min(n, float(window))
    return discounted_count(r.gamma, n) if r.gamma < 1.0 else n


@inlined
def depends_on_inside(r: Confidence) -> bool:
    """Whether it matters if theta-hat lies in the ball."""
    return r.radius == _SELF_CONCORDANT


@inlined
def bonus_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """The radius of the t-th decision, made from n rows that count."""
    rho: float = _radius_of(r.radius, r, t, n, inside)
    return rho


@compiled
def radius(r: Confidence, t: float) -> float:
    """The radius of round t where every round has a row.

    A self-concordant one may be smaller in a round whose theta-hat lies in the ball.
    """
    return bonus_radius(r, t, rows_that_count(r, t, r.window), False)


def confidence_of(
    problem: Problem,
    *,
    radius: str = "deviation",
    window: int | None = None,
    discount: float | None = None,
    horizon: int | None = None,
    linear: bool = False,
    biased: bool = True,
    scale: float | None = None,
) -> Confidence:
    """The numbers of a radius for a problem and a memory.

    A linear policy counts t-1 samples. `biased` is whether the bias of discounting is counted. A
    policy that samples has a scale of its own.
    """
    if radius not in RADII:
        raise ValueError(f"radius must be one of {', '.join(RADII)}; got {radius!r}")
    p = problem
    offset = math.sqrt(p.c * p.lam) * p.S  # eq_rho_SW, eq_rho_D
    if discount is not None and biased and not linear:
        offset += discount_bias(p, discount)
    if scale is None:
        scale = 1.0 if linear else 2.0 * p.k / p.c  # eq_rho_SW, eq_rho_D
    return Confidence(
        radius=list(RADII).index(radius),
        d=float(p.d),
        k=p.k,
        root_c=math.sqrt(p.c),
        L=p.L,
        S=p.S * p.L,
        lam=p.lam / (p.L * p.L),
        m=p.m,
        delta=p.delta,
        window=window or 0,
        gamma=1.0 if discount is None else discount,
        horizon=float(horizon or 0),
        lag=int(linear),
        sigma=p.m / 2.0,  # lemma:hoeffding_conditional
        coefficient=p.c * p.L**2 / (p.d * p.lam),
        scale=scale,
        offset=offset,
    )


def forgetting_time(gamma: float) -> float:
    """D(gamma) = log(1/(1-gamma))/(1-gamma), of Corollary `corollary:asympt_regret_D`."""
    _check_gamma(gamma)
    return -math.log1p(-gamma) / (1.0 - gamma)


def _check_gamma(gamma: float) -> None:
    if not 0.0 < gamma < 1.0:
        raise ValueError(f"gamma must lie strictly between 0 and 1; got {gamma!r}")


def check_window(tau: int) -> None:
    if not tau >= 1:
        raise ValueError(f"tau must be at least 1; got {tau!r}")


def discount_bias(problem: Problem, gamma: float, lag: float | None = None) -> float:
    """2 L^2 S k sqrt(c/lam) gamma^D/(1-gamma), the last term of `eq_rho_D`.

    D(gamma) is not a whole number, and the paper's set T(gamma) loses the term s = t-D, so
    gamma^(D-1) would be the conservative choice. The default is the paper's gamma^D; give `lag` for
    another exponent.
    """
    p = problem
    exponent = forgetting_time(gamma) if lag is None else lag
    tail = math.pow(gamma, exponent) / (1.0 - gamma)
    return 2.0 * p.L**2 * p.S * p.k * math.sqrt(p.c / p.lam) * tail


def rho_window(problem: Problem, *, t: int, tau: int, horizon: int | None = None) -> float:
    """rho_t^SW(delta), `eq_rho_SW`; without a horizon, log(t(t+1)/delta) replaces log(T/delta)."""
    check_window(tau)
    return radius(confidence_of(problem, window=tau, horizon=horizon), float(t))


def rho_discount(problem: Problem, *, t: int, gamma: float) -> float:
    """rho_t^D(delta), `eq_rho_D`."""
    return radius(confidence_of(problem, discount=gamma), float(t))
