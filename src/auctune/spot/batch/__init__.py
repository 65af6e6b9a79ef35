"""Many policies on many jobs at once."""

from auctune.spot.batch.play import BatchOutcome, play_batch

__all__ = ["BatchOutcome", "play_batch"]
