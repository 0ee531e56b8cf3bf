"""Which arguments of a policy its estimate depends on.

Where only others change, what was learned is carried over: the agent goes on with the same state.
Where one of these changes, the state would be that of no policy, and has to be learned again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from driftbandits.policies import Policy, Row

SEED = "seed"


def _always(row: Row) -> bool:
    return True


def _never(row: Row) -> bool:
    return False


def _draws_windows(row: Row) -> bool:
    return row.adaptation == "bandit over windows"


def _tests_arms(row: Row) -> bool:
    return row.adaptation == "arm tests"


ESTIMATE_DEPENDS_ON: Mapping[str, Callable[[Row], bool]] = {
    "name": _always,
    "dim": _always,
    "link": _always,  # m is part of it
    "window": _always,
    "discount": _always,
    "lam": _always,
    "S": _always,  # by c_mu, which the design matrix holds lam / c_mu of
    "L": _always,
    "intercept": _always,
    "centre": _always,
    "tolerance": _always,
    "arms": _always,
    "reward": _always,  # its text; what becomes of values outside of it is of those to come
    "features": _always,
    "false_alarm_rate": lambda row: row.false_alarm_rate > 0.0,
    "delta": lambda row: row.adaptation == "judged models",  # by which rewards are judged bad
    "horizon": lambda row: _draws_windows(row) or _tests_arms(row),  # elsewhere by the memory
    "changes": _tests_arms,
    SEED: _draws_windows,
    "path_length": _never,
    "bonus_scale": _never,
    "projection": _never,
    "epsilon": _never,
    "too_long": _never,
}
"""For each argument, the rows whose estimate depends on it."""


def changed_arguments(old: Policy, new: Policy) -> list[str]:
    """The arguments that two policies differ in; how large a growing model is, is none."""
    differing = [name for name in Policy.__dataclass_fields__ if _of(old, name) != _of(new, name)]
    if old.features is not None and old.features == new.features and "dim" in differing:
        differing.remove("dim")
    return differing


def _of(policy: Policy, name: str) -> object:
    if name == "reward" and policy.reward is not None:
        return policy.reward.text
    return getattr(policy, name)


def relearned_arguments(
    old: Policy, new: Policy, *, old_seed: int = 0, new_seed: int = 0
) -> list[str]:
    """Those of the changed arguments that the estimate of the new policy depends on."""
    differing = changed_arguments(old, new) + ([SEED] if old_seed != new_seed else [])
    return [name for name in differing if ESTIMATE_DEPENDS_ON[name](new.row)]
