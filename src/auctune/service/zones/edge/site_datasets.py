"""Data sets of edge jobs: ownership, inspection, number and shape of samples by site."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.run.data.client import DataClient
from auctune.run.data.image_rows import ImageFacts, holds_arrays
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.jobs.training import Submission


@dataclass(frozen=True, slots=True)
class SiteDatasets:
    """Data sets of one job.

    Attributes:
        samples: number of samples by site.
        image: channels, height and width of each image.
        classes: number of classes; labels are less.
    """

    samples: Mapping[str, int]
    image: tuple[int, int, int]
    classes: int

    @property
    def total(self) -> int:
        """Number of samples at all sites."""
        return sum(self.samples.values())

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample that is moved: one for each number of its image, 8 for its label."""
        channels, height, width = self.image
        return channels * height * width + 8


def combine(files: Mapping[str, ImageFacts], validation: ImageFacts | None) -> SiteDatasets:
    """Return the data sets of one job.

    Args:
        files: facts of the file at each site.
        validation: facts of the validation file, or None.

    Raises:
        InputError: if shapes of images differ, or a class is in the validation file only.
    """
    first = next(iter(files.values()))
    for site, one in files.items():
        if one.image != first.image:
            raise InputError(
                f"market.sites.{site}", _shape(one), f"{_shape(first)}, as at the other sites"
            )
    classes = max(one.classes for one in files.values())
    if validation is not None:
        if validation.image != first.image:
            raise InputError("validation_file", _shape(validation), _shape(first))
        if validation.classes > classes:
            found = f"has a label {validation.classes - 1}"
            raise InputError("validation_file", found, f"labels below {classes}")
    return SiteDatasets({site: one.samples for site, one in files.items()}, first.image, classes)


def _shape(one: ImageFacts) -> str:
    return f"images of {' x '.join(map(str, one.image))}"


_log = structlog.get_logger(__name__)

_MAX_CACHED = 10_000
# Key of an image file's size, where files of rows have a base and a length.
_SIZE_KEY, _LENGTH = "images", 0


class SiteDatasetResolver:
    """Data of a zone's jobs at its sites. A cache holds the facts of the files used last.

    Args:
        files: stored files.
        data: the data process.
        most: maximum number of files in the cache.
    """

    def __init__(self, files: FileRepository, data: DataClient, most: int = _MAX_CACHED) -> None:
        self._files, self._data, self._most = files, data, most
        self._known: OrderedDict[str, ImageFacts] = OrderedDict()

    def ensure_not_deleted(self, submission: Submission) -> None:
        """See `auctune.service.zones.core.gateway.JobData`."""
        for file, place in _files(submission):
            if not self._files.exists(file):
                raise InputError(place, f"{file!r} is being deleted", "a file that is not deleted")

    async def cached(self, submission: Submission) -> SiteDatasets | None:
        """Return the facts of a job's data if all are in the cache; see `JobData`."""
        await self._check_owner(submission)
        self.ensure_not_deleted(submission)
        found: dict[str, ImageFacts] = {}
        for file, _ in _files(submission):
            if file not in self._known:
                return None
            self._known.move_to_end(file)
            found[file] = self._known[file]
        return _combined(submission, found)

    async def inspect(self, submission: Submission) -> SiteDatasets:
        """Return the facts of a job's data; see `JobData`."""
        await self._check_owner(submission)
        # Kept here too: inspections for other jobs may evict them from the cache.
        found = {
            file: await self._inspect(file, place, submission.owner)
            for file, place in _files(submission)
        }
        return _combined(submission, found)

    async def preload(self, file: FileRecord) -> bool:
        """Inspect a new upload if it holds images; see `JobData`."""
        path = self._files.path(file)
        try:
            if not await asyncio.to_thread(holds_arrays, path):
                return False
            found = await self._inspect(file.id, "file", file.owner)
        except InputError as error:
            await self._files.set_error(file.id, str(error))
        except (AuctuneError, OSError) as error:
            _log.warning("an upload could not be inspected", file=file.id, reason=str(error))
        else:
            size = DataSize(found.samples, float(found.image[0] * found.image[1] * found.image[2]))
            await self._files.set_size(file.id, _SIZE_KEY, _LENGTH, size)
        return True

    async def _check_owner(self, submission: Submission) -> None:
        for file, place in _files(submission):
            await self._files.require(file, submission.owner, place)

    async def _inspect(self, file: str, place: str, owner: str) -> ImageFacts:
        found = self._known.get(file)
        if found is None:
            path = self._files.blobs.path(file)
            found = await asyncio.wrap_future(self._data.images(path, place, owner=owner))
            self._known[file] = found
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(file)
        return found


def _combined(submission: Submission, found: Mapping[str, ImageFacts]) -> SiteDatasets:
    validation, sites = submission.training.validation, submission.record["sites"]
    return combine(
        {site: found[file] for site, file in sites.items()},
        None if validation is None else found[validation],
    )


def _files(submission: Submission) -> Iterator[tuple[str, str]]:
    """Yield a job's files, each with its place in the request."""
    for site, file in submission.record["sites"].items():
        yield file, f"market.sites.{site}"
    if submission.training.validation is not None:
        yield submission.training.validation, "validation_file"
