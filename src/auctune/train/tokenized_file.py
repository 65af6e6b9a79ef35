"""Files of rows, tokenized in steps: memory holds the tokens alone, and time can be bounded.

The rows of a file are read and tokenized chunk by chunk. Their tokens are kept in flat arrays: some
five bytes a token and eight a row, where one pair of arrays a row would take 350 bytes and more.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from auctune.domain.dataset import DataSet, DropCause, RowKind, iterate_rows
from auctune.domain.errors import InputError
from auctune.train.rows import NOT_LEARNT, TokenizedDataSet, TokenizedRow, tokenize_chunk

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CHUNK_ROWS = 1000
_CHUNK_CHARACTERS = 256 * 1024


class CompactRows(Sequence[TokenizedRow]):
    """Rows in flat arrays; a row is made when it is asked for.

    Args:
        ids: of all tokens, row after row, int32.
        learnt: whether each token is learnt.
        ends: where each row ends in them, int64.
    """

    def __init__(
        self, ids: NDArray[np.int32], learnt: NDArray[np.bool_], ends: NDArray[np.int64]
    ) -> None:
        self._ids, self._learnt, self._ends = ids, learnt, ends

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
        return TokenizedRow(ids, np.where(self._learnt[begin:end], ids, NOT_LEARNT))


def tokenize_file(
    path: Path,
    place: str,
    tokenizer: "PreTrainedTokenizerBase",
    max_length: int,
    max_row_characters: int | None = None,
) -> Iterator[tuple[RowKind, TokenizedDataSet]]:
    """Yield the kind of a file's rows, and the rows as tokens, in chunks; some may have no rows.

    Args:
        path: the file.
        place: how errors call it.
        tokenizer, max_length: as of `tokenize`.
        max_row_characters: as of `read_dataset`.

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
            TokenizedDataSet((), dropped, 0, longest).check_rows(max_length)
        except InputError as error:
            raise error.within(place) from None


def _chunks(path: Path, place: str, max_row_characters: int | None) -> Iterator[DataSet]:
    """Yield the rows of a file in chunks, each tokenized in about a quarter of a second."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    characters = 0
    for line, kind, row in iterate_rows(path, place, max_row_characters=max_row_characters):
        rows.append(row)
        lines.append(line)
        characters += _num_characters(row)
        if characters >= _CHUNK_CHARACTERS or len(rows) >= _CHUNK_ROWS:
            yield DataSet(kind, tuple(rows), tuple(lines))
            rows, lines, characters = [], [], 0
    if rows:
        yield DataSet(kind, tuple(rows), tuple(lines))


def _num_characters(row: dict[str, Any]) -> int:
    """Return the characters of a row's texts."""
    if "messages" in row:
        return sum(len(message["content"]) for message in row["messages"])
    return sum(map(len, row.values()))


class FileTokenizer:
    """Tokenizes one file step by step.

    Args:
        path, tokenizer, max_length: as of `tokenize_file`.

    Attributes:
        data: all rows that can be trained on; `None` until the last step.
    """

    def __init__(self, path: Path, tokenizer: "PreTrainedTokenizerBase", max_length: int) -> None:
        self._chunks = tokenize_file(path, str(path), tokenizer, max_length)
        self._ids: list[NDArray[np.int32]] = []
        self._learnt: list[NDArray[np.bool_]] = []
        self._lengths: list[int] = []
        self._dropped: dict[int, DropCause] = {}
        self._num_truncated = self._longest = 0
        self.data: TokenizedDataSet | None = None

    def step(self) -> None:
        """Tokenize the next chunk; once there is none left, all of the file is in `data`.

        Raises:
            InputError: as `tokenize_file`.
        """
        found = next(self._chunks, None)
        if found is None:
            self.data = self._joined()
            return
        _, chunk = found
        for row in chunk.rows:
            self._ids.append(row.input_ids.astype(np.int32))
            self._learnt.append(row.labels != NOT_LEARNT)
            self._lengths.append(len(row))
        if chunk.rows:
            count = len(chunk.rows)
            self._ids[-count:] = [np.concatenate(self._ids[-count:])]
            self._learnt[-count:] = [np.concatenate(self._learnt[-count:])]
        self._dropped.update(chunk.dropped)
        self._num_truncated += chunk.num_truncated
        self._longest = max(self._longest, chunk.longest)

    def _joined(self) -> TokenizedDataSet:
        rows = CompactRows(
            np.concatenate(self._ids),
            np.concatenate(self._learnt),
            np.cumsum(np.array(self._lengths, dtype=np.int64)),
        )
        return TokenizedDataSet(rows, self._dropped, self._num_truncated, self._longest)


def read_rows(
    path: Path, tokenizer: "PreTrainedTokenizerBase", max_length: int
) -> TokenizedDataSet:
    """Return all rows of a file that can be trained on; arguments as of `tokenize_file`.

    Raises:
        InputError: as `tokenize_file`.
    """
    file = FileTokenizer(path, tokenizer, max_length)
    while file.data is None:
        file.step()
    return file.data
