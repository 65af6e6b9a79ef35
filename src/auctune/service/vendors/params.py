"""What a market has to know of a vendor that it reaches by HTTP."""

from dataclasses import dataclass, field
from ipaddress import ip_address

import httpx2

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.service.vendors.backoff import Backoff
from auctune.service.vendors.secret import Secret

# Shorter than a client waits while nothing comes.
MAX_POLL_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class HttpVendorParams:
    """A vendor's address, and how much patience it gets.

    Attributes:
        name: unique in its market.
        url: where its routes begin: "https://vendor.example/auctune".
        secret: shared with this vendor alone.
        answer_seconds: for taking, reporting or dropping an order, tries included.
        poll_seconds: a vendor may hold an answer back for so long while an order is not done.
        max_result_bytes: that a repaired data set may have.
        allow_plaintext: whether data sets may go over http:// to other machines.
        backoff: pauses between tries.
    """

    name: str
    url: str
    secret: Secret
    answer_seconds: float = 30.0
    poll_seconds: float = 10.0
    max_result_bytes: int = 512 << 20
    allow_plaintext: bool = False
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("name", "is empty", "a name")
        check_positive(self.answer_seconds, "answer_seconds", "seconds > 0")
        if not 0 < self.poll_seconds <= MAX_POLL_SECONDS:
            raise InputError(
                "poll_seconds", f"{self.poll_seconds}", f"seconds in (0, {MAX_POLL_SECONDS:g}]"
            )
        check_positive(self.max_result_bytes, "max_result_bytes", "bytes > 0")
        self._check_url()

    def _check_url(self) -> None:
        expected = "https://host[:port][/path], or http:// on this machine"
        try:
            url = httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise InputError("url", f"is no URL ({error})", expected) from None
        if url.userinfo or url.query or url.fragment:
            raise InputError("url", "has a password, a query or a fragment", expected)
        plain_is_safe = self.allow_plaintext or _is_this_machine(url.host)
        if not url.host or url.scheme not in (("https", "http") if plain_is_safe else ("https",)):
            raise InputError("url", f"{self.url!r}", expected)


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
