"""A file as the service knows it."""

from dataclasses import dataclass
from enum import StrEnum

import orjson

from auctune.domain.data_size import DataSize
from auctune.service.storage.queries import FileRow

_SIZES = "data_sizes"
"""Key of the sizes in a row's body: a file that an earlier release sized is sized again."""


class FileStatus(StrEnum):
    """As OpenAI's API names it."""

    UPLOADED = "uploaded"
    PROCESSED = "processed"
    ERROR = "error"


class Purpose(StrEnum):
    """What a file is for."""

    TRAINING = "fine-tune"
    RESULT = "fine-tune-results"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file.

    Attributes:
        id, seq, owner, created_at: of the row.
        size: bytes.
        sha256: of its contents.
        filename: as its owner called it; shown, and used for nothing else.
        purpose: what it is for.
        status: whether it was looked at.
        detail: what is wrong with it; none: nothing that is known.
        sizes: of its rows, by base digest and length of rows ("DIGEST:LENGTH").
    """

    id: str
    seq: int
    owner: str
    created_at: float
    size: int
    sha256: str
    filename: str
    purpose: Purpose
    status: FileStatus
    detail: str | None
    sizes: dict[str, DataSize]

    def size_for(self, base_digest: str, max_length: int) -> DataSize | None:
        """How much it is for a base, if that is known."""
        return self.sizes.get(size_key(base_digest, max_length))

    def to_row(self) -> dict[str, object]:
        """As the database has it."""
        sizes = {key: size.to_record() for key, size in self.sizes.items()}
        return {
            "id": self.id,
            "seq": self.seq,
            "owner": self.owner,
            "created_at": self.created_at,
            "bytes": self.size,
            "sha256": self.sha256,
            "filename": self.filename,
            "purpose": self.purpose.value,
            "status": self.status.value,
            "detail": self.detail,
            "body": orjson.dumps({_SIZES: sizes}),
            "deleted_at": None,
        }

    @classmethod
    def from_row(cls, row: FileRow) -> "FileRecord":
        """From the database."""
        sizes = orjson.loads(row.body).get(_SIZES, {})
        return cls(
            id=row.id,
            seq=row.seq,
            owner=row.owner,
            created_at=row.created_at,
            size=row.bytes,
            sha256=row.sha256,
            filename=row.filename,
            purpose=Purpose(row.purpose),
            status=FileStatus(row.status),
            detail=row.detail,
            sizes={key: DataSize.from_record(value) for key, value in sizes.items()},
        )


def size_key(base_digest: str, max_length: int) -> str:
    """Names the size of a file for a base and a length of rows."""
    return f"{base_digest}:{max_length}"
