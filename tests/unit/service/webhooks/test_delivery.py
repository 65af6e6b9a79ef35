"""One request to a user's address, whatever answers there and wherever it is."""

import asyncio
import ipaddress
import ssl
from threading import Event
from typing import Any

import pytest

from auctune.service.webhooks.delivery import DeliveryError, Resolver, WebhookSender, is_public


async def deliver(answer: bytes) -> bytes:
    """Send a webhook to a server that answers so and hangs up; return the request's head."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/hook"
        sender = WebhookSender(private_addresses=True, timeout_seconds=30.0)
        try:
            await sender.send("ada", url, {"webhook-id": "evt-1"}, b"{}")
        finally:
            await sender.close()
    (head,) = heads
    return head


def test_a_status_of_2xx_is_a_delivery() -> None:
    head = asyncio.run(deliver(b"HTTP/1.1 204 No Content\r\n\r\n"))
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
def test_any_other_answer_is_a_failed_delivery(answer: bytes) -> None:
    with pytest.raises(DeliveryError):
        asyncio.run(deliver(answer))


def test_a_redirect_is_not_followed() -> None:
    heads: list[bytes] = []

    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            is_first = heads[-1].startswith(b"POST /hook ")
            status = b"307 X\r\nlocation: /other" if is_first else b"204 X"
            writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            sender = WebhookSender(private_addresses=True)
            with pytest.raises(DeliveryError, match="status 307"):
                await sender.send("ada", f"http://127.0.0.1:{port}/hook", {}, b"{}")
            await sender.close()

    asyncio.run(run())
    assert len(heads) == 1


def test_the_connection_goes_to_the_checked_address_under_the_given_name() -> None:
    lookups, heads = list[str](), list[bytes]()

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        # A second lookup would lead elsewhere.
        lookups.append(host)
        return [(2, 1, 6, "", ("127.0.0.1" if len(lookups) == 1 else "9.9.9.9", port))]

    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            sender = WebhookSender(private_addresses=True, resolver=Resolver(getaddrinfo))
            await sender.send("ada", f"http://hooks.example:{port}/a?b=c", {}, b"{}")
            await sender.close()
            assert f"\r\nhost: hooks.example:{port}\r\n".encode() in heads[0].lower()

    asyncio.run(run())
    assert lookups == ["hooks.example"]
    assert heads[0].startswith(b"POST /a?b=c HTTP/1.1\r\n")


def test_a_certificate_is_verified_for_the_name_and_not_for_the_address() -> None:
    names = list[str | None]()

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    def note_name(_socket: Any, name: str | None, _context: Any) -> None:
        names.append(name)

    async def run() -> None:
        # Without a certificate the handshake ends after the client has said whom it expects.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sni_callback = note_name
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            sender = WebhookSender(private_addresses=True, resolver=Resolver(getaddrinfo))
            with pytest.raises(DeliveryError, match="cannot be reached"):
                await sender.send("ada", f"https://hooks.example:{port}/", {}, b"{}")
            await sender.close()

    asyncio.run(run())
    assert names == ["hooks.example"]


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
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["9.9.9.9", "2620:fe::fe", "::ffff:9.9.9.9", "64:ff9b::9.9.9.9"]
)
def test_whatis_public_stays_so(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_one_users_slow_name_servers_hold_up_nobody_elses_lookups() -> None:
    answered, looked_up = Event(), list[str]()

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        looked_up.append(host)
        if host.startswith("slow"):
            answered.wait(30)
        return [(2, 1, 6, "", ("9.9.9.9", port))]

    async def ask() -> None:
        resolver = Resolver(look_up, max_lookups=3, max_lookups_per_user=2)
        slow = [asyncio.create_task(resolver.resolve("ada", f"slow{n}", 80)) for n in range(5)]
        for _ in range(20):
            assert await resolver.resolve("bob", "quick", 80) == ["9.9.9.9"]
        assert sorted(set(looked_up)) == ["quick", "slow0", "slow1"]
        # A caller that was cancelled leaves its lookup running, and its place taken.
        slow[0].cancel()
        for _ in range(5):
            assert await resolver.resolve("bob", "quick", 80) == ["9.9.9.9"]
        assert sorted(set(looked_up)) == ["quick", "slow0", "slow1"]
        answered.set()
        await asyncio.gather(*slow, return_exceptions=True)
        assert len(set(looked_up)) == 6

    asyncio.run(ask())


@pytest.mark.parametrize("failure", [OSError("no such name"), UnicodeError("label too long")])
def test_a_name_that_cannot_be_resolved_is_a_failed_delivery(failure: Exception) -> None:
    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        raise failure

    async def send() -> None:
        sender = WebhookSender(resolver=Resolver(look_up), timeout_seconds=30.0)
        await sender.send("ada", "http://nowhere.example/", {}, b"{}")

    with pytest.raises(DeliveryError, match=r"cannot be reached \(host name not found\)"):
        asyncio.run(send())
