"""Files of rows: JSON lines, a JSON array, CSV or Parquet; the first three also compressed.

| file | known by | a row |
| --- | --- | --- |
| JSON lines | nothing else | each line that is not blank |
| JSON array | `[` at its begin | each element |
| CSV | a first line with the names of columns that make a row | each record; empty cells of columns that hold no text are absent |
| Parquet | `PAR1` at its begin | each row; null counts as absent, in structs too |

A file compressed by gzip or zstd is known by its first bytes. What a file is follows from its content
alone: an upload has no trusted name.
"""  # noqa: E501 (a table's row cannot be broken)

import codecs
import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Literal

from auctune.datasets.json_text import JsonTextError, load_json
from auctune.domain.errors import InputError, RepairableError

Errors = Literal["strict", "replace"]
"""What to do with bytes that are not UTF-8."""

MAX_DECOMPRESSED_BYTES = 512 << 20
"""Limit on the decompressed bytes of a file, and on the characters of a Parquet file's rows: the
default limit of an upload. A small file can decompress to far more."""

UTF8 = "utf-8-sig"
NUM_HEAD_BYTES = 64
_HEAD_CHARACTERS = 1 << 16
_CHUNK_CHARACTERS = 1 << 16
_BATCH_ROWS = 32
_BATCH_BYTES = 64 << 20
_MAX_COLUMNS = 1000
_NOT_BLANK = re.compile(r"\S")
_UNDECODED = re.compile("[\udc80-\udcff]+")
_PARQUET = b"PAR1"
# First bytes of files that hold others, and the program that makes them.
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}
_READABLE = ("gzip", "zstd")
# Columns that make a row.
_CSV_ROWS = (
    {"prompt", "completion"},
    {"instruction", "output"},
    {"chosen", "rejected"},
    {"messages"},
    {"conversations"},
    {"text"},
)
_DELIMITERS = (",", ";", "\t")
# Columns of CSV that hold JSON, those that may hold a text or messages, and one that holds true or
# false.
_JSON_COLUMNS = (
    "messages",
    "conversations",
    "tools",
    "functions",
    "history",
    "metadata",
)
_MESSAGE_COLUMNS = ("prompt", "completion", "chosen", "rejected")
_MESSAGES = re.compile(r'\s*\[\s*\{\s*"(role|content)"')
_WORDS = {"true": True, "1": True, "false": False, "0": False}
# The module limits a cell for all its users, to less than a row may have; records are limited here.
csv.field_size_limit(sys.maxsize)


class FileFormat(StrEnum):
    """What a file holds its rows in."""

    LINES = "JSON lines"
    ARRAY = "a JSON array"
    CSV = "CSV"
    PARQUET = "Parquet"


@dataclass(frozen=True, slots=True)
class DataFile:
    """How a file is read.

    Attributes:
        format: what it holds its rows in.
        compression: the program that compressed it; "": it is not compressed.
        encoding: of its text.
        delimiter: of the cells of CSV.
    """

    format: FileFormat
    compression: str = ""
    encoding: str = UTF8
    delimiter: str = ""

    @property
    def is_json(self) -> bool:
        """Return whether the file is JSON, compressed or not."""
        return self.format in (FileFormat.LINES, FileFormat.ARRAY)


def find_format(path: Path, place: str) -> DataFile:
    """Return how a file is to be read.

    Raises:
        InputError: if it cannot be read, or is compressed in another way.
    """
    with _readable(place), path.open("rb") as file:
        head = file.read(NUM_HEAD_BYTES)
    compression = _compression(head, place)
    with _readable(place), _open(path, compression, place) as file:
        head = file.read(NUM_HEAD_BYTES)
        if head.startswith(_PARQUET):
            if compression:
                raise InputError(
                    place, f"is Parquet within {compression}", "a Parquet file as it is"
                )
            return DataFile(FileFormat.PARQUET)
        _compression(head, place, of_compressed=compression)
        encoding = find_encoding(head)
    with _readable(place), _open_text(path, compression, encoding, "replace", place) as text:
        start = text.read(_HEAD_CHARACTERS).lstrip()
    if start.startswith("["):
        return DataFile(FileFormat.ARRAY, compression, encoding)
    delimiter = "" if start.startswith("{") else _find_delimiter(start)
    return DataFile(
        FileFormat.CSV if delimiter else FileFormat.LINES, compression, encoding, delimiter
    )


def iterate_texts(
    path: Path,
    place: str,
    errors: Errors = "strict",
    *,
    max_characters: int | None = None,
    max_rows: int | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield the rows of a file as JSON, each with its place: "line 3", or "row 3" of no lines.

    Args:
        path: the file.
        place: how errors call it.
        errors: refuse what is not UTF-8, or mark it; a file in UTF-16 is read all the same.
        max_characters: of a row, the end of its line not counted; not limited by default.
        max_rows: that are read, blank lines too; all by default.

    Raises:
        InputError: if the file cannot be read, is not UTF-8, or a row is too long. It is a
            `RepairableError` if a vendor may mend it.
    """
    file = find_format(path, place)
    if errors == "strict" and file.encoding != UTF8:
        raise RepairableError(place, f"looks like {file.encoding.upper()}", "a file in UTF-8")
    with _readable(place):
        if file.format is FileFormat.PARQUET:
            rows = _parquet_rows(path, place, max_characters)
        else:
            # Bytes that are no UTF-8 become characters that no valid text has: their line is known.
            strictness = "surrogateescape" if errors == "strict" else errors
            # In a quoted cell, an end of a line is part of its text.
            newline = "" if file.format is FileFormat.CSV else None
            with _open_text(
                path, file.compression, file.encoding, strictness, place, newline
            ) as text:
                match file.format:
                    case FileFormat.ARRAY:
                        rows = _array_rows(text, place, max_characters)
                    case FileFormat.CSV:
                        rows = _csv_rows(text, file.delimiter, place, max_characters)
                    case _:
                        rows = _line_rows(text, place, max_characters)
                yield from _checked(rows, place, max_rows, is_strict=errors == "strict")
            return
        yield from _checked(rows, place, max_rows, is_strict=False)


def decompress(path: Path, place: str, compression: str) -> bytes:
    """Return the content of a file, decompressed if it was compressed.

    Args:
        path: the file.
        place: how errors call it.
        compression: as of `DataFile`.

    Raises:
        InputError: if it cannot be read.
    """
    with _readable(place), _open(path, compression, place) as file:
        return file.read()


def find_encoding(head: bytes) -> str:
    """Return the encoding that the first `NUM_HEAD_BYTES` bytes of a text show."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # JSON begins with ASCII, of which every second byte is then 0.
    if len(head) > 1 and 0 in head[:2] and head[:2] != b"\0\0":
        return "utf-16-be" if head[0] == 0 else "utf-16-le"
    return UTF8


class _Limited(io.RawIOBase):
    """A compressed file's content, up to `MAX_DECOMPRESSED_BYTES`."""

    def __init__(self, stream: Any, place: str) -> None:
        self._stream, self._place, self._remaining = stream, place, MAX_DECOMPRESSED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._remaining -= len(data)
        if self._remaining < 0:
            raise _too_large(self._place)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _too_large(place: str) -> InputError:
    return InputError(
        place, f"decompresses to more than {MAX_DECOMPRESSED_BYTES:,} bytes", "smaller files"
    )


@contextmanager
def _readable(place: str) -> Iterator[None]:
    """Raise an InputError for what is wrong with a file as a whole."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(place, f"is damaged ({error})", "a whole file") from None
    except OSError as error:
        # pyarrow's errors have no number.
        why = error.strerror or str(error)
        raise InputError(place, f"cannot be read ({why})", "a readable file of rows") from None


def _compression(head: bytes, place: str, of_compressed: str = "") -> str:
    """Return the program that compressed a file, by its first bytes; "" if it is not compressed.

    Raises:
        InputError: if its content is not read here.
    """
    name = next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), "")
    if of_compressed and name:
        raise InputError(
            place, f"is compressed twice ({of_compressed}, {name})", "a file compressed once"
        )
    if name and name not in _READABLE:
        expected = f"a file compressed by {' or '.join(_READABLE)}, or not at all"
        raise InputError(place, f"is compressed ({name})", expected)
    return name


def _open(path: Path, compression: str, place: str) -> IO[bytes]:
    if compression == "gzip":
        return io.BufferedReader(_Limited(gzip.open(path), place))
    if compression == "zstd":
        # Takes a tenth of a second, for few files.
        import pyarrow

        decompressed = pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd")
        return io.BufferedReader(_Limited(decompressed, place))
    return path.open("rb")


def _open_text(
    path: Path, compression: str, encoding: str, errors: str, place: str, newline: str | None = None
) -> IO[str]:
    return io.TextIOWrapper(_open(path, compression, place), encoding, errors, newline)


def _find_delimiter(start: str) -> str:
    """Return the delimiter of a CSV file by its first characters; "" if it is none."""
    header = start.partition("\n")[0]
    for delimiter in _DELIMITERS:
        names = set(_names(header, delimiter))
        if any(row <= names for row in _CSV_ROWS):
            return delimiter
    return ""


def _names(header: str, delimiter: str) -> list[str]:
    try:
        record = next(csv.reader([header], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []
    return [name.strip() for name in record]


def _checked(
    rows: Iterator[tuple[str, str]], place: str, max_rows: int | None, *, is_strict: bool
) -> Iterator[tuple[str, str]]:
    """Yield the first rows that are not blank; check that they are UTF-8."""
    for number, (where, text) in enumerate(rows):
        if number == max_rows:
            return
        if is_strict:
            _check_utf8(text, f"{place}: {where}")
        if text.strip():
            yield where, text


def _check_utf8(text: str, place: str) -> None:
    wrong = None if text.isascii() else _UNDECODED.search(text)
    if wrong is None:
        return
    raw = wrong[0].encode("utf-8", "surrogateescape")
    shown = raw.decode("cp1252", "replace")
    found = f"has bytes that are not UTF-8 at character {wrong.start() + 1} ({raw[:8].hex(' ')})"
    expected = f"UTF-8; in Latin-1 or Windows-1252 they are {shown[:8]!r}"
    raise RepairableError(place, found, expected)


def _too_long(place: str, where: str, max_characters: int) -> RepairableError:
    found = f"more than {max_characters:,} characters"
    return RepairableError(f"{place}: {where}", found, "shorter rows: split long texts")


def _line_rows(text: IO[str], place: str, max_characters: int | None) -> Iterator[tuple[str, str]]:
    # Reading one character more than allowed bounds the memory that a long line takes.
    size = -1 if max_characters is None else max_characters + 1
    number = 0
    while line := text.readline(size):
        number += 1
        if max_characters is not None and len(line.removesuffix("\n")) > max_characters:
            raise _too_long(place, f"line {number}", max_characters)
        yield f"line {number}", line


def _array_rows(text: IO[str], place: str, max_characters: int | None) -> Iterator[tuple[str, str]]:
    """Yield the elements of a JSON array; memory holds one of them."""
    reader = _ArrayReader(text)
    reader.skip_blanks()
    reader.take("[")
    number = 0
    while not reader.take("]"):
        number += 1
        where = f"row {number}"
        if number > 1 and not reader.take(","):
            raise _broken_array(place, where, "no comma before it")
        element = reader.element(max_characters)
        if element is None:
            if max_characters is not None and reader.is_longer(max_characters):
                raise _too_long(place, where, max_characters)
            raise _broken_array(place, where, reader.why)
        if max_characters is not None and len(element) > max_characters:
            raise _too_long(place, where, max_characters)
        yield where, element
    reader.skip_blanks()
    if not reader.is_at_end:
        raise _broken_array(place, f"row {number}", "text behind the array's end")


def _broken_array(place: str, where: str, why: str) -> RepairableError:
    return RepairableError(f"{place}: {where}", f"is not JSON ({why})", "a JSON array of rows")


class _ArrayReader:
    """Reads the elements of a JSON array from a text, in pieces.

    Attributes:
        why: the last element could not be read.
    """

    def __init__(self, text: IO[str]) -> None:
        self._text = text
        self._buffer = ""
        self._position = 0
        self._is_whole = False
        self._decoder = json.JSONDecoder()
        self.why = ""

    @property
    def is_at_end(self) -> bool:
        """Return whether nothing is left."""
        return self._position >= len(self._buffer) and not self._fill()

    def is_longer(self, characters: int) -> bool:
        """Return whether more than so many characters of the element are read."""
        return len(self._buffer) - self._position > characters

    def skip_blanks(self) -> None:
        """Go on to the next character that is not blank."""
        while not self.is_at_end:
            found = _NOT_BLANK.search(self._buffer, self._position)
            self._position = len(self._buffer) if found is None else found.start()
            if found is not None:
                return

    def take(self, character: str) -> bool:
        """Go past a character and the blanks behind it, if it is next."""
        if self.is_at_end or self._buffer[self._position] != character:
            return False
        self._position += 1
        self.skip_blanks()
        return True

    def element(self, max_characters: int | None) -> str | None:
        """Return the next element as text, and go past it and the blanks; None if it is broken."""
        while True:
            try:
                _, end = self._decoder.raw_decode(self._buffer, self._position)
            except (ValueError, RecursionError) as error:
                self.why = str(error)
                if max_characters is not None and self.is_longer(max_characters):
                    return None
                # Twice as much each time: a long element is not decoded over and over.
                if not self._fill(len(self._buffer) - self._position):
                    return None
                continue
            element = self._buffer[self._position : end]
            self._position = end
            self.skip_blanks()
            return element

    def _fill(self, characters: int = 0) -> bool:
        """Read on; return whether there was anything."""
        if self._is_whole:
            return False
        more = self._text.read(max(characters, _CHUNK_CHARACTERS))
        self._is_whole = not more
        self._buffer = self._buffer[self._position :] + more
        self._position = 0
        return bool(more)


def _csv_rows(
    text: IO[str], delimiter: str, place: str, max_characters: int | None
) -> Iterator[tuple[str, str]]:
    lines = _RecordLines(text, place, max_characters)
    records = csv.reader(lines, delimiter=delimiter, strict=True)
    names: Sequence[str] = ()
    try:
        for record in records:
            where = f"line {lines.first}"
            lines.begin_record()
            if not any(cell.strip() for cell in record):
                continue
            if not names:
                names = _column_names(record, f"{place}: {where}")
                continue
            if len(record) != len(names):
                found = f"has {len(record)} cells"
                raise RepairableError(f"{place}: {where}", found, f"{len(names)}, as line 1")
            where_cell = f"{place}: {where}"
            row = {
                name: _cell(name, cell, where_cell)
                for name, cell in zip(names, record, strict=True)
            }
            yield where, _dump(row, place, where, max_characters)
    except csv.Error as error:
        found = f"is no record of CSV ({error})"
        where = f"line {lines.first}"
        raise RepairableError(f"{place}: {where}", found, "quotes in pairs") from None


class _RecordLines:
    """The lines of CSV, of which a quoted cell may have several; memory holds one record.

    Attributes:
        first: line at which the record begins.
    """

    def __init__(self, text: IO[str], place: str, max_characters: int | None) -> None:
        self._text, self._place = text, place
        # Cells are also written as JSON, in more characters.
        self._max = max_characters
        self.first = 1
        self._number = self._num_characters = 0

    def begin_record(self) -> None:
        """Say that all lines so far were of records before."""
        self.first, self._num_characters = self._number + 1, 0

    def __iter__(self) -> Iterator[str]:
        while line := self._text.readline(-1 if self._max is None else self._max + 1):
            self._num_characters += len(line)
            if self._max is not None and self._num_characters > self._max:
                raise _too_long(self._place, f"line {self.first}", self._max)
            self._number += 1
            yield line


def _column_names(record: Sequence[str], place: str) -> Sequence[str]:
    names = [name.strip() for name in record]
    if len(names) > _MAX_COLUMNS:
        raise InputError(place, f"has {len(names)} columns", f"{_MAX_COLUMNS} at most")
    if "" in names:
        found = f"has no name for column {names.index('') + 1}"
        raise InputError(place, found, "a name for each column")
    check_unique(names, place)
    return names


def check_unique(names: Sequence[str], place: str) -> None:
    """Check that no column is there twice.

    Raises:
        InputError: naming the column.
    """
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InputError(place, f"has the column {repeated!r} twice", "each column once")


def _cell(name: str, cell: str, place: str) -> Any:
    if name in _JSON_COLUMNS and not cell.strip():
        return None
    if name in _JSON_COLUMNS or (name in _MESSAGE_COLUMNS and _MESSAGES.match(cell)):
        try:
            return load_json(cell)
        except JsonTextError as error:
            raise InputError(f"{place}: {name}", str(error), "JSON in this column") from None
    if name == "label":
        return _WORDS.get(cell.strip().lower(), cell)
    return cell


def _parquet_rows(path: Path, place: str, max_characters: int | None) -> Iterator[tuple[str, str]]:
    # Takes a tenth of a second, for few files.
    import pyarrow
    from pyarrow import parquet

    number, remaining = 0, MAX_DECOMPRESSED_BYTES
    # pyarrow's errors for values that Python has not are of many kinds.
    damaged = (pyarrow.ArrowException, ValueError, OverflowError, LookupError)
    try:
        with parquet.ParquetFile(path) as file:
            check_unique(file.schema_arrow.names, place)
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                if batch.nbytes > _BATCH_BYTES:
                    found = f"has more than {_BATCH_BYTES:,} bytes in {len(batch)} rows"
                    where = f"{place}: rows {number + 1} to {number + len(batch)}"
                    raise InputError(where, found, "shorter rows: split long texts")
                for row in batch.to_pylist():
                    number += 1
                    where = f"row {number}"
                    text = _dump(_without_nulls(row), place, where, max_characters)
                    remaining -= len(text)
                    if remaining < 0:
                        raise _too_large(place)
                    yield where, text
    except InputError:
        raise
    except damaged as error:
        found = f"cannot be read from row {number + 1} on ({error})"
        raise InputError(
            place, found, "a Parquet file of texts, numbers, lists and structs"
        ) from None


def _without_nulls(value: Any) -> Any:
    """Return a value of Parquet without the fields that are null: a struct has all, or none."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


def _dump(row: dict[str, Any], place: str, where: str, max_characters: int | None) -> str:
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        found = f"has a value that JSON has not ({error})"
        raise InputError(f"{place}: {where}", found, "texts, numbers, lists and structs") from None
    if max_characters is not None and len(text) > max_characters:
        raise _too_long(place, where, max_characters)
    return text
