"""`auctune serve`: the market over HTTP."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.errors import INTERRUPTED
from auctune.cli.service_options import DATA
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.service.config.models import ServiceConfig

_LONGEST_SLOT = 86_400


def serve(
    config: Annotated[
        Path | None, typer.Option(help="auctune.toml; none: one zone on this machine.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder of the database, files and work.")] = DATA,
    host: Annotated[
        str | None, typer.Option(help="Address to listen at; none: as in the file, or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help="Port; 0: any that is free; none: as in the file, or 8420."
        ),
    ] = None,
    slot_seconds: Annotated[
        float | None, typer.Option(help="Length of a slot; none: 60 s. Only without --config.")
    ] = None,
) -> None:
    """Run the market as a service, with OpenAI's fine-tuning API.

    Ctrl-C or SIGTERM ends it. Started again, it goes on where it was, also after a kill.
    """
    file = _settings(config, host, port, slot_seconds)

    from auctune.cli.opening import Opening
    from auctune.client.address import KEY_FILE, URL_FILE
    from auctune.client.starting import StartingNote
    from auctune.run.base_cache import base_cache
    from auctune.service.files.disk import FULL, check_start, full_disk
    from auctune.service.private_files import take_data_folder
    from auctune.service.server import serve as run_server
    from auctune.service.zones.premises import Place

    place = Place(data.resolve(), base_cache())
    url_file = place.data / URL_FILE
    opening, note, opened = Opening(), StartingNote(place.data), False

    def report(what: str, share: float) -> None:
        if not opening.doing:
            # The folder is this service's from here on; one that was killed left its address.
            url_file.unlink(missing_ok=True)
        opening.report(what, share)
        note.tell(f"{opening.doing} ({share:.0%})" if 0 < share < 1 else opening.doing)

    def ready(url: str, key: str | None) -> None:
        nonlocal opened
        opening.end()
        opened = True
        url_file.write_text(url + "\n")
        note.end()
        typer.echo(f"auctune serves at {url}")
        if key is not None:
            typer.echo(f"first operator key: {key}")
            typer.echo(f"(shown once; also in {data / KEY_FILE})")
        typer.echo("Ctrl-C stops it")

    try:
        with _terminated_as_interrupted(), opening, note:
            if count := take_data_folder(place.data):
                typer.echo(
                    f"{place.data} was open to other accounts of this machine: closed {count} "
                    "files and folders to them",
                    err=True,
                )
            check_start(place.data)
            note.tell("looking at its folder")
            run_server(file, place, report, ready)
    except OSError as error:
        if error.errno in FULL:
            raise full_disk(place.data) from error
        raise
    except KeyboardInterrupt:
        typer.echo("stopped before it was open", err=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        # Where another service has the folder, it is the other's.
        if opened:
            url_file.unlink(missing_ok=True)
    typer.echo("stopped")


def _settings(
    config: Path | None, host: str | None, port: int | None, slot_seconds: float | None
) -> "ServiceConfig":
    from auctune.service.config.auction import AuctionConfig
    from auctune.service.config.models import ServiceConfig

    if config is not None and slot_seconds is not None:
        raise InputError("--slot-seconds", "is given with --config", "slot_seconds in the file")
    if slot_seconds is not None and not 1 <= slot_seconds <= _LONGEST_SLOT:
        raise InputError("--slot-seconds", f"{slot_seconds:g}", f"1 to {_LONGEST_SLOT} seconds")
    file = ServiceConfig() if config is None else _checked(config)
    zones = None if slot_seconds is None else [AuctionConfig(slot_seconds=slot_seconds)]
    changes = {"host": host, "port": port, "zones": zones}
    return file.model_copy(update={k: v for k, v in changes.items() if v is not None})


def _checked(config: Path) -> "ServiceConfig":
    from auctune.service.config.check import check_bases, check_service
    from auctune.service.config.models import read_config

    file = read_config(config)
    try:
        check_service(file)
        check_bases(file)
    except InputError as error:
        raise error.within(str(config)) from None
    return file


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM while the service is opening puts everything away, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
