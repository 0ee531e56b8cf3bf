"""The paper's mathematics: reward models, the estimator, confidence radii, tuning and bounds."""

from driftbandits.core.estimator import *
from driftbandits.core.estimator import memory as memory
from driftbandits.core.links import link as link
from driftbandits.core.theory import *
