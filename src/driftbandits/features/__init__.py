"""From tables to vectors: columns of a context and of an arm, their kinds, and what they mean."""

from driftbandits.features.encoding import Encoded, Encoding
from driftbandits.features.kinds import KINDS
from driftbandits.features.reporting import Report, report_on
from driftbandits.features.spec import Features, features_from
from driftbandits.features.tables import records_of

__all__ = [
    "KINDS",
    "Encoded",
    "Encoding",
    "Features",
    "Report",
    "features_from",
    "records_of",
    "report_on",
]
