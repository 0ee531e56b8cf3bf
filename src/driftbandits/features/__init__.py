"""Turn tables into vectors, and rewards in their own units into the model's."""

from driftbandits.features.columns import KINDS
from driftbandits.features.encoding import Encoded, Encoding, Report, aligned, report_on
from driftbandits.features.guessing import is_outcome
from driftbandits.features.inputs import (
    ArmId,
    Offered,
    arm_id,
    frame_of,
    offered,
    offers_of,
    records_of,
    refuse_twice,
)
from driftbandits.features.rewards import CLIP, Reward, reward
from driftbandits.features.spec import IGNORE, Features, features_from

__all__ = [
    "CLIP",
    "IGNORE",
    "KINDS",
    "ArmId",
    "Encoded",
    "Encoding",
    "Features",
    "Offered",
    "Report",
    "Reward",
    "aligned",
    "arm_id",
    "features_from",
    "frame_of",
    "is_outcome",
    "offered",
    "offers_of",
    "records_of",
    "refuse_twice",
    "report_on",
    "reward",
]
