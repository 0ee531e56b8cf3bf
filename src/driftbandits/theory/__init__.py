"""What is proved: how to tune, how wide to be, and what the regret is bounded by.

The paper's formulas, and those of the later works that `policies.catalogue` cites.

Notation
--------
T        horizon                              d        dimension of the model
Gamma    number of changes up to T            tau      window
gamma    discount                             D(gamma) rounds after which a change is forgotten
k, c     largest and smallest slope           lam      penalty
L, S     bounds of ||a|| and ||theta||        m        largest reward
delta    probability that a bound fails       n        rows that count: min(t, tau), ...
P_T      path length: sum of ||theta_t - theta_{t-1}|| up to T
"""

from driftbandits.theory.bounds import (
    covered_by_discount,
    covered_by_window,
    regret_bound_discount,
    regret_bound_window,
)
from driftbandits.theory.radii import (
    RADII,
    Confidence,
    Problem,
    bonus_radius,
    confidence_of,
    confidence_reader,
    depends_on_inside,
    deviation,
    discount_bias,
    discounted_count,
    forgetting_time,
    radius,
    rho_discount,
    rho_window,
    rows_that_count,
)
from driftbandits.theory.tuning import (
    drift_discount,
    drift_penalty,
    fixed_arms_discount,
    fixed_arms_window,
    restart_batch,
    restart_period,
    self_concordant_penalty,
    tuned_discount,
    tuned_window,
)

__all__ = [
    "RADII",
    "Confidence",
    "Problem",
    "bonus_radius",
    "confidence_of",
    "confidence_reader",
    "covered_by_discount",
    "covered_by_window",
    "depends_on_inside",
    "deviation",
    "discount_bias",
    "discounted_count",
    "drift_discount",
    "drift_penalty",
    "fixed_arms_discount",
    "fixed_arms_window",
    "forgetting_time",
    "radius",
    "regret_bound_discount",
    "regret_bound_window",
    "restart_batch",
    "restart_period",
    "rho_discount",
    "rho_window",
    "rows_that_count",
    "self_concordant_penalty",
    "tuned_discount",
    "tuned_window",
]
