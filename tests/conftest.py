"""Which tests are run, where their kernels are kept, and on how many threads they compute."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kernel_cache import share_kernels
from support.one_fork_server import open_fork_server
from support.thorough import THOROUGH

share_kernels()
# Threads of tiny products wait for each other far longer than they compute. Here before torch is
# loaded, for this process and all that it starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure() -> None:
    """Before any process is started."""
    open_fork_server()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a quick run leaves out, and what needs a GPU unless `-m gpu` asks for it."""
    absent = set() if THOROUGH else {"thorough"}
    if config.getoption("markexpr") != "gpu":
        absent.add("gpu")
    left_out = [item for item in items if any(map(item.get_closest_marker, absent))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def _same_folder() -> Iterator[None]:
    """Fail the test that leaves the process in another folder, not the one that runs after it."""
    before = Path.cwd()
    yield
    after = Path.cwd()
    os.chdir(before)
    assert after == before, f"the test left the process in {after}"
