"""The market's route for data sets and the signed application before it, without sockets."""

import asyncio
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from auctune.service.vendors import (
    DataLinks,
    Exchange,
    Fault,
    LentFiles,
    Secret,
    VendorError,
    make_data_app,
)
from auctune.service.vendors.exchange import Answer
from auctune.service.vendors.nonces import SeenNonces
from auctune.service.vendors.signature import NO_BODY, sign_request

MINE, OTHERS = Secret("m" * 32), Secret("o" * 32)
DATA = b'{"text": "a row"}\n' * 100_000
DIGEST = sha256(DATA).hexdigest()
NOW = 1_700_000_000.0
LINKS = DataLinks("http://market/vendor-data", Secret("k" * 32), 600.0, lambda: NOW)


def transport(lent: LentFiles) -> httpx2.ASGITransport:
    secrets = {"mine": MINE, "others": OTHERS}
    app = make_data_app(LINKS, lent.find, secrets, lambda: NOW)
    return httpx2.ASGITransport(Starlette(routes=[Mount("/vendor-data", app=app)]))


def fetch(lent: LentFiles, url: str, secret: Secret = MINE, method: str = "GET") -> Answer:
    """What a vendor with this secret gets, as one body."""

    async def ask() -> Answer:
        async with httpx2.AsyncClient(transport=transport(lent)) as client:
            exchange = Exchange("market", secret, client, lambda: NOW)
            return await exchange.ask(method, url, limit=len(DATA))

    return asyncio.run(ask())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_bytes(DATA)
    return path


def test_a_link_gives_the_data_set_to_its_vendor_while_it_is_lent(path: Path) -> None:
    lent, url = LentFiles(), LINKS.make("mine", DIGEST)
    with lent.lend(path, DIGEST, "mine"):
        with lent.lend(path, DIGEST, "mine"):
            assert fetch(lent, url) == Answer(200, DATA)
        assert fetch(lent, url).status == 200
    assert fetch(lent, url).status == 410
    with lent.lend(path, DIGEST, "mine"):
        path.unlink()
        assert fetch(lent, url).status == 410


def test_a_link_is_of_no_use_to_anybody_else(path: Path) -> None:
    lent = LentFiles()
    with lent.lend(path, DIGEST, "mine"):
        with pytest.raises(VendorError) as caught:
            fetch(lent, LINKS.make("mine", DIGEST), OTHERS)
        assert caught.value.fault is Fault.SIGNATURE
        with pytest.raises(VendorError):
            fetch(lent, LINKS.make("nobody", DIGEST))
        url = LINKS.make("mine", DIGEST).replace("vendor=mine", "vendor=others")
        assert fetch(lent, url, OTHERS).status == 403


def test_a_link_of_a_vendor_that_is_asked_no_more_gives_nothing(path: Path) -> None:
    lent = LentFiles()
    with lent.lend(path, DIGEST, "others"):
        assert fetch(lent, LINKS.make("others", DIGEST), OTHERS).status == 200
        assert fetch(lent, LINKS.make("mine", DIGEST)).status == 410


def test_a_link_gives_its_own_data_set_only(path: Path) -> None:
    lent = LentFiles()
    with lent.lend(path, DIGEST, "mine"):
        assert fetch(lent, LINKS.make("mine", "0" * 64)).status == 410
        forged = LINKS.make("mine", "0" * 64).replace("0" * 64, DIGEST)
        assert fetch(lent, forged).status == 403
        assert fetch(lent, LINKS.make("mine", DIGEST), method="DELETE").status == 405


def test_a_request_without_a_signature_or_seen_before_gets_nothing(path: Path) -> None:
    lent = LentFiles()

    async def ask() -> list[int]:
        url = LINKS.make("mine", DIGEST)
        async with httpx2.AsyncClient(transport=transport(lent)) as client:
            signed = sign_request(
                MINE, "GET", url.removeprefix("http://market"), NO_BODY, NOW, "n" * 16
            )
            answers = [
                await client.get(url),
                await client.get(url, headers=signed),
                await client.get(url, headers=signed),
                await client.request("GET", url, headers=signed, content=b" " * (1 << 17)),
            ]
        return [answer.status_code for answer in answers]

    with lent.lend(path, DIGEST, "mine"):
        assert asyncio.run(ask()) == [401, 200, 401, 413]


def test_a_file_that_is_not_what_it_is_called_is_found_out(path: Path) -> None:
    lent = LentFiles()
    path.write_bytes(DATA[:-2] + b"!\n")
    with lent.lend(path, DIGEST, "mine"), pytest.raises(VendorError) as caught:
        fetch(lent, LINKS.make("mine", DIGEST))
    assert caught.value.fault is Fault.SIGNATURE


def test_an_address_that_is_none_is_nonsense() -> None:
    with pytest.raises(VendorError) as caught:
        fetch(LentFiles(), "http://market:port")
    assert caught.value.fault is Fault.NONSENSE


def test_a_vendor_that_asks_too_often_shuts_out_itself_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SeenNonces.__init__, "__defaults__", (3,))
    lent = LentFiles()
    secrets = {"mine": MINE, "others": OTHERS}
    app = make_data_app(LINKS, lent.find, secrets, lambda: NOW)

    async def ask_all() -> list[int]:
        sent = httpx2.ASGITransport(Starlette(routes=[Mount("/vendor-data", app=app)]))
        async with httpx2.AsyncClient(transport=sent) as client:
            asked = [("mine", MINE)] * 4 + [("others", OTHERS)]
            return [
                (
                    await Exchange("market", secret, client, lambda: NOW).ask(
                        "GET", LINKS.make(name, DIGEST), limit=len(DATA)
                    )
                ).status
                for name, secret in asked
            ]

    with lent.lend(path, DIGEST, "mine"), lent.lend(path, DIGEST, "others"):
        assert asyncio.run(ask_all()) == [200, 200, 200, 401, 200]
