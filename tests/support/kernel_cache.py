"""One cache of compiled kernels for all tests and the processes that they start.

Many of these have a home of their own, where they would compile all kernels anew. The cache is the
user's, which `make setup` fills.
"""

import os
from pathlib import Path


def share_kernels() -> None:
    """Name the cache to kernels that are imported from now on, here and in children."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    os.environ.setdefault("NUMBA_CACHE_DIR", cache)
