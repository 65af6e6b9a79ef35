"""The tiny base's architecture, for a profile that is made up for it."""

from pathlib import Path

from auctune.engine.base_place import base_cache


def tiny_architecture(cache: Path | None = None) -> str:
    """As profiles name it; the base is built if it is not there."""
    from auctune.train.base import load_base

    return load_base("tiny", cache=cache or base_cache()).architecture
