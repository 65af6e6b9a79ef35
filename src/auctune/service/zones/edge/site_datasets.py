"""Data sets at sites: samples and shapes, ownership, inspection."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.domain.data_size import DataSize
from auctune.run.data.client import DataClient
from auctune.run.data.image_rows import ImageFacts, holds_arrays
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.jobs.training import Training


@dataclass(frozen=True, slots=True)
class SiteDatasets:
    """Of one job.

    Attributes:
        samples: by site.
        image: channels, height, width of each.
        classes: labels are below it.
    """

    samples: Mapping[str, int]
    image: tuple[int, int, int]
    classes: int

    @property
    def total(self) -> int:
        """Samples at all sites."""
        return sum(self.samples.values())

    @property
    def sample_bytes(self) -> int:
        """Of a sample as it crosses sites: a byte a number of its image, and its label's eight."""
        channels, height, width = self.image
        return channels * height * width + 8

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "SiteDatasets":
        """What `to_record` gave, also by way of JSON."""
        channels, height, width = record["image"]
        return cls(record["samples"], (channels, height, width), record["classes"])


def combine(files: Mapping[str, ImageFacts], validation: ImageFacts | None) -> SiteDatasets:
    """What several files are together.

    Args:
        files: what lies at each site.
        validation: what is measured by; none: nothing is.

    Raises:
        InputError: if their images differ in shape, or there is a class to be measured by only.
    """
    first = next(iter(files.values()))
    for site, one in files.items():
        if one.image != first.image:
            raise InputError(f"market.sites.{site}", _shape(one), f"as at others: {_shape(first)}")
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


# Files of edge jobs: ownership, existence, content.

_log = structlog.get_logger(__name__)

_KEPT = 10_000
# What a file of images is noted under, where files of rows have a base and a length.
_NOTED, _LENGTH = "images", 0

Sites = Mapping[str, str]
"""Ids of files by site."""


class SiteDatasetResolver:
    """Looks at files for a zone's jobs, once each: what is uploaded does not change.

    What was found is kept of the files that were asked for last; others are looked at again.

    Args:
        library: of files.
        data: the data process.
        most: files of which it is kept.
    """

    def __init__(self, library: FileRepository, data: DataClient, most: int = _KEPT) -> None:
        self._library, self._data, self._most = library, data, most
        self._known: OrderedDict[str, ImageFacts] = OrderedDict()

    async def check_owned(self, training: Training, sites: Sites, owner: str) -> None:
        """That all files of a job are its owner's.

        Raises:
            InputError: if one is not, or is not there.
        """
        for file, place in _named(training, sites):
            await self._library.require(file, owner, place)

    def check_there(self, training: Training, sites: Sites) -> None:
        """That no file has begun to leave meanwhile; what comes next on the actor will keep it.

        For any thread.

        Raises:
            InputError: if one has.
        """
        for file, place in _named(training, sites):
            if not self._library.exists(file):
                raise InputError(place, f"{file!r} is being deleted", "a file that stays")

    def cached(self, training: Training, sites: Sites) -> SiteDatasets | None:
        """What a job's data are, if all of them were looked at.

        Raises:
            InputError: if they do not go together.
        """
        found: dict[str, ImageFacts] = {}
        for file, _ in _named(training, sites):
            if file not in self._known:
                return None
            self._known.move_to_end(file)
            found[file] = self._known[file]
        return _facts(training, sites, found)

    async def inspect(self, training: Training, sites: Sites, owner: str) -> SiteDatasets:
        """Look at a job's data.

        Raises:
            InputError: if they are none that can be trained on, or do not go together.
        """
        await self.check_owned(training, sites, owner)
        # Kept here too: others may look at so many files meanwhile that these are forgotten.
        found = {
            file: await self._look(file, place, owner) for file, place in _named(training, sites)
        }
        return _facts(training, sites, found)

    async def preload(self, file: FileRecord) -> bool:
        """Look at a new upload; return whether it holds images: rows of text are left alone."""
        path = self._library.path(file)
        try:
            if not await asyncio.to_thread(holds_arrays, path):
                return False
            found = await self._look(file.id, "file", file.owner)
        except InputError as error:
            await self._library.set_error(file.id, str(error))
        except (AuctuneError, OSError) as error:
            _log.warning("an upload could not be looked at", file=file.id, reason=str(error))
        else:
            size = DataSize(found.samples, float(found.image[0] * found.image[1] * found.image[2]))
            await self._library.set_size(file.id, _NOTED, _LENGTH, size)
        return True

    async def _look(self, file: str, place: str, owner: str) -> ImageFacts:
        found = self._known.get(file)
        if found is None:
            path = self._library.blobs.path(file)
            found = await asyncio.wrap_future(self._data.images(path, place, owner=owner))
            self._known[file] = found
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(file)
        return found


def _facts(training: Training, sites: Sites, found: Mapping[str, ImageFacts]) -> SiteDatasets:
    validation = None if training.validation is None else found[training.validation]
    return combine({site: found[file] for site, file in sites.items()}, validation)


def _named(training: Training, sites: Sites) -> Iterator[tuple[str, str]]:
    """A job's files, and where its request names them."""
    for site, file in sites.items():
        yield file, f"market.sites.{site}"
    if training.validation is not None:
        yield training.validation, "validation_file"
