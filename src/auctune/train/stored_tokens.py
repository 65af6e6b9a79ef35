"""Tokens of a data file, stored beside it: tokenized once, read by all who train on the file.

The folder FILE.tokens holds an .npz for each tokenizer and `max_length`. Its name is a digest of
all that its content follows from: the content of the file, the tokenizer, `max_length`, and the
version of the rules. So an .npz never changes, and one that does not match is not found.

An .npz has blocks of rows, each as flat arrays (`ids0`, `is_target0`, `lengths0`, ...), and
`summary.json`. It is written and read block by block: memory and the time of a step do not grow
with the file. The checksums of its zip format tell one that is damaged. It is copied into memory
and not mapped, as a process would die (SIGBUS) with a mapped file that goes away on a shared file
system.
"""

import errno
import hashlib
import io
import json
import logging
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from auctune.domain.dataset import DropCause
from auctune.files.atomic import sync_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_log = logging.getLogger(__name__)

# To be raised with every change of this format, and of the rules of auctune.train.rows.
ROW_RULES = 5
ROW_LIBRARIES = ("transformers", "tokenizers", "jinja2")
"""Libraries whose releases may tokenize a row in another way."""
# Of the newest .npz of a file.
MAX_KEPT = 2
_BLOCK_TOKENS = 2**18
_HASHED_BYTES = 2**24
_SUMMARY = "summary.json"
_CAUSES = tuple(DropCause)
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    RuntimeError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


class StoredTokensError(Exception):
    """The stored tokens of a file cannot be used: they are missing or damaged."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenBlock:
    """Some rows of a file as flat arrays.

    Attributes:
        ids: of all tokens, row after row, int32.
        is_target: whether each token is a target of the loss.
        lengths: tokens of each row, int64.
        seconds, ratings: as of `TokenizedRow`, of each row, int64 and int8.
        dropped, num_truncated, longest: as of `TokenizedDataSet`.
    """

    ids: NDArray[np.int32]
    is_target: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    seconds: NDArray[np.int64]
    ratings: NDArray[np.int8]
    dropped: Mapping[int, DropCause]
    num_truncated: int
    longest: int


def join_blocks(blocks: list[TokenBlock]) -> TokenBlock:
    """Return the rows of all blocks, of which there is one at least, as one."""
    dropped: dict[int, DropCause] = {}
    for block in blocks:
        dropped.update(block.dropped)
    return TokenBlock(
        np.concatenate([block.ids for block in blocks]),
        np.concatenate([block.is_target for block in blocks]),
        np.concatenate([block.lengths for block in blocks]),
        np.concatenate([block.seconds for block in blocks]),
        np.concatenate([block.ratings for block in blocks]),
        dropped,
        sum(block.num_truncated for block in blocks),
        max(block.longest for block in blocks),
    )


def tokens_folder(data: Path) -> Path:
    """Return the folder of a data file's stored tokens."""
    return data.with_name(f"{data.name}.tokens")


def read_stored(
    data: Path, tokenizer: "PreTrainedTokenizerBase", max_length: int
) -> Iterator[TokenBlock | None]:
    """Yield the stored tokens of a file in blocks; `None` after a step that yields no block.

    Raises:
        StoredTokensError: if there are none for this content, tokenizer and `max_length`, or they
            are damaged, of which blocks may have been yielded by then.
    """
    try:
        name = yield from _find_name(data, tokenizer, max_length)
    except OSError as error:
        raise StoredTokensError(f"{data.name} cannot be read ({error.strerror})") from None
    try:
        with zipfile.ZipFile(tokens_folder(data) / f"{name}.npz") as archive:
            for index in range(_num_blocks(archive)):
                yield _read_block(archive, index)
    except FileNotFoundError:
        found = "none for this content, tokenizer and max_length"
        raise StoredTokensError(found) from None
    except _DAMAGE as error:
        raise StoredTokensError(f"{name}.npz is damaged ({error})") from None


def is_stored(data: Path, tokenizer: "PreTrainedTokenizerBase", max_length: int) -> bool:
    """Return whether a file's tokens are stored whole; all of them are read."""
    if not tokens_folder(data).is_dir():
        return False
    try:
        for _ in read_stored(data, tokenizer, max_length):
            pass
    except StoredTokensError as error:
        _log.info("tokens of %s: %s; they are stored again", data.name, error)
        return False
    return True


class TokenWriter:
    """Stores the tokens of a file as they are made; a context manager.

    At the end of the block they appear, whole and readable by this account alone, or not at all if
    the block raises. A failure to store them is logged and has no other effect.

    Args:
        data: the file.
        tokenizer, max_length: as of `tokenize`.
        reserve_bytes: that are left free on the disk.
    """

    def __init__(
        self,
        data: Path,
        tokenizer: "PreTrainedTokenizerBase",
        max_length: int,
        reserve_bytes: int = 0,
    ) -> None:
        self._folder = tokens_folder(data)
        self._source = data, tokenizer, max_length
        self._reserve_bytes = reserve_bytes
        self._archive: zipfile.ZipFile | None = None
        self._blocks: list[TokenBlock] = []
        self._size = self._num_blocks = 0

    def __enter__(self) -> Self:
        try:
            name = _last(_find_name(*self._source))
            self._folder.mkdir(mode=0o700, exist_ok=True)
            # Of writers that were killed; there is one writer of a file at a time.
            for draft in self._folder.glob(".*"):
                draft.unlink()
            self._path = self._folder / f"{name}.npz"
            self._draft = self._folder / f".{name}.npz"
            handle = os.open(self._draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(handle, "w+b")
            self._archive = zipfile.ZipFile(self._file, "w")
        except (OSError, StoredTokensError) as error:
            self._give_up(error)
        return self

    def add(self, block: TokenBlock) -> None:
        """Store rows, the next ones of the file."""
        if self._archive is None:
            return
        self._blocks.append(block)
        self._size += len(block.ids) + len(block.dropped)
        if self._size >= _BLOCK_TOKENS:
            self._attempt(self._flush)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._archive is not None and kind is None:
            self._attempt(self._commit)
        self._discard()

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            self._give_up(error)

    def _flush(self) -> None:
        assert self._archive is not None
        block = join_blocks(self._blocks)
        self._blocks, self._size = [], 0
        places = np.fromiter(block.dropped, np.int64, len(block.dropped))
        causes = [_CAUSES.index(cause) for cause in block.dropped.values()]
        arrays = {
            "ids": block.ids,
            "is_target": block.is_target,
            "lengths": block.lengths,
            "seconds": block.seconds,
            "ratings": block.ratings,
            "dropped": places,
            "causes": np.array(causes, np.uint8),
            "counts": np.array([block.num_truncated, block.longest], np.int64),
        }
        num_bytes = sum(array.nbytes for array in arrays.values())
        if shutil.disk_usage(self._folder).free - num_bytes < self._reserve_bytes:
            raise OSError(errno.ENOSPC, "the disk is nearly full")
        for name, array in arrays.items():
            with self._archive.open(f"{name}{self._num_blocks}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        self._num_blocks += 1

    def _commit(self) -> None:
        assert self._archive is not None
        if self._blocks:
            self._flush()
        self._archive.writestr(_SUMMARY, json.dumps({"num_blocks": self._num_blocks}))
        self._archive.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._draft.replace(self._path)
        sync_folder(self._folder)
        stored = sorted(self._folder.glob("*.npz"), key=lambda path: path.stat().st_mtime_ns)
        for path in stored:
            if path != self._path and path not in stored[-MAX_KEPT:]:
                path.unlink()

    def _give_up(self, error: Exception) -> None:
        _log.warning("tokens of %s are not stored: %s", self._folder.name, error)
        self._discard()

    def _discard(self) -> None:
        """Remove what was not committed."""
        if self._archive is None:
            return
        # Closing writes what is buffered, for which there may be no room.
        with suppress(OSError, ValueError):
            self._archive.close()
        with suppress(OSError):
            self._file.close()
        self._archive, self._blocks = None, []
        self._draft.unlink(missing_ok=True)


def _num_blocks(archive: zipfile.ZipFile) -> int:
    return int(json.loads(archive.read(_SUMMARY))["num_blocks"])


def _read_block(archive: zipfile.ZipFile, index: int) -> TokenBlock:
    """Read a block, checksums included, which only the end of a member brings up.

    Raises:
        ValueError: if its arrays do not go together.
    """

    def read(name: str) -> NDArray[Any]:
        content = io.BytesIO(archive.read(f"{name}{index}.npy"))
        array: NDArray[Any] = np.load(content, allow_pickle=False)
        return array

    num_truncated, longest = read("counts").tolist()
    causes = [_CAUSES[code] for code in read("causes").tolist()]
    block = TokenBlock(
        ids=read("ids"),
        is_target=read("is_target"),
        lengths=read("lengths"),
        seconds=read("seconds"),
        ratings=read("ratings"),
        dropped=dict(zip(read("dropped").tolist(), causes, strict=True)),
        num_truncated=num_truncated,
        longest=longest,
    )
    num_tokens, num_rows = block.lengths.sum(), len(block.lengths)
    if not (
        len(block.ids) == len(block.is_target) == num_tokens
        and len(block.seconds) == len(block.ratings) == num_rows
    ):
        raise ValueError(f"the arrays of block {index} differ in length")
    return block


def _find_name(
    data: Path, tokenizer: "PreTrainedTokenizerBase", max_length: int
) -> Generator[None, None, str]:
    """Return the name of a file's stored tokens; yield while its content is read for that."""
    content = hashlib.sha256()
    with data.open("rb") as file:
        while chunk := file.read(_HASHED_BYTES):
            content.update(chunk)
            yield
    parts = [ROW_RULES, content.hexdigest(), tokenizer_fingerprint(tokenizer), max_length]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _last(steps: Generator[None, None, str]) -> str:
    """Return what a generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value)


def tokenizer_fingerprint(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return a digest of all of a tokenizer that the tokens of rows depend on.

    Raises:
        StoredTokensError: if its state cannot be serialized, as only that of a fast one can.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise StoredTokensError(f"{type(tokenizer).__name__} is not a fast tokenizer")
    # A call resets truncation and padding, which are part of the state.
    empty = tokenizer("")["input_ids"]
    parts = {
        "versions": [version(name) for name in ROW_LIBRARIES],
        "class": type(tokenizer).__qualname__,
        "state": backend.to_str(),
        "chat_template": tokenizer.chat_template,
        "eos_token_id": tokenizer.eos_token_id,
        "special_tokens": tokenizer.special_tokens_map,
        "split_special_tokens": getattr(tokenizer, "split_special_tokens", False),
        "empty": empty,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
