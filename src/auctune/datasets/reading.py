"""Data sets as read from files: all rows of a file are of one kind."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auctune.datasets.checks import EXPECTED_ROW, read_row
from auctune.datasets.files import iterate_texts
from auctune.domain.dataset import DEFAULT_MAX_ROW_CHARACTERS, DataSet, RowKind
from auctune.domain.errors import InputError, RepairableError

_MAX_ROWS_FOR_KIND = 1000


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file.

    Attributes:
        where: it stands: "line 3", or "row 3" of a file without lines.
        values: as `DataSet` has them.
    """

    where: str
    kind: RowKind
    values: dict[str, Any]


def read_dataset(
    path: Path,
    place: str | None = None,
    *,
    max_row_characters: int | None = None,
    max_rows: int | None = None,
) -> DataSet:
    """Read and check the rows of a file; auctune.datasets.files says which files are read.

    Args:
        path: the file.
        place: how errors call it; its path by default.
        max_row_characters: of a line; not limited by default.
        max_rows: first rows to read, at least 1; all by default.

    Raises:
        InputError: naming file, line and key, if the file cannot be read, is empty, has a line
            that is too long or no JSON object, a row of no known kind, an empty row, a key that
            is not supported, text that is not Unicode, or rows of mixed kinds. It is a
            `RepairableError` if a vendor may convert the row, or leave it out.
    """
    rows = iterate_rows(path, place, max_row_characters=max_row_characters)
    return dataset_of(list(itertools.islice(rows, max_rows)))


def dataset_of(rows: Sequence[FileRow]) -> DataSet:
    """Return rows of one file, one at least, as a data set."""
    values, places = tuple(row.values for row in rows), tuple(row.where for row in rows)
    return DataSet(rows[0].kind, values, places)


def find_kind(path: Path) -> RowKind | None:
    """Return the kind of the first valid row of a file; None without one in its first 1,000 lines.

    Uploaded data may have rows that a vendor repairs before training.

    Raises:
        InputError: if the file cannot be read, or a line is too long.
    """
    limit = DEFAULT_MAX_ROW_CHARACTERS
    texts = iterate_texts(
        path, str(path), "replace", max_characters=limit, max_rows=_MAX_ROWS_FOR_KIND
    )
    for _, text in texts:
        try:
            return read_row(text, "").kind
        except InputError:
            continue
    return None


def iterate_rows(
    path: Path, place: str | None = None, *, max_row_characters: int | None = None
) -> Iterator[FileRow]:
    """Yield the rows of a file, one at least.

    Arguments and errors are those of `read_dataset`; an error is raised when its line is reached.
    """
    place = place or str(path)
    first: FileRow | None = None
    for where, text in iterate_texts(path, place, max_characters=max_row_characters):
        read = read_row(text, f"{place}: {where}")
        row = FileRow(where, read.kind, read.values)
        first = first or row
        if row.kind is not first.kind:
            raise RepairableError(
                f"{place}: {where}",
                f"is a row of kind {row.kind}, while {first.where} is of kind {first.kind}",
                "rows of one kind only",
            )
        yield row
    if first is None:
        raise no_rows(place)


def no_rows(place: str) -> InputError:
    """Return the error of a file without rows."""
    return InputError(place, "has no rows", f"one row per line, each {EXPECTED_ROW}")
