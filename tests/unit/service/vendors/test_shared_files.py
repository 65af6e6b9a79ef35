"""What vendors reach at the service, without sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from auctune.service.vendors import (
    Fault,
    SharedFiles,
    TokenClient,
    VendorError,
    VendorToken,
    make_vendor_app,
)
from auctune.service.vendors.client import HttpResponse

T = TypeVar("T")

MINE, OTHERS = VendorToken("m" * 32), VendorToken("o" * 32)
DATA = b'{"text": "a row"}\n' * 100_000
DIGEST = sha256(DATA).hexdigest()
URL = f"http://127.0.0.1/vendors/data/{DIGEST}"


def run(files: SharedFiles, ask: Callable[[httpx2.AsyncClient], Awaitable[T]]) -> T:
    app = make_vendor_app(files, {"mine": MINE, "others": OTHERS, "twin": MINE})
    transport = httpx2.ASGITransport(Starlette(routes=[Mount("/vendors", app=app)]))

    async def work() -> T:
        async with httpx2.AsyncClient(transport=transport) as client:
            return await ask(client)

    return asyncio.run(work())


def fetch(
    files: SharedFiles, url: str, token: VendorToken = MINE, method: str = "GET"
) -> HttpResponse:
    return run(
        files,
        lambda client: TokenClient("service", token, client).request(
            method, url, max_bytes=len(DATA)
        ),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_bytes(DATA)
    return path


@pytest.mark.parametrize("vendor", ["mine", "twin"])
def test_a_vendor_gets_a_data_set_while_it_is_shared(path: Path, vendor: str) -> None:
    files = SharedFiles()
    with files.share(path, DIGEST, vendor):
        with files.share(path, DIGEST, vendor):
            assert fetch(files, URL) == HttpResponse(200, DATA)
        assert fetch(files, URL).status == 200
        assert fetch(files, URL, method="DELETE").status == 405
        assert fetch(files, URL.replace(DIGEST, "0" * 64)).status == 410
    assert fetch(files, URL).status == 410
    with files.share(path, DIGEST, vendor):
        path.unlink()
        assert fetch(files, URL).status == 410


def test_nobody_else_gets_it(path: Path) -> None:
    files = SharedFiles()
    with files.share(path, DIGEST, "mine"):
        assert fetch(files, URL, OTHERS).status == 410
        assert fetch(files, URL, VendorToken("n" * 32)).status == 401
        assert run(files, lambda client: client.get(URL)).status_code == 401


def test_a_file_that_is_not_the_one_announced_is_refused(path: Path) -> None:
    files = SharedFiles()
    path.write_bytes(DATA[:-2] + b"!\n")

    async def download(client: httpx2.AsyncClient) -> HttpResponse:
        async def ignore(_: bytes) -> None:
            return None

        return await TokenClient("service", MINE, client).download(URL, len(DATA), DIGEST, ignore)

    with files.share(path, DIGEST, "mine"), pytest.raises(VendorError) as caught:
        run(files, download)
    assert caught.value.fault is Fault.RESULT


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "http://market.example/vendors/data/0"])
def test_a_token_is_sent_over_tls_or_loopback_only(url: str) -> None:
    with pytest.raises(VendorError) as caught:
        fetch(SharedFiles(), url)
    assert caught.value.fault is Fault.PROTOCOL
