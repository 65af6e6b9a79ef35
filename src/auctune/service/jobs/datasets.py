"""Data sets of jobs: ownership, existence and size."""

import asyncio
from dataclasses import replace

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.domain.errors import RepairableError
from auctune.run.data.image_rows import holds_arrays, is_npz
from auctune.service.files.repository import FileRecord, FileRepository, require_owner
from auctune.service.jobs.training import Training
from auctune.service.zones.core.offers import DataInspector, DatasetQuote

_log = structlog.get_logger(__name__)


def _whole_size(size: DataSize, of_validation: DataSize | None, training: Training) -> DataSize:
    """Return the size of a job's data, its validation data included, if it may be trained on.

    Raises:
        InputError: if too many rows would lose their ends.
    """
    size.check_truncation("training_file", training.max_length, truncate=training.truncate)
    return _with_validation(size, of_validation, training)


def _with_validation(
    size: DataSize, of_validation: DataSize | None, training: Training
) -> DataSize:
    if of_validation is None:
        return size
    of_validation.check_truncation(
        "validation_file", training.max_length, truncate=training.truncate
    )
    return replace(size, validation=of_validation) if of_validation.longest else size


class TrainingData:
    """Looks at files for a zone's jobs, once for each base and length.

    Args:
        library: of files.
        base_digest: of the zone's base.
        appraiser: looks at data sets for it.
    """

    def __init__(self, library: FileRepository, base_digest: str, appraiser: DataInspector) -> None:
        self._library = library
        self._base_digest = base_digest
        self._appraiser = appraiser

    @property
    def has_vendors(self) -> bool:
        """Whether any vendor could repair a data set."""
        return self._appraiser.has_vendors

    async def get(self, name: str, owner: str, place: str) -> FileRecord:
        """A file of an owner's.

        Raises:
            InputError: if there is none, or it is somebody else's.
        """
        return require_owner(await self._library.get(name), owner, name, place)

    def ensure_not_deleted(self, training: Training) -> None:
        """That no file has begun to leave meanwhile; what comes next on the actor will keep it.

        For any thread.

        Raises:
            InputError: if one has.
        """
        for name, place in (
            (training.data, "training_file"),
            (training.validation, "validation_file"),
        ):
            if name is not None and not self._library.exists(name):
                raise InputError(place, f"{name!r} is being deleted", "a file that stays")

    async def cached_size(self, training: Training, owner: str) -> DataSize | None:
        """The size of clean data, if everything about a job's files is known.

        Raises:
            InputError: if there is no such file, or it is somebody else's, or begins to leave, or
                too many of its rows would lose their ends.
        """
        file = await self.get(training.data, owner, "training_file")
        validation = training.validation
        if validation is not None:
            await self.get(validation, owner, "validation_file")
        self.ensure_not_deleted(training)
        if training.repair:
            return None
        key = self._base_digest, training.max_length
        size, of_validation = file.size_for(*key), None
        if validation is not None:
            known = self._library.cached(validation)
            of_validation = None if known is None else known.size_for(*key)
            if of_validation is None:
                return None
        return None if size is None else _whole_size(size, of_validation, training)

    async def appraise(self, training: Training, owner: str) -> DatasetQuote:
        """Return the size of a job's data, and the offers of vendors if they may repair them.

        Raises:
            InputError: if nobody can make anything of it, or it is somebody else's.
        """
        file = await self.get(training.data, owner, "training_file")
        await self._check_rows(file, "training_file")
        of_validation = None
        if training.validation is not None:
            validation = await self.get(training.validation, owner, "validation_file")
            await self._check_rows(validation, "validation_file")
            of_validation = await self._size_of_validation(validation, training.max_length)
        if training.repair:
            found = await self._appraiser.inspect(file, training)
            return replace(found, size=_with_validation(found.size, of_validation, training))
        try:
            size = await self._size(file, training.max_length)
        except RepairableError as error:
            if not self._appraiser.has_vendors:
                raise
            expected = f"{error.expected}; or market.repair (--repair), and a vendor may repair it"
            raise InputError(error.place, error.found, expected) from None
        return DatasetQuote(_whole_size(size, of_validation, training))

    async def preload(self, file: FileRecord, max_length: int) -> bool:
        """Size a new upload, so that bids for it need not wait; what is wrong is noted with it.

        Return whether it is for this zone: images are not, and are left alone.
        """
        try:
            if await asyncio.to_thread(holds_arrays, self._library.path(file)):
                return False
            await self._size(file, max_length)
        except InputError as error:
            await self._library.set_error(file.id, str(error))
        except (AuctuneError, OSError) as error:
            _log.warning("an upload could not be looked at", file=file.id, reason=str(error))
        return True

    async def _check_rows(self, file: FileRecord, place: str) -> None:
        """That a file may hold rows of text: no vendor makes them of images.

        Raises:
            InputError: if it holds images, or is gone: it may be deleted meanwhile.
        """
        try:
            holds_images = await asyncio.to_thread(is_npz, self._library.path(file))
        except OSError as error:
            found = f"cannot be read ({error.strerror})"
            raise InputError(place, found, "a readable JSONL file") from None
        if holds_images:
            expected = (
                "rows of text; or market.sites (--site NAME=FILE), which trains on images where"
                " they are, in a zone of kind edge"
            )
            raise InputError(place, "is an .npz, as sites have their data", expected)

    async def _size_of_validation(self, file: FileRecord, max_length: int) -> DataSize:
        try:
            return await self._size(file, max_length)
        except InputError as error:
            # The data process knows no other file than the one that it is to examine.
            place = error.place.replace("training_file", "validation_file", 1)
            raise InputError(place, error.found, error.expected) from None

    async def _size(self, file: FileRecord, max_length: int) -> DataSize:
        size = file.size_for(self._base_digest, max_length)
        if size is None:
            size = await self._appraiser.size(file, max_length)
            await self._library.set_size(file.id, self._base_digest, max_length, size)
        return size
