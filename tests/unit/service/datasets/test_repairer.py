import asyncio
import socket
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import httpx2
import pytest
from structlog.testing import capture_logs

from auctune.domain import InputError
from auctune.service.config.vendors import VendorConfig
from auctune.service.datasets.repairer import (
    VENDOR_ROOT,
    ExternalVendor,
    Repair,
    RepairOrder,
    VendorGateway,
)
from auctune.service.private_files import write_private
from auctune.service.vendors import (
    SharedFiles,
    VendorClient,
    VendorParams,
    VendorToken,
    make_client,
)
from support.serving import make_file, make_zone, serving
from support.vendor_market import TOKEN_TEXT
from support.waits import WAIT_SECONDS

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


def test_a_service_shares_nothing_unasked(tmp_path: Path) -> None:
    token = VendorToken(TOKEN_TEXT)
    write_private(tmp_path / "token", TOKEN_TEXT)
    vendor = VendorConfig(
        name="mender", url="http://127.0.0.1:9", token_file=str(tmp_path / "token")
    )
    zone = make_zone().model_copy(update={"vendors": [vendor]})
    with serving(tmp_path / "data", make_file([zone])) as served:
        data = f"{served.url}{VENDOR_ROOT}/data/{'0' * 64}"
        assert httpx2.get(data).status_code == 401
        headers = {"authorization": token.authorization}
        assert httpx2.get(data, headers=headers).status_code == 410


def test_a_vendor_that_is_away_is_asked_to_delete_its_data_until_it_answers() -> None:
    async def discard(listener: socket.socket) -> list[bytes]:
        asked = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readline())
            with suppress(ConnectionError):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                await writer.drain()
            writer.close()

        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        params = VendorParams("mender", url, VendorToken("m" * 32))
        async with make_client() as http:
            client = VendorClient(params, url, http)
            vendor = ExternalVendor(client, SharedFiles())
            order = RepairOrder("job", "ann", Repair("mender", Decimal(1), 4), 0.0)
            with capture_logs() as logs:
                deleting = asyncio.create_task(vendor.discard(order))
                while not logs:
                    await asyncio.sleep(0.01)
            async with await asyncio.start_server(answer, sock=listener):
                await asyncio.wait_for(deleting, WAIT_SECONDS)
        assert logs[0]["event"] == "a vendor is yet to delete its data"
        return [line for line in asked if line]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asked = asyncio.run(discard(listener))
    assert {line.split()[0] for line in asked} == {b"DELETE"}
