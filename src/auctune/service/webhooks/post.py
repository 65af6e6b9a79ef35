"""One HTTP request to an address that a user named, which may be no address of ours.

The name is looked up once and the connection made to what was found, if that is a public address:
a name that means another machine a moment later, or one within, is of no use. Redirects are not
followed, and of the answer only its first line is read.
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from auctune.domain import AuctuneError

_LINE = 1024
# IPv4 in IPv6: RFC 6052, 2.1, and RFC 4291, 2.5.5.1.
_TRANSLATED = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
# IANA's registries of special-purpose addresses: `is_global` of some releases of Python takes a few
# of them for public.
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",
            "::ffff:0:0:0/96",
            "64:ff9b:1::/48",
            "100::/63",
            "2001::/23",
            "2001:db8::/32",
            "3fff::/20",
            "5f00::/16",
            "fc00::/7",
            "fe80::/9",
            "ff00::/8",
        ),
    )
)
# Of the way there, or of an answer that is no HTTP, or whose first line has no end.
_UNHEARD = (
    OSError,
    ssl.SSLError,
    ValueError,
    asyncio.IncompleteReadError,
    asyncio.LimitOverrunError,
)


class PostError(AuctuneError):
    """A request was not taken."""


async def post(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    seconds: float,
    private_addresses: bool = False,
) -> None:
    """Send a body.

    Args:
        url: http or https.
        headers: beside those that HTTP wants.
        body: JSON.
        seconds: that all of it may take.
        private_addresses: whether addresses that are not public are allowed.

    Raises:
        PostError: if it is not answered by a status of 2xx.
    """
    try:
        async with asyncio.timeout(seconds):
            status = await _send(url, headers, body, private_addresses)
    except TimeoutError:
        raise PostError(f"took longer than {seconds:g} s") from None
    except _UNHEARD as error:
        raise PostError(f"cannot be reached ({type(error).__name__})") from None
    if not 200 <= status < 300:
        raise PostError(f"answered {status}")


async def _send(url: str, headers: Mapping[str, str], body: bytes, private_addresses: bool) -> int:
    parts = urlsplit(url)
    host, is_safe = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_safe else 80)
    address = await _address(host, port, private_addresses)
    context = ssl.create_default_context() if is_safe else None
    reader, writer = await asyncio.open_connection(
        address, port, ssl=context, server_hostname=host if is_safe else None, limit=_LINE
    )
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"POST {target} HTTP/1.1", f"Host: {parts.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += ["User-Agent: auctune", "Connection: close", "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()
        first = await reader.readuntil(b"\n")
    finally:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()
    protocol, _, rest = first.decode("latin-1").partition(" ")
    if not protocol.startswith("HTTP/1."):
        raise ValueError("is no HTTP")
    return int(rest[:3])


async def _address(host: str, port: int, private_addresses: bool) -> str:
    """An address of a host.

    Raises:
        PostError: if none of them is public, and they must be.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, where in found:
        address = str(where[0])
        if private_addresses or _is_public(ipaddress.ip_address(address.partition("%")[0])):
            return address
    raise PostError("is no public address")


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is a machine's in the public network.

    One of IPv6 that has one of IPv4 in it leads there by a gateway, and counts as both.
    """
    if not address.is_global or any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    within = address.ipv4_mapped or address.sixtofour
    if any(address in network for network in _TRANSLATED):
        within = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return within is None or _is_public(within)
