"""One cache of compiled kernels for all tests and the processes that they start.

Many of these have a home of their own, where they would compile all kernels anew.
"""

import os
from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[2] / ".pytest_cache" / "kernels"


def share_kernels() -> None:
    """Name the cache to kernels that are imported from now on, here and in children."""
    os.environ.setdefault("NUMBA_CACHE_DIR", str(_FOLDER))
