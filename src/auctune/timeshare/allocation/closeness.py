"""Whether deadlines are so close together that no thread must be first.

With the nearest deadline at least `near` of the time to the farthest one away, whoever is served
first hardly decides who is late; who is chosen at all does. Then it pays to see all threads learn.
With deadlines further apart the nearest one needs the whole pool now, and the others can wait.
"""

import numpy as np

from auctune.domain.checks import check_finite
from auctune.numerics.jit import kernel
from auctune.timeshare.arrays import Bools, Floats


@kernel
def apart(left: Floats, possible: Bools, near: float) -> bool:
    """Whether the nearest deadline is less than `near` of the farthest one away.

    Args:
        left: [k] units of time until the deadlines.
        possible: [k] threads that count.
        near: the share.
    """
    nearest, farthest = np.inf, 0.0
    for k in range(len(left)):
        if possible[k]:
            nearest = min(nearest, left[k])
            farthest = max(farthest, left[k])
    return nearest < near * farthest


def check_near(near: float) -> None:
    """Refuse what is no share.

    Raises:
        InputError: naming `near`.
    """
    check_finite(near, "near", "a number >= 0")
