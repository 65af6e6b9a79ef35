"""Checkpoints of a job: tensors and state, in numbered folders that are complete or absent.

    folder/00000007/tensors.safetensors
                    state.json
                    attempt              number of the attempt that wrote it
                    manifest.json        sizes and SHA-256 of the others

A checkpoint is staged, flushed to disk and renamed (auctune.atomic_files), so a process killed at
any moment leaves the newest complete one. Damage on the disk is detected by the checksums, and the
previous checkpoint is used. One process at a time writes to a folder.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from auctune.atomic_files import (
    BACKUP,
    backup_path,
    clean_staging,
    commit_folder,
    remove_folder,
    staging_folder,
)
from auctune.domain.errors import CheckpointError

FORMAT = 3
TENSORS = "tensors.safetensors"
STATE = "state.json"
ATTEMPT = "attempt"
MANIFEST = "manifest.json"


@dataclass
class Checkpoint:
    """All that a job needs to continue: tensors by name, and state that JSON can hold."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _File:
    num_bytes: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> "_File":
        return cls(len(content), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True, slots=True)
class _Manifest:
    format: int
    number: int
    files: dict[str, _File]


class _OtherFormatError(CheckpointError):
    """A checkpoint that another version wrote, and that is not deleted as damaged."""


_MANIFEST = TypeAdapter(_Manifest)


def save_checkpoint(
    folder: Path, number: int, checkpoint: Checkpoint, keep: int = 2, attempt: int = 0
) -> Path:
    """Write a checkpoint that is complete from the moment it is visible.

    Args:
        folder: of the job's checkpoints; made if it is not there.
        number: of this one; not below that of a complete one. The same number replaces it.
        checkpoint: its tensors may be on any device.
        keep: how many of the newest stay; >= 1.
        attempt: fencing token: a process that was cut off, and has been
            replaced by another one with a higher number, can no longer save. 0: not checked.

    Returns:
        The new folder, `folder/<number, 8 digits>`.

    Raises:
        CheckpointError: if a complete one with a higher number, or of a later attempt, is there.
        ValueError: if `number` or `keep` are out of range, or the state is not JSON.
    """
    if number < 0 or keep < 1:
        raise ValueError(f"number {number}, keep {keep}; expected number >= 0 and keep >= 1")
    folder.mkdir(parents=True, exist_ok=True)
    # A fenced-off attempt is refused before it deletes anything of the one that replaced it.
    if attempt:
        _check_attempt(folder, attempt)
    clean_staging(folder)
    _drop_damaged_above(folder, number)
    place = folder / f"{number:08d}"
    with staging_folder(place) as unfinished:
        _write(unfinished, number, checkpoint, attempt)
        commit_folder(unfinished, place)
    for _, old in list(_checkpoints(folder))[keep:]:
        remove_folder(old)
    return place


def load_latest(folder: Path) -> tuple[Checkpoint, int, list[str]] | None:
    """Return the newest undamaged checkpoint, on the CPU.

    Returns:
        The checkpoint, its number, and one line for each newer one that is damaged, saying what
        is wrong with it; `None` if the folder holds no checkpoint.

    Raises:
        CheckpointError: if there are some and all are damaged.
    """
    damaged: list[str] = []
    for number, place in _checkpoints(folder):
        try:
            return _read(place, number), number, damaged
        except CheckpointError as error:
            damaged.append(f"{place}: {error}")
    if damaged:
        raise CheckpointError("no checkpoint is whole: " + "; ".join(damaged))
    return None


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
            _read(place, newer)
        except _OtherFormatError as error:
            raise CheckpointError(f"{place}: {error}") from None
        except CheckpointError:
            remove_folder(place)
        else:
            raise CheckpointError(f"{place} is newer than checkpoint {number}; numbers only grow")


def _check_attempt(folder: Path, attempt: int) -> None:
    for number, place in _checkpoints(folder):
        later = 0
        # Of a damaged checkpoint nothing is known.
        with suppress(CheckpointError):
            later = int(_read_file(place / ATTEMPT, _read_manifest(place, number).files[ATTEMPT]))
        if later > attempt:
            raise CheckpointError(f"{place} is of attempt {later}, later than {attempt}")


def _write(folder: Path, number: int, checkpoint: Checkpoint, attempt: int) -> None:
    # Copies, as safetensors refuses tensors that share memory.
    tensors = {
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in checkpoint.tensors.items()
    }
    contents = {
        TENSORS: save(tensors),
        STATE: json.dumps(checkpoint.state).encode(),
        ATTEMPT: str(attempt).encode(),
    }
    files = {name: _File.of(content) for name, content in contents.items()}
    contents[MANIFEST] = _MANIFEST.dump_json(_Manifest(FORMAT, number, files))
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def _read(place: Path, number: int) -> Checkpoint:
    """Return the checkpoint in `place`.

    Raises:
        CheckpointError: if it is damaged.
    """
    files = _read_manifest(place, number).files
    contents = {name: _read_file(place / name, files[name]) for name in (TENSORS, STATE, ATTEMPT)}
    try:
        return Checkpoint(load(contents[TENSORS]), json.loads(contents[STATE]))
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"cannot be read ({error})") from None


def _read_manifest(place: Path, number: int) -> _Manifest:
    try:
        manifest = _MANIFEST.validate_json((place / MANIFEST).read_bytes())
    except OSError as error:
        raise CheckpointError(f"{MANIFEST} cannot be read ({error.strerror})") from None
    except ValidationError:
        raise CheckpointError(f"{MANIFEST} is damaged") from None
    if not {TENSORS, STATE, ATTEMPT} <= manifest.files.keys():
        raise CheckpointError(f"{MANIFEST} is damaged")
    if manifest.format != FORMAT:
        raise _OtherFormatError(f"{MANIFEST} is of format {manifest.format}, not {FORMAT}")
    if manifest.number != number:
        raise CheckpointError(f"{MANIFEST} is of another number")
    return manifest


def _read_file(path: Path, expected: _File) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror})") from None
    if len(content) != expected.num_bytes:
        raise CheckpointError(f"{path.name} has {len(content)} of {expected.num_bytes} bytes")
    if _File.of(content) != expected:
        raise CheckpointError(f"{path.name} does not match its checksum")
    return content
