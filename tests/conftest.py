"""Settings shared by all tests."""

import os

from hypothesis import settings

# No deadlines: the first call of a kernel compiles it. `make test` draws the same examples every
# time, so that a red run is about the change at hand; `make slow` looks for new ones.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("coverage", parent=settings.get_profile("fixed"), max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
