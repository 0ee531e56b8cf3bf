"""The JSON of every request and answer, written once for the service and its client.

The service refuses what a request does not list. The client reads answers as leniently as it can:
fields and words that a later service adds do not disturb it.
"""

from driftbandits.api.decisions import *
from driftbandits.api.policies import *
