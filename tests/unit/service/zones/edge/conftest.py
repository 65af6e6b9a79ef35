"""Edge zones of small chunks, in all tests here."""

from collections.abc import Iterator

import pytest

from support.edge_zones import edge_constants


@pytest.fixture(autouse=True, scope="module")
def _small_chunks() -> Iterator[None]:
    with edge_constants():
        yield
