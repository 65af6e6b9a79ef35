"""Array types of this package.

Shapes: t slots, n counts of GPUs (0..N_max), k units of work on a grid, h slots from now on,
q quantile levels, m policies.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
