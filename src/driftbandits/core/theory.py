"""Theory: confidence radii, rules of tuning, and regret bounds.

The paper's formulas, and those of the later works that `policies.catalogue` cites. A radius says
how far theta may be from its estimate, in the norm of the bonus: a kernel (numbers, t, n, inside)
-> float with its citation, and a row of RADII. It is evaluated before the t-th decision, from n
rows that count; `inside` says whether theta-hat lies in the ball of radius S. Decisions,
`driftbandits tune` and the bounds all use the same kernel.

Notation
--------
T        horizon                              d        dimension of the model
Gamma    number of changes up to T            tau      window
gamma    discount                             D(gamma) rounds after which a change is forgotten
k, c     largest and smallest slope           lam      penalty
L, S     bounds of ||a|| and ||theta||        m        largest reward
delta    probability that a bound fails       n        rows that count: min(t, tau), ...
R        bound of |mu''|/mu'
P_T      path length: sum of ||theta_t - theta_{t-1}|| up to T

S and lam of a `Confidence` are what they are for actions of length 1: S L and lam/L^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandits import checks
from driftbandits.jit import compiled, inlined, internal, one_of


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
    R: float = 1.0


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
    # wherever theta-hat lies
    out = 1.0 + reach + math.sqrt((1.0 + reach) / r.lam) * rho + rho * rho / r.lam
    wide = r.k * math.sqrt(r.lam) * math.pow(out, 1.5)
    if inside:
        wide = min(wide, _inside_radius(r, rho, reach))
    return wide / r.root_c


@internal
def _local_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """Radius of SCB-WeightUCB, Wang, Zhao, Zhou (2023)."""
    rho = _local_deviation(r, n, math.log(1.0 / r.delta))
    # twice, because the projection is as far from theta-hat as the truth may be
    return 2.0 * _inside_radius(r, rho, r.S) / r.root_c


@internal
def _predictor_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """Radius of UCB-GLM, of a . theta not of the mean (Li, Lu, Zhou 2017, Theorem 2, T at t)."""
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


@internal
def _mirror_radius(r: Confidence, t: float, n: float, inside: bool) -> float:
    """Radius of GLB-OMD and DOMD-GLB from t-1 rows: k times a bound of ||theta - truth||_H.

    Zhang, Xu, Zhao, Sugiyama (2025), Theorem 1, whose bound holds at all rounds at once. The proof
    ends in eta (6 eta + 1) log det(H/lam), and the determinant follows from the trace. Theorem 1
    prints log(1 + k/lam), without the number of rows that the proof has.

    Discounted it is derived, and holds at each round, not at all at once. H of the next round is
    gamma H + (1 - gamma) lam I before a row comes, and log det is concave. So the discounted sum of
    what each row adds to log det(H/lam) is at most log det(H/lam) as it stands. Discounted
    likelihood ratios are powers of at most 1 of ratios, so by Jensen their product is still a
    supermartingale. Where the last change is D(gamma) rounds old, what came before it adds no more
    than the second term of `offset`.
    """
    rows = t - 1.0
    if r.gamma < 1.0:
        rows = -math.expm1(rows * math.log(r.gamma)) / (1.0 - r.gamma)
    spread = r.d * math.log1p(r.coefficient * rows)
    noise = 2.0 * math.log(1.0 / r.delta) + (6.0 * r.scale + 1.0) * spread
    return r.k * math.sqrt(r.offset * r.offset + r.scale * noise)


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
    "mirror": _mirror_radius,
    "posterior": _posterior_radius,
}

_SELF_CONCORDANT = list(RADII).index("self-concordant")
_radius_of = inlined(one_of("radius_of", dict(enumerate(RADII.values()))))


@inlined
def rows_that_count(r: Confidence, t: float, window: int) -> float:
    """n in round t where every round has a row, and a window is as long as given."""
    n = t - r.lag
    if r.window > 0:
        return min(n, float(window))
    return discounted_count(r.gamma, n) if r.gamma < 1.0 else n


@inlined
def depends_on_inside(r: Confidence) -> bool:
    """Return whether the radius depends on theta-hat lying in the ball."""
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
    checks.choice("radius", radius, RADII)
    p = problem
    coefficient = p.c * p.L**2 / (p.d * p.lam)
    if radius == "mirror":
        scale, slope = mirror_step(p), p.k * p.L**2 / relative_variance(p)
        coefficient = slope / (p.d * p.lam)
        weight = 0.0 if discount is None else _weight_before_change(discount)
        offset = 2.0 * p.S * math.sqrt(p.lam + slope * weight)
    else:
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
        coefficient=coefficient,
        scale=scale,
        offset=offset,
    )


def forgetting_time(gamma: float) -> float:
    """D(gamma) = log(1/(1-gamma))/(1-gamma), of Corollary `corollary:asympt_regret_D`."""
    checks.number("gamma", gamma, above=0, below=1)
    return -math.log1p(-gamma) / (1.0 - gamma)


def discount_bias(problem: Problem, gamma: float) -> float:
    """2 L^2 S k sqrt(c/lam) gamma^D/(1-gamma), the last term of `eq_rho_D`.

    D(gamma) is not a whole number, and the paper's set T(gamma) loses the term s = t-D, so
    gamma^(D-1) would be the conservative choice. This is the paper's.
    """
    p = problem
    return 2.0 * p.L**2 * p.S * p.k * math.sqrt(p.c / p.lam) * _weight_before_change(gamma)


def _weight_before_change(gamma: float) -> float:
    """gamma^D/(1-gamma), what all rounds older than D(gamma) weigh together."""
    return math.pow(gamma, forgetting_time(gamma)) / (1.0 - gamma)


def rho_window(problem: Problem, *, t: int, tau: int, horizon: int | None = None) -> float:
    """rho_t^SW(delta), `eq_rho_SW`; without a horizon, log(t(t+1)/delta) replaces log(T/delta)."""
    checks.integer("tau", tau, least=1)
    return radius(confidence_of(problem, window=tau, horizon=horizon), float(t))


def rho_discount(problem: Problem, *, t: int, gamma: float) -> float:
    """rho_t^D(delta), `eq_rho_D`."""
    return radius(confidence_of(problem, discount=gamma), float(t))


# -- tuning: windows, discounts and penalties ------------------------------------------------------


def _check_tuning(dim: int, horizon: int, changes: int | None, shortest: int = 1) -> None:
    checks.integer("dim", dim, least=1)
    checks.integer("horizon", horizon, least=shortest)
    if changes is not None:
        checks.integer("changes", changes, least=0)


def _rate(dim: int, horizon: int, changes: int | None, slope: float) -> float:
    """(sqrt(slope) Gamma/(dT))^(2/3), with 1 for an unknown Gamma."""
    _check_tuning(dim, horizon, changes)
    known = 1 if changes is None else changes
    rate = math.pow(math.sqrt(slope) * known / (dim * horizon), 2.0 / 3.0)
    if rate >= 1.0:
        raise ValueError(
            f"changes must be less than dim * horizon = {dim * horizon}; got {changes!r}: "
            "with a change in every round there is nothing to remember"
        )
    return rate


def tuned_window(*, dim: int, horizon: int, changes: int | None = None, slope: float = 1.0) -> int:
    """tau of Corollary `corollary:asympt_regret_SW`; without changes, the whole horizon.

    The self-concordant analysis (Russac et al. 2021) has the smallest slope in it: give c.

    >>> tuned_window(dim=2, horizon=6000, changes=3)
    252
    """
    rate = _rate(dim, horizon, changes, slope)
    # A power that should be whole may come out a hair above it: 100^(2/3 * 3/2).
    return horizon if changes == 0 else math.ceil(round(1.0 / rate, 9))


def tuned_discount(
    *, dim: int, horizon: int, changes: int | None = None, slope: float = 1.0
) -> float:
    """gamma of Corollary `corollary:asympt_regret_D`; without changes, 1 - 1/horizon.

    The self-concordant analysis (Russac et al. 2021) has the smallest slope in it: give c.

    >>> round(tuned_discount(dim=2, horizon=6000, changes=3), 5)
    0.99603
    """
    _check_tuning(dim, horizon, changes, shortest=2 if changes == 0 else 1)
    rate = _rate(dim, horizon, changes, slope)
    return 1.0 - (1.0 / horizon if changes == 0 else rate)


def _check_drift(dim: int, horizon: int, path_length: float, shortest: int = 1) -> None:
    _check_tuning(dim, horizon, None, shortest)
    checks.number("path_length", path_length, at_least=0)


def drift_discount(*, dim: int, horizon: int, path_length: float, slope: float = 1.0) -> float:
    """gamma = 1 - max(1/T, sqrt(slope P_T/(dT))), for gradual drift (Wang, Zhao, Zhou 2023).

    slope: 1 for LB-WeightUCB, k c for GLB-WeightUCB, k for SCB-WeightUCB.

    >>> round(drift_discount(dim=2, horizon=6000, path_length=6.0), 5)
    0.97764
    """
    _check_drift(dim, horizon, path_length, shortest=2)
    loss = max(1.0 / horizon, math.sqrt(slope * path_length / (dim * horizon)))
    if loss >= 1.0:
        raise ValueError(
            f"path_length must be less than {dim * horizon / slope:g} over {horizon} rounds; got "
            f"{path_length!r}: with such a drift there is nothing to remember"
        )
    return 1.0 - loss


def restart_period(*, dim: int, horizon: int, path_length: float) -> int:
    """Rounds between restarts, floor((dT/P_T)^(2/3)) but at most T (Zhao et al. 2020).

    >>> restart_period(dim=2, horizon=6000, path_length=6.0)
    158
    """
    _check_drift(dim, horizon, path_length)
    if path_length == 0.0:
        return horizon
    # A power that should be whole may come out a hair below it.
    period = math.floor(round(math.pow(dim * horizon / path_length, 2.0 / 3.0), 9))
    return min(max(period, 1), horizon)


def restart_batch(*, arms: int, horizon: int, variation: float) -> int:
    """Rounds of a batch of REXP3 (Besbes et al. 2014): ceil((K log K)^(1/3) (T/V)^(2/3)) <= T.

    >>> restart_batch(arms=5, horizon=6000, variation=3.0)
    319
    """
    _check_drift(arms, horizon, variation)
    if variation == 0.0:
        return horizon
    power = math.pow(arms * math.log(arms), 1.0 / 3.0)
    batch = math.ceil(round(power * math.pow(horizon / variation, 2.0 / 3.0), 9))
    return min(max(batch, 1), horizon)


def fixed_arms_window(*, horizon: int, changes: int | None = None) -> int:
    """tau = 2 sqrt(T log T/Gamma), at most T (Garivier, Moulines 2011); Gamma is 1 if unknown.

    >>> fixed_arms_window(horizon=6000, changes=3)
    263
    """
    _check_tuning(1, horizon, changes)
    if changes == 0 or horizon == 1:
        return horizon
    return min(horizon, math.floor(2.0 * math.sqrt(horizon * math.log(horizon) / (changes or 1))))


def fixed_arms_discount(*, horizon: int, changes: int | None = None) -> float:
    """gamma = 1 - sqrt(Gamma/T)/4 (Garivier, Moulines 2011); Gamma is 1 if unknown, 1/T if none.

    >>> round(fixed_arms_discount(horizon=6000, changes=3), 5)
    0.99441
    """
    _check_tuning(1, horizon, changes)
    many = 1.0 if changes is None else max(float(changes), 1.0 / horizon)
    return 1.0 - 0.25 * math.sqrt(min(many, float(horizon)) / horizon)


def drift_penalty(*, dim: int, slope: float = 1.0) -> float:
    """lam = d/c: the d/c^2 of Wang, Zhao, Zhou (2023), whose penalty is c lam theta."""
    return dim / slope


def self_concordant_penalty(*, dim: int, horizon: int) -> float:
    """lam = d log T (Russac et al. 2021; Wang, Zhao, Zhou 2023, whose penalty is c lam theta)."""
    _check_tuning(dim, horizon, None, shortest=2)
    return dim * math.log(horizon)


def relative_variance(problem: Problem) -> float:
    """The variance of a reward over mu': 1, or m^2/4 where R = 0 says that mu is the identity."""
    return 1.0 if problem.R else problem.m**2 / 4.0


def mirror_step(problem: Problem) -> float:
    """eta = 1 + R S L of GLB-OMD (Zhang, Xu, Zhao, Sugiyama 2025, Theorem 1)."""
    return 1.0 + problem.R * problem.S * problem.L


def mirror_penalty(problem: Problem) -> float:
    """lam = L^2 eta max(14 d R^2, 6 R S L k), as the same theorem asks; 1 for the identity.

    In its experiments lam is d.

    >>> mirror_penalty(Problem(d=2, k=0.25, c=0.2))
    56.0
    """
    p = problem
    least = max(14.0 * p.d * p.R**2, 6.0 * p.R * p.S * p.L * p.k)
    return p.L**2 * mirror_step(p) * least if p.R else 1.0


# -- regret bounds, and the rounds in which confidence bounds hold ---------------------------------


def regret_bound_window(problem: Problem, *, horizon: int, tau: int, changes: int) -> float:
    """The bound of Theorem `theorem_regret_SW`, with probability at least 1 - 2 delta."""
    p = problem
    rho = rho_window(p, t=horizon, tau=tau, horizon=horizon)
    log_det = p.d * math.ceil(horizon / tau) * math.log1p(p.c * p.L**2 * tau / (p.d * p.lam))
    return 2.0 * math.sqrt(2.0) * rho * math.sqrt(horizon * log_det) + p.m * changes * tau


def regret_bound_discount(problem: Problem, *, horizon: int, gamma: float, changes: int) -> float:
    """The bound of Theorem `theorem_regret_D`, with probability at least 1 - 2 delta."""
    p = problem
    rho = rho_discount(p, t=horizon, gamma=gamma)
    log_det = horizon * math.log(1.0 / gamma) + math.log1p(
        p.c * p.L**2 / (p.d * p.lam * (1.0 - gamma))
    )
    stay = 2.0 * rho * math.sqrt(2.0 * p.d * horizon) * math.sqrt(log_det)
    return stay + p.m * changes * forgetting_time(gamma)


def covered_by_window(theta: ArrayLike, *, tau: int) -> NDArray[np.bool_]:
    """Mark the rounds in T(tau), `D_tau_def`: no change in t-tau..t. theta is (T, d)."""
    checks.integer("tau", tau, least=1)
    return _rounds_since_change(theta) >= tau


def covered_by_discount(theta: ArrayLike, *, gamma: float) -> NDArray[np.bool_]:
    """Mark the rounds in T(gamma): no change in t-D(gamma) < s <= t. theta is (T, d)."""
    # s > t - D over whole rounds: the furthest s is ceil(D) - 1 rounds back
    return _rounds_since_change(theta) >= math.ceil(forgetting_time(gamma)) - 1


def _rounds_since_change(theta: ArrayLike) -> NDArray[np.float64]:
    """Rounds that the parameter has already been theta_t; infinite before the first change."""
    path = np.asarray(theta, dtype=np.float64)
    if path.ndim != 2 or not np.isfinite(path).all():
        raise ValueError(f"theta must be a finite (T, d) array; got shape {path.shape}")
    rounds = np.arange(float(len(path)))
    stayed = np.append(True, np.all(path[1:] == path[:-1], axis=1))[: len(path)]
    since: NDArray[np.float64] = np.maximum.accumulate(np.where(stayed, -np.inf, rounds))
    return rounds - since
