"""The vendor protocol, version 3: token, message bodies, their values, and faults.

It is described in docs/reference/vendor-protocol.md. Unknown keys are ignored, so that either side
may add keys first.
"""

import hmac
import re
from dataclasses import dataclass
from enum import StrEnum
from hashlib import file_digest
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from auctune.domain import AuctuneError, InputError, Money
from auctune.domain.dataset import RowKind
from auctune.engine.vendors import Action, DropReason

YEAR_SECONDS = 365 * 24 * 3600
MAX_OFFER_CHARACTERS = 200
MIN_TOKEN_CHARACTERS = 32
MAX_DETAIL_CHARACTERS = 200
MONEY = r"[0-9]{1,11}(?:\.[0-9]{1,4})?"

_ORDER_ID = re.compile("[A-Za-z0-9_-]{1,64}")
# RFC 6750, 2.1: what a bearer token consists of.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class Fault(StrEnum):
    """Why a vendor is left out of an auction, or why an order failed."""

    LATE = "late"
    """No complete response in time."""
    UNREACHABLE = "unreachable"
    """No connection, or one that broke."""
    BUSY = "busy"
    """The vendor, or a proxy in front of it, is overloaded or restarting."""
    REDIRECT = "redirect"
    """A redirect, which is never followed."""
    SIZE = "size"
    """A response larger than the request allows."""
    PROTOCOL = "protocol"
    """A response that does not follow the protocol."""
    PRICE = "price"
    """A price that is not an amount of money."""
    REFUSED = "refused"
    """A status of refusal where the protocol has none."""
    FAILED = "failed"
    """The vendor could not do the work that it accepted."""
    RESULT = "result"
    """A result that is not a data set, or not the one reported."""


TRANSIENT = frozenset({Fault.LATE, Fault.UNREACHABLE, Fault.BUSY})
"""Faults that a retry may cure."""


class VendorError(AuctuneError):
    """A vendor violated the protocol; text from the vendor is shortened and made printable."""

    def __init__(self, vendor: str, fault: Fault, detail: str) -> None:
        self.vendor = vendor
        self.fault = fault
        self.detail = sanitize(detail)
        super().__init__(f"vendor {vendor}: {fault}: {self.detail}")

    def __reduce__(self) -> tuple[type["VendorError"], tuple[str, Fault, str]]:
        # Exceptions pickle by their args, which hold the joined message here.
        return VendorError, (self.vendor, self.fault, self.detail)

    @property
    def is_transient(self) -> bool:
        return self.fault in TRANSIENT


def sanitize(text: str, limit: int = MAX_DETAIL_CHARACTERS) -> str:
    """Return untrusted text as one short printable line, safe for logs and pages."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


class VendorToken:
    """Token shared by the service and one vendor; it authenticates both, and is never displayed.

    It has at least 32 characters, so that it cannot be guessed. `place` names it in the error.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str, place: str = "token") -> None:
        expected = f"{MIN_TOKEN_CHARACTERS} random characters or more: letters, digits, -._~+/"
        if len(value) < MIN_TOKEN_CHARACTERS:
            raise InputError(place, f"has {len(value)} characters", expected)
        if not _TOKEN.fullmatch(value):
            raise InputError(place, "has characters that a bearer token cannot have", expected)
        self._value = value

    def __repr__(self) -> str:
        return "VendorToken(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VendorToken) and hmac.compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return hash(self._value)

    @property
    def authorization(self) -> str:
        return f"Bearer {self._value}"

    def matches(self, authorization: str) -> bool:
        """Return whether an `Authorization` header carries this token, in constant time."""
        return hmac.compare_digest(self.authorization.encode(), authorization.encode())


def check_url(url: str, place: str) -> None:
    """Check that a URL keeps tokens and data sets off networks in plain text.

    It must be https://, or http:// on this machine.
    """
    expected = "https://HOST[:PORT][/PATH], or http:// with a loopback address"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise InputError(place, f"{url!r} is not a URL ({error})", expected) from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InputError(place, "has a password, a query or a fragment", expected)
    if not host or not is_protected(parts.scheme, host):
        raise InputError(place, repr(url), expected)


def is_protected(scheme: str, host: str) -> bool:
    """Return whether requests to a host are encrypted, or do not leave this machine."""
    if scheme != "http":
        return scheme == "https"
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """Summary of a data set, which a vendor gets before it fetches the data."""

    rows: int
    bytes: int
    sha256: str


def summarize(path: Path) -> DatasetSummary:
    """Return the summary of a file, in bounded memory."""
    try:
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
            size = file.tell()
            file.seek(0)
            return DatasetSummary(_count_rows(file), size, digest)
    except OSError as error:
        raise InputError(
            str(path), f"cannot be read ({error.strerror})", "a readable data set"
        ) from None


def _count_rows(file: BinaryIO) -> int:
    """Count lines that are not blank; a very long line is read in pieces."""
    count, is_filled = 0, False
    while piece := file.readline(1 << 20):
        is_filled = is_filled or not piece.isspace()
        if piece.endswith(b"\n"):
            count += is_filled
            is_filled = False
    return count + is_filled


@dataclass(frozen=True, slots=True)
class Offer:
    """A vendor's offer for one data set.

    Attributes:
        id: id of the offer at the vendor, which an order names.
        delay_seconds: from the order until the result.
        valid_until: unix time until which an order is accepted.
    """

    vendor: str
    id: str
    price: Money
    delay_seconds: int
    valid_until: float


@dataclass(frozen=True, slots=True)
class Decline:
    """A vendor's answer that it makes no offer."""

    vendor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Order:
    """Work given to a vendor; it can be given again after a crash.

    Attributes:
        id: chosen by the service, unique; 1 to 64 of A-Z a-z 0-9 _ -.
        offer: id of the offer.
    """

    id: str
    offer: str
    price: Money
    data: DatasetSummary

    def __post_init__(self) -> None:
        # It is part of a path.
        if not _ORDER_ID.fullmatch(self.id):
            raise InputError("id", f"{self.id!r}", "1 to 64 of A-Z a-z 0-9 _ -")


Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=10**12)]
Seconds = Annotated[int, Field(ge=0, le=YEAR_SECONDS)]
Text = Annotated[str, Field(max_length=1000)]
Url = Annotated[str, Field(max_length=2000)]


class Body(BaseModel):
    """A JSON object with these keys, strictly of these types."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    def to_bytes(self) -> bytes:
        return self.model_dump_json().encode()


class DataBody(Body):
    """A data set, and the link to its bytes."""

    format: Literal["jsonl"] = "jsonl"
    rows: Count
    bytes: Count
    sha256: Sha256
    url: Url


class QuoteRequest(Body):
    """Service to vendor: request an offer."""

    data: DataBody
    answer_within_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class OfferBody(Body):
    """Vendor to service: price, delay, and how long the offer is valid."""

    decision: Literal["offer"]
    offer: Annotated[str, Field(min_length=1, max_length=MAX_OFFER_CHARACTERS)]
    # Checked later: a price that is not an amount of money is a fault of its own.
    price: Any
    delay_seconds: Seconds
    valid_seconds: Seconds


class DeclineBody(Body):
    """Vendor to service: decline."""

    decision: Literal["decline"]
    reason: Text


QuoteBody = Annotated[OfferBody | DeclineBody, Field(discriminator="decision")]


class OrderRequest(Body):
    """Service to vendor: order the work."""

    offer: Annotated[str, Field(min_length=1, max_length=MAX_OFFER_CHARACTERS)]
    price: Annotated[str, Field(pattern=f"^{MONEY}$")]
    data: DataBody


class ResultBody(Body):
    """Size and digest of a result."""

    bytes: Count
    sha256: Sha256


class OrderStatus(Body):
    """Vendor to service: the state of an order."""

    state: Literal["accepted", "needs_data", "done", "failed"]
    reason: Text = ""
    result: ResultBody | None = None


class ErrorBody(Body):
    """Reason of a refusal."""

    reason: Text


class DroppedBody(Body):
    """A row that was left out."""

    line: Count
    reason: DropReason
    note: Text


class ExampleBody(Body):
    """A row that was repaired."""

    line: Count
    actions: tuple[Action, ...]
    before: Text
    after: Text


class ReportBody(Body):
    """The report of a repair, as `RepairReport.to_json` writes it."""

    kind: RowKind
    rows_in: Count
    rows_out: Count
    actions: dict[Action, Count]
    dropped: tuple[DroppedBody, ...]
    examples: Annotated[tuple[ExampleBody, ...], Field(max_length=1000)]
