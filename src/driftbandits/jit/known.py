"""Whether this is a numba whose insides the other modules here have been tried with."""

import numba

IS_KNOWN = numba.version_info.short == (0, 68)
"""With any other the same kernels are made by its public ways alone, which takes longer."""
