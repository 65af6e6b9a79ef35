"""Data sets of edge jobs: ownership, existence and size of the rows of each site."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.domain.errors import RepairableError
from auctune.service.datasets.training_data import FileSizes
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.jobs.training import Submission, Training
from auctune.service.zones.core.events import Size


@dataclass(frozen=True, slots=True)
class SiteDatasets:
    """Data sets of one job.

    Attributes:
        samples: rows by site that can be trained on.
        size: of all sites together, with the validation data.
    """

    samples: Mapping[str, int]
    size: Size


def combine(
    sites: Mapping[str, DataSize], validation: DataSize | None, training: Training
) -> SiteDatasets:
    """Return the data sets of one job.

    Args:
        sites: size of the file at each site.
        validation: size of the validation file, or None.
        training: settings of the job.

    Raises:
        InputError: if rows do not suit the method, or too many of a file would be truncated.
    """
    given = {f"market.sites.{site}": size for site, size in sites.items()}
    if validation is not None:
        given["validation_file"] = validation
    for place, size in given.items():
        size.check_method(place, training.method)
        size.check_truncation(place, training.max_length, truncate=training.truncate)
    sizes = list(sites.values())
    rows = sum(size.rows for size in sizes)
    tokens = sum(size.rows * size.mean_tokens for size in sizes)
    causes = sorted({cause for size in sizes for cause in size.dropped})
    limits = [size.context_tokens for size in sizes if size.context_tokens is not None]
    whole = DataSize.of(
        rows,
        tokens / rows,
        sum(size.num_truncated for size in sizes),
        {cause: sum(size.dropped.get(cause, 0) for size in sizes) for cause in causes},
        max(size.longest for size in sizes),
        min(limits, default=None),
        has_pairs=sizes[0].has_pairs,
        square_tokens=sum(size.rows * size.mean_square for size in sizes) / rows,
    )
    samples = {site: size.rows for site, size in sites.items()}
    return SiteDatasets(samples, replace(whole, validation=validation))


class SiteDatasetResolver:
    """Data of a zone's jobs at its sites.

    Args:
        files: stored files.
        sizes: of files.
    """

    def __init__(self, files: FileRepository, sizes: FileSizes) -> None:
        self._files, self._sizes = files, sizes

    def ensure_not_deleted(self, submission: Submission) -> None:
        start = submission.training.start_from
        for file, place in (*_files(submission), *(() if start is None else [(start, "model")])):
            if not self._files.exists(file):
                raise InputError(place, f"{file!r} is being deleted", "a file that is not deleted")

    async def cached(self, submission: Submission) -> SiteDatasets | None:
        records = await self._records(submission)
        self.ensure_not_deleted(submission)
        sizes: dict[str, DataSize] = {}
        for place, record in records.items():
            size = self._sizes.cached(record, submission.training.max_length)
            if size is None:
                return None
            sizes[place] = size
        return _combined(submission, sizes)

    async def inspect(self, submission: Submission) -> SiteDatasets:
        records = await self._records(submission)
        sizes: dict[str, DataSize] = {}
        for place, record in records.items():
            try:
                length = submission.training.max_length
                sizes[place] = await self._sizes.size(record, length, place)
            except RepairableError as error:
                # No vendor repairs rows that stay at their sites.
                raise InputError(error.place, error.found, error.expected) from None
        return _combined(submission, sizes)

    async def preload(self, file: FileRecord) -> bool:
        return await self._sizes.preload(file)

    async def _records(self, submission: Submission) -> dict[str, FileRecord]:
        """Return a job's files, by their places in the request.

        Raises:
            InputError: if one does not exist, or belongs to another user.
        """
        return {
            place: await self._files.require(file, submission.owner, place)
            for file, place in _files(submission)
        }


def _combined(submission: Submission, sizes: Mapping[str, DataSize]) -> SiteDatasets:
    sites = {site: sizes[f"market.sites.{site}"] for site in submission.record["sites"]}
    return combine(sites, sizes.get("validation_file"), submission.training)


def _files(submission: Submission) -> Iterator[tuple[str, str]]:
    """Yield a job's files, each with its place in the request."""
    for site, file in submission.record["sites"].items():
        yield file, f"market.sites.{site}"
    if submission.training.validation is not None:
        yield submission.training.validation, "validation_file"
