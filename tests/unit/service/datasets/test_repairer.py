import asyncio
import time
from pathlib import Path

import httpx2
import pytest

from auctune.domain import InputError
from auctune.service.config.vendors import VendorConfig
from auctune.service.datasets.repairer import VENDOR_ROOT, VendorGateway
from auctune.service.private_files import write_private
from auctune.service.vendors import VendorParams, VendorToken
from auctune.service.vendors.protocol import ORDER_UPDATED, NotificationBody, OrderUpdated
from support.serving import make_file, make_zone, serving
from support.vendor_market import TOKEN_TEXT

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


def test_a_service_accepts_signed_notifications_of_its_vendors_and_shares_nothing_unasked(
    tmp_path: Path,
) -> None:
    token = VendorToken(TOKEN_TEXT)
    write_private(tmp_path / "token", TOKEN_TEXT)
    vendor = VendorConfig(
        name="mender", url="http://127.0.0.1:9", token_file=str(tmp_path / "token")
    )
    zone = make_zone().model_copy(update={"vendors": [vendor]})
    data = OrderUpdated(order="order-1")
    body = NotificationBody(type=ORDER_UPDATED, timestamp="", data=data).to_bytes()
    signed = token.sign("order-1.done", time.time(), body)
    with serving(tmp_path / "data", make_file([zone])) as served:
        client = httpx2.Client(base_url=served.url + VENDOR_ROOT)
        with client:
            answers = [
                client.post("/notifications?vendor=mender", content=body),
                client.post("/notifications?vendor=other", content=body, headers=signed),
                client.post("/notifications?vendor=mender", content=body, headers=signed),
                client.get("/data/" + "0" * 64, headers={"authorization": token.authorization}),
            ]
    assert [answer.status_code for answer in answers] == [401, 401, 204, 403]
