"""Options that say what is to be trained: of quotes and of bids."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.settings import parse_settings
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.client import Client, Work

_FILE_ID = "file-"

Validation = Annotated[
    str | None, typer.Option(help="Data to measure the loss on: a file, or the id of an upload.")
]
Model = Annotated[str | None, typer.Option(help="The base model; none: that of the zone.")]
Zone = Annotated[str | None, typer.Option(help="The zone; none: the service's first one.")]
AnyZone = Annotated[
    str | None, typer.Option("--zone", help="The zone; none: the cheapest that can have the job.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of training; repeatable."),
]
Sites = Annotated[
    list[str] | None,
    typer.Option(
        "--site", metavar="NAME=FILE", help="Data of a site, that stay there; repeatable."
    ),
]
Repair = Annotated[bool, typer.Option(help="Have a vendor mend the data.")]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options ask to train; files as they were given.

    Attributes:
        data: none where all data are at sites; there is one then.
        sites: site and file, the first of which stands for the data that are nowhere else.
    """

    data: str | None
    validation: str | None
    settings: tuple[str, ...]
    repair: bool
    name: str | None = None
    sites: tuple[tuple[str, str], ...] = ()

    def upload(self, client: "Client") -> "Work":
        """The same with files that the service has.

        Raises:
            InputError: for a setting that there is not, or a file that cannot be read.
        """
        from auctune.client import Work
        from auctune.client.work import read_settings

        settings = read_settings(parse_settings(list(self.settings)))
        validation = None if self.validation is None else send(self.validation, client)
        sites = {name: send(file, client) for name, file in self.sites}
        data = sites[self.sites[0][0]] if self.data is None else send(self.data, client)
        return Work(data, validation, settings, self.repair, self.name, sites)


def wanted(
    training_file: str | None,
    validation: str | None,
    settings: list[str] | None,
    sites: list[str] | None,
    name: str | None = None,
    *,
    repair: bool,
) -> Wanted:
    """What the options ask to train.

    Raises:
        InputError: if they name no data.
    """
    at = tuple(parse_settings(sites or [], "--site", "NAME=FILE").items())
    if training_file is None and not at:
        expected = "a data set, or --site NAME=FILE"
        raise InputError("TRAINING_FILE", "is missing", expected)
    called = name or default_name(training_file or at[0][1])
    return Wanted(training_file, validation, tuple(settings or ()), repair, called, at)


def default_name(data: str) -> str | None:
    """What a job on a file is called where nobody names it: as the file."""
    return None if data.startswith(_FILE_ID) else Path(data).stem[:64] or None


def send(given: str, client: "Client") -> str:
    """The id of a file that is given by a path, and uploaded, or by its id.

    Raises:
        InputError: if it cannot be read.
    """
    if given.startswith(_FILE_ID) and not Path(given).exists():
        return given
    try:
        return client.upload(Path(given))
    except OSError as error:
        reason = error.strerror or "unknown error"
        raise InputError(given, f"cannot be read ({reason})", "a data set in JSON lines") from None
