"""How fast a rented zone's jobs start and train, as its own jobs showed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

KEPT_JOBS = 20
"""Of so many of the newest jobs what they showed is kept: machines and their load change."""

_START_LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class Pace:
    """What the zone counts on for its next job.

    Attributes:
        start_seconds: from the admission of a job until its process can train.
        speeds: work that instances did, over what their profile promised; one value for each of
            the newest jobs, the newest first.
    """

    start_seconds: float
    speeds: tuple[float, ...]

    @property
    def speed(self) -> float:
        """What a job is planned with."""
        return median(self.speeds)


def learned_pace(starts: Sequence[float], speeds: Sequence[float], prior_start: float) -> Pace:
    """Return the pace that past jobs showed.

    A plan begins after a start that 9 of 10 processes kept, as each slot missed is lost.

    Args:
        starts: seconds that processes took to start, the oldest first.
        speeds: likewise of jobs.
        prior_start: seconds, while no process has started.
    """
    start = prior_start
    if starts:
        start = sorted(starts)[math.ceil(_START_LEVEL * len(starts)) - 1]
    return Pace(start, tuple(reversed(speeds)) or (1.0,))
