"""A site for the tests of a module; pytest_plugins = ["support.spot_site"]."""

import pytest

from support.spot_runs import Site, make_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A base, data, and room for runs."""
    return make_site(tmp_path_factory.mktemp("site"))
