"""Where a service is, and by which key it is asked.

A service on this machine leaves both in its data folder: its URL while it runs, and the key that
it made at its first start.
"""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from auctune.client.errors import UnreachableError
from auctune.client.starting import read_starting
from auctune.domain.errors import InputError

URL_FILE = "url"
KEY_FILE = "first-key"


@dataclass(frozen=True, slots=True)
class Address:
    """A service, and who asks.

    Attributes:
        url: without a path.
        key: an API key.
    """

    url: str
    key: str = field(repr=False)

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, so that no proxy leads to it."""
        return urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1", "0.0.0.0")


def find_address(url: str | None, key: str | None, data: Path) -> Address:
    """The address that was given, completed from a service's data folder.

    Args:
        url, key: as given; none: of the service in `data`.
        data: a service's folder; need not be there.

    Raises:
        InputError: for what was not given and is not there either.
        UnreachableError: if the service in `data` is still starting.
    """
    here = _read(data / URL_FILE) or (_opened(data) if url is None else None)
    found = url or here
    if found is None:
        raise InputError(
            "--url", f"is missing, and no service runs in {data}", "the URL of a service"
        )
    found = _checked(found)
    # The key of a service on this machine is for that one, and no other is told it.
    if key is None and found == here:
        key = _read(data / KEY_FILE)
    if not key:
        raise InputError("--api-key", "is missing", "an API key, or AUCTUNE_API_KEY")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InputError("--api-key", "has characters that no key has", "an API key")
    return Address(found, key)


def _opened(data: Path) -> str | None:
    """The URL of a service that opened just now; none: no service is starting."""
    doing = read_starting(data)
    found = _read(data / URL_FILE)
    if found is None and doing is not None:
        raise UnreachableError(
            f"the service in {data} is starting: {doing}; "
            "it can be asked once `auctune serve` says where it serves"
        )
    return found


def _checked(url: str) -> str:
    expected = "a URL such as http://127.0.0.1:8420"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError("--url", repr(url), expected) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InputError("--url", repr(url), expected)
    # Other clients of the API are given the URL with this path.
    return url.rstrip("/").removesuffix("/v1")


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
