"""Options of commands that call a service, and the client that they make."""

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Self, TypeVar

import typer

from auctune.cli._support.options import DATA, print_json
from auctune.client import (
    Client,
    Endpoint,
    ServiceError,
    Transport,
    UnreachableError,
    resolve_endpoint,
)
from auctune.domain.errors import AuctuneError, InputError

T = TypeVar("T")

_WAIT_SECONDS = 5
"""Seconds between two lines of progress while the service works on a request."""
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)

EXIT_REJECTED = 3
"""Exit code: a bid was rejected, or a job failed or was cancelled."""

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.", show_default=False)]
Zone = Annotated[str | None, typer.Option(metavar="ZONE", help="The zone. Default: the first one.")]


def _print_wait(seconds: float) -> None:
    """Print a line of progress now and then, for people; called about once a second."""
    if round(seconds) % _WAIT_SECONDS == 0 and sys.stderr.isatty():
        typer.echo(f"the service is working on it ... {seconds:.0f} s", err=True)


@dataclass
class ServiceOptions:
    """Options that name a service and its API key; makes clients of it."""

    url: Annotated[
        str | None,
        typer.Option(
            envvar="AUCTUNE_URL",
            show_envvar=False,
            metavar="URL",
            help="The service's URL. Default: AUCTUNE_URL, or the service in --data.",
        ),
    ] = None
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="AUCTUNE_API_KEY",
            show_envvar=False,
            metavar="KEY",
            help="An API key. Default: AUCTUNE_API_KEY, or the first key in --data.",
        ),
    ] = None
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Data folder of a service on this machine.")
    ] = DATA
    _endpoint: Endpoint | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """Turn the error of a command that cannot read what a service answered into one of that."""
        if isinstance(error, _MALFORMED) and not isinstance(error, AuctuneError | OSError):
            if self._endpoint is None:
                return
            found = f"{type(error).__name__}: {error}"
            message = f"{self._endpoint.url} answers with a record of an unknown form ({found})"
            raise ServiceError(f"{message}; is it an auctune service of this release?", 200, None)

    def connect(self) -> Client:
        """Return a client of the service at its present URL."""
        try:
            self._endpoint = resolve_endpoint(self.url, self.api_key, self.data)
        except (InputError, UnreachableError):
            # During a restart the service has no URL; it may restart at the previous one.
            if self._endpoint is None:
                raise
        return Client(Transport(self._endpoint, on_wait=_print_wait))

    @property
    def command_line(self) -> str:
        """The options that select the same service, as typed; never the key."""
        is_default = self.url in (None, os.environ.get("AUCTUNE_URL"))
        options = [] if is_default else ["--url", str(self.url)]
        options += [] if self.data == DATA else ["--data", str(self.data)]
        return "".join(f" {shlex.quote(part)}" for part in options)


@dataclass
class ServiceJsonOptions(ServiceOptions):
    """Options of a service, and `--json`."""

    as_json: Annotated[bool, typer.Option("--json", help="Print the service's answer as JSON.")] = (
        False
    )

    def output(self, record: T, show: Callable[[T], object]) -> None:
        """Print a record as JSON if `--json` is set, else call `show` with it."""
        if self.as_json:
            print_json(record)
        else:
            show(record)
