"""What is kept of one policy's run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandits.checks import Floats
from driftbandits.policies import Detection

Ints = NDArray[np.int64]

RECORDS = ("regret", "chosen", "theta_hat", "intervals", "detections")
"""What a run may keep."""
USUAL_RECORDS = ("regret", "chosen", "theta_hat")


class Run(NamedTuple):
    """What one policy did in one run. What is not recorded is empty."""

    regret: Floats  # (T,) cumulative
    chosen: Ints  # (T,)
    theta_hat: Floats  # (T, d), row t is what decision t used
    means: Floats  # (T, K) of every arm
    widths: Floats  # (T, K)
    seconds: float  # of the compiled call alone
    work: dict[str, int]  # what the estimator counted
    detections: tuple[Detection, ...] = ()
