import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Only the root's conftest may name plugins."""
    config.pluginmanager.import_plugin("support.one_thread")
