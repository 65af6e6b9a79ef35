"""One nursery for all tests and the processes that they start: torch is imported once."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from auctune.run.child import nursery

# Where the hub's cache would be, whatever home a test gives its processes.
_HUB = Path(__file__).resolve().parents[2] / ".pytest_cache" / "hub"


def open_nursery(config: pytest.Config) -> None:
    """For this session; processes of xdist have that of the one that started them."""
    os.environ.setdefault("HF_HOME", str(_HUB))
    ends = ExitStack()
    ends.enter_context(nursery())
    config.add_cleanup(ends.close)
