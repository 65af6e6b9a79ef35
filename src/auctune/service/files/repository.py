"""Files of users: their rows in the database and their content in a folder."""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import orjson

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.service.accounts.limits import QuotaExceededError
from auctune.service.files.blobs import Blob, Blobs, Disk, Trash
from auctune.service.files.quota import FileLimits, StorageQuota
from auctune.service.identifiers import new_id
from auctune.service.storage import tables
from auctune.service.storage.batch import WriteBatch
from auctune.service.storage.committer import Committer, durable
from auctune.service.storage.queries import FileRow, FileTotals, Page, Queries

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


# The repository.
#
# Content is on disk before its row, so a row never names content that is missing. At start, content
# of a file whose row is marked as deleted is deleted; content without a row goes to the trash.

_KEPT = 10_000
_DAY_SECONDS = 86_400.0
_ID = re.compile(r"file-[A-Za-z0-9]{1,64}")


class Named(Protocol):
    """What an upload is called: known once all of it has been read."""

    filename: str
    purpose: Purpose


class FileRepository:
    """The files of a service.

    Args:
        folder: of contents; their trash is beside it.
        pages: reads rows.
        committer: writes them.
        limits: of uploads; results of jobs are taken in any case.
        now: tells unix time.
        disk: on which uploads leave a reserve; None: they leave none.
    """

    def __init__(
        self,
        folder: Path,
        pages: Queries,
        committer: Committer,
        limits: FileLimits,
        now: Callable[[], float] = time.time,
        disk: Disk | None = None,
    ) -> None:
        self.blobs = Blobs(folder)
        self.trash = Trash(folder.parent / "trash", now)
        self._disk = disk or Disk(folder, 0)
        self._pages = pages
        self._tidy()
        self._committer = committer
        self.limits = limits
        self._now = now
        self._leaving: set[str] = set()
        self._num_deleted = 0
        self._room = StorageQuota(limits, pages.file_totals, self._today)
        self._known: OrderedDict[str, FileRecord] = OrderedDict()

    async def add(
        self, owner: str, form: Named, chunks: AsyncIterator[bytes], announced: int = 0
    ) -> FileRecord:
        """Take a file in.

        Args:
            owner: whose.
            form: what it is called, once `chunks` are read.
            chunks: of its content; what they raise, this raises, and nothing of the file stays.
            announced: bytes that it will have at least.

        Raises:
            TooLargeError: if it is too large.
            QuotaExceededError: if its owner has no room for it, or too many uploads under way.
            DiskFullError: if the service's disk has no room for it.
        """
        self._disk.check(announced)
        async with self._room.reserve(owner, announced) as upload:
            name = new_id("file")
            counted = upload.limited(chunks)
            blob = await self.blobs.write(name, counted, self.limits.upload_bytes, self._disk.check)
            try:
                async with self._room.importing(upload, blob.size):
                    status = FileStatus.UPLOADED
                    record = self._record(name, owner, form.filename, form.purpose, blob, status)
                    await self._insert(record)
            except QuotaExceededError:
                self.blobs.delete(name)
                raise
        return record

    async def import_result(self, owner: str, filename: str, source: Path) -> FileRecord:
        """Take over what came out of a job."""
        name = new_id("file")
        blob = await asyncio.to_thread(self.blobs.adopt, name, source)
        record = self._record(name, owner, filename, Purpose.RESULT, blob, FileStatus.PROCESSED)
        await self._insert(record)
        return record

    async def set_size(self, file: str, base_digest: str, max_length: int, size: DataSize) -> None:
        """Note how much a file is; it can be trained on."""
        record = await self.get(file)
        if record is not None:
            sizes = {**record.sizes, size_key(base_digest, max_length): size}
            await self._update(
                replace(record, status=FileStatus.PROCESSED, detail=None, sizes=sizes)
            )

    async def set_error(self, file: str, detail: str) -> None:
        """Note what is wrong with a file."""
        record = await self.get(file)
        if record is not None:
            await self._update(replace(record, status=FileStatus.ERROR, detail=detail))

    def cached(self, file: str) -> FileRecord | None:
        """A file, if it was asked for of late: no wait for the database."""
        record = self._known.get(file)
        if record is None or file in self._leaving:
            return None
        self._known.move_to_end(file)
        return record

    async def get(self, file: str) -> FileRecord | None:
        """A file; none: there is none of this id, or it was deleted."""
        record = self.cached(file)
        if record is None and file not in self._leaving and _ID.fullmatch(file):
            row, num_deleted = None, -1
            # What was read before a file went must not bring it back.
            while num_deleted != self._num_deleted:
                num_deleted = self._num_deleted
                row = await asyncio.to_thread(self._pages.file, file)
            if row is None or row.deleted_at is not None or file in self._leaving:
                return None
            record = self._known.get(file) or FileRecord.from_row(row)
            self._keep(record)
        return record

    async def page(
        self,
        owner: str,
        limit: int,
        after: str | None,
        purpose: str | None,
        oldest_first: bool,
        sha256: str | None = None,
        filename: str | None = None,
    ) -> Page[FileRecord]:
        """Return a page of a user's files; arguments as of `Queries.files`."""
        page = await asyncio.to_thread(
            self._pages.files, owner, limit, after, purpose, oldest_first, sha256, filename
        )
        return Page(tuple(FileRecord.from_row(row) for row in page.items), page.has_more)

    async def unexamined(self) -> tuple[FileRecord, ...]:
        """Return all users' uploads that have not been looked at."""
        rows = await asyncio.to_thread(self._pages.files_of_status, FileStatus.UPLOADED.value)
        return tuple(map(FileRecord.from_row, rows))

    def exists(self, file: str) -> bool:
        """Whether a file that was there has not been asked to go since; for any thread."""
        if file in self._leaving:
            return False
        # Of many files that were asked for since, this one may be known no more.
        return file in self._known or self._is_stored(file)

    @asynccontextmanager
    async def tombstone(self, record: FileRecord) -> AsyncIterator[None]:
        """While this lasts, nobody finds the file any more; it is there again afterwards.

        Unless it is deleted before.
        """
        self._leaving.add(record.id)
        try:
            yield
        finally:
            self._leaving.discard(record.id)

    async def delete(self, record: FileRecord) -> None:
        """Remove a file: its row is marked and its name forgotten first, then its content goes."""
        row = {**record.to_row(), "filename": "", "detail": None, "deleted_at": self._now()}
        await durable(self._committer, WriteBatch().upsert(tables.files, row))
        self._known.pop(record.id, None)
        self._num_deleted += 1
        self.blobs.delete(record.id)

    def path(self, record: FileRecord) -> Path:
        """Where a file's content lies."""
        return self.blobs.path(record.id)

    def has_job(self, job: str) -> bool:
        """Whether the database knows a job; for any thread."""
        return self._pages.job(job) is not None

    def _tidy(self) -> None:
        known = self._pages.file_ids()
        for name in self.blobs.names():
            if name in known:
                continue
            if self._pages.file(name) is None:
                self.trash.take(self.blobs.path(name))
            else:
                self.blobs.delete(name)
        self.blobs.drop_stray_tokens()

    def _record(
        self,
        name: str,
        owner: str,
        filename: str,
        purpose: Purpose,
        blob: Blob,
        status: FileStatus,
    ) -> FileRecord:
        return FileRecord(
            id=name,
            seq=self._committer.next_seq(),
            owner=owner,
            created_at=self._now(),
            size=blob.size,
            sha256=blob.sha256,
            filename=filename,
            purpose=purpose,
            status=status,
            detail=None,
            sizes={},
        )

    async def _insert(self, record: FileRecord) -> None:
        await durable(self._committer, WriteBatch().insert(tables.files, record.to_row()))
        self._keep(record)

    async def _update(self, record: FileRecord) -> None:
        # First in memory: what else is found out meanwhile is added to this.
        self._keep(record)
        await durable(self._committer, WriteBatch().upsert(tables.files, record.to_row()))

    def _today(self, owner: str) -> FileTotals:
        since = self._now() - _DAY_SECONDS
        most = self.limits.uploads_per_day
        return self._pages.uploads_since(owner, Purpose.TRAINING.value, since, most)

    def _is_stored(self, file: str) -> bool:
        row = self._pages.file(file)
        return row is not None and row.deleted_at is None

    def _keep(self, record: FileRecord) -> None:
        self._known[record.id] = record
        self._known.move_to_end(record.id)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)


def require_owner(record: FileRecord | None, owner: str, file: str, place: str) -> FileRecord:
    """A file of this owner.

    Raises:
        InputError: if it is somebody else's, or nobody's: the same answer for both.
    """
    if record is None or record.owner != owner:
        raise InputError(place, f"there is no file {file!r}", "the id of a file of yours")
    return record
