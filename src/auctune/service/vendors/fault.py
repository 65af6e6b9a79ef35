"""What can be wrong with a vendor, as the market sees it."""

from enum import StrEnum

from auctune.domain import AuctuneError

MAX_DETAIL = 200


class Fault(StrEnum):
    """Why a vendor is out of an auction, or why an order came to nothing."""

    LATE = "late"
    """No whole answer in time."""
    UNREACHABLE = "unreachable"
    """No connection, or one that broke."""
    BUSY = "busy"
    """It, or a proxy before it, says that it cannot answer now."""
    SIGNATURE = "signature"
    """An answer that is not known to be its own."""
    REDIRECT = "redirect"
    """An answer that points elsewhere; data sets are not sent after it."""
    SIZE = "size"
    """An answer larger than what was asked for can be."""
    NONSENSE = "nonsense"
    """An answer that is not of the protocol."""
    PRICE = "price"
    """A price that is no money."""
    REFUSED = "refused"
    """It says no to a request that it should take."""
    FAILED = "failed"
    """It could not do the work that it was given."""
    RESULT = "result"
    """What it delivered is no data set, or not the one that it reported."""


# What may be over in a moment; everything else would be the same again.
TRANSIENT = frozenset({Fault.LATE, Fault.UNREACHABLE, Fault.BUSY})


class VendorError(AuctuneError):
    """A vendor did not do what the protocol asks.

    Args:
        vendor: its name.
        fault: what kind.
        detail: what happened; texts that came from the vendor are cut and made printable.
    """

    def __init__(self, vendor: str, fault: Fault, detail: str) -> None:
        self.vendor = vendor
        self.fault = fault
        self.detail = make_printable(detail)
        super().__init__(f"vendor {vendor}: {fault}: {self.detail}")

    def __reduce__(self) -> tuple[type["VendorError"], tuple[str, Fault, str]]:
        # Exceptions pickle by their args, which hold the joined message here.
        return VendorError, (self.vendor, self.fault, self.detail)

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed in a moment."""
        return self.fault in TRANSIENT


def make_printable(text: str, limit: int = MAX_DETAIL) -> str:
    """A stranger's text as one line that does no harm in a log or on a page."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"
