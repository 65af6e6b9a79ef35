"""One signed HTTP request to an address that a user registered.

The address may be anything that a user can type, so it must not reach what only this machine or
its network reaches (server-side request forgery). The host is resolved once, the result is checked
against the public address space, and the connection is made to that very address: a name that
resolves to another address a moment later gains nothing. Redirects are not followed, and the body
of the response is not read.
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Thread
from typing import Any
from weakref import WeakValueDictionary

import httpx2

from auctune.domain import AuctuneError

TIMEOUT_SECONDS = 10.0
MAX_LOOKUPS = 64
MAX_LOOKUPS_PER_USER = 2

# IPv4 in IPv6: RFC 6052, 2.1, and RFC 4291, 2.5.5.1.
_TRANSLATED = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
# IANA's registries of special-purpose addresses: `is_global` of some releases of Python takes a few
# of them for public.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in [
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
    ]
)


class DeliveryError(AuctuneError):
    """A webhook was not accepted by its receiver, or not sent at all."""


class LookupFailedError(OSError):
    """A host name could not be resolved."""


class Resolver:
    """Resolves host names on threads of its own, with limits for all users and for each.

    A lookup cannot be cancelled: it takes as long as the name server does, which may be the user's
    own. Until then it counts against the limits, even if its caller has timed out.
    """

    def __init__(
        self,
        getaddrinfo: Callable[..., list[Any]] = socket.getaddrinfo,
        max_lookups: int = MAX_LOOKUPS,
        max_lookups_per_user: int = MAX_LOOKUPS_PER_USER,
    ) -> None:
        self._getaddrinfo = getaddrinfo
        self._free = asyncio.Semaphore(max_lookups)
        self._max_lookups_per_user = max_lookups_per_user
        # An entry lives while a lookup of this user waits or runs.
        self._free_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def resolve(self, user: str, host: str, port: int) -> list[str]:
        """Return the addresses of a host; raise OSError if there are none."""
        with contextlib.suppress(ValueError):
            return [str(ipaddress.ip_address(host))]
        own = self._free_of.get(user)
        if own is None:
            own = self._free_of[user] = asyncio.Semaphore(self._max_lookups_per_user)
        # The user's own limit first: waiting for it must not use up the shared one.
        await own.acquire()
        try:
            await self._free.acquire()
        except BaseException:
            own.release()
            raise
        future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

        def release(done: asyncio.Future[list[str]]) -> None:
            # The caller may be gone: mark the exception as retrieved.
            done.cancelled() or done.exception()
            self._free.release()
            own.release()

        future.add_done_callback(release)
        # A daemon thread: a service that stops does not wait for a name server.
        Thread(target=self._run, args=(host, port, future), name="resolver", daemon=True).start()
        return await asyncio.shield(future)

    def _run(self, host: str, port: int, future: "asyncio.Future[list[str]]") -> None:
        error, addresses = None, list[str]()
        try:
            rows = self._getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [str(address[0]) for *_, address in rows]
        except (OSError, UnicodeError) as failure:
            error = LookupFailedError(type(failure).__name__)

        def complete() -> None:
            if error is None:
                future.set_result(addresses)
            else:
                future.set_exception(error)

        # The loop is closed if the service has stopped meanwhile.
        with contextlib.suppress(RuntimeError):
            future.get_loop().call_soon_threadsafe(complete)


class WebhookSender:
    """HTTP client for webhooks.

    The timeout is that of a whole delivery, including the name lookup. Addresses outside the public
    address space need `private_addresses`.
    """

    def __init__(
        self,
        *,
        private_addresses: bool = False,
        resolver: Resolver | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._private_addresses = private_addresses
        self._resolver = resolver or Resolver()
        self._timeout_seconds = timeout_seconds

    async def send(self, user: str, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """POST JSON to a user's webhook; raise DeliveryError without a 2xx response in time."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                status = await self._post(user, httpx2.URL(url), headers, body)
        except TimeoutError:
            raise DeliveryError(f"no response within {self._timeout_seconds:g} s") from None
        # ValueError: a host name that IDNA or TLS cannot encode.
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise DeliveryError(f"cannot be reached ({_cause(error)})") from None
        if not 200 <= status < 300:
            raise DeliveryError(f"status {status}")

    async def close(self) -> None:
        if "_client" in vars(self):
            await self._client.aclose()

    async def _post(
        self, user: str, url: httpx2.URL, headers: Mapping[str, str], body: bytes
    ) -> int:
        host = url.raw_host.decode("ascii")
        port = url.port or (443 if url.scheme == "https" else 80)
        address = self._choose(await self._resolver.resolve(user, host, port))
        request = self._client.build_request(
            "POST",
            url.copy_with(host=address),
            headers={
                **headers,
                "host": url.netloc.decode("ascii"),
                "content-type": "application/json",
            },
            content=body,
            # The certificate is verified for the name, not for the address.
            extensions={"sni_hostname": host},
        )
        response = await self._client.send(request, stream=True)
        await response.aclose()
        return response.status_code

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            verify=ssl.create_default_context(),
            # The pool knows connections by address: one that TLS verified for another name on the
            # same address must not be reused.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            headers={"connection": "close", "user-agent": "auctune"},
            timeout=None,
            follow_redirects=False,
            trust_env=False,
        )

    def _choose(self, addresses: list[str]) -> str:
        """Return the first allowed address."""
        for address in addresses:
            parsed = ipaddress.ip_address(address.partition("%")[0])
            if self._private_addresses or is_public(parsed):
                return address
        raise DeliveryError("not a public address")


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an address belongs to the public network.

    An IPv6 address that embeds an IPv4 address leads there through a gateway: both must be public.
    """
    if not address.is_global or any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    embedded = address.ipv4_mapped or address.sixtofour
    if any(address in network for network in _TRANSLATED):
        embedded = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return embedded is None or is_public(embedded)


def _cause(error: BaseException) -> str:
    """Return the cause of a failed connection, without addresses and names of the network."""
    one: BaseException | None = error
    while one is not None:
        if isinstance(one, ssl.SSLError):
            return "TLS failed"
        if isinstance(one, LookupFailedError):
            return "host name not found"
        one = one.__cause__ or one.__context__
    return type(error).__name__
