"""Files of rows, tokenized in steps: memory holds the tokens alone, and time can be bounded.

The rows of a file are read and tokenized chunk by chunk. Their tokens are kept in flat arrays: some
five bytes a token and eight a row, where one pair of arrays a row would take 350 bytes and more.
Where tokens of the file are stored (auctune.train.stored_tokens), they are read instead.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from auctune.datasets import FileRow, dataset_of, iterate_rows
from auctune.domain.dataset import OUTPUT_KEYS, DataSet, DropCause, RowKind
from auctune.domain.errors import InputError
from auctune.train.rows import IGNORE_INDEX, TokenizedDataSet, TokenizedRow, tokenize_chunk
from auctune.train.stored_tokens import (
    StoredTokensError,
    TokenBlock,
    join_blocks,
    read_stored,
    tokens_folder,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_log = logging.getLogger(__name__)

_CHUNK_ROWS = 1000
_CHUNK_CHARACTERS = 256 * 1024


class CompactRows(Sequence[TokenizedRow]):
    """Rows in flat arrays; each row is built on access.

    Args:
        ids: of all tokens, row after row, int32.
        is_target: whether each token is a target of the loss.
        ends: where each row ends in them, int64.
        seconds, ratings: as of `TokenizedRow`, of each row, int64 and int8.
    """

    def __init__(
        self,
        ids: NDArray[np.int32],
        is_target: NDArray[np.bool_],
        ends: NDArray[np.int64],
        seconds: NDArray[np.int64],
        ratings: NDArray[np.int8],
    ) -> None:
        self._ids, self._is_target, self._ends = ids, is_target, ends
        self._seconds, self._ratings = seconds, ratings

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> TokenizedRow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TokenizedRow]: ...
    def __getitem__(self, index: int | slice) -> TokenizedRow | Sequence[TokenizedRow]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        place = range(len(self))[index]
        begin, end = self._ends[place - 1] if place else 0, self._ends[place]
        ids = self._ids[begin:end].astype(np.int64)
        labels = np.where(self._is_target[begin:end], ids, IGNORE_INDEX)
        return TokenizedRow(ids, labels, int(self._seconds[place]), int(self._ratings[place]))


def tokenize_file(
    path: Path,
    place: str,
    tokenizer: "PreTrainedTokenizerBase",
    max_length: int,
    max_row_characters: int | None = None,
    context_tokens: int | None = None,
) -> Iterator[tuple[RowKind, TokenizedDataSet]]:
    """Yield the kind of a file's rows, and the rows as tokens, in chunks; some may have no rows.

    Args:
        path: the file.
        place: how errors call it.
        tokenizer, max_length: as of `tokenize`.
        max_row_characters: as of `read_dataset`.
        context_tokens: as of `TokenizedDataSet.check_rows`.

    Raises:
        InputError: as `read_dataset` and `tokenize`; also, at the end, if there was no row that has
            anything left to learn.
    """
    first = num_rows = longest = 0
    dropped: dict[int, DropCause] = {}
    for rows in _chunks(path, place, max_row_characters):
        try:
            chunk = tokenize_chunk(rows, tokenizer, max_length, first)
        except InputError as error:
            raise error.within(place) from None
        first += len(rows)
        num_rows += len(chunk)
        longest = max(longest, chunk.longest)
        # Needed only to say why all rows were dropped.
        if num_rows:
            dropped.clear()
        else:
            dropped.update(chunk.dropped)
        yield rows.kind, chunk
    if not num_rows:
        try:
            nothing = TokenizedDataSet((), dropped, 0, longest)
            nothing.check_rows(max_length, context_tokens)
        except InputError as error:
            raise error.within(place) from None


def _chunks(path: Path, place: str, max_row_characters: int | None) -> Iterator[DataSet]:
    """Yield the rows of a file in chunks, each tokenized in about a quarter of a second."""
    chunk: list[FileRow] = []
    characters = 0
    for row in iterate_rows(path, place, max_row_characters=max_row_characters):
        chunk.append(row)
        characters += _num_characters(row.values)
        if characters >= _CHUNK_CHARACTERS or len(chunk) >= _CHUNK_ROWS:
            yield dataset_of(chunk)
            chunk, characters = [], 0
    if chunk:
        yield dataset_of(chunk)


def _num_characters(row: dict[str, Any]) -> int:
    """Return the characters of a row's texts."""
    if "messages" in row:
        messages = [*row["messages"], *(row[key] for key in OUTPUT_KEYS if key in row)]
        # Calls and tools are objects, of which the text is about as long.
        others = [
            row.get("tools", ""),
            *(one.get(key, "") for one in messages for key in ("tool_calls", "reasoning_content")),
        ]
        return sum(len(one["content"]) for one in messages) + sum(len(str(o)) for o in others)
    return sum(map(len, row.values()))


def block_of(chunk: TokenizedDataSet) -> TokenBlock:
    """Return the rows of a chunk as flat arrays."""
    rows = chunk.rows
    ids = [row.input_ids.astype(np.int32) for row in rows]
    is_target = [row.labels != IGNORE_INDEX for row in rows]
    return TokenBlock(
        np.concatenate(ids) if ids else np.empty(0, np.int32),
        np.concatenate(is_target) if is_target else np.empty(0, np.bool_),
        np.array([len(row) for row in rows], np.int64),
        np.array([row.second for row in rows], np.int64),
        np.array([row.rating for row in rows], np.int8),
        chunk.dropped,
        chunk.num_truncated,
        chunk.longest,
    )


class FileTokenizer:
    """Reads the tokens of one file step by step: the stored ones, or else made from its rows.

    Args:
        path, tokenizer, max_length, context_tokens: as of `tokenize_file`.

    Attributes:
        data: all rows that can be trained on; `None` until the last step.
    """

    def __init__(
        self,
        path: Path,
        tokenizer: "PreTrainedTokenizerBase",
        max_length: int,
        context_tokens: int | None = None,
    ) -> None:
        self._path, self._tokenizer, self._max_length = path, tokenizer, max_length
        self._context_tokens = context_tokens
        self._blocks: list[TokenBlock] = []
        self._steps: Iterator[TokenBlock | None] = (
            read_stored(path, tokenizer, max_length)
            if tokens_folder(path).is_dir()
            else self._tokenize()
        )
        self.data: TokenizedDataSet | None = None

    def step(self) -> None:
        """Take the next step; after the last one, all of the file is in `data`.

        Raises:
            InputError: as `tokenize_file`.
        """
        try:
            block = next(self._steps)
        except StopIteration:
            self.data = self._joined()
            return
        except StoredTokensError as error:
            _log.warning("%s: stored tokens are not used: %s", self._path.name, error)
            self._blocks, self._steps = [], self._tokenize()
            return
        if block is not None:
            self._blocks.append(block)

    def _tokenize(self) -> Iterator[TokenBlock]:
        for _, chunk in tokenize_file(
            self._path,
            self._path.name,
            self._tokenizer,
            self._max_length,
            context_tokens=self._context_tokens,
        ):
            yield block_of(chunk)

    def _joined(self) -> TokenizedDataSet:
        whole = join_blocks(self._blocks)
        self._blocks = []
        ends = np.cumsum(whole.lengths)
        rows = CompactRows(whole.ids, whole.is_target, ends, whole.seconds, whole.ratings)
        return TokenizedDataSet(rows, whole.dropped, whole.num_truncated, whole.longest)


def read_rows(
    path: Path,
    tokenizer: "PreTrainedTokenizerBase",
    max_length: int,
    context_tokens: int | None = None,
) -> TokenizedDataSet:
    """Return all rows of a file that can be trained on; arguments as of `tokenize_file`.

    Raises:
        InputError: as `tokenize_file`.
    """
    file = FileTokenizer(path, tokenizer, max_length, context_tokens)
    while file.data is None:
        file.step()
    return file.data
