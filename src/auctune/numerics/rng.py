"""Random streams: one seed enters a run, and every draw has a name.

A stream is keyed by the seed and by what is drawn for, not by how many draws came before. So a
replay that skips decisions already made goes on with the same draws.
"""

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator for one purpose, the same whenever it is asked for."""
    digest = hashlib.blake2b(repr(names).encode(), digest_size=16).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "little")])
