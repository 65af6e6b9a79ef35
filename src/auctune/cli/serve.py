"""`auctune serve`: the market over HTTP."""

from pathlib import Path
from typing import Annotated

import typer


def serve(
    config: Annotated[
        Path | None, typer.Option(help="auctune.toml; none: one zone on this machine.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder of the database, files and work.")] = Path(
        "auctune-data"
    ),
    host: Annotated[str | None, typer.Option(help="Address to listen at (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port (8420); 0: any that is free.")] = None,
    slot_seconds: Annotated[
        float | None, typer.Option(help="Length of a slot of the embedded zone (60).")
    ] = None,
) -> None:
    """Run the market as a service: bids by OpenAI's fine-tuning API, decisions at once."""
    from rich.console import Console

    from auctune.domain.errors import InputError
    from auctune.run.main_job import base_cache
    from auctune.service.server import serve as run_server
    from auctune.service.settings.service_file import ServiceFile, ZoneEntry, read_service_file
    from auctune.service.zone_opening import Place

    console = Console(stderr=True)
    if config is not None and slot_seconds is not None:
        raise InputError("--slot-seconds", "is given with --config", "slot_seconds in the file")
    file = ServiceFile() if config is None else read_service_file(config)
    if slot_seconds is not None:
        if not 1 <= slot_seconds <= 86_400:
            raise InputError("--slot-seconds", f"{slot_seconds:g}", "1 to 86400 seconds")
        file = file.model_copy(update={"zones": [ZoneEntry(slot_seconds=slot_seconds)]})
    changes = {"host": host, "port": port}
    file = file.model_copy(update={k: v for k, v in changes.items() if v is not None})
    told: list[str] = []

    def report(what: str, _share: float) -> None:
        if not told or told[-1] != what:
            told.append(what)
            console.print(f"{what} ...", highlight=False)

    def ready(url: str, key: str | None) -> None:
        typer.echo(f"auctune serves at {url}")
        if key is not None:
            typer.echo(f"first operator key: {key}")
            typer.echo(f"(shown once; also in {data / 'first-key'})")

    place = Place(data.resolve(), base_cache())
    run_server(file, place, report, ready)
