"""torch on one thread, for all tests; pytest_plugins = ["support.one_thread"]."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Threads of tiny products wait for each other far longer than they compute."""
    torch.set_num_threads(1)
