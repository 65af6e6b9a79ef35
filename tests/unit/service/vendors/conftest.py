from collections.abc import Iterator

import pytest

from support.vendor_market import VendorMarket, vendor_market


@pytest.fixture(scope="module")
def market() -> Iterator[VendorMarket]:
    with vendor_market({}) as market:
        yield market
