"""Whether this is a numba whose insides the other modules here have been tried with."""

import numba

KNOWN = ((0, 67), (0, 68))
IS_KNOWN = numba.version_info.short in KNOWN
"""With any other the same kernels are made by its public ways alone, which takes longer."""
