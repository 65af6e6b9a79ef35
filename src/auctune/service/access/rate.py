"""How much of something a key or a user may do: a bucket that refills at a steady rate."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class RateLimit:
    """Buckets of all keys.

    Args:
        per_second: requests that a bucket gains in a second, > 0.
        burst: requests that a full bucket holds, >= 1.
        now: tells the time; seconds, never going back.
    """

    def __init__(self, per_second: float, burst: float, now: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._buckets: dict[str, _Bucket] = {}

    def acquire(self, key: str, count: float = 1.0) -> float:
        """Take so much from a key's bucket; seconds to wait where it has less, else 0.

        What is more than a full bucket holds counts as a full one.
        """
        count = min(count, self._burst)
        now = self._now()
        bucket = self._buckets.get(key)
        if bucket is None:
            self._evict_full(now)
            bucket = self._buckets[key] = _Bucket(self._burst, now)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.left < count:
            return (count - bucket.left) / self._per_second
        bucket.left -= count
        return 0.0

    def count_earlier(self, key: str, age: float) -> None:
        """Count one use of so many seconds ago; uses of a key come oldest first, before any other.

        A bucket that is empty stays so.
        """
        at = self._now() - age
        bucket = self._buckets.setdefault(key, _Bucket(self._burst, at))
        bucket.left = min(self._burst, bucket.left + (at - bucket.at) * self._per_second)
        bucket.left, bucket.at = max(0.0, bucket.left - 1.0), at

    def _evict_full(self, now: float) -> None:
        """A full bucket is as good as none: keys that come no more take no memory."""
        if len(self._buckets) < 10_000:
            return
        fill = self._burst / self._per_second
        self._buckets = {k: b for k, b in self._buckets.items() if now - b.at < fill}
