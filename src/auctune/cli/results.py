"""`auctune fetch` and `auctune try`: download a job's result, and generate text with it."""

import itertools
import json
import shutil
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from auctune.cli._support.options import option_groups
from auctune.cli._support.service import JobId, ServiceOptions
from auctune.client import Client, Job
from auctune.domain.base_name import HUB, resolve_base
from auctune.domain.dataset import RowKind, iterate_lines, read_row
from auctune.domain.errors import AuctuneError, InputError
from auctune.run.base_place import base_cache
from auctune.run.sampling import SampleOrder, sample
from auctune.train.job import SampleParams

# The job's record: its decision, payment and training.
_RECORD = "job.json"
# Maximum number of rows to read for their kind.
_MAX_ROWS = 1000


@option_groups
def fetch(
    job: JobId,
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to write, new or empty. Default: the job's id."),
    ] = None,
    service: ServiceOptions,
) -> None:
    """Download the result of a finished job: a PEFT adapter.

    The job's record, with its payment, plan and losses, is written beside it as job.json.
    """
    folder = out or Path(job)
    with service.connect() as client:
        record = client.job(job)
        _download_result(record, folder, client)
    typer.echo(f"adapter: {folder}/")


@option_groups
def try_adapter(
    job: JobId,
    prompt: Annotated[
        str, typer.Argument(metavar="PROMPT", help="The text to continue.", show_default=False)
    ],
    *,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of tokens.")] = 64,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Sampling temperature; 0: greedy.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Sampling seed.")] = 0,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Prompt kind: chat, completion or text. Default: as the data."
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="BASE", help="Base model: a folder, or hub:NAME. Default: as in training."
        ),
    ] = None,
    base_alone: Annotated[
        bool, typer.Option("--base-alone", help="Generate without the adapter, to compare.")
    ] = False,
    service: ServiceOptions,
) -> None:
    """Generate text with a finished adapter, on this machine."""
    if kind is not None and kind not in set(RowKind):
        raise InputError("--kind", repr(kind), f"one of {', '.join(RowKind)}")
    with tempfile.TemporaryDirectory(prefix="auctune-try-") as space:
        folder = Path(space) / "adapter"
        with service.connect() as client:
            record = client.job(job)
            rows = RowKind(kind) if kind else _row_kind(record, Path(space), client)
            _download_result(record, folder, client)
        order = SampleOrder(
            _base_of(record.record["model"], folder)
            if base is None
            else resolve_base(base, Path()),
            base_cache(),
            prompt,
            None if base_alone else folder,
            rows,
            SampleParams(max_tokens, temperature, seed),
        )
        for piece in sample(order):
            typer.echo(piece, nl=False)
    typer.echo()


def _download_result(job: Job, folder: Path, client: Client) -> None:
    """Unpack a job's result and record into a folder, whole or not at all."""
    if not job.record["result_files"]:
        found = f"has no adapter: it is {job.state}"
        raise InputError(job.id, found, "a finished job")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "is not empty", "a new or empty folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as space:
        archive, unpacked = Path(space) / "result.zip", Path(space) / "result"
        client.fetch(job.record["result_files"][0], archive)
        _unpack(archive, unpacked)
        record = json.dumps(job.record, indent=2, ensure_ascii=False)
        (unpacked / _RECORD).write_text(record + "\n", encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        unpacked.rename(folder)


def _unpack(archive: Path, target: Path) -> None:
    """Extract the files of an archive's single folder; refuse names that lead outside."""
    try:
        with zipfile.ZipFile(archive) as packed:
            for member in packed.infolist():
                parts = PurePosixPath(member.filename).parts[1:]
                if member.is_dir():
                    continue
                if not parts or ".." in parts or any("\\" in part for part in parts):
                    raise AuctuneError(f"the result has an invalid member {member.filename!r}")
                place = target.joinpath(*parts)
                place.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(member) as source, place.open("wb") as file:
                    shutil.copyfileobj(source, file)
    except zipfile.BadZipFile:
        raise AuctuneError("the result is not a zip archive") from None


def _base_of(model: str, adapter: Path) -> str:
    """Return the base model of an adapter, from its configuration."""
    if model == "tiny":
        return model
    config = json.loads((adapter / "adapter_config.json").read_bytes())
    recorded = str(config["base_model_name_or_path"])
    if not Path(recorded).is_absolute():
        return resolve_base(HUB + recorded, Path())
    if not Path(recorded).is_dir():
        found = f"{recorded} of the service does not exist on this machine"
        raise InputError(f"base {model!r}", found, "--base FOLDER, with the same weights")
    return recorded


def _row_kind(job: Job, space: Path, client: Client) -> RowKind:
    """Return the kind of the first valid row of a job's data."""
    file = space / "rows"
    client.fetch(job.record["training_file"], file)
    for _, line in itertools.islice(iterate_lines(file, str(file), errors="replace"), _MAX_ROWS):
        try:
            return read_row(line, "")[0]
        except InputError:
            # The uploaded data may have rows that a vendor repaired.
            continue
    raise InputError("--kind", "cannot be determined from the data", "chat, completion or text")
