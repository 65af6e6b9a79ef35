"""What tests of market runs share; pytest_plugins = ["support.market_fixtures", ...]."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import pytest

from support.market_runs import Commands


@pytest.fixture(scope="session")
def cache_home(tiny_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's cache folder in which the tiny base is built and the kernels are compiled."""
    home = tmp_path_factory.mktemp("cache-home")
    (home / "auctune").mkdir()
    (home / "auctune" / "bases").symlink_to(tiny_cache)
    # On its import it tells numba where to keep them.
    import_module("auctune.numerics.jit")
    config: Any = numba.config
    (home / "auctune" / "kernels").symlink_to(Path(config.CACHE_DIR).parent)
    return home


@pytest.fixture
def in_cache(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))
    return cache_home


@pytest.fixture
def auctune(cache_home: Path) -> Iterator[Commands]:
    """Starts `auctune`; whatever of it is still there at the end is killed."""
    commands = Commands(cache_home)
    yield commands
    commands.clear()
