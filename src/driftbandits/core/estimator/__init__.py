"""Penalised weighted maximum likelihood over all rounds, a window, or discounted rounds."""

from driftbandits.core.estimator.memory import absorb, advance, keeps_rows
from driftbandits.core.estimator.model import Model, large_model_of, model_of
from driftbandits.core.estimator.solve import estimate, fit
from driftbandits.core.estimator.state import Buffers, State, new_buffers, state_of, with_capacity

__all__ = [
    "Buffers",
    "Model",
    "State",
    "absorb",
    "advance",
    "estimate",
    "fit",
    "keeps_rows",
    "large_model_of",
    "model_of",
    "new_buffers",
    "state_of",
    "with_capacity",
]
