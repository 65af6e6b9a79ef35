"""What vendors reach at the service, without sockets."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from auctune.service.vendors import (
    Fault,
    SharedFiles,
    SignedUrls,
    TokenClient,
    VendorError,
    VendorToken,
    make_vendor_app,
)
from auctune.service.vendors.client import HttpResponse
from auctune.service.vendors.protocol import ORDER_UPDATED, NotificationBody, OrderUpdated

T = TypeVar("T")

MINE, OTHERS = VendorToken("m" * 32), VendorToken("o" * 32)
DATA = b'{"text": "a row"}\n' * 100_000
DIGEST = sha256(DATA).hexdigest()
NOW = 1_700_000_000.0
URLS = SignedUrls("http://127.0.0.1/vendors", b"k" * 32, 600.0, lambda: NOW)


def run(
    files: SharedFiles,
    ask: Callable[[httpx2.AsyncClient], Awaitable[T]],
    updates: list[tuple[str, str]] | None = None,
) -> T:
    tokens = {"mine": MINE, "others": OTHERS}
    noted = [] if updates is None else updates
    app = make_vendor_app(URLS, files, tokens, lambda vendor, order: noted.append((vendor, order)))
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


def parts(url: str) -> tuple[str, dict[str, str]]:
    split = urlsplit(url)
    return split.path.rpartition("/")[2], dict(parse_qsl(split.query))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_bytes(DATA)
    return path


def test_a_link_is_valid_until_it_expires() -> None:
    url = URLS.create("mender & co", DIGEST)
    digest, query = parts(url)
    assert url.startswith(f"http://127.0.0.1/vendors/data/{DIGEST}?")
    assert URLS.verify(digest, query)
    assert replace(URLS, clock=lambda: NOW + 599).verify(digest, query)
    assert not replace(URLS, clock=lambda: NOW + 600).verify(digest, query)


@pytest.mark.parametrize(
    "changed",
    [
        {"vendor": "other"},
        {"until": "9999999999"},
        {"until": "x"},
        {"signature": "0" * 64},
        {"signature": "é" * 64},
    ],
)
def test_a_link_that_was_changed_is_invalid(changed: dict[str, str]) -> None:
    digest, query = parts(URLS.create("mender", DIGEST))
    assert not URLS.verify(digest, {**query, **changed})
    assert not URLS.verify("cd" * 32, query)
    assert not URLS.verify(digest, {})


def test_another_key_invalidates_all_links() -> None:
    digest, query = parts(URLS.create("mender", DIGEST))
    assert not replace(URLS, key=b"m" * 32).verify(digest, query)


def test_a_link_gives_the_data_set_to_its_vendor_while_it_is_shared(path: Path) -> None:
    files, url = SharedFiles(), URLS.create("mine", DIGEST)
    with files.share(path, DIGEST, "mine"):
        with files.share(path, DIGEST, "mine"):
            assert fetch(files, url) == HttpResponse(200, DATA)
        assert fetch(files, url).status == 200
    assert fetch(files, url).status == 410
    with files.share(path, DIGEST, "mine"):
        path.unlink()
        assert fetch(files, url).status == 410


def test_a_link_without_the_token_of_its_vendor_gives_nothing(path: Path) -> None:
    files, url = SharedFiles(), URLS.create("mine", DIGEST)
    with files.share(path, DIGEST, "mine"):
        assert fetch(files, url, OTHERS).status == 401
        assert fetch(files, URLS.create("nobody", DIGEST)).status == 401
        assert run(files, lambda client: client.get(url)).status_code == 401
        changed = url.replace("vendor=mine", "vendor=others")
        assert fetch(files, changed, OTHERS).status == 403


def test_a_link_of_a_vendor_that_is_not_asked_any_more_gives_nothing(path: Path) -> None:
    files = SharedFiles()
    with files.share(path, DIGEST, "others"):
        assert fetch(files, URLS.create("others", DIGEST), OTHERS).status == 200
        assert fetch(files, URLS.create("mine", DIGEST)).status == 410


def test_a_link_gives_its_own_data_set_only(path: Path) -> None:
    files = SharedFiles()
    with files.share(path, DIGEST, "mine"):
        assert fetch(files, URLS.create("mine", "0" * 64)).status == 410
        forged = URLS.create("mine", "0" * 64).replace("0" * 64, DIGEST)
        assert fetch(files, forged).status == 403
        assert fetch(files, URLS.create("mine", DIGEST), method="DELETE").status == 405


def test_a_file_that_is_not_the_one_announced_is_refused(path: Path) -> None:
    files = SharedFiles()
    path.write_bytes(DATA[:-2] + b"!\n")

    async def download(client: httpx2.AsyncClient) -> HttpResponse:
        async def ignore(_: bytes) -> None:
            return None

        url = URLS.create("mine", DIGEST)
        return await TokenClient("service", MINE, client).download(url, len(DATA), DIGEST, ignore)

    with files.share(path, DIGEST, "mine"), pytest.raises(VendorError) as caught:
        run(files, download)
    assert caught.value.fault is Fault.RESULT


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "http://market.example/vendors/data/0"])
def test_a_token_is_sent_over_tls_or_loopback_only(url: str) -> None:
    with pytest.raises(VendorError) as caught:
        fetch(SharedFiles(), url)
    assert caught.value.fault is Fault.PROTOCOL


def message(**changed: str) -> bytes:
    values = {"type": ORDER_UPDATED, "timestamp": "2026-01-01T00:00:00Z", **changed}
    data = OrderUpdated(order="order-1")
    return NotificationBody.model_construct(**values, data=data).to_bytes()  # type: ignore[arg-type]


def test_a_notification_counts_once_it_is_signed_by_its_vendor() -> None:
    updates: list[tuple[str, str]] = []

    async def send(client: httpx2.AsyncClient) -> list[int]:
        url, body = URLS.notification("mine"), message()
        signed = MINE.sign("order-1.done", time.time(), body)
        answers = [
            await client.post(url, content=body),
            await client.post(url, content=body, headers={"authorization": MINE.authorization}),
            await client.post(url, content=body + b" ", headers=signed),
            await client.post(url, content=body, headers=OTHERS.sign("x", time.time(), body)),
            await client.post(URLS.notification("nobody"), content=body, headers=signed),
            await client.post(url, content=body + b" " * (1 << 15), headers=signed),
        ]
        assert updates == []
        answers.append(await client.post(url, content=body, headers=signed))
        for other in (message(type="order.lost"), b"[]", b'{"type": "order.updated"}'):
            headers = MINE.sign("order-1.done", time.time(), other)
            answers.append(await client.post(url, content=other, headers=headers))
        return [answer.status_code for answer in answers]

    statuses = run(SharedFiles(), send, updates)
    assert statuses == [401, 401, 401, 401, 401, 413, 204, 422, 422, 422]
    assert updates == [("mine", "order-1")]
