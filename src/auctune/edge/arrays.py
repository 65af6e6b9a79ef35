"""Names of the arrays of this package."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FIT = 1e-9
"""Relative slack within which sums of float64 fill a capacity."""
