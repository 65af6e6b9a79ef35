"""Options of commands that speak to a service, and the client that they make."""

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.client import Address, Client

DATA = Path("auctune-data")
REFUSED = 3
"""Exit code: a bid was rejected, or a job failed or was cancelled."""

Url = Annotated[
    str | None,
    typer.Option(
        envvar="AUCTUNE_URL",
        show_envvar=False,
        help="The service's URL; none: AUCTUNE_URL, or that of the service in --data.",
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="AUCTUNE_API_KEY",
        show_envvar=False,
        help="An API key; none: AUCTUNE_API_KEY, or the first key of the service in --data.",
    ),
]
Data = Annotated[Path, typer.Option(help="Data folder of a service on this machine.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what the service answered, as JSON.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.", show_default=False)]


class Finder:
    """Finds a service, now and again after it was away.

    Args:
        url, key, data: as the options say.
    """

    def __init__(self, url: str | None, key: str | None, data: Path) -> None:
        self._given = (url, key, data)
        self._known: Address | None = None

    def __call__(self) -> "Client":
        """A client of the service as it is to be found now.

        Raises:
            InputError: if it never was.
            UnreachableError: if it is starting, for the first time.
        """
        from auctune.client import Client, UnreachableError, find_address
        from auctune.client.connection import Connection

        try:
            self._known = find_address(*self._given)
        except (InputError, UnreachableError):
            # A service that is starting again has no URL yet; it may come back where it was.
            if self._known is None:
                raise
        return Client(Connection(self._known))

    @property
    def options(self) -> str:
        """The options that find the same service, as one would type them; no key is shown."""
        url, _, data = self._given
        options = [] if url in (None, os.environ.get("AUCTUNE_URL")) else ["--url", str(url)]
        options += [] if data == DATA else ["--data", str(data)]
        return "".join(f" {shlex.quote(part)}" for part in options)


def print_json(record: Any) -> None:
    """A record for a program to read."""
    typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
