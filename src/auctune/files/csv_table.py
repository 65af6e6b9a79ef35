"""CSV files as tables of text, whose columns are read one by one with errors that name the line.

Every value is read as text first: only so can a malformed one be told from a missing one, and be
shown as it stands in the file.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from auctune.domain import InputError

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text.

    Attributes:
        place: how errors call the file.
        frame: all columns as text, and the column `line`, the row's line in the file.
    """

    place: str
    frame: pl.DataFrame

    def text(self, column: str) -> pl.Series:
        """A column that must not be empty anywhere.

        Raises:
            InputError: naming the first line where it is.
        """
        values = self.frame[column]
        self._refuse(values.is_null(), column, "a text")
        return values

    def number(self, column: str, expected: str, least: float, *, above: bool = False) -> pl.Series:
        """A column of finite numbers, float64.

        Args:
            column: its name.
            expected: what errors say that it should be.
            least: no number is below it, or equal to it if `above`.

        Raises:
            InputError: naming the first line with something else, or with nothing.
        """
        values = self.optional_number(column, expected)
        wrong = values.is_null() | ((values <= least) if above else (values < least))
        self._refuse(wrong, column, expected)
        return values

    def optional_number(self, column: str, expected: str) -> pl.Series:
        """A column of finite numbers, float64, null where it is empty.

        Raises:
            InputError: naming the first line with something else.
        """
        found = self.frame[column].str.strip_chars()
        values = found.cast(pl.Float64, strict=False)
        wrong = (values.is_null() & found.is_not_null()) | ~values.is_finite().fill_null(True)
        self._refuse(wrong, column, expected)
        return values

    def time(self, column: str) -> pl.Series:
        """A column of dates and times `YYYY-MM-DD HH:MM:SS`, in seconds from an epoch, float64.

        Raises:
            InputError: naming the first line with something else, or with nothing.
        """
        times = self.frame[column].str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)
        self._refuse(times.is_null(), column, "a time YYYY-MM-DD HH:MM:SS")
        return times.dt.epoch("s").cast(pl.Float64)

    def _refuse(self, wrong: pl.Series, column: str, expected: str) -> None:
        if not wrong.any():
            return
        row = wrong.arg_true()[0]
        line, found = self.frame["line"][row], self.frame[column][row]
        raise InputError(
            f"{self.place}: line {line}: {column}",
            "is missing" if found is None else repr(found),
            expected,
        )


def read_table(path: Path, required: Sequence[str], *, names: Sequence[str] | None = None) -> Table:
    """A CSV file, of which some columns are needed; it may be gzipped.

    Args:
        path: the file.
        required: the columns that are needed; others are not read, whatever they hold.
        names: of all columns, in a file that has no header; a first line that is this header all
            the same is skipped. None: the first line is the header.

    Raises:
        InputError: if it cannot be read, is no CSV in UTF-8, lacks a column, or has a line with
            more fields than columns.
    """
    place, data = str(path), read_bytes(path)
    expected = f"a CSV file with columns {', '.join(names or required)}"
    header = data.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace").rstrip("\r").split(",")
    if not data.strip():
        raise InputError(place, "is empty", expected)
    if names is not None and len(header) != len(names):
        found = f"has {len(header)} fields"
        raise InputError(f"{place}: line 1", found, f"{len(names)}: {', '.join(names)}")
    has_header = names is None or header == list(names)
    try:
        frame = pl.read_csv(
            io.BytesIO(data),
            infer_schema=False,
            has_header=has_header,
            # Tables of gigabytes are read for a few of their columns.
            columns=None if names is None or has_header else _indices(names, required),
        )
    except pl.exceptions.PolarsError as error:
        raise _not_csv(place, data, expected, error) from None
    if names is not None and not has_header:
        frame.columns = [name for name in names if name in required]
    for column in required:
        if column not in frame.columns:
            raise InputError(f"{place}: line 1", f"has no column {column!r}", expected)
    frame = frame.select(required).with_row_index("line", offset=2 if has_header else 1)
    # Lines with nothing on them are no rows.
    return Table(place, frame.filter(~pl.all_horizontal(pl.col(required).is_null())))


def read_bytes(path: Path) -> bytes:
    """What a file holds, unpacked if it is gzipped.

    Raises:
        InputError: if it cannot be read, or its compression is damaged.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(str(path), "is damaged gzip", "a whole file") from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})", "a file") from None


def _indices(names: Sequence[str], required: Sequence[str]) -> list[int]:
    return [index for index, name in enumerate(names) if name in required]


def _not_csv(place: str, data: bytes, expected: str, error: Exception) -> InputError:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as undecodable:
        line = data.count(b"\n", 0, undecodable.start) + 1
        return InputError(f"{place}: line {line}", "is not UTF-8 text", expected)
    rows = csv.reader(io.StringIO(text))
    width = len(next(rows))
    for row in rows:
        if len(row) > width:
            found = f"has {len(row)} fields"
            return InputError(f"{place}: line {rows.line_num}", found, f"{width}, as in line 1")
    return InputError(place, f"is no CSV ({str(error).splitlines()[0]})", expected)
