"""Sizes of the files of edge jobs: at all sites, with the places that a request has for them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.engine.data.client import DataClient
from auctune.service.config.models import LimitsConfig
from auctune.service.datasets.training_data import DatasetInspector, FileSizes
from auctune.service.files.repository import FileRepository, Purpose
from auctune.service.jobs.training import Submission, Training
from auctune.service.storage import Committer, Queries, open_store
from auctune.service.zones.edge.state import SiteDatasetResolver, combine
from support.edge_zones import rows_file


@dataclass
class Form:
    filename: str = "rows.jsonl"
    purpose: Purpose = Purpose.TRAINING
    expires_seconds: int | None = None


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    yield content


def test_files_of_sites_are_sized_once_and_named_as_in_the_request(tmp_path: Path) -> None:
    async def check(files: FileRepository, data: DataClient) -> None:
        inspector = DatasetInspector("tiny", data, files)
        resolver = SiteDatasetResolver(files, FileSizes(files, "digest", inspector, 512))
        contents = [rows_file(1, 8), rows_file(2, 10), b"no rows\n"]
        a, b, wrong = [(await files.add("ada", Form(), _chunks(one))).id for one in contents]

        def submission(sites: dict[str, str], validation: str | None = None) -> Submission:
            return Submission("ftjob-a", "ada", Training(a, validation), {"sites": sites})

        both = submission({"x": a, "y": b})
        assert await resolver.cached(both) is None
        found = await resolver.inspect(both)
        assert found == await resolver.cached(both)
        assert found.samples == {"x": 8, "y": 10}
        assert found.size.rows == 18
        for sites, validation, place in (
            ({"x": a, "y": wrong}, None, r"market\.sites\.y: line 1"),
            ({"x": a}, wrong, "validation_file: line 1"),
            ({"x": a, "y": "file-none"}, None, r"market\.sites\.y"),
        ):
            with pytest.raises(InputError, match=f"^{place}"):
                await resolver.inspect(submission(sites, validation))

    data = DataClient(tmp_path / "cache", module="support.word_data")
    with open_store(tmp_path) as store:
        committer = Committer(store)
        limits = LimitsConfig()
        library = FileRepository(tmp_path / "files", Queries(store.reader), committer, limits)
        try:
            asyncio.run(check(library, data))
        finally:
            data.close()
            committer.close()


def test_data_of_several_sites_count_together_and_truncation_is_of_each() -> None:
    long = DataSize.of(10, 20.0, 1, {"no_target": 2}, 40, None)
    short = DataSize(30, 10.0)
    found = combine({"a": long, "b": short}, None, Training("file-a", max_length=32))
    assert found.samples == {"a": 10, "b": 30}
    assert found.size == DataSize.of(40, 12.5, 1, {"no_target": 2}, 40, None, square_tokens=175.0)
    cut = DataSize.of(10, 20.0, 4, {}, 40, None)
    with pytest.raises(InputError, match=r"market\.sites\.a: rows longer than"):
        combine({"b": short, "a": cut}, None, Training("file-a", max_length=32))
    with pytest.raises(InputError, match="validation_file: rows longer than"):
        combine({"b": short}, cut, Training("file-a", max_length=32))
    allowed = Training("file-a", max_length=32, truncate=True)
    assert combine({"b": short}, cut, allowed).size.validation == cut


def test_pairs_are_for_the_method_that_learns_from_them_at_all_sites() -> None:
    pairs, rows = DataSize(10, 20.0, method="dpo"), DataSize(30, 10.0)
    training = Training("file-a", max_length=32, method="dpo")
    found = combine({"a": pairs, "b": pairs}, pairs, training)
    assert found.size.method == "dpo"
    assert found.size.validation == pairs
    with pytest.raises(InputError, match=r"market\.sites\.b: has chats, completions or texts"):
        combine({"a": pairs, "b": rows}, None, training)
    with pytest.raises(InputError, match="validation_file: has chats, completions or texts"):
        combine({"a": pairs}, rows, training)
    with pytest.raises(InputError, match=r"market\.sites\.a: has preferences"):
        combine({"a": pairs}, None, Training("file-a", max_length=32))


def test_a_file_is_examined_anew_by_another_tokenizer_or_template(tmp_path: Path) -> None:
    async def check(files: FileRepository, data: DataClient) -> None:
        file = await files.add("ada", Form(), _chunks(rows_file(1, 8)))
        first, same, other = (
            FileSizes(files, "equal weights", DatasetInspector(base, data, files), 512)
            for base in ("one template", "one template", "another template")
        )
        size = await first.size(file, 512, "training_file")
        known = await files.require(file.id, "ada", "training_file")
        assert first.cached(known, 512) == size
        assert same.cached(known, 512) == size
        assert other.cached(known, 512) is None
        assert len((await files.require(file.id, "ada", "training_file")).sizes) == 1
        await other.size(known, 512, "training_file")
        assert len((await files.require(file.id, "ada", "training_file")).sizes) == 2

    data = DataClient(tmp_path / "cache", module="support.word_data")
    with open_store(tmp_path) as store:
        committer = Committer(store)
        files = FileRepository(tmp_path / "files", Queries(store.reader), committer, LimitsConfig())
        try:
            asyncio.run(check(files, data))
        finally:
            data.close()
            committer.close()
