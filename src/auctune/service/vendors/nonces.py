"""Numbers used once: a request that was seen is not taken a second time."""

import heapq

MAX_NONCES = 100_000


class SeenNonces:
    """Remembers nonces for as long as their timestamps would be taken.

    Args:
        life_seconds: how long one is remembered.
        room: how many are; with more than that, none is new, so that a flood opens no gap.
    """

    def __init__(self, life_seconds: float, room: int = MAX_NONCES) -> None:
        self._life_seconds = life_seconds
        self._room = room
        self._seen: set[str] = set()
        self._by_age: list[tuple[float, str]] = []

    def add(self, nonce: str, now: float) -> bool:
        """Whether the nonce is new; from now on it is not."""
        while self._by_age and self._by_age[0][0] <= now:
            self._seen.discard(heapq.heappop(self._by_age)[1])
        if nonce in self._seen or len(self._seen) >= self._room:
            return False
        self._seen.add(nonce)
        heapq.heappush(self._by_age, (now + self._life_seconds, nonce))
        return True
