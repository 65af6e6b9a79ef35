"""A market for the tests of a module; pytest_plugins = ["support.served_market"]."""

from collections.abc import Iterator

import pytest

from auctune.service.config.models import ServiceConfig
from support.serving import Served, make_file, serving


@pytest.fixture(scope="module")
def service_file() -> ServiceConfig:
    """What it serves: one zone; a module that wants others has a fixture of this name."""
    return make_file()


@pytest.fixture(scope="module")
def served(
    service_file: ServiceConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("market"), service_file) as opened:
        yield opened
