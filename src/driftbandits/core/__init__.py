"""The paper's mathematics: reward models, the estimator, confidence radii, tuning and bounds."""

from driftbandits.core.estimator import memory
from driftbandits.core.estimator.memory import keeps_rows
from driftbandits.core.estimator.model import Model, large_model_of, model_of
from driftbandits.core.estimator.solve import estimate
from driftbandits.core.estimator.state import Buffers, State, new_buffers, state_of, with_capacity
from driftbandits.core.links import link
from driftbandits.core.theory import (
    RADII,
    Confidence,
    bonus_radius,
    depends_on_inside,
    rows_that_count,
)
