"""`auctune try`: text from a finished adapter, drawn on this machine."""

import itertools
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.service_options import DATA, ApiKey, Data, Finder, JobId, Url
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.client import Client, Job
    from auctune.domain.dataset import RowKind


def try_adapter(
    job: JobId,
    prompt: Annotated[str, typer.Argument(help="What it is to go on from.", show_default=False)],
    max_tokens: Annotated[int, typer.Option(min=1, help="So many tokens at most.")] = 64,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="0: always the likeliest token; 1: as the model has it.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    kind: Annotated[
        str | None,
        typer.Option(help="Rows it was trained on: chat, completion or text; none: looked up."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="Its base on this machine: a folder, or hub:NAME; none: as trained."),
    ] = None,
    base_alone: Annotated[bool, typer.Option(help="Without the adapter, to compare.")] = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Draw text from a finished adapter, on this machine."""
    from auctune.domain.base_name import resolve_base
    from auctune.domain.dataset import RowKind
    from auctune.run.base_cache import base_cache
    from auctune.run.sampling import SampleOrder, SampleParams, sample

    if kind is not None and kind not in set(RowKind):
        raise InputError("--kind", repr(kind), f"one of {', '.join(RowKind)}")
    with tempfile.TemporaryDirectory(prefix="auctune-try-") as space:
        folder = Path(space) / "adapter"
        with Finder(url, api_key, data)() as client:
            found = client.job(job)
            _check_draws_text(found)
            rows = RowKind(kind) if kind else _kind(found, Path(space), client)
            from auctune.cli.fetch import fetch_result

            fetch_result(found, folder, client)
        order = SampleOrder(
            _base(found.record["model"], folder) if base is None else resolve_base(base, Path()),
            base_cache(),
            prompt,
            None if base_alone else folder,
            rows,
            SampleParams(max_tokens, temperature, seed),
        )
        for piece in sample(order):
            typer.echo(piece, nl=False)
    typer.echo()


def _check_draws_text(job: "Job") -> None:
    if job.comes_to != "adapter":
        raise InputError(
            job.id,
            f"comes to a {job.comes_to} that tells images apart, and draws no text",
            f"a job with an adapter; `auctune fetch {job.id}` has the {job.comes_to}, and how to"
            " load it",
        )


def _base(model: str, adapter: Path) -> str:
    """Return the base of an adapter, as its configuration names it; nothing is guessed.

    Raises:
        InputError: if it is a folder of the service's machine that is not on this one.
    """
    from auctune.domain.base_name import HUB, resolve_base

    if model == "tiny":
        return model
    recorded = str(
        json.loads((adapter / "adapter_config.json").read_bytes())["base_model_name_or_path"]
    )
    if not Path(recorded).is_absolute():
        return resolve_base(HUB + recorded, Path())
    if not Path(recorded).is_dir():
        found = f"{recorded} of the service is not on this machine"
        raise InputError(f"base {model!r}", found, "--base FOLDER, with the same weights")
    return recorded


def _kind(job: "Job", space: Path, client: "Client") -> "RowKind":
    """The kind of the rows in a job's data, by the first that is one."""
    from auctune.domain.dataset import iterate_lines, read_row

    file = space / "rows"
    client.fetch(job.record["training_file"], file)
    for _, line in itertools.islice(iterate_lines(file, str(file), errors="replace"), 1000):
        try:
            return read_row(line, "")[0]
        except InputError:
            # Data that a vendor mended begin with anything.
            continue
    raise InputError("--kind", "cannot be told from the data", "chat, completion or text")
