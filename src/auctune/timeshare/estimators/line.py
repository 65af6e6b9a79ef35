"""Where a falling line crosses a level, and how sure that is; shared by the estimators' kernels."""

import math

import numpy as np

from auctune.numerics.jit import kernel
from auctune.timeshare.estimators.need import MOST_BATCHES

_MOST_LOG = math.log(MOST_BATCHES)


@kernel
def batches_until(log_end: float, samples: float) -> float:
    """Whole batches from `samples` up to e^log_end, one at least; infinite beyond all sense."""
    # Not <=: NaN, of infinities that cancel, is out of reach as well.
    if not log_end <= _MOST_LOG:
        return np.inf
    return max(1.0, math.ceil(math.exp(log_end) - samples))
