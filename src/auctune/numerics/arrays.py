"""Array types of all mechanisms, and how equal is equal.

Work and capacity are sums of float64: they are compared with a relative slack `FIT`, so that ten
tenths fill a node. Two schedules whose costs differ by no more than `TIE` of their size differ by
rounding only; they tie, and the tie order decides. Without that, the order in which energy costs
happen to be added would choose between schedules that cost the same.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FIT = 1e-9
TIE = 1e-12
