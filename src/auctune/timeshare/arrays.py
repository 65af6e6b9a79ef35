"""Array types of this package.

Shapes: k threads of a bundle, i observations of one thread, m members of a mixture, t unit times.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
