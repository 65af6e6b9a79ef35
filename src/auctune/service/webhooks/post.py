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
from collections.abc import Awaitable, Callable, Mapping
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

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


Find = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host, for a port."""


class PostError(AuctuneError):
    """A request was not taken."""


class Names:
    """Looks names up on threads of its own, some at a time, and few at a time for each user.

    A lookup cannot be ended: it takes as long as the name server, which may be its user's own.
    Until it is over its thread is taken, whether anybody still waits for it or not.

    Args:
        look_up: as `socket.getaddrinfo`.
        at_once: lookups of all users.
        at_once_of_one: of each.
    """

    def __init__(
        self,
        look_up: Callable[..., list[Any]] = socket.getaddrinfo,
        at_once: int = 64,
        at_once_of_one: int = 2,
    ) -> None:
        self._look_up = look_up
        self._free = asyncio.Semaphore(at_once)
        self._at_once_of_one = at_once_of_one
        # Each there only while somebody has or wants it.
        self._free_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def find(self, user: str, host: str, port: int) -> list[str]:
        """Return the addresses of a host.

        Raises:
            OSError: if there are none.
        """
        with contextlib.suppress(ValueError):
            return [str(ipaddress.ip_address(host))]
        own = self._free_of.get(user)
        if own is None:
            own = self._free_of[user] = asyncio.Semaphore(self._at_once_of_one)
        # One's own first: whoever waits for that takes no room from others.
        await own.acquire()
        try:
            await self._free.acquire()
        except BaseException:
            own.release()
            raise
        found: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

        def over(done: asyncio.Future[list[str]]) -> None:
            # Nobody may be left who would ask how it went.
            done.cancelled() or done.exception()
            self._free.release()
            own.release()

        found.add_done_callback(over)
        # A daemon: a service that stops does not wait for a name server.
        Thread(target=self._run, args=(host, port, found), name="look-up", daemon=True).start()
        return await asyncio.shield(found)

    def _run(self, host: str, port: int, found: "asyncio.Future[list[str]]") -> None:
        error, addresses = None, list[str]()
        try:
            rows = self._look_up(host, port, type=socket.SOCK_STREAM)
            addresses = [str(where[0]) for *_, where in rows]
        except (OSError, UnicodeError) as failure:
            error = OSError(f"{type(failure).__name__} for its name")

        def tell() -> None:
            if error is None:
                found.set_result(addresses)
            else:
                found.set_exception(error)

        # The service may have stopped meanwhile.
        with contextlib.suppress(RuntimeError):
            found.get_loop().call_soon_threadsafe(tell)


async def post(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    seconds: float,
    private_addresses: bool = False,
    find: Find | None = None,
) -> None:
    """Send a body.

    Args:
        url: http or https.
        headers: beside those that HTTP wants.
        body: JSON.
        seconds: that all of it may take.
        private_addresses: whether addresses that are not public are allowed.
        find: looks a name up; left out: the loop does.

    Raises:
        PostError: if it is not answered by a status of 2xx.
    """
    try:
        async with asyncio.timeout(seconds):
            status = await _send(url, headers, body, private_addresses, find or _find)
    except TimeoutError:
        raise PostError(f"took longer than {seconds:g} s") from None
    except _UNHEARD as error:
        raise PostError(f"cannot be reached ({type(error).__name__})") from None
    if not 200 <= status < 300:
        raise PostError(f"answered {status}")


async def _send(
    url: str, headers: Mapping[str, str], body: bytes, private_addresses: bool, find: Find
) -> int:
    parts = urlsplit(url)
    host, is_safe = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_safe else 80)
    address = _choose(await find(host, port), private_addresses)
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


async def _find(host: str, port: int) -> list[str]:
    return await Names().find("", host, port)


def _choose(addresses: list[str], private_addresses: bool) -> str:
    """Return the first address that may be posted to.

    Raises:
        PostError: if none of them is public, and they must be.
    """
    for address in addresses:
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
