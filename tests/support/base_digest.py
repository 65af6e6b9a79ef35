"""What another process computes of a base."""

from pathlib import Path

from auctune.train.base import load_base


def digest_of(folder: Path) -> str:
    """Return the digest of the base in a folder."""
    return load_base(str(folder), cache=folder).digest
