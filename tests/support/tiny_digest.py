"""The tiny base's digest, for a profile that is made up for it."""

from pathlib import Path

from auctune.run.base_cache import base_cache


def tiny_digest(cache: Path | None = None) -> str:
    """SHA-256 over its configuration and weights; it is built if it is not there."""
    from auctune.train.base import load_base

    return load_base("tiny", cache=cache or base_cache()).digest
