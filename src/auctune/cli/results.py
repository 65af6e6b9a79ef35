"""`auctune fetch`, `try` and `evaluate`: download a job's result, generate text, compare.

What the last two need is imported where it is used: `fetch` works without it, but for `--merged`.
"""

import json
import shutil
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from auctune.cli._support.options import option_groups, print_json
from auctune.cli._support.service import JobId, ServiceOptions
from auctune.cli._support.tables import make_table, print_table
from auctune.client import Client, Job
from auctune.datasets import find_kind
from auctune.domain.base_name import HUB, resolve_base
from auctune.domain.dataset import DEFAULT_MAX_LENGTH, RowKind
from auctune.domain.errors import AuctuneError, InputError
from auctune.domain.evaluation import Evaluation
from auctune.domain.generation import GenerationRequest, SamplingParams
from auctune.engine.base_place import base_cache
from auctune.engine.console import RunConsole
from auctune.files.atomic import clean_staging, commit_folder, staging_folder

if TYPE_CHECKING:
    from auctune.engine.generation import GeneratorSettings

Checkpoint = Annotated[
    int | None,
    typer.Option(
        metavar="STEP", help="Take the adapter of the epoch that ended with this step instead."
    ),
]

# The job's record: its decision, payment and training; and its metrics by step.
_RECORD, _METRICS = "job.json", "metrics.csv"


@option_groups
def fetch(
    job: JobId,
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to write, new or empty. Default: the job's id."),
    ] = None,
    checkpoint: Checkpoint = None,
    merged: Annotated[
        bool, typer.Option("--merged", help="Write the base with the adapter merged into it.")
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="BASE",
            help="With --merged, the base: a folder, or hub:NAME. Default: as in training.",
        ),
    ] = None,
    service: ServiceOptions,
) -> None:
    """Download the result of a finished job: a PEFT adapter.

    Beside it: job.json, the job's record with its payment and plan, and metrics.csv, its losses and
    token accuracies by optimizer step.
    """
    if base is not None and not merged:
        raise InputError("--base", "is set without --merged", "both, or neither")
    folder = out or Path(job)
    with service.connect() as client:
        record = client.job(job)
        if not merged:
            _download_result(record, folder, client, checkpoint)
            typer.echo(f"adapter: {folder}/")
            return
        _fetch_merged(record, folder, client, checkpoint, base)
    typer.echo(f"model: {folder}/")


@option_groups
def try_adapter(
    job: JobId,
    prompt: Annotated[
        str, typer.Argument(metavar="PROMPT", help="The text to continue.", show_default=False)
    ],
    *,
    checkpoint: Checkpoint = None,
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
    from auctune.engine.inference import sample

    kinds = [one.value for one in RowKind if one.of_prompts is one]
    if kind is not None and kind not in kinds:
        raise InputError("--kind", repr(kind), f"one of {', '.join(kinds)}")
    with tempfile.TemporaryDirectory(prefix="auctune-try-") as space:
        folder = Path(space) / "adapter"
        with service.connect() as client:
            record = client.job(job)
            rows = RowKind(kind) if kind else _row_kind(record, Path(space), client)
            _download_result(record, folder, client, checkpoint)
        params = SamplingParams(max_tokens=max_tokens, temperature=temperature, seed=seed)
        adapter = None if base_alone else folder
        request = GenerationRequest.of_prompt(rows, prompt, params, adapter)
        for piece in sample(_settings(record.record["model"], folder, base), request):
            typer.echo(piece, nl=False)
    typer.echo()


@option_groups
def evaluate_adapter(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB", help="The job's id, or an adapter's folder.", show_default=False
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Rows to evaluate on. Default: the job's validation data.",
            show_default=False,
        ),
    ] = None,
    *,
    checkpoint: Checkpoint = None,
    rows: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="First rows that count. Default: all.")
    ] = None,
    answers: Annotated[
        int, typer.Option(min=0, metavar="N", help="Rows answered by both models.")
    ] = 3,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens of an answer.")] = 64,
    max_length: Annotated[
        int, typer.Option(min=2, help="Maximum tokens of a row; a longer one is truncated.")
    ] = DEFAULT_MAX_LENGTH,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="BASE", help="Base model: a folder, or hub:NAME. Default: as in training."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the evaluation as JSON.")] = False,
    service: ServiceOptions,
) -> None:
    """Evaluate a finished adapter beside its base, on this machine.

    Both models get the rows' loss, the accuracy of their tokens, and the first rows to answer.
    """
    from auctune.engine.inference import EVALUATIONS, evaluate

    with tempfile.TemporaryDirectory(prefix="auctune-evaluate-") as space:
        adapter, data, model = Path(job), file, ""
        if adapter.is_dir():
            if checkpoint is not None:
                raise InputError("--checkpoint", "is set for a folder", "a job's id")
        else:
            adapter = Path(space) / "adapter"
            with service.connect() as client:
                record = client.job(job)
                _download_result(record, adapter, client, checkpoint)
                data, model = (
                    file or _validation(record, Path(space), client),
                    record.record["model"],
                )
        if data is None:
            raise InputError("FILE", "is missing", "rows: an adapter's folder has none")
        settings = _settings(model, adapter, base)
        with RunConsole(Console(stderr=True)) as shown:
            found = evaluate(
                settings,
                adapter,
                data,
                max_rows=rows,
                max_length=max_length,
                num_answers=answers,
                max_tokens=max_tokens,
                report=shown.preparing,
            )
            shown.prepared()
    if as_json:
        print_json(EVALUATIONS.dump_python(found, mode="json"))
    else:
        _print_evaluation(found)


def _validation(job: Job, space: Path, client: Client) -> Path:
    file_id = job.record["validation_file"]
    if file_id is None:
        raise InputError("FILE", "is missing, and the job has no validation data", "a file of rows")
    path = space / "validation.jsonl"
    client.fetch(file_id, path)
    return path


def _print_evaluation(found: Evaluation) -> None:
    table = make_table("", "base", "adapter", right=("base", "adapter"))
    table.add_row("loss", f"{found.base.loss:.3f}", f"{found.adapter.loss:.3f}")
    accuracies = (f"{one.token_accuracy:.1%}" for one in (found.base, found.adapter))
    table.add_row("token accuracy", *accuracies)
    table.caption = f"{found.rows} rows, {found.targets} target tokens"
    print_table(table)
    for answer in found.answers:
        parts = (("prompt", answer.prompt), ("expected", answer.expected))
        for name, text in (*parts, ("base", answer.base), ("adapter", answer.adapter)):
            typer.echo(f"{name:>9}  " + text.strip().replace("\n", "\n" + 11 * " "))
        typer.echo()


def _download_result(job: Job, folder: Path, client: Client, checkpoint: int | None) -> None:
    """Unpack a job's adapter, record and metrics into a folder, whole or not at all."""
    file = _result_file(job, client, checkpoint)
    _check_new(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as space:
        archive, unpacked = Path(space) / "result.zip", Path(space) / "result"
        client.fetch(file, archive)
        _unpack(archive, unpacked)
        client.fetch(job.record["result_files"][0], unpacked / _METRICS)
        record = json.dumps(job.record, indent=2, ensure_ascii=False)
        (unpacked / _RECORD).write_text(record + "\n", encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        unpacked.rename(folder)


def _result_file(job: Job, client: Client, checkpoint: int | None) -> str:
    """Return the id of the file with a job's adapter, or with that of a checkpoint."""
    if not job.record["result_files"]:
        found = f"has no adapter: it is {job.state}"
        raise InputError(job.id, found, "a finished job")
    if checkpoint is None:
        return str(job.record["result_files"][-1])
    files = {one["step_number"]: str(one["result_file"]) for one in client.checkpoints(job.id)}
    if checkpoint not in files:
        steps = "one of " + ", ".join(map(str, sorted(files)))
        expected = steps if files else "none: no adapter of an epoch was kept"
        raise InputError("--checkpoint", f"{checkpoint}", expected)
    return files[checkpoint]


def _fetch_merged(
    job: Job, folder: Path, client: Client, checkpoint: int | None, base: str | None
) -> None:
    """Write the base with a job's adapter merged, its record and metrics, whole or not at all."""
    # Nothing is downloaded where it could not be merged; torch takes seconds to import.
    from auctune.train.merging import merge_adapter

    _check_new(folder)
    with tempfile.TemporaryDirectory(prefix="auctune-fetch-") as space:
        adapter = Path(space) / "adapter"
        _download_result(job, adapter, client, checkpoint)
        model = _base_of(job.record["model"], adapter, base)
        clean_staging(folder.parent, folder.name)
        with staging_folder(folder) as unfinished:
            merge_adapter(model, base_cache(), adapter, unfinished)
            for name in (_RECORD, _METRICS):
                shutil.copy(adapter / name, unfinished)
            commit_folder(unfinished, folder)


def _check_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "is not empty", "a new or empty folder")


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


def _settings(model: str, adapter: Path, wanted: str | None) -> "GeneratorSettings":
    from auctune.engine.generation import GeneratorSettings

    # A user's own base may have other weights, as long as the adapter fits.
    base = _base_of(model, adapter, wanted)
    return GeneratorSettings(base=base, cache=base_cache(), checks_base=False)


def _base_of(model: str, adapter: Path, wanted: str | None) -> str:
    """Return the base model of an adapter: the one named, else by the adapter's configuration."""
    if wanted is not None:
        return resolve_base(wanted, Path())
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
    kind = find_kind(file)
    if kind is None:
        raise InputError("--kind", "cannot be determined from the data", "chat, completion or text")
    return kind.of_prompts
