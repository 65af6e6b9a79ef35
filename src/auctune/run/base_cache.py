"""Where bases that are built on this machine are kept; known without loading what builds them."""

import os
from pathlib import Path


def base_cache() -> Path:
    """The folder; it need not be there yet."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "auctune" / "bases"
