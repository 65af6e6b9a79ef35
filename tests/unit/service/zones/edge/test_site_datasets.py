"""Looking at the files of edge jobs: what was found is kept of so many, and no job fails by it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from auctune.run.data.client import DataClient
from auctune.service.config.models import LimitsConfig
from auctune.service.files.repository import FileRepository, Purpose
from auctune.service.jobs.training import Submission, Training
from auctune.service.storage import Committer, Queries, open_store
from auctune.service.zones.edge.site_datasets import SiteDatasetResolver
from support.edge_zones import images_file


@dataclass
class Form:
    filename: str = "images.npz"
    purpose: Purpose = Purpose.TRAINING


def submission(sites: dict[str, str]) -> Submission:
    first = next(iter(sites.values()))
    return Submission("ftjob-a", "ada", Training(first), {"sites": sites})


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    yield content


def test_jobs_of_more_files_than_are_kept_are_looked_at_side_by_side(tmp_path: Path) -> None:
    async def look(library: FileRepository, data: DataClient) -> None:
        files = SiteDatasetResolver(library, data, most=2)
        names = [
            (await library.add("ada", Form(), _chunks(images_file(seed, 8 + seed)))).id
            for seed in range(4)
        ]
        jobs = [dict(zip("abc", names[:3], strict=True)), dict(zip("abc", names[1:], strict=True))]
        found = await asyncio.gather(*(files.inspect(submission(sites)) for sites in jobs))
        assert [facts.samples for facts in found] == [
            {"a": 8, "b": 9, "c": 10},
            {"a": 9, "b": 10, "c": 11},
        ]
        # Those asked for last are known without a look; a job with others is decided on later.
        await files.inspect(submission({"a": names[0], "b": names[1]}))
        assert await files.cached(submission({"b": names[1]})) is not None
        await files.inspect(submission({"c": names[2]}))
        assert await files.cached(submission({"b": names[1]})) is not None
        assert await files.cached(submission({"a": names[0]})) is None

    data = DataClient(tmp_path / "cache", module="support.word_data")
    with open_store(tmp_path) as store:
        committer = Committer(store)
        limits = LimitsConfig()
        library = FileRepository(tmp_path / "files", Queries(store.reader), committer, limits)
        try:
            asyncio.run(look(library, data))
        finally:
            data.close()
            committer.close()
