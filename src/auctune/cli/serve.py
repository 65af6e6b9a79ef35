"""`auctune serve`: run the service, and show the progress of its startup."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from auctune.cli._support.options import DATA, MAX_SLOT_SECONDS
from auctune.client.endpoint import KEY_FILE, URL_FILE, StartupStatus
from auctune.domain.errors import InputError
from auctune.engine.base_place import base_cache
from auctune.engine.console import ProgressLines
from auctune.engine.service_manager import notify_manager

if TYPE_CHECKING:
    from auctune.service.config.models import ServiceConfig


def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The service's auctune.toml. Default: one zone on this machine."
        ),
    ] = None,
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the database and all files.")
    ] = DATA,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="Address to listen on. Default: as in --config, or 127.0.0.1."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help="Port; 0: any free one. Default: as in --config, or 8420."
        ),
    ] = None,
    slot_seconds: Annotated[
        float | None, typer.Option(help="Slot length, without --config. Default: 60 seconds.")
    ] = None,
) -> None:
    """Run the service, an extension of OpenAI's fine-tuning API.

    Stop it with Ctrl-C or SIGTERM. After a restart, also after a kill, it resumes all jobs.
    """
    with _end_on_signals() as before_end:
        _serve(config, data, host, port, slot_seconds, before_end)
    typer.echo("stopped")


def _serve(
    config: Path | None,
    data: Path,
    host: str | None,
    port: int | None,
    slot_seconds: float | None,
    before_end: list[Callable[[], None]],
) -> None:
    settings = _settings(config, host, port, slot_seconds)

    # The server takes seconds to import; not needed for --help and wrong options.
    from auctune.service.files.blobs import FULL, check_start, full_disk
    from auctune.service.private_files import take_data_folder
    from auctune.service.server import serve as run_server
    from auctune.service.zones.core.worker import DataDirs

    place = DataDirs(data.resolve(), base_cache())
    url_file = place.data / URL_FILE
    progress, status, is_open = StartupProgress(), StartupStatus(place.data), False
    before_end += [progress.stop, status.remove, lambda: notify_manager("STOPPING=1")]

    def report(stage: str, share: float) -> None:
        if not progress.stage:
            # The folder is locked here, so a URL in it is that of a service that was killed.
            url_file.unlink(missing_ok=True)
        if stage not in (progress.stage, "done"):
            notify_manager(f"STATUS={stage}")
        progress.report(stage, share)
        status.write(f"{progress.stage} ({share:.0%})" if 0 < share < 1 else progress.stage)

    def ready(url: str, key: str | None) -> None:
        nonlocal is_open
        progress.stop()
        is_open = True
        url_file.write_text(url + "\n")
        status.remove()
        notify_manager("READY=1", f"STATUS=serves at {url}")
        typer.echo(f"auctune serves at {url}")
        if key is not None:
            # What is no terminal may be a log, which others read.
            if sys.stdout.isatty():
                typer.echo(f"first operator key: {key}")
                typer.echo(f"(shown once; also in {data / KEY_FILE})")
            else:
                typer.echo(f"the first operator key is in {data / KEY_FILE}")
        if config is None:
            typer.echo("prices begin at 0.0000; auctune init writes settings, to set them")
        typer.echo("stop with Ctrl-C")

    try:
        with progress, status:
            take_data_folder(place.data)
            check_start(place.data)
            status.write("checking its folder")
            run_server(settings, place, report, ready)
    except OSError as error:
        if error.errno in FULL:
            raise full_disk(place.data) from error
        raise
    finally:
        # Remove only this service's own URL: another service may own the folder.
        if is_open:
            url_file.unlink(missing_ok=True)


class StartupProgress:
    """Startup progress on standard error: a bar on a terminal, else lines; a context manager."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self.stage = ""
        self._lines = ProgressLines()
        self._bar = self._bars.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def report(self, stage: str, share: float) -> None:
        """Show a stage, and the share of it that is done, or 0 if unknown."""
        if stage == "done":
            return
        if not self._console.is_terminal and (line := self._lines.line(stage, share)):
            self._console.print(line, markup=False)
        if stage != self.stage:
            self.stage = stage
            self._bars.reset(self._bar, description=stage, visible=True)
        total = 1.0 if share > 0 else None
        self._bars.update(self._bar, total=total, completed=share)

    def stop(self) -> None:
        self._bars.stop()


def _settings(
    config: Path | None, host: str | None, port: int | None, slot_seconds: float | None
) -> "ServiceConfig":
    if config is not None and slot_seconds is not None:
        found = "cannot be combined with --config"
        raise InputError("--slot-seconds", found, "slot_seconds in the file")
    if slot_seconds is not None and not 1 <= slot_seconds <= MAX_SLOT_SECONDS:
        raise InputError("--slot-seconds", f"{slot_seconds:g}", f"1 to {MAX_SLOT_SECONDS} seconds")

    from auctune.service.config.models import first_config

    file = first_config() if config is None else _read_checked(config)
    zones = None
    if slot_seconds is not None:
        zones = [file.zones[0].model_copy(update={"slot_seconds": slot_seconds})]
    changes = {"host": host, "port": port, "zones": zones}
    return file.model_copy(update={k: v for k, v in changes.items() if v is not None})


def _read_checked(config: Path) -> "ServiceConfig":
    from auctune.service.config.models import read_config
    from auctune.service.zones.kinds import check_bases, check_service

    file = read_config(config)
    try:
        check_service(file)
        check_bases(file)
    except InputError as error:
        raise error.within(str(config)) from None
    return file


@contextlib.contextmanager
def _end_on_signals() -> Iterator[list[Callable[[], None]]]:
    """End this process and its children at once on SIGTERM and Ctrl-C.

    A start can neither be waited for, which may take minutes, nor unwound in the middle of a
    measurement. It leaves the data folder as a kill does, from which the next start continues. Once
    the service is open, it handles the signals itself.

    Yields:
        a list to which the caller adds what is done before.
    """
    # Not while a signal is handled.
    import psutil

    before_end: list[Callable[[], None]] = []

    def end(number: int, _: object) -> None:
        try:
            for call in before_end:
                call()
            for child in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            print("stopped during startup", file=sys.stderr, flush=True)
        finally:
            os._exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield before_end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
