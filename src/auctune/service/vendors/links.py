"""Short-lived links by which a vendor fetches one data set, and nothing else.

A link is good for one vendor, one file, until one moment; the market's own key signs it. Fetching
also takes the vendor's signature, so a link that is read in a log is of no use.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from auctune.domain.checks import check_positive
from auctune.service.vendors.secret import Secret

LIFE_SECONDS = 600.0
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class DataLinks:
    """Makes links, and knows them again.

    Attributes:
        base: where vendors reach the market's data sets: "https://market.example/vendor-data".
        key: known to the market alone. A new one makes old links worthless.
        life_seconds: how long a link is good for.
        clock: unix time.
    """

    base: str
    key: Secret
    life_seconds: float = LIFE_SECONDS
    clock: Clock = time.time

    def __post_init__(self) -> None:
        check_positive(self.life_seconds, "life_seconds", "seconds > 0")

    def make(self, vendor: str, sha256: str) -> str:
        """A link to a data set, named by its digest, for a vendor."""
        until = str(int(self.clock() + self.life_seconds))
        signature = self.key.sign(_text(vendor, sha256, until))
        query = urlencode({"vendor": vendor, "until": until, "signature": signature})
        return f"{self.base.rstrip('/')}/{sha256}?{query}"

    def is_good(self, sha256: str, query: Mapping[str, str]) -> bool:
        """Whether this link was made here and its time is not over."""
        until = query.get("until", "")
        text = _text(query.get("vendor", ""), sha256, until)
        # What carries our signature is a number: we wrote it.
        return self.key.matches(text, query.get("signature", "")) and self.clock() < int(until)


def _text(vendor: str, sha256: str, until: str) -> str:
    return "\n".join(("auctune-vendor-1 link", vendor, sha256, until))
