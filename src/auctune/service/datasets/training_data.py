"""Data sets and first models of jobs: ownership, existence and size, and offers to repair data."""

import asyncio
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import orjson
import structlog

from auctune.datasets.files import find_format
from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.domain.errors import RepairableError
from auctune.engine.data.client import DataClient
from auctune.service.datasets.repairer import (
    BuiltinVendor,
    DatasetQuote,
    ExternalVendor,
    VendorOffer,
    quote_external,
)
from auctune.service.fair_queue import in_thread, leave_gate, outside_gate
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.identifiers import JOB_ID
from auctune.service.jobs.request import StartModel, checkpoint_name, job_of, model_name, split_name
from auctune.service.jobs.training import Submission, Training
from auctune.service.storage import Queries
from auctune.service.storage.engine import StoreError
from auctune.service.storage.event_log import Record
from auctune.service.storage.queries import Status
from auctune.service.vendors.client import Clock

QUOTE_SECONDS = 2.0
"""An external vendor that has not answered by then is left out of an auction."""


class DatasetInspector:
    """Inspects data sets for one base model.

    Args:
        builtin: the vendor in a process of the service, or None.
        external: vendors that are reached over HTTP.
    """

    def __init__(
        self,
        base: str,
        client: DataClient,
        files: FileRepository,
        builtin: BuiltinVendor | None = None,
        external: Sequence[ExternalVendor] = (),
        clock: Clock = time.time,
    ) -> None:
        self._base = base
        self._client = client
        self._files = files
        self._builtin = builtin
        self._external = external
        self._clock = clock

    @property
    def has_vendors(self) -> bool:
        """Return whether any vendor can repair a data set."""
        return self._builtin is not None or bool(self._external)

    @cached_property
    def examination(self) -> str:
        """Digest of the base's tokenizer and chat template, and the rules of rows."""
        return self._client.examination(self._base)

    async def size(self, file: FileRecord, max_length: int) -> DataSize:
        """Return the size of a clean data set, and store its tokens for those who train on it."""
        return await self.size_of(self._files.path(file), max_length, file.owner, store=True)

    async def size_of(
        self, path: Path, max_length: int, owner: str, *, store: bool = False
    ) -> DataSize:
        """Return the size of the data set in any file, examined in its owner's turn."""
        future = self._client.size(
            self._base, path, "training_file", max_length, owner=owner, store=store
        )
        return (await outside_gate(future)).size

    async def store_tokens(self, file: str, max_length: int, owner: str) -> None:
        """Store the tokens of a file, unless nodes tokenize it as fast."""
        path = self._files.blobs.path(file)
        future = self._client.store(self._base, path, "training_file", max_length, owner=owner)
        await outside_gate(future)

    async def inspect(self, file: FileRecord, training: Training) -> DatasetQuote:
        """Return the size of a data set, and the offers of all vendors if it needs repair."""
        if not self.has_vendors:
            raise InputError("market.repair", "is set, but the zone has no vendor", "clean data")
        path, length = self._files.path(file), training.max_length
        found, offers = await asyncio.gather(
            self._quote_builtin(path, training, file.owner),
            self._quote_external(path, self._external),
        )
        if isinstance(found, DatasetQuote):
            return DatasetQuote(found.size, (*found.offers, *offers))
        if offers:
            future = self._client.measure(
                self._base, path, "training_file", length, owner=file.owner
            )
            return DatasetQuote(await outside_gate(future), offers)
        raise found or InputError(
            "market.repair", "is set, but no vendor makes an offer now", "clean data, or a retry"
        )

    async def offers(
        self, file: FileRecord, training: Training, without: Collection[str]
    ) -> tuple[VendorOffer, ...]:
        """Return the offers of vendors other than some; empty if none can repair the data."""
        path = self._files.path(file)
        external = [vendor for vendor in self._external if vendor.name not in without]
        if self._builtin is None or self._builtin.name in without:
            return await self._quote_external(path, external)
        found, offers = await asyncio.gather(
            self._quote_builtin(path, training, file.owner), self._quote_external(path, external)
        )
        return (*found.offers, *offers) if isinstance(found, DatasetQuote) else offers

    async def _quote_builtin(
        self, path: Path, training: Training, owner: str
    ) -> DatasetQuote | InputError | None:
        """Return the built-in vendor's appraisal or error, or None if there is no such vendor."""
        if self._builtin is None:
            return None
        try:
            return await self._builtin.appraise(self._base, path, training, owner)
        except InputError as error:
            return error

    async def _quote_external(
        self, path: Path, vendors: Sequence[ExternalVendor]
    ) -> tuple[VendorOffer, ...]:
        leave_gate()
        # Vendors are promised JSON: files of other forms are not theirs.
        file = await in_thread(find_format, path, "training_file") if vendors else None
        if file is None or not file.is_json or file.compression:
            return ()
        return await quote_external(vendors, path, QUOTE_SECONDS, self._clock)


_log = structlog.get_logger(__name__)


class FileSizes:
    """Sizes of files; each file is sized once for each base, tokenizer and length.

    Args:
        files: stored files.
        base_digest: digest of the zone's base: its weights, not its tokenizer.
        inspector: sizes data sets.
        max_length: maximum length of rows if a request names none.
    """

    def __init__(
        self,
        files: FileRepository,
        base_digest: str,
        inspector: DatasetInspector,
        max_length: int,
    ) -> None:
        self._files = files
        self._base_digest = base_digest
        self._inspector = inspector
        self._max_length = max_length

    def cached(self, file: FileRecord, max_length: int) -> DataSize | None:
        """Return the size of a file, or None if it is not known without waiting."""
        return file.size_for(self._examination, max_length)

    async def size(self, file: FileRecord, max_length: int, place: str) -> DataSize:
        """Return the size of a file.

        Raises:
            InputError: naming `place`, if it cannot be trained on; a `RepairableError` if a vendor
                may repair it.
        """
        if (size := self.cached(file, max_length)) is not None:
            return size
        try:
            size = await self._inspector.size(file, max_length)
        except InputError as error:
            # The data process calls every file that it examines the training file.
            raise error.at(error.place.replace("training_file", place, 1)) from None
        await self._files.set_size(file.id, self._examination, max_length, size)
        return size

    @property
    def _examination(self) -> str:
        """Key for all that a size follows from, beside the file and its length."""
        return f"{self._base_digest}:{self._inspector.examination}"

    async def preload(self, file: FileRecord) -> bool:
        """Size a new upload, so that bids need not wait; store the error if it is invalid."""
        try:
            await self.size(file, self._max_length, "training_file")
        except InputError as error:
            await self._files.set_error(file.id, str(error))
        except StoreError:
            raise
        except (AuctuneError, OSError) as error:
            _log.warning("an upload could not be examined", file=file.id, reason=str(error))
        return True


class TrainingData:
    """Data sets of a zone's jobs; see `FileSizes`."""

    def __init__(
        self,
        files: FileRepository,
        base_digest: str,
        inspector: DatasetInspector,
        max_length: int,
    ) -> None:
        self._files = files
        self._inspector = inspector
        self._sizes = FileSizes(files, base_digest, inspector, max_length)

    def ensure_not_deleted(self, submission: Submission) -> None:
        """Check that no file of the job is being deleted. Thread-safe.

        Called on the actor: a deletion that starts later sees the job and is refused.
        """
        training = submission.training
        for name, place in (
            (training.data, "training_file"),
            (training.validation, "validation_file"),
            (training.start_from, "model"),
        ):
            if name is not None and not self._files.exists(name):
                raise InputError(place, f"{name!r} is being deleted", "a file that is not deleted")

    async def cached(self, submission: Submission) -> DatasetQuote | None:
        """Return the size of clean data, or None if a file has not been sized yet."""
        training, owner = submission.training, submission.owner
        file = await self._files.require(training.data, owner, "training_file")
        validation = training.validation
        if validation is not None:
            await self._files.require(validation, owner, "validation_file")
        self.ensure_not_deleted(submission)
        if training.repair:
            return None
        length = training.max_length
        size, of_validation = self._sizes.cached(file, length), None
        if validation is not None:
            known = self._files.cached(validation)
            of_validation = None if known is None else self._sizes.cached(known, length)
            if of_validation is None:
                return None
        return None if size is None else DatasetQuote(_whole_size(size, of_validation, training))

    async def inspect(self, submission: Submission) -> DatasetQuote:
        """Return the size of a job's data, and the offers of vendors if the job allows repair."""
        training, owner = submission.training, submission.owner
        file = await self._files.require(training.data, owner, "training_file")
        of_validation = None
        if training.validation is not None:
            validation = await self._files.require(training.validation, owner, "validation_file")
            of_validation = await self._sizes.size(
                validation, training.max_length, "validation_file"
            )
        if training.repair:
            quote = await self._inspector.inspect(file, training)
            return replace(quote, size=_with_validation(quote.size, of_validation, training))
        try:
            size = await self._sizes.size(file, training.max_length, "training_file")
        except RepairableError as error:
            if not self._inspector.has_vendors or training.method != "supervised":
                raise
            expected = f"{error.expected}; or market.repair (--repair), to have a vendor repair it"
            raise InputError(error.place, error.found, expected) from None
        return DatasetQuote(_whole_size(size, of_validation, training))

    async def preload(self, file: FileRecord) -> bool:
        """Size a new upload; see `FileSizes.preload`."""
        return await self._sizes.preload(file)


def _whole_size(size: DataSize, of_validation: DataSize | None, training: Training) -> DataSize:
    """Return the size of a job's data including its validation data; limit truncated rows."""
    size.check_method("training_file", training.method)
    size.check_truncation("training_file", training.max_length, truncate=training.truncate)
    return _with_validation(size, of_validation, training)


def _with_validation(
    size: DataSize, of_validation: DataSize | None, training: Training
) -> DataSize:
    if of_validation is None:
        return size
    of_validation.check_method("validation_file", training.method)
    of_validation.check_truncation(
        "validation_file", training.max_length, truncate=training.truncate
    )
    return replace(size, validation=of_validation)


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A fine-tuned model, or a checkpoint of one.

    Attributes:
        base: name of its base.
        file: id of the file with its adapter, which may have been deleted.
        created_at: end of its job, in unix time.
        alias: name in place of the base's in `name`, or None.
    """

    name: str
    base: str
    file: str
    created_at: float
    alias: str | None


class StartModels:
    """Finds fine-tuned models by name, and reads their adapters in the data process."""

    def __init__(self, queries: Queries, files: FileRepository, data: DataClient) -> None:
        self._queries = queries
        self._files = files
        self._data = data

    async def find(self, model: str, owner: str) -> StartModel:
        """Return the model of this name that a job of an owner has trained.

        Raises:
            InputError: naming `model`, if there is none, or its adapter cannot be a start.
        """
        found = await self._result(model, owner)
        record = await self._files.get(found.file)
        if record is None:
            raise InputError("model", f"the result of {model!r} has been deleted", "another model")
        path = self._files.path(record)
        adapter = await outside_gate(self._data.adapter(path, "model", owner=owner))
        return StartModel(found.base, found.file, adapter, found.alias)

    async def _result(self, model: str, owner: str) -> TunedModel:
        found = await in_thread(find_tuned_model, self._queries, model, owner)
        if found is None:
            # The same error if another user has it: it must not reveal other users' models.
            raise InputError(
                "model",
                f"there is no fine-tuned model {model!r}",
                "the fine_tuned_model of one of your succeeded jobs, or of a checkpoint of it",
            )
        return found


def find_tuned_model(queries: Queries, model: str, owner: str) -> TunedModel | None:
    """Return the model of this name that a job of an owner has trained, or None."""
    job = job_of(split_name(model)[0])
    row = queries.job(job) if re.fullmatch(JOB_ID, job) else None
    if row is None or row.owner != owner or row.status != Status.SUCCEEDED:
        return None
    models = {one.name: one for one in tuned_models(job, orjson.loads(row.body))}
    return models.get(model)


def tuned_models(job: str, body: Record) -> Iterator[TunedModel]:
    """Yield the model of a succeeded job, by its body, and those of its checkpoints."""
    request, created = body["request"], body["finished_at"]
    name, alias = model_name(request, job), request.get("alias")
    # The adapter is the last of the result files.
    if body["files"]:
        yield TunedModel(name, request["model"], body["files"][-1], created, alias)
    for one in body["checkpoints"]:
        checkpoint = checkpoint_name(name, one["metrics"]["step"])
        yield TunedModel(checkpoint, request["model"], one["file"], created, alias)
