"""The tiny base for tests, built once and kept; pytest_plugins = ["support.tiny_bases"]."""

import fcntl
from pathlib import Path

import pytest

from auctune.engine.base_place import base_cache
from auctune.train.base import Base, load_base
from auctune.train.tiny import tiny_folder


@pytest.fixture(scope="session")
def tiny_cache() -> Path:
    """Where commands that tests start have the tiny base, too."""
    cache = base_cache()
    cache.mkdir(parents=True, exist_ok=True)
    # Built by one of the processes of xdist, for which the others wait.
    with (cache / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tiny_folder(cache)
    return cache


@pytest.fixture
def tiny_base(tiny_cache: Path) -> Base:
    return load_base("tiny", cache=tiny_cache)
