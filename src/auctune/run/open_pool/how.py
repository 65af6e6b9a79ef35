"""How threads leave a standing pool."""

from enum import StrEnum


class How(StrEnum):
    """How a thread left."""

    REACHED = "reached"
    """Its loss was at or under its threshold."""
    MISSED = "missed"
    """Its deadline passed."""
    ENDED = "ended"
    """It was to end with what it had learned."""
    DROPPED = "dropped"
    """It was not wanted any more."""
    SLOW = "slow"
    """One of its batches took longer than a thread may hold the pool."""
    BROKEN = "broken"
    """Its own code ended with an error."""
