"""How to tune: windows, discounts and penalties, by the paper and by later works.

See theory/__init__.py for the notation.
"""

from __future__ import annotations

import math

from driftbandits import checks


def _check_tuning(dim: int, horizon: int, changes: int | None) -> None:
    checks.integer("dim", dim, least=1)
    checks.integer("horizon", horizon, least=1)
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
    rate = _rate(dim, horizon, changes, slope)
    if changes == 0:
        if horizon == 1:
            raise ValueError("horizon must be at least 2 for a discount with changes=0; got 1")
        return 1.0 - 1.0 / horizon
    return 1.0 - rate


def _check_drift(dim: int, horizon: int, path_length: float) -> None:
    _check_tuning(dim, horizon, None)
    if not (math.isfinite(path_length) and path_length >= 0.0):
        raise ValueError(f"path_length must be finite and at least 0; got {path_length!r}")


def drift_discount(*, dim: int, horizon: int, path_length: float, slope: float = 1.0) -> float:
    """gamma = 1 - max(1/T, sqrt(slope P_T/(dT))), for gradual drift (Wang, Zhao, Zhou 2023).

    slope: 1 for LB-WeightUCB, k c for GLB-WeightUCB, k for SCB-WeightUCB.

    >>> round(drift_discount(dim=2, horizon=6000, path_length=6.0), 5)
    0.97764
    """
    _check_drift(dim, horizon, path_length)
    if horizon < 2:
        raise ValueError(f"horizon must be at least 2 for a discount; got {horizon!r}")
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
    _check_tuning(dim, horizon, None)
    if horizon < 2:
        raise ValueError(f"horizon must be at least 2 for the penalty d log T; got {horizon!r}")
    return dim * math.log(horizon)
