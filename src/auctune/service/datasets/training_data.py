"""Data sets of jobs: ownership, existence and size."""

from dataclasses import replace

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.domain.errors import RepairableError
from auctune.service.datasets.inspector import DatasetInspector
from auctune.service.datasets.repairer import DatasetQuote
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.jobs.training import Submission, Training
from auctune.service.storage.batch import StoreError

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
            if not self._inspector.has_vendors or training.method == "dpo":
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
