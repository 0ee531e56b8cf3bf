"""Compile kernels, or take them from a wheel. This is the only room that imports numba."""

from driftbandits.jit.arrays import *
from driftbandits.jit.kernels import *
from driftbandits.jit.lanes import *
from driftbandits.jit.native import *
from driftbandits.jit.records import *
