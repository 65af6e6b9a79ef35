"""Everything of a zone that takes time: its clock, and what runs its jobs."""

from typing import Protocol


class Workshop(Protocol):
    """Of one zone."""

    async def start(self) -> None:
        """Start what runs jobs, and take up what was under way."""
        ...

    async def stop(self) -> None:
        """Stop it; what was done so far is on record or on disk."""
        ...
