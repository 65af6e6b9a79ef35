"""Files of an adapter, as PEFT writes them, read without torch; they may be anybody's.

    adapter_config.json
    adapter_model.safetensors
    auctune.json                an `AdapterRecord`; written by auctune alone

They are in a folder, or in a zip archive of one. No other file is read, and none is executed:
weights as pickles are refused. Each file has a bound on its size, and names, shapes, types and
values of the weights are checked before anybody computes with them.
"""

import hashlib
import json
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.errors import InputError
from auctune.domain.start_adapter import START_SETTINGS, StartAdapter
from auctune.domain.training import TrainingConfig
from auctune.files.atomic import clean_staging, commit_folder, staging_folder

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
RECORD = "auctune.json"
EPOCHS = "epochs"
"""Folder of the adapters of a job's last epochs, each in a folder by its number."""
KEPT_EPOCHS = 3
"""Number of the last epochs whose adapters are kept, as at OpenAI."""
PREFIX = "base_model.model."
"""PEFT's prefix of a weight's name in the base."""

REFUSED = {
    "use_dora": "DoRA",
    "modules_to_save": "modules_to_save",
    "lora_bias": "biases of adapters",
    "layers_to_transform": "adapters on some layers only",
    "rank_pattern": "ranks by module",
    "alpha_pattern": "alphas by module",
    "target_parameters": "adapters of bare parameters",
    "trainable_token_indices": "trained tokens",
    "layer_replication": "replicated layers",
    "loftq_config": "LoftQ",
}
"""Fields of PEFT's `LoraConfig` that the trainer does not compute, and what they mean."""

_EXPECTED = "a LoRA adapter, as PEFT saves it"
_PLAIN = "plain LoRA adapters"
_MAX_CONFIG_BYTES = 2**20
_MAX_WEIGHT_BYTES = 2**32
# Of a damaged archive; those of its compressed contents are not zipfile's own.
_ARCHIVE_ERRORS: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
)
# Fields that have a meaning here, and fields that change nothing about the weights.
_READ = {"peft_type", "r", "lora_alpha", "use_rslora", "target_modules", "bias", "task_type"}
_READ |= {"init_lora_weights", "base_model_name_or_path"}
_NEUTRAL = {"lora_dropout", "fan_in_fan_out", "inference_mode", "revision", "peft_version"}
_NEUTRAL |= {"auto_mapping", "megatron_core", "qalora_group_size", "runtime_config"}
# Starts that leave the base's own weights as they are.
_PLAIN_STARTS = (True, False, "gaussian", "eva", "orthogonal")
_WEIGHT = re.compile(r"(.+)\.(lora_A|lora_B)\.weight")
# Bits of the exponent, all set in infinity and NaN.
_TYPES: Mapping[str, tuple[type[np.unsignedinteger[Any]], int]] = {
    "F32": (np.uint32, 0x7F800000),
    "F16": (np.uint16, 0x7C00),
    "BF16": (np.uint16, 0x7F80),
}


@dataclass(frozen=True, slots=True)
class AdapterRecord:
    """What auctune knows of an adapter beyond PEFT's files.

    Attributes:
        base_digest: of the base that it was trained on, as of `Base`.
        epoch: of the adapter of an epoch; `None` for a job's result.
    """

    base_digest: str
    epoch: EpochMetrics | None = None


_RECORDS = TypeAdapter(AdapterRecord)


def read_start(path: Path, place: str) -> tuple[StartAdapter, dict[str, NDArray[np.float32]]]:
    """Read an adapter that a job is to go on from, whole and checked by itself.

    Args:
        path: its folder, or a zip archive of one.
        place: how errors call it.

    Returns:
        What it is, and its weights by their names in the base.

    Raises:
        InputError: for the first thing that is wrong or not supported, by name.
    """
    files = _read_files(path, place)
    config = _read_config(files[CONFIG], f"{place}: {CONFIG}")
    weights = dict(_read_weights(files[WEIGHTS], f"{place}: {WEIGHTS}"))
    own = {name: getattr(config, name) for name in START_SETTINGS}
    digest = hashlib.sha256(json.dumps(own).encode())
    for name, values in sorted(weights.items()):
        digest.update(f"{name} {values.shape}\n".encode())
        digest.update(values.tobytes())
    start = StartAdapter(
        **own,
        base_digest=_base_digest(files.get(RECORD), f"{place}: {RECORD}"),
        digest=digest.hexdigest(),
        shapes={name: values.shape for name, values in weights.items()},
    )
    return start, weights


def write_record(base_digest: str, folder: Path, metrics: EpochMetrics | None = None) -> None:
    """Write which base the adapter in a folder was trained on, and the metrics of its epoch."""
    record = _RECORDS.dump_json(AdapterRecord(base_digest, metrics), exclude_none=True)
    (folder / RECORD).write_bytes(record + b"\n")


def write_adapter_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of an adapter into a folder, all or none of them; what is there goes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    clean_staging(folder.parent, folder.name)
    with staging_folder(folder) as unfinished:
        for name, content in files.items():
            (unfinished / name).write_bytes(content)
        commit_folder(unfinished, folder)


def read_epochs(folder: Path) -> list[tuple[EpochMetrics, Path]]:
    """Return the adapters of the last epochs in a job's folder, in order: metrics, folders."""
    found = []
    for _, path in epoch_folders(folder / EPOCHS):
        metrics = _RECORDS.validate_json((path / RECORD).read_bytes()).epoch
        assert metrics is not None
        found.append((metrics, path))
    return found


def epoch_folders(folder: Path) -> list[tuple[int, Path]]:
    """Return the numbers and folders of epochs in a folder, in order."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted((int(path.name), path) for path in paths if path.name.isdecimal())


def adapter_paths(folder: Path) -> list[Path]:
    """Return the files of an adapter in a folder, those that are there."""
    return [path for name in (CONFIG, WEIGHTS, RECORD) if (path := folder / name).is_file()]


def publish_epochs(work: Path, result: Path) -> None:
    """Move the adapters of a job's last epochs beside its result, unless they are there."""
    kept = work / EPOCHS
    if kept.is_dir():
        commit_folder(kept, result / EPOCHS)


def pack_adapter(source: Path, target: Path) -> None:
    """Write the files of an adapter, from its folder or its archive, into one zip archive.

    Raises:
        InputError: naming the source, if they are missing or too large.
        OSError: if it cannot be read or written.
    """
    files = _read_files(source, str(source))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            # One date: the same files give the same bytes.
            archive.writestr(zipfile.ZipInfo(f"adapter/{name}", (1980, 1, 1, 0, 0, 0)), content)


def unpack_adapter(source: Path, folder: Path, place: str) -> None:
    """Write the files of an adapter, from its folder or its archive, into a new folder.

    Raises:
        InputError: naming `place`, if they are missing or too large.
    """
    folder.mkdir()
    for name, content in _read_files(source, place).items():
        (folder / name).write_bytes(content)


def _read_files(path: Path, place: str) -> dict[str, bytes]:
    """Return the contents of the files, by name; the record may be missing."""
    try:
        found = _read_folder(path, place) if path.is_dir() else _read_archive(path, place)
    except OSError as error:
        reason = error.strerror or "unknown error"
        raise InputError(place, f"cannot be read ({reason})", _EXPECTED) from None
    except _ARCHIVE_ERRORS:
        raise InputError(place, "is neither a folder nor a whole zip archive", _EXPECTED) from None
    for name in (CONFIG, WEIGHTS):
        if name not in found:
            raise InputError(place, f"has no {name}", f"{_EXPECTED}, with safetensors")
    return found


def _read_folder(folder: Path, place: str) -> dict[str, bytes]:
    found = {}
    for path in adapter_paths(folder):
        with path.open("rb") as file:
            found[path.name] = _read_bounded(file, path.name, place)
    return found


def _read_archive(path: Path, place: str) -> dict[str, bytes]:
    found = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            parts = PurePosixPath(member.filename).parts
            if len(parts) <= 2 and parts[-1:] in ((CONFIG,), (WEIGHTS,), (RECORD,)):
                if parts[-1] in found:
                    raise InputError(place, f"has two files {parts[-1]}", "one adapter")
                with archive.open(member) as file:
                    found[parts[-1]] = _read_bounded(file, parts[-1], place)
    return found


def _read_bounded(file: IO[bytes], name: str, place: str) -> bytes:
    limit = _MAX_WEIGHT_BYTES if name == WEIGHTS else _MAX_CONFIG_BYTES
    content = file.read(limit + 1)
    if len(content) > limit:
        raise InputError(f"{place}: {name}", f"has more than {limit:,} bytes", "a smaller file")
    return content


def _read_config(content: bytes, place: str) -> TrainingConfig:
    try:
        table = json.loads(content)
    except ValueError:
        table = None
    if not isinstance(table, dict):
        raise InputError(place, "is not a JSON object", _EXPECTED)
    if table.get("peft_type") != "LORA":
        raise InputError(f"{place}: peft_type", f"{table.get('peft_type')!r}", '"LORA"')
    for field, value in table.items():
        if field in _READ | _NEUTRAL or not value:
            continue
        meaning = REFUSED.get(field, f"{field} = {json.dumps(value)[:60]}")
        raise InputError(f"{place}: {field}", f"{meaning} is not supported", _PLAIN)
    for field, allowed in (
        ("bias", ("none",)),
        ("task_type", ("CAUSAL_LM", None)),
        ("init_lora_weights", _PLAIN_STARTS),
    ):
        value = table.get(field, allowed[0])
        if not isinstance(value, str | bool | None) or value not in allowed:
            found = f"{json.dumps(value)[:60]} is not supported"
            raise InputError(f"{place}: {field}", found, json.dumps(allowed[0]))
    try:
        return TrainingConfig(
            rank=_typed(table, "r", int),
            alpha=float(_typed(table, "lora_alpha", int, float)),
            use_rslora=bool(table.get("use_rslora")),
            target_modules=_targets(table.get("target_modules")),
        )
    except InputError as error:
        raise error.within(place) from None


def _typed(table: Mapping[str, Any], field: str, *kinds: type) -> Any:
    value = table.get(field)
    if type(value) not in kinds:
        raise InputError(field, f"{json.dumps(value)[:60]}", "a number")
    return value


def _targets(value: Any) -> tuple[str, ...]:
    if value == "all-linear":
        return ()
    if isinstance(value, str):
        found = f"{value[:60]!r} is a regular expression, which is not supported"
        raise InputError("target_modules", found, 'names of modules, or "all-linear"')
    if not (isinstance(value, list) and value and all(isinstance(one, str) for one in value)):
        raise InputError("target_modules", "is not a list of names", "names of modules")
    return tuple(sorted(value))


def _read_weights(content: bytes, place: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    try:
        tensors = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise InputError(place, f"is not whole ({error})", "weights in safetensors") from None
    if not tensors:
        raise InputError(place, "has no weights", _EXPECTED)
    for name, tensor in tensors:
        where = f"{place}: {name[:120]}"
        inner = name.removeprefix(PREFIX)
        if inner == name or _WEIGHT.fullmatch(inner) is None:
            raise InputError(where, "is not supported", "weights of lora_A and lora_B alone")
        if tensor["dtype"] not in _TYPES:
            expected = "numbers in float32, float16 or bfloat16"
            raise InputError(where, f"is of type {tensor['dtype']}", expected)
        kind, exponent = _TYPES[tensor["dtype"]]
        bits = np.frombuffer(tensor["data"], kind)
        shape = tuple(tensor["shape"])
        if len(shape) != 2 or math.prod(shape) == 0:
            raise InputError(where, f"has shape {list(shape)}", "a matrix")
        if ((bits & kind(exponent)) == exponent).any():
            raise InputError(where, "has values that are not finite", "finite weights")
        yield inner, _as_float32(bits, tensor["dtype"]).reshape(shape)


def _as_float32(bits: NDArray[Any], dtype: str) -> NDArray[np.float32]:
    if dtype == "F16":
        return bits.view(np.float16).astype(np.float32)
    if dtype == "BF16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.view(np.float32)


def _base_digest(content: bytes | None, place: str) -> str | None:
    if content is None:
        return None
    try:
        return _RECORDS.validate_json(content).base_digest
    except ValidationError:
        found = "does not say which base the adapter was trained on"
        raise InputError(place, found, "as auctune wrote it, or no such file") from None
