"""`auctune fetch`: what a finished job came to, as a folder."""

import json
import shutil
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.service_options import DATA, ApiKey, Data, Finder, JobId, Url
from auctune.domain.errors import AuctuneError, InputError

if TYPE_CHECKING:
    from auctune.client import Client, Job

NETWORK = "network"
# What was decided, paid and trained, as the service records it.
RECORD = "job.json"


def fetch(
    job: JobId,
    out: Annotated[
        Path | None, typer.Option(help="Folder for it, new or empty; none: the job's id.")
    ] = None,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Fetch a finished job's result: a PEFT adapter.

    A job with data at sites has a network instead: its weights, and a file that describes it.
    The job's record, with what was paid and for what, is written beside it: job.json.
    """
    folder = out or Path(job)
    with Finder(url, api_key, data)() as client:
        found = client.job(job)
        fetch_result(found, folder, client)
    typer.echo(f"{found.comes_to}: {folder}/")
    if found.comes_to == NETWORK:
        typer.echo("load it in Python, to tell images apart:")
        typer.echo("  from auctune.train.edge.loading import load_model")
        typer.echo(f"  model = load_model({str(folder)!r})")


def fetch_result(job: "Job", folder: Path, client: "Client") -> None:
    """Unpack the result of a job into a folder, whole or not at all, and its record beside it.

    Raises:
        InputError: if there is none, or the folder holds something.
    """
    if not job.record["result_files"]:
        raise InputError(job.id, f"has no {job.comes_to}: it is {job.state}", "a job that is done")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "is not empty", "a new or empty folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as space:
        archive, unpacked = Path(space) / "result.zip", Path(space) / "result"
        client.fetch(job.record["result_files"][0], archive)
        _unpack(archive, unpacked)
        record = json.dumps(job.record, indent=2, ensure_ascii=False)
        (unpacked / RECORD).write_text(record + "\n", encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        unpacked.rename(folder)


def _unpack(archive: Path, target: Path) -> None:
    """Files of the one folder in an archive; names that lead elsewhere are refused."""
    try:
        with zipfile.ZipFile(archive) as packed:
            for member in packed.infolist():
                parts = PurePosixPath(member.filename).parts[1:]
                if member.is_dir():
                    continue
                if not parts or ".." in parts or any("\\" in part for part in parts):
                    raise AuctuneError(f"the archive has a member {member.filename!r}")
                place = target.joinpath(*parts)
                place.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(member) as source, place.open("wb") as file:
                    shutil.copyfileobj(source, file)
    except zipfile.BadZipFile:
        raise AuctuneError("what the service sent is no archive") from None
