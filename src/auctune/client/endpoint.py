"""URL and API key of a service, from options or from the data folder of a local service.

A service on this machine writes both to its data folder: its URL while it runs, and the operator
key that it created at its first start. During startup it has no URL yet; a status file names the
present step, and the kernel's lock on that file shows that the process is alive.
"""

import fcntl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TextIO
from urllib.parse import urlsplit

from auctune.client.errors import UnreachableError
from auctune.domain.errors import InputError

URL_FILE = "url"
KEY_FILE = "first-key"
STARTING_FILE = "starting"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A service's URL and the API key for it.

    Attributes:
        url: without a path.
        key: an API key.
    """

    url: str
    key: str = field(repr=False)

    @property
    def is_local(self) -> bool:
        """Return whether the service is on this machine, so that requests bypass a proxy."""
        return urlsplit(self.url).hostname in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::")


def resolve_endpoint(url: str | None, key: str | None, data: Path) -> Endpoint:
    """Complete a URL and a key from a service's data folder.

    Args:
        url: `None` for the service that runs in `data`.
        key: `None` for the first key of the service in `data`, if `url` is that service.
        data: a service's data folder; need not exist.

    Raises:
        InputError: if a URL or key is missing or malformed.
        UnreachableError: if the service in `data` is still starting.
    """
    local = _read(data / URL_FILE) or (_url_if_just_opened(data) if url is None else None)
    url = url or local
    if url is None:
        raise InputError(
            "--url",
            f"is missing, and no service runs in {data}",
            "the URL of a service; `auctune serve` starts one here",
        )
    url = _validated(url)
    # The key of the local service is never sent to any other service.
    if key is None and url == local:
        key = _read(data / KEY_FILE)
    if not key:
        raise InputError("--api-key", "is missing", "an API key, or AUCTUNE_API_KEY")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InputError("--api-key", "has a space or a character outside ASCII", "an API key")
    return Endpoint(url, key)


class StartupStatus:
    """Status file of a service that is starting; a context manager.

    Args:
        data: the service's data folder, which exists; the first `write` creates the file.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / STARTING_FILE
        self._file: TextIO | None = None
        self._written = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def write(self, status: str) -> None:
        """Replace the status, unless another service that is starting there holds the lock.

        Raises:
            OSError: if the file cannot be written.
        """
        if status == self._written:
            return
        if self._file is None:
            self._file = self._open_locked()
        if self._file is not None:
            self._written = status
            self._file.seek(0)
            self._file.truncate()
            self._file.write(status)
            self._file.flush()

    def remove(self) -> None:
        """Remove the file once the service is open, or has failed."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _open_locked(self) -> TextIO | None:
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file


def read_startup_status(data: Path) -> str | None:
    """Return the startup step of the service in a folder, or `None` if none is starting."""
    with suppress(OSError, UnicodeDecodeError), (data / STARTING_FILE).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read()
    return None


def _url_if_just_opened(data: Path) -> str | None:
    status = read_startup_status(data)
    url = _read(data / URL_FILE)
    if url is None and status is not None:
        raise UnreachableError(
            f"the service in {data} is starting: {status}; "
            "try again once `auctune serve` prints its URL"
        )
    return url


def _validated(url: str) -> str:
    expected = "a URL such as http://127.0.0.1:8420"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError("--url", repr(url), expected) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InputError("--url", repr(url), expected)
    # OpenAI's clients expect the URL with this path.
    return url.rstrip("/").removesuffix("/v1")


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
