"""One request to a user's address: whatever answers there, and wherever it is."""

import asyncio
import ipaddress
from threading import Event
from typing import Any

import pytest

from auctune.service.webhooks.post import Names, PostError, _is_public, post


async def told(answer: bytes) -> bytes:
    """Post to somebody who answers so, and then hangs up; the head of what was posted."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/hook"
        await post(url, {}, b"", seconds=30, private_addresses=True)
    (head,) = heads
    return head


def test_a_good_answer_to_one_request_is_heard() -> None:
    head = asyncio.run(told(b"HTTP/1.1 204 No Content\r\n\r\n"))
    assert head.startswith(b"POST /hook HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 500 No\r\n\r\n",
        b"HTTP/1.1 2",
        b"HTTP/1.1 two\r\n",
        b"SSH-2.0-sshd\r\n",
        b"HTTP/1.1 200 " + b"a" * 100_000,
        b"HTTP/1.1 200 " + b"a" * 100_000 + b"\r\n",
    ],
)
def test_any_other_answer_is_an_error_of_that_post(answer: bytes) -> None:
    with pytest.raises(PostError):
        asyncio.run(told(answer))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "127.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "192.168.1.1",
        "224.0.0.1",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "2002:7f00:1::",
        "fe80::1",
        "fec0::1",
        "fd00::1",
        "ff02::1",
        "64:ff9b:1::a00:1",
        "64:ff9b:1:ffff::1",
        "::ffff:0:10.0.0.1",
        "192.88.99.1",
        "192.0.0.192",
        "192.0.0.8",
        "198.51.100.1",
        "240.0.0.1",
        "255.255.255.255",
        "100::1",
        "2001:db8::1",
        "3fff::1",
        "5f00::1",
    ],
)
def test_what_is_within_is_not_public_however_it_is_written(address: str) -> None:
    assert not _is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["9.9.9.9", "2620:fe::fe", "::ffff:9.9.9.9", "64:ff9b::9.9.9.9"]
)
def test_what_is_public_stays_so(address: str) -> None:
    assert _is_public(ipaddress.ip_address(address))


def test_one_users_slow_name_servers_hold_up_nobody_elses_lookups() -> None:
    answered, looked_up = Event(), list[str]()

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        looked_up.append(host)
        if host.startswith("slow"):
            answered.wait(30)
        return [(2, 1, 6, "", ("9.9.9.9", port))]

    async def ask() -> None:
        names = Names(look_up, at_once=3, at_once_of_one=2)
        slow = [asyncio.create_task(names.find("ada", f"slow{n}", 80)) for n in range(5)]
        for _ in range(20):
            assert await names.find("bob", "quick", 80) == ["9.9.9.9"]
        assert sorted(set(looked_up)) == ["quick", "slow0", "slow1"]
        # Whoever gives up waiting leaves the thread that is taken to itself.
        slow[0].cancel()
        for _ in range(5):
            assert await names.find("bob", "quick", 80) == ["9.9.9.9"]
        assert sorted(set(looked_up)) == ["quick", "slow0", "slow1"]
        answered.set()
        await asyncio.gather(*slow, return_exceptions=True)
        assert len(set(looked_up)) == 6

    asyncio.run(ask())


@pytest.mark.parametrize("failure", [OSError("no such name"), UnicodeError("label too long")])
def test_a_name_that_cannot_be_looked_up_is_an_error_of_that_post(failure: Exception) -> None:
    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        raise failure

    async def send() -> None:
        names = Names(look_up)
        await post(
            "http://nowhere.example/", {}, b"", seconds=30, find=lambda *at: names.find("ada", *at)
        )

    with pytest.raises(PostError, match="cannot be reached"):
        asyncio.run(send())
