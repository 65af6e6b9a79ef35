"""Few tests have a Ray cluster at once, whatever the number of processes that run tests.

Ray gives up a node that was not heard of for some seconds: clusters may not wait for each other's
processors; most other tests wait for time to pass, and more of them fit beside each other.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pytest

MAX_CLUSTERS = 2


class RayClusterLimit:
    """Tests marked `ray` wait until there are fewer clusters; without Ray they are skipped."""

    def __init__(self) -> None:
        self._lock: IO[str] | None = None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if find_spec("ray") is None:
            skip = pytest.mark.skip(reason="Ray is not here: the extra `ray` has it")
            for item in items:
                if item.get_closest_marker("ray"):
                    item.add_marker(skip)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """From before the fixtures of a test until its module ends: it may have the cluster."""
        if self._lock is None and item.get_closest_marker("ray"):
            self._lock = _wait_for_lock()
        try:
            return (yield)
        finally:
            if self._lock is not None and (nextitem is None or nextitem.path != item.path):
                self._lock.close()
                self._lock = None


def _wait_for_lock() -> IO[str]:
    """Return one of the locked files; the lock ends with its process."""
    folder = Path(tempfile.gettempdir())
    while True:
        for number in range(MAX_CLUSTERS):
            file = (folder / f"auctune-tests-{os.getuid()}-ray-{number}.lock").open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
            else:
                return file
        time.sleep(0.2)
