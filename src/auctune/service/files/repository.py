"""Users' files: their rows in the database, their contents in a folder, and the users' quotas.

Content is on disk before its row, so a row never names content that was not written. At the start
contents of deleted files are deleted, and contents without a row are moved to the trash. Rows whose
content is missing stay: an operator can restore it.

Stored files and uploads in progress count together. An upload counts from its first byte on, with
its announced size or what has arrived, whichever is more: many uploads that begin at once have no
more room than one after the other.

A file may expire. From then on its owner no longer has it, and no new job can use it; the row and
the content stay until `FileLifecycle` deletes them, later only if an open job needs the file.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import orjson
import structlog

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.service.accounts.limits import LimitReachedError
from auctune.service.config.models import FilesConfig, LimitsConfig
from auctune.service.fair_queue import in_thread
from auctune.service.files.blobs import Blob, Blobs, Disk, Trash
from auctune.service.identifiers import FILE_ID, new_id
from auctune.service.storage import tables
from auctune.service.storage.committer import Committer, WriteBatch, durable
from auctune.service.storage.queries import FileTotals, Page, Queries, Row

MAX_UPLOADS = 20
"""Uploads of a user at once."""
UPLOADS_PER_DAY, UPLOAD_BYTES_PER_DAY = 10_000, 50 * 1024**3
"""Uploads of a user within 24 hours, and their bytes; deleted ones count."""


class Upload:
    """An upload in progress, and its bytes: received so far, or announced if that is more."""

    def __init__(self, quota: "StorageQuota", owner: str, announced: int) -> None:
        self.owner = owner
        self.bytes = announced
        self._quota = quota

    async def limited(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the same chunks as long as there is room; raise LimitReachedError after that."""
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > self.bytes:
                self.bytes = size
                await self._quota.check(self)
            yield chunk


@dataclass(slots=True)
class _Usage:
    """Usage of an owner with uploads in progress."""

    stored: FileTotals
    today: FileTotals
    uploads: list[Upload] = field(default_factory=list)
    # While totals are read, no upload turns into a stored file: none counts twice.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def check(self, limits: LimitsConfig) -> None:
        stored, today = self.stored, self.today
        coming = sum(upload.bytes for upload in self.uploads)
        if stored.count + len(self.uploads) > limits.files:
            raise LimitReachedError(f"you already have {stored.count} files; delete some")
        if stored.bytes + coming > limits.stored_bytes:
            raise LimitReachedError(f"your files already have {stored.bytes} bytes; delete some")
        # Each upload is examined, which costs time whether the file is kept or not.
        if today.count + len(self.uploads) > UPLOADS_PER_DAY:
            found = f"you uploaded {today.count} files within 24 hours"
            raise LimitReachedError(f"{found}; use uploaded files, or wait")
        if today.bytes + coming > UPLOAD_BYTES_PER_DAY:
            found = f"you uploaded {today.bytes} bytes within 24 hours"
            raise LimitReachedError(f"{found}; use uploaded files, or wait")


class StorageQuota:
    """Quota of all users, on one event loop.

    `totals` returns what an owner has stored, `today` what it uploaded within 24 hours; both block.
    """

    def __init__(
        self,
        limits: LimitsConfig,
        totals: Callable[[str], FileTotals],
        today: Callable[[str], FileTotals],
    ) -> None:
        self._limits = limits
        self._totals = totals
        self._today = today
        self._owners: dict[str, _Usage] = {}

    @asynccontextmanager
    async def reserve(self, owner: str, announced: int) -> AsyncIterator[Upload]:
        """Reserve room for an upload of at least so many bytes, or raise LimitReachedError."""
        usage = self._owners.setdefault(owner, _Usage(FileTotals(0, 0), FileTotals(0, 0)))
        if len(usage.uploads) >= MAX_UPLOADS:
            raise LimitReachedError(f"you already have {MAX_UPLOADS} uploads in progress")
        upload = Upload(self, owner, announced)
        usage.uploads.append(upload)
        try:
            async with usage.lock:
                await self._refresh(usage, owner)
            yield upload
        finally:
            self._end(upload)

    async def check(self, upload: Upload) -> None:
        """Raise LimitReachedError if there is no room for an upload."""
        usage = self._owners[upload.owner]
        try:
            usage.check(self._limits)
        except LimitReachedError:
            # Files may have been deleted since the totals were read.
            async with usage.lock:
                await self._refresh(usage, upload.owner)

    @asynccontextmanager
    async def importing(self, upload: Upload, size: int) -> AsyncIterator[None]:
        """Count an upload that is complete, if there is room for it; the block stores it."""
        usage = self._owners[upload.owner]
        async with usage.lock:
            upload.bytes = size
            await self._refresh(usage, upload.owner)
            yield
            usage.stored = FileTotals(usage.stored.count + 1, usage.stored.bytes + size)
            usage.today = FileTotals(usage.today.count + 1, usage.today.bytes + size)
            self._end(upload)

    async def _refresh(self, usage: _Usage, owner: str) -> None:
        usage.stored, usage.today = await in_thread(
            lambda: (self._totals(owner), self._today(owner))
        )
        usage.check(self._limits)

    def _end(self, upload: Upload) -> None:
        usage = self._owners.get(upload.owner)
        if usage is not None and upload in usage.uploads:
            usage.uploads.remove(upload)
            if not usage.uploads:
                del self._owners[upload.owner]


# Key of the sizes in a row's body.
_SIZES = "data_sizes"
# Of a file, those that were asked for last; others are determined again.
_MAX_SIZES = 16
_CACHED = 10_000
_DAY_SECONDS = 86_400.0

_log = structlog.get_logger(__name__)


class FileStatus(StrEnum):
    """Status of a file, as in OpenAI's API."""

    UPLOADED = "uploaded"
    PROCESSED = "processed"
    ERROR = "error"


class Purpose(StrEnum):
    """Purpose of a file, as in OpenAI's API."""

    TRAINING = "fine-tune"
    RESULT = "fine-tune-results"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file.

    Attributes:
        filename: the owner's name for it, for display only.
        status: whether it was examined.
        detail: the error found by the examination, or None.
        expires_at: unix time from which on its owner no longer has it, or None.
        sizes: sizes as a data set, by base digest and length of rows ("DIGEST:LENGTH").
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
    detail: str | None = None
    sizes: dict[str, DataSize] = field(default_factory=dict)
    expires_at: float | None = None

    def size_for(self, examination: str, max_length: int) -> DataSize | None:
        """Return its size by an examination and a length of rows, if known."""
        return self.sizes.get(size_key(examination, max_length))

    def has_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def to_row(self) -> dict[str, object]:
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
            "expires_at": self.expires_at,
        }

    @classmethod
    def from_row(cls, row: Row) -> "FileRecord":
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
            expires_at=row.expires_at,
        )


def size_key(examination: str, max_length: int) -> str:
    """Return the key of a size in `FileRecord.sizes`.

    Args:
        examination: digest of all that a size follows from: base, tokenizer, template and rules.
        max_length: tokens of a row at most.
    """
    return f"{examination}:{max_length}"


class UploadForm(Protocol):
    """Fields of an upload, known once all of its content has been read.

    `expires_seconds` is after how many seconds it expires, or None.
    """

    filename: str
    purpose: Purpose
    expires_seconds: int | None


class FileRepository:
    """The files of a service: rows in the database, contents in a folder with the trash beside it.

    Uploads leave a reserve on `disk`; results of jobs are not limited.
    """

    def __init__(
        self,
        folder: Path,
        queries: Queries,
        committer: Committer,
        limits: LimitsConfig,
        now: Callable[[], float] = time.time,
        disk: Disk | None = None,
        policy: FilesConfig | None = None,
    ) -> None:
        self.policy = policy or FilesConfig()
        self.blobs = Blobs(folder)
        self.trash = Trash(folder.parent / "trash", now)
        self.limits = limits
        self._disk = disk or Disk(folder, 0)
        self._queries = queries
        self._committer = committer
        self._now = now
        self._quota = StorageQuota(limits, queries.file_totals, self._today)
        self._cache: OrderedDict[str, FileRecord] = OrderedDict()
        # Files that are being deleted, and the number of deleted ones.
        self._deleting: set[str] = set()
        self._num_deleted = 0
        self._missing = self._clean_up(folder)

    async def add(
        self, owner: str, form: UploadForm, chunks: AsyncIterator[bytes], announced: int = 0
    ) -> FileRecord:
        """Store an upload.

        Args:
            owner: user id.
            form: read after `chunks`.
            chunks: the content; what they raise, this raises, and nothing is stored.
            announced: bytes that it has at least.

        Raises:
            TooLargeError, LimitReachedError, DiskFullError: if there is no room for it.
        """
        self._disk.check(announced)
        async with self._quota.reserve(owner, announced) as upload:
            name = new_id("file")
            counted = upload.limited(chunks)
            blob = await self.blobs.write(
                name, owner, counted, self.limits.upload_bytes, self._disk.check
            )
            try:
                async with self._quota.importing(upload, blob.size):
                    seconds = form.expires_seconds or _seconds(self.policy.data_days)
                    return await self._insert(
                        name, owner, form.filename, form.purpose, blob, FileStatus.UPLOADED, seconds
                    )
            except LimitReachedError:
                self.blobs.delete(name)
                raise

    async def import_result(self, owner: str, filename: str, source: Path) -> FileRecord:
        """Store a result of a job by moving a file."""
        name = new_id("file")
        blob = await asyncio.to_thread(self.blobs.adopt, name, source)
        return await self._insert(
            name,
            owner,
            filename,
            Purpose.RESULT,
            blob,
            FileStatus.PROCESSED,
            _seconds(self.policy.results_days),
        )

    async def results(self, owner: str, job: str) -> dict[str, FileRecord]:
        """Return the stored results of a job by their names, those without content left out."""
        rows = await in_thread(self._queries.results, owner, job, self._now())
        return {
            row.filename: FileRecord.from_row(row) for row in rows if row.id not in self._missing
        }

    async def unlisted_results(self, job: str) -> list[FileRecord]:
        """Return the stored archives of an ended job that its row does not list."""
        row = await in_thread(self._queries.job, job)
        if row is None:
            return []
        body = orjson.loads(row.body)
        listed = {*body.get("files", ()), *(one["file"] for one in body.get("checkpoints", ()))}
        stored = await self.results(row.owner, job)
        return [
            record
            for name, record in stored.items()
            # Not repaired data, which a job does not list.
            if name.startswith(f"{job}.") and record.id not in listed
        ]

    async def set_size(self, file: str, examination: str, max_length: int, size: DataSize) -> None:
        """Record the size of a file, which can be trained on."""
        record = await self.stored(file)
        if record is not None:
            newest = list(record.sizes.items())[1 - _MAX_SIZES :]
            sizes = {**dict(newest), size_key(examination, max_length): size}
            await self._update(
                replace(record, status=FileStatus.PROCESSED, detail=None, sizes=sizes)
            )

    async def set_error(self, file: str, detail: str) -> None:
        """Record why a file cannot be trained on."""
        record = await self.stored(file)
        if record is not None:
            await self._update(replace(record, status=FileStatus.ERROR, detail=detail))

    def cached(self, file: str) -> FileRecord | None:
        """Return a file if it is cached, without waiting for the database."""
        record = self._cache.get(file)
        if record is None or file in self._deleting:
            return None
        self._cache.move_to_end(file)
        return record

    async def get(self, file: str) -> FileRecord | None:
        """Return a file, or None if it does not exist or has expired."""
        record = await self.stored(file)
        return None if record is None or record.has_expired(self._now()) else record

    async def stored(self, file: str) -> FileRecord | None:
        """Return a file, or None; an expired one too, which an open job may need."""
        record = self.cached(file)
        if record is None and file not in self._deleting and re.fullmatch(FILE_ID, file):
            row, num_deleted = None, -1
            # A row that was read before a deletion must not return to the cache.
            while num_deleted != self._num_deleted:
                num_deleted = self._num_deleted
                row = await in_thread(self._queries.file, file)
            if row is None or row.deleted_at is not None or file in self._deleting:
                return None
            record = self._cache.get(file) or FileRecord.from_row(row)
            self._add_to_cache(record)
        return record

    async def require(self, file: str, owner: str, place: str) -> FileRecord:
        """Return a file of an owner for a job; `place` is that of the file in the request.

        A job keeps a file that expires: see `check_not_expired`.
        """
        record = await self.stored(file)
        if record is None or record.owner != owner:
            # The same error if another user has it: it must not reveal other users' files.
            raise _no_file(file, place)
        if file in self._missing:
            raise InputError(
                place, f"the content of {file!r} is missing at the service", "a new upload of it"
            )
        return record

    async def check_not_expired(self, file: str, place: str) -> None:
        """Refuse a file for a new job if it has expired; `place` is that in the request."""
        record = await self.stored(file)
        if record is not None and record.has_expired(self._now()):
            raise _no_file(file, place)

    def page(
        self,
        owner: str,
        limit: int,
        after: str | None = None,
        purpose: str | None = None,
        oldest_first: bool = False,
        sha256: str | None = None,
        filename: str | None = None,
        *,
        with_expired: bool = False,
    ) -> Page[FileRecord]:
        """Return a page of a user's files, for any thread; arguments as of `Queries.files`.

        `with_expired`: also those that have expired.
        """
        now = None if with_expired else self._now()
        page = self._queries.files(
            owner, limit, after, purpose, oldest_first, sha256, filename, now
        )
        return Page(tuple(map(FileRecord.from_row, page.items)), page.has_more)

    async def unexamined(self) -> tuple[FileRecord, ...]:
        """Return all users' uploads that have not been examined; not those without content."""
        rows = await asyncio.to_thread(self._queries.files_of_status, FileStatus.UPLOADED.value)
        return tuple(FileRecord.from_row(row) for row in rows if row.id not in self._missing)

    def exists(self, file: str) -> bool:
        """Return whether a file exists and is not being deleted. Thread-safe."""
        if file in self._deleting:
            return False
        if file in self._cache:
            return True
        row = self._queries.file(file)
        return row is not None and row.deleted_at is None

    @asynccontextmanager
    async def tombstone(self, record: FileRecord) -> AsyncIterator[None]:
        """Hide a file inside this block, and after it if it was deleted."""
        self._deleting.add(record.id)
        try:
            yield
        finally:
            self._deleting.discard(record.id)

    async def delete(self, record: FileRecord) -> None:
        """Delete a file: mark its row and clear its name first, then delete the content."""
        row = {**record.to_row(), "filename": "", "detail": None, "deleted_at": self._now()}
        # An examination that ends meanwhile must not write the row as it was.
        async with self.tombstone(record):
            await durable(self._committer, WriteBatch().upsert(tables.files, row))
            self._cache.pop(record.id, None)
            self._num_deleted += 1
        await asyncio.to_thread(self.blobs.delete, record.id)

    def path(self, record: FileRecord) -> Path:
        return self.blobs.path(record.id)

    def has_job(self, job: str) -> bool:
        return self._queries.job(job) is not None

    def _clean_up(self, folder: Path) -> frozenset[str]:
        """Remove contents that no file needs; return the files whose content is missing."""
        known = self._queries.file_ids()
        names = self.blobs.names()
        for name in names:
            if name in known:
                continue
            if self._queries.file(name) is None:
                self.trash.take(self.blobs.path(name))
            else:
                self.blobs.delete(name)
        self.blobs.delete_stray_tokens()
        missing = known.difference(names)
        if missing:
            _log.warning(
                "contents of files are missing: restore them from a backup and restart; "
                "jobs that need one fail",
                folder=str(folder),
                missing=len(missing),
                of=len(known),
                example=min(missing),
            )
        return missing

    async def _insert(
        self,
        name: str,
        owner: str,
        filename: str,
        purpose: Purpose,
        blob: Blob,
        status: FileStatus,
        expires_seconds: float | None,
    ) -> FileRecord:
        now = self._now()
        record = FileRecord(
            id=name,
            seq=self._committer.next_seq(),
            owner=owner,
            created_at=now,
            size=blob.size,
            sha256=blob.sha256,
            filename=filename,
            purpose=purpose,
            status=status,
            expires_at=None if expires_seconds is None else now + expires_seconds,
        )
        await durable(self._committer, WriteBatch().insert(tables.files, record.to_row()))
        self._add_to_cache(record)
        return record

    async def _update(self, record: FileRecord) -> None:
        # The cache first: a concurrent update then builds on this one.
        self._add_to_cache(record)
        await durable(self._committer, WriteBatch().upsert(tables.files, record.to_row()))

    def _today(self, owner: str) -> FileTotals:
        since = self._now() - _DAY_SECONDS
        return self._queries.uploads_since(owner, Purpose.TRAINING.value, since)

    def _add_to_cache(self, record: FileRecord) -> None:
        self._cache[record.id] = record
        self._cache.move_to_end(record.id)
        while len(self._cache) > _CACHED:
            self._cache.popitem(last=False)


def _seconds(days: float | None) -> float | None:
    return None if days is None else days * _DAY_SECONDS


def _no_file(file: str, place: str) -> InputError:
    return InputError(place, f"there is no file {file!r}", "the id of one of your files")
