"""What a vendor is told of a data set before it sees any of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO, Final, Literal

from auctune.domain import InputError

JSONL: Final = "jsonl"


@dataclass(frozen=True, slots=True)
class DataFacts:
    """A data set as seen from outside.

    Attributes:
        rows: lines that are not blank.
        bytes: size of the file.
        sha256: of the file, in hexadecimal.
        format: what its owner says that it is.
    """

    rows: int
    bytes: int
    sha256: str
    format: Literal["jsonl"] = JSONL


def read_facts(path: Path) -> DataFacts:
    """The facts of a file, in bounded memory.

    Raises:
        InputError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
            size = file.tell()
            file.seek(0)
            return DataFacts(sum(_ends_of_rows(file)), size, digest)
    except OSError as error:
        raise InputError(
            str(path), f"cannot be read ({error.strerror})", "a readable data set"
        ) from None


def _ends_of_rows(file: BinaryIO) -> Iterator[bool]:
    """True where a line ends that is not blank; a line without an end is read in pieces."""
    filled = False
    while piece := file.readline(1 << 20):
        filled = filled or not piece.isspace()
        if piece.endswith(b"\n"):
            yield filled
            filled = False
    yield filled
