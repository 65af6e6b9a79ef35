"""The list of a user's models: all whose adapters are stored, read a page a turn."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from auctune.service.config.models import LimitsConfig
from auctune.service.fair_queue import ReadThreads, RequestScope, request_scope
from auctune.service.files.repository import FileRepository
from auctune.service.inference.catalog import Model, ModelCatalog
from auctune.service.storage import Committer, Queries, Store, WriteBatch
from auctune.service.storage.tables import events, files, jobs
from support.store_rows import event_row, file_row, job_row, write

pytest_plugins = ["support.store_fixtures"]

T = TypeVar("T")
NUM_MODELS = 700


class Turns(ReadThreads):
    """Reads of a request, each with the number of items that it returned."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def run(self, user: str, work: Callable[[], T]) -> T:
        result: Any = await asyncio.to_thread(work)
        self.sizes.append(len(result or ()))
        return result  # type: ignore[no-any-return]


@pytest.fixture
def catalog(store: Store, committer: Committer, tmp_path: Path) -> ModelCatalog:
    """One in which Ada has many models, Eve one."""
    unit = WriteBatch()
    for number in range(NUM_MODELS):
        unit_of(unit, number, "ada")
    unit_of(unit, NUM_MODELS, "eve")
    assert write(committer, unit) == [None]
    queries = Queries(store.reader)
    repository = FileRepository(tmp_path / "files", queries, committer, LimitsConfig())
    return ModelCatalog({"tiny": 5.0, "large": 6.0}, {}, (), queries, repository)


def unit_of(unit: WriteBatch, number: int, owner: str, **changes: Any) -> None:
    """Add a job that has ended, with its results."""
    job, seq = f"ftjob-{number}", 10 * number + 1
    request = {"model": "tiny", "suffix": None}
    body = {"request": request, "finished_at": 7.0, "checkpoints": []}
    body |= {"files": [f"{job}-csv", f"{job}-zip"], **changes.pop("body", {})}
    row = {"status": "succeeded", **changes}
    unit.insert(events, event_row(seq)).upsert(
        jobs, {**job_row(job, seq, owner), **row, "body": orjson.dumps(body)}
    )
    for place, name in enumerate((".csv", ".zip", ".step-5.zip"), start=1):
        id_ = f"{job}-{name[1:].replace('.', '-')}"
        result = {"filename": f"{job}{name}", "purpose": "fine-tune-results"}
        unit.upsert(files, file_row(id_, seq + place, owner, **result))


def listed(catalog: ModelCatalog, turns: Turns | None = None) -> list[Model]:
    with request_scope(RequestScope(turns or Turns(), user="ada")):
        return asyncio.run(catalog.list("ada"))


def test_all_models_of_a_user_are_listed_newest_first_after_the_bases(
    catalog: ModelCatalog,
) -> None:
    expected = [f"ft:tiny::{number}" for number in reversed(range(NUM_MODELS))]
    for _ in range(2):
        names = [model.name for model in listed(catalog)]
        assert names == ["tiny", "large", *expected]


def test_no_turn_reads_more_than_a_page(catalog: ModelCatalog) -> None:
    for _ in range(2):
        turns = Turns()
        assert len(listed(catalog, turns)) == NUM_MODELS + 2
        assert max(turns.sizes) <= 200


def test_a_model_is_listed_as_long_as_its_job_has_ended_well_and_its_adapter_is_stored(
    catalog: ModelCatalog, committer: Committer
) -> None:
    before = [model.name for model in listed(catalog)]
    unit = WriteBatch()
    unit_of(unit, 800, "ada", status="running")
    unit_of(unit, 801, "ada", status="failed")
    unit_of(unit, 802, "ada", body={"request": {"model": "gone", "suffix": None}})
    unit_of(unit, 803, "ada", body={"files": ["ftjob-803-zip", "another"]})
    deleted = file_row("ftjob-7-zip", 73, purpose="fine-tune-results", deleted_at=9.0)
    unit.upsert(files, {**deleted, "filename": ""})
    assert write(committer, unit) == [None]
    before.remove("ft:tiny::7")
    assert [model.name for model in listed(catalog)] == before
    # It was not remembered as a job without a model.
    ended = WriteBatch()
    unit_of(ended, 800, "ada")
    ended.changes = {place: rows for place, rows in ended.changes.items() if place[0] is jobs}
    assert write(committer, ended) == [None]
    assert [model.name for model in listed(catalog)] == [*before[:2], "ft:tiny::800", *before[2:]]
