"""What adapts the memory of a policy as it goes, by name.

An adaptation is a module with

    FAMILY                          by which kernels it is played, see policies/kernels.py
    Numbers                         a NamedTuple of the numbers that its kernels read
    numbers_for(policy)             these numbers
    sizes_for(policy)               what its state needs beyond the estimator's (`jit.Layout.sizes`)
    window_for(policy)              the longest window that it uses; None: no window
    weights_of_ages(policy, buffers, ages)
                                    what remembered rows of these ages weigh

    carry_over(policy, old, new, move)
                                    if its models can gain and lose coordinates: fill the buffers
                                    of `policy` in, see policies/carrying.py

and kernels

    advance(model, state, rounds)   let the clock go on
    estimate(model, scoring, numbers, state, seed, actions)
                                    bring theta_hat and theta up to date before a decision
    learn(model, scoring, confidence, numbers, state, reward, s)
                                    learn the reward of scratch.row, chosen in round s

What a module does not change it takes from fixed.py. State of its own is a NamedTuple whose fields
are annotated with their shares of the stores, and `layout_beyond` makes of it what gives a kernel
the fields by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from driftbandits.policies.adaptations import (
    arm_tests,
    belief,
    change_test,
    dlinucb,
    exponential,
    fixed,
    online,
    pool,
    windows,
)

ADAPTATIONS: Mapping[str, ModuleType] = {
    "none": fixed,
    "change test": change_test,
    "bandit over windows": windows,
    "judged models": dlinucb,
    "pool of memories": pool,
    "arm tests": arm_tests,
    "belief": belief,
    "online Newton": online,
    "exponential weights": exponential,
}
