"""What a thread still needs, as an estimator says it."""

import math
from dataclasses import dataclass

# Beyond this a need is called infinite: nobody trains so long.
MOST_BATCHES = 1e15

# Quantiles that `low` and `high` stand for, and how many standard deviations a normal has there.
LOW_LEVEL, HIGH_LEVEL = 0.1, 0.9
SPREAD = 1.2815515655446004


@dataclass(frozen=True, slots=True)
class Need:
    """Batches until a loss is reached.

    Attributes:
        batches: whole, at least 1; infinite if the loss is out of reach; 0 if it has been reached.
        low, high: the 10% and the 90% quantile of what it may be; low <= batches <= high.
    """

    batches: float
    low: float
    high: float


def need_at_sight(samples: float, loss: float, threshold: float) -> Need | None:
    """What a thread's last unit says by itself; none if a law must be asked.

    Args:
        samples: batches so far.
        loss: of the last unit.
        threshold: to be reached.
    """
    if samples == 0.0:
        return Need(math.inf, 1.0, math.inf)
    if not math.isfinite(loss):
        return Need(math.inf, math.inf, math.inf)
    if loss <= threshold:
        return Need(0.0, 0.0, 0.0)
    return None
