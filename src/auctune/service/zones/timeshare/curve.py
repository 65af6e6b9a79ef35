"""A job's losses, kept in little room however long it trains.

Each point is a unit of time, or several that were put together: batches up to its end, the mean
loss over them, and the seconds of the pool that they took. Where there would be more than MOST
points, each two of them become one.
"""

from dataclasses import dataclass, field

MOST = 64

Point = tuple[int, float, float]
"""Batches at its end, mean loss over its batches, and seconds of the pool."""


@dataclass
class Curve:
    """Of one job.

    Attributes:
        points: oldest first.
    """

    points: list[Point] = field(default_factory=list)

    @property
    def batches(self) -> int:
        """Learned in all."""
        return self.points[-1][0] if self.points else 0

    @property
    def seconds(self) -> float:
        """Of the pool, in all."""
        return sum(seconds for _, _, seconds in self.points)

    def add(self, batches: int, loss: float, seconds: float) -> None:
        """Take in a unit.

        Args:
            batches: of it, > 0.
            loss: the mean over them, finite.
            seconds: of the pool.
        """
        self.points.append((self.batches + batches, loss, seconds))
        if len(self.points) > MOST:
            # The newest stays as it is, so that what was seen last is seen sharply.
            *older, newest = self.points
            starts = range(0, len(older), 2)
            self.points = [self._merge(older, start) for start in starts] + [newest]

    def _merge(self, points: list[Point], start: int) -> Point:
        first = points[start]
        if start + 1 == len(points):
            return first
        second = points[start + 1]
        before = points[start - 1][0] if start else 0
        one, two = first[0] - before, second[0] - first[0]
        loss = (one * first[1] + two * second[1]) / (one + two)
        return second[0], loss, first[2] + second[2]
