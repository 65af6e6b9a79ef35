"""The files that a job trains on: whose they are, that they stay, and how much they hold."""

import asyncio

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.run.data.image_rows import holds_arrays, is_npz
from auctune.service.files.library import Library, owned
from auctune.service.files.record import FileRecord
from auctune.service.jobs.size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.zones.appraisal import Appraisal, Appraiser

_log = structlog.get_logger(__name__)


class JobFiles:
    """Looks at files for a zone's jobs, once for each base and length.

    Args:
        library: of files.
        base_digest: of the zone's base.
        appraiser: looks at data sets for it.
    """

    def __init__(self, library: Library, base_digest: str, appraiser: Appraiser) -> None:
        self._library = library
        self._base_digest = base_digest
        self._appraiser = appraiser

    @property
    def has_vendors(self) -> bool:
        """Whether there is anybody who could mend a data set."""
        return self._appraiser.has_vendors

    async def get(self, name: str, owner: str, place: str) -> FileRecord:
        """A file of an owner's.

        Raises:
            InputError: if there is none, or it is somebody else's.
        """
        return owned(await self._library.get(name), owner, name, place)

    def check_there(self, training: Training) -> None:
        """That no file has begun to leave meanwhile; what comes next on the desk will keep it.

        For any thread.

        Raises:
            InputError: if one has.
        """
        for name, place in (
            (training.data, "training_file"),
            (training.validation, "validation_file"),
        ):
            if name is not None and not self._library.is_there(name):
                raise InputError(place, f"{name!r} is being deleted", "a file that stays")

    async def known_size(self, training: Training, owner: str) -> DataSize | None:
        """The size of clean data, if everything about a job's files is known.

        Raises:
            InputError: if there is no such file, or it is somebody else's, or begins to leave.
        """
        file = await self.get(training.data, owner, "training_file")
        validation = training.validation
        if validation is not None:
            await self.get(validation, owner, "validation_file")
        self.check_there(training)
        if training.repair:
            return None
        key = self._base_digest, training.max_length
        if validation is not None:
            known = self._library.known(validation)
            if known is None or known.size_for(*key) is None:
                return None
        return file.size_for(*key)

    async def appraise(self, training: Training, owner: str) -> Appraisal:
        """How much a job's data are, and what vendors ask if they may mend it.

        Raises:
            InputError: if nobody can make anything of it, or it is somebody else's.
        """
        file = await self.get(training.data, owner, "training_file")
        await self._check_rows(file, "training_file")
        if training.validation is not None:
            validation = await self.get(training.validation, owner, "validation_file")
            await self._check_rows(validation, "validation_file")
            await self._size(validation, training.max_length)
        if training.repair:
            return await self._appraiser.appraise(file, training)
        try:
            return Appraisal(await self._size(file, training.max_length))
        except InputError as error:
            if not self._appraiser.has_vendors:
                raise
            expected = f"{error.expected}; or market.repair (--repair), and a vendor may mend it"
            raise InputError(error.place, error.found, expected) from None

    async def look_at(self, file: FileRecord, max_length: int) -> bool:
        """Size a new upload, so that bids for it need not wait; what is wrong is noted with it.

        Return whether it is for this zone: images are not, and are left alone.
        """
        try:
            if await asyncio.to_thread(holds_arrays, self._library.path(file)):
                return False
            await self._size(file, max_length)
        except InputError as error:
            await self._library.note_error(file.id, str(error))
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

    async def _size(self, file: FileRecord, max_length: int) -> DataSize:
        size = file.size_for(self._base_digest, max_length)
        if size is None:
            size = await self._appraiser.size(file, max_length)
            await self._library.note_size(file.id, self._base_digest, max_length, size)
        return size
