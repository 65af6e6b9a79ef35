import asyncio
import time

import pytest

from auctune.domain import InputError
from auctune.service.vendors import VendorParams, VendorToken
from auctune.service.vendors.repairer import VendorGateway

PARAMS = VendorParams("mender", "https://mender.example", VendorToken("m" * 32))


def test_data_sets_are_shared_over_tls_or_loopback_only() -> None:
    for url in ("http://0.0.0.0:8420", "http://market.example"):
        gateway = VendorGateway(url, time.time)
        assert gateway.vendors(()) == ()
        with pytest.raises(InputError, match="public_url"):
            gateway.vendors([PARAMS])


@pytest.mark.parametrize(
    ("url", "token", "key"),
    [
        ("https://other.example", VendorToken("m" * 32), "url"),
        ("https://mender.example", VendorToken("o" * 32), "token"),
    ],
)
def test_a_name_is_one_vendor_in_all_zones(url: str, token: VendorToken, key: str) -> None:
    async def share() -> None:
        gateway = VendorGateway("https://market.example", time.time)
        try:
            apps = [gateway.app]
            gateway.vendors([PARAMS])
            gateway.vendors([PARAMS])
            apps.append(gateway.app)
            assert [app is None for app in apps] == [True, False]
            with pytest.raises(InputError, match=f"vendor mender: {key}: "):
                gateway.vendors([VendorParams("mender", url, token)])
        finally:
            await gateway.close()

    asyncio.run(share())
