"""Requests to a data process, and its responses.

It first sends `Ready`, and then handles one request after the other. Each request names its
response; any may be answered by `Failed` instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from auctune.domain import Quote
from auctune.domain.data_size import DataSize, method_of
from auctune.domain.dataset import RowKind
from auctune.domain.start_adapter import StartAdapter
from auctune.engine.messages.base import Alive, Failed, Ready, Response, Stop, WorkerMessages
from auctune.engine.vendors import RepairParams, RepairReport


@dataclass(frozen=True, slots=True)
class DataFacts:
    """A clean data set.

    Attributes:
        kind: of its rows.
        rows: that can be trained on.
        mean_tokens: as of `TokenizedDataSet`, of such rows, truncated to the length allowed.
        square_tokens: as of `DataSize`, of the same rows.
        num_truncated: rows among them that were truncated.
        longest: tokens of the longest row as it stands in the file.
        dropped: other rows, which have nothing to learn: how many, by `DropCause`.
        context_tokens: the longest row that the base can read; `None` if it is not limited.
    """

    kind: RowKind
    rows: int
    mean_tokens: float
    square_tokens: float
    num_truncated: int
    longest: int
    dropped: Mapping[str, int]
    context_tokens: int | None

    @property
    def size(self) -> DataSize:
        """What work is counted by, and what is lost."""
        return DataSize.of(
            self.rows,
            self.mean_tokens,
            self.num_truncated,
            self.dropped,
            self.longest,
            self.context_tokens,
            method=method_of(self.kind),
            square_tokens=self.square_tokens,
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """A vendor's quote, and what its work on trial made of the data."""

    quote: Quote
    facts: DataFacts


@dataclass(frozen=True, slots=True)
class Appraisal:
    """A data set that a vendor must repair first.

    Attributes:
        size: every line counted as a row of its own text, which is more than training will see.
        offers: of all vendors that can make something of it, one at least.
    """

    size: DataSize
    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class Archived:
    """An archive that was written: its size in bytes and its SHA-256, in hexadecimal."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Load a base's tokenizer: `Prepared`."""

    base: str
    type: Literal["prepare"] = "prepare"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """Request about a file of rows.

    Attributes:
        base: whose tokenizer counts.
        path: the file.
        place: how errors call it.
        max_length: tokens of a row at most; the base's own limit holds as well.
    """

    base: str
    path: Path
    place: str
    max_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFile(FileRequest):
    """Look at a file that is to be trained on as it is: `FileSized`.

    Attributes:
        store: whether to store its tokens beside it.
    """

    store: bool = False
    type: Literal["size_file"] = "size_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile(FileRequest):
    """Store a file's tokens beside it: `FileStored`."""

    type: Literal["store_file"] = "store_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureFile(FileRequest):
    """Look at a file that somebody else is to repair: `FileMeasured`."""

    type: Literal["measure_file"] = "measure_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppraiseFile(FileRequest):
    """Look at a file that one of the vendors is to repair: `FileAppraised`."""

    vendors: tuple[RepairParams, ...]
    type: Literal["appraise_file"] = "appraise_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairFile:
    """Have a vendor repair `source`: `FileRepaired`."""

    source: Path
    target: Path
    vendor: RepairParams
    place: str
    type: Literal["repair_file"] = "repair_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAdapter:
    """Read the archive of an adapter that a job is to start from: `AdapterRead`."""

    path: Path
    place: str
    type: Literal["read_adapter"] = "read_adapter"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFolder:
    """Pack a folder: `FolderArchived`; arguments as of `archive_folder`."""

    folder: Path
    target: Path
    name: str
    type: Literal["archive_folder"] = "archive_folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Response):
    """The longest row in tokens that the base can read, or None if it is not limited."""

    value: int | None
    type: Literal["prepared"] = "prepared"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSized(Response):
    """What a file holds."""

    value: DataFacts
    type: Literal["file_sized"] = "file_sized"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStored(Response):
    """A file's tokens are stored."""

    value: None = None
    type: Literal["file_stored"] = "file_stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMeasured(Response):
    """How much a file is that somebody else is to repair."""

    value: DataSize
    type: Literal["file_measured"] = "file_measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAppraised(Response):
    """Offers of vendors for a file."""

    value: Appraisal
    type: Literal["file_appraised"] = "file_appraised"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRepaired(Response):
    """Report of a repair."""

    value: RepairReport
    type: Literal["file_repaired"] = "file_repaired"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRead(Response):
    """An adapter that a job may start from."""

    value: StartAdapter
    type: Literal["adapter_read"] = "adapter_read"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderArchived(Response):
    """An archive that was written."""

    value: Archived
    type: Literal["folder_archived"] = "folder_archived"


# Requests that are answered: without `Stop`.
DataRequest = (
    Prepare | SizeFile | StoreFile | MeasureFile | AppraiseFile | RepairFile | ReadAdapter
) | ArchiveFolder
"""What a data process does."""
DataResponse = (
    Prepared | FileSized | FileStored | FileMeasured | FileAppraised | FileRepaired | AdapterRead
) | FolderArchived
DataReply = Alive | Ready | DataResponse | Failed
DATA_MESSAGES = WorkerMessages(DataRequest | Stop, DataReply)
