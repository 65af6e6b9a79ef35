"""Few tests have a Ray cluster at once, whatever the number of processes that run tests.

Ray gives up a node that was not heard of for some seconds: clusters may not wait for each other's
processors; most other tests wait for time to pass, and more of them fit beside each other.
"""

import fcntl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

CLUSTERS = 2


class RaySlots:
    """Tests marked `ray` wait for one of these slots; without Ray they are skipped."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if find_spec("ray") is None:
            skip = pytest.mark.skip(reason="Ray is not here: the extra `ray` has it")
            for item in items:
                if item.get_closest_marker("ray"):
                    item.add_marker(skip)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """From before the fixtures of a test until after them."""
        if item.get_closest_marker("ray"):
            with _slot():
                return (yield)
        return (yield)


@contextmanager
def _slot() -> Iterator[None]:
    """A lock of a file, which ends with its process."""
    paths = [Path(tempfile.gettempdir()) / f"auctune-tests-ray-{n}.lock" for n in range(CLUSTERS)]
    files = [path.open("a") for path in paths]
    try:
        while not any(_lock(file.fileno()) for file in files):
            time.sleep(0.2)
        yield
    finally:
        for file in files:
            file.close()


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
