"""Checkpoints of a job: tensors and state, in numbered folders that are complete or absent.

    folder/00000007/tensors.safetensors
                    state.json
                    manifest.json        sizes and SHA-256 of the others, and its own SHA-256

A checkpoint is staged, flushed to disk and renamed (auctune.files.atomic), so a process killed at
any moment leaves the newest complete one. Damage on the disk is detected by the checksums, and the
previous checkpoint is used. A checkpoint of another format, or one that the system cannot read now,
is an error instead: nothing is deleted or skipped. One process at a time writes to a folder.
"""

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from safetensors import SafetensorError
from safetensors import numpy as arrays_file

from auctune.domain.errors import CheckpointError
from auctune.files.atomic import (
    BACKUP,
    backup_path,
    clean_staging,
    commit_folder,
    remove_folder,
    staging_folder,
)

FORMAT = 8
# Those before it have each parameter of an adapter as a tensor of its own.
_READABLE = (7, FORMAT)
CHECKPOINTS = "checkpoints"
"""Folder of a job's checkpoints in the job's own."""
TENSORS = "tensors.safetensors"
STATE = "state.json"
MANIFEST = "manifest.json"

# Key of the manifest's own checksum: a damaged format number is not another format.
_CHECKSUM = "sha256"

_log = logging.getLogger(__name__)


@dataclass
class Checkpoint:
    """All that a job needs to continue: tensors by name, and state that JSON can hold.

    Tensors are torch's, or arrays of NumPy where torch is not needed.
    """

    tensors: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _File:
    num_bytes: int
    sha256: str

    @classmethod
    def at(cls, path: Path) -> "_File":
        with path.open("rb") as file:
            return cls(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


@dataclass(frozen=True, slots=True)
class _Manifest:
    format: int
    number: int
    files: dict[str, _File]


class DamagedCheckpointError(CheckpointError):
    """A checkpoint is damaged, or all checkpoints of a job are."""


_MANIFEST = TypeAdapter(_Manifest)


def save_checkpoint(folder: Path, number: int, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write a checkpoint that is complete from the moment it is visible.

    Args:
        folder: of the job's checkpoints; made if it is not there.
        number: of this one; not below that of a complete one. The same number replaces it.
        checkpoint: its tensors may be on any device.
        keep: how many of the newest stay; >= 1.

    Returns:
        The new folder, `folder/<number, 8 digits>`.

    Raises:
        CheckpointError: if a complete one with a higher number, or of another format, is there.
        ValueError: if `number` or `keep` are out of range, or the state is not JSON.
    """
    if number < 0 or keep < 1:
        raise ValueError(f"number {number}, keep {keep}; expected number >= 0 and keep >= 1")
    folder.mkdir(parents=True, exist_ok=True)
    clean_staging(folder)
    _drop_damaged_above(folder, number)
    place = folder / f"{number:08d}"
    with staging_folder(place) as unfinished:
        _write(unfinished, number, checkpoint)
        commit_folder(unfinished, place)
    for _, old in list(_checkpoints(folder))[keep:]:
        remove_folder(old)
    return place


def load_latest(
    folder: Path, *, as_arrays: bool = False
) -> tuple[Checkpoint, int, list[str]] | None:
    """Return the newest undamaged checkpoint, on the CPU.

    Args:
        folder: of the job's checkpoints.
        as_arrays: whether its tensors are arrays of NumPy.

    Returns:
        The checkpoint, its number, and one line for each newer one that is damaged, saying what
        is wrong with it; `None` if the folder holds no checkpoint.

    Raises:
        DamagedCheckpointError: if there are some and all are damaged.
        CheckpointError: if one is of another format.
        OSError: if one cannot be read now.
    """
    damaged: list[str] = []
    for number, place in _checkpoints(folder):
        try:
            return _read(place, number, as_arrays), number, damaged
        except DamagedCheckpointError as error:
            # Messages are for the job's owner, who is not to know the path.
            _log.warning("%s: %s", place, error)
            damaged.append(f"checkpoint {number}: {error}")
    if damaged:
        raise DamagedCheckpointError("no checkpoint is whole: " + "; ".join(damaged))
    return None


def load_checkpoint(folder: Path, number: int, *, as_arrays: bool = False) -> Checkpoint:
    """Return one checkpoint, on the CPU; `as_arrays` as of `load_latest`.

    Raises:
        CheckpointError: if it is missing or damaged.
    """
    place = dict(_checkpoints(folder)).get(number)
    if place is None:
        raise CheckpointError(f"there is no checkpoint {number}")
    return _read(place, number, as_arrays)


def newest_number(folder: Path) -> int:
    """Return the number of the newest checkpoint, whole or damaged; -1 if there is none."""
    return next((number for number, _ in _checkpoints(folder)), -1)


def checkpoint_id(folder: Path, number: int | None = None) -> str | None:
    """Return what tells a checkpoint from any other that was ever in its place.

    Nothing but its manifest is read, so it may be damaged.

    Args:
        folder: of the job's checkpoints.
        number: of the checkpoint; `None`: the newest.

    Returns:
        `None` if it is not there, or its manifest cannot be read.
    """
    for found, place in _checkpoints(folder):
        if number in (None, found):
            try:
                return hashlib.sha256((place / MANIFEST).read_bytes()).hexdigest()
            except OSError:
                return None
    return None


def discard_newer(folder: Path, number: int) -> None:
    """Remove the checkpoints above `number`: training goes on from that one, or from the start."""
    for newer, place in list(_checkpoints(folder)):
        if newer > number:
            remove_folder(place)


def _checkpoints(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield numbers and folders of all checkpoints, newest first, each number once."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    numbers = {int(name) for name in (name.removeprefix(BACKUP) for name in names) if _is_one(name)}
    for number in sorted(numbers, reverse=True):
        place = folder / f"{number:08d}"
        yield number, place if place.name in names else backup_path(place)


def _is_one(name: str) -> bool:
    return len(name) == 8 and name.isdecimal()


def _drop_damaged_above(folder: Path, number: int) -> None:
    for newer, place in list(_checkpoints(folder)):
        if newer <= number:
            break
        try:
            _check(place, newer)
        except DamagedCheckpointError:
            remove_folder(place)
        else:
            raise CheckpointError(f"checkpoint {newer} is newer than {number}; numbers only grow")


def _write(folder: Path, number: int, checkpoint: Checkpoint) -> None:
    # Not by way of the file's bytes, gigabytes of large adapters.
    if all(isinstance(one, np.ndarray) for one in checkpoint.tensors.values()):
        arrays_file.save_file(checkpoint.tensors, folder / TENSORS)
    else:
        from safetensors.torch import save_file

        # Copies, as safetensors refuses tensors that share memory.
        tensors = {
            name: tensor.detach().to("cpu", copy=True).contiguous()
            for name, tensor in checkpoint.tensors.items()
        }
        save_file(tensors, folder / TENSORS)
    (folder / STATE).write_text(json.dumps(checkpoint.state))
    files = {name: _File.at(folder / name) for name in (TENSORS, STATE)}
    record = _MANIFEST.dump_python(_Manifest(FORMAT, number, files))
    (folder / MANIFEST).write_text(json.dumps({**record, _CHECKSUM: _checksum(record)}))


def _check(place: Path, number: int) -> None:
    files = _read_manifest(place, number).files
    for name in (TENSORS, STATE):
        _check_file(place / name, files[name])


def _read(place: Path, number: int, as_arrays: bool) -> Checkpoint:
    _check(place, number)
    try:
        # Mapped, not by way of the file's bytes, gigabytes of large adapters: its pages were read
        # for the checksum just now.
        state = json.loads((place / STATE).read_bytes())
        if as_arrays:
            return Checkpoint(arrays_file.load_file(place / TENSORS), state)
        from safetensors.torch import load_file

        return Checkpoint(load_file(place / TENSORS), state)
    except (SafetensorError, ValueError) as error:
        raise DamagedCheckpointError(f"cannot be read ({error})") from None


def _read_manifest(place: Path, number: int) -> _Manifest:
    try:
        record = json.loads((place / MANIFEST).read_bytes())
        is_damaged = record.pop(_CHECKSUM) != _checksum(record)
    except FileNotFoundError:
        raise DamagedCheckpointError(f"{MANIFEST} is missing") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        is_damaged = True
    if is_damaged:
        raise DamagedCheckpointError(f"{MANIFEST} is damaged")
    if record["format"] not in _READABLE:
        _log.warning("%s is of format %s", place, record["format"])
        raise CheckpointError(f"checkpoint {number} is of format {record['format']}, not {FORMAT}")
    if record["number"] != number:
        raise DamagedCheckpointError(f"{MANIFEST} is of another number")
    return _MANIFEST.validate_python(record)


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _check_file(path: Path, expected: _File) -> None:
    try:
        found = _File.at(path)
    except FileNotFoundError:
        raise DamagedCheckpointError(f"{path.name} is missing") from None
    if found.num_bytes != expected.num_bytes:
        raise DamagedCheckpointError(
            f"{path.name} has {found.num_bytes} of {expected.num_bytes} bytes"
        )
    if found != expected:
        raise DamagedCheckpointError(f"{path.name} does not match its checksum")
