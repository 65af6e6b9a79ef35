"""Lists by page: whose, from where, and what is refused. Order and completeness: tests/property."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from auctune.domain import InputError
from auctune.service.storage import Committer, Queries, Store, WriteBatch
from auctune.service.storage.job_metadata import metadata_conditions, metadata_rows
from auctune.service.storage.queries import MAX_PAGE_BYTES, Page
from auctune.service.storage.tables import entries, events, files, job_metadata, jobs
from support.store_rows import entry_rows, event_row, file_row, job_row, write

pytest_plugins = ["support.store_fixtures"]


@pytest.fixture
def pages(store: Store, committer: Committer) -> Queries:
    """Jobs a1 b2 a3 a4 and files a5 b6 a7 a8; a, b own what begins so; a8 is for another use."""
    unit = WriteBatch()
    for seq, owner in enumerate("abaa", start=1):
        unit.insert(events, event_row(seq)).upsert(jobs, job_row(f"{owner}{seq}", seq, owner))
        unit.insert(entries, *entry_rows(10 * seq, seq, amount=seq * 100, at=float(seq)))
    for seq, owner in enumerate("abaa", start=5):
        purpose = "batch" if seq == 8 else "fine-tune"
        unit.upsert(files, file_row(f"{owner}{seq}", seq, owner, purpose=purpose))
    assert write(committer, unit) == [None]
    return Queries(store.reader)


def ids(page: object) -> list[str]:
    return [item.id for item in page.items]  # type: ignore[attr-defined]


def test_jobs_of_an_owner_come_newest_first_and_say_if_there_are_more(pages: Queries) -> None:
    first = pages.jobs("a", limit=2)
    assert (ids(first), first.has_more) == (["a4", "a3"], True)
    second = pages.jobs("a", limit=2, after="a3")
    assert (ids(second), second.has_more) == (["a1"], False)
    assert ids(pages.jobs("a", limit=2, after="a1")) == []
    assert second.items[0]._asdict() == job_row("a1", 1, "a")


def test_all_owners_are_listed_together_where_none_is_given(pages: Queries) -> None:
    assert ids(pages.jobs(None, limit=9)) == ["a4", "a3", "b2", "a1"]
    assert ids(pages.files(None, limit=2, after="a7")) == ["b6", "a5"]


@pytest.mark.parametrize("after", ["b2", "nothing", "a5"])
def test_a_place_that_is_not_in_the_list_is_refused_alike_whatever_it_is(
    pages: Queries, after: str
) -> None:
    with pytest.raises(InputError, match=f"^after: there is no '{after}' in this list; "):
        pages.jobs("a", limit=2, after=after)


def test_a_page_of_nothing_is_refused(pages: Queries) -> None:
    with pytest.raises(InputError, match=r"^limit: 0; expected at least 1$"):
        pages.jobs("a", limit=0)


def test_files_are_chosen_by_purpose_and_may_come_oldest_first(pages: Queries) -> None:
    assert ids(pages.files("a", limit=9)) == ["a8", "a7", "a5"]
    assert ids(pages.files("a", limit=9, purpose="fine-tune")) == ["a7", "a5"]
    assert ids(pages.files("a", limit=1, after="a5", oldest_first=True)) == ["a7"]


def test_a_deleted_file_is_not_listed_but_is_still_a_place(
    pages: Queries, committer: Committer
) -> None:
    deleted = file_row("a7", 7, "a", deleted_at=5.0)
    write(committer, WriteBatch().upsert(files, deleted))
    assert ids(pages.files("a", limit=9)) == ["a8", "a5"]
    assert ids(pages.files("a", limit=9, after="a7")) == ["a5"]
    stored = pages.file("a7")
    assert stored is not None
    assert stored._asdict() == {"detail": None, **deleted}
    assert "a7" not in pages.file_ids()
    assert {"a5", "a8"} <= pages.file_ids()


def test_one_job_or_file_is_found_by_its_id(pages: Queries) -> None:
    job = pages.job("b2")
    assert job is not None
    assert job._asdict() == job_row("b2", 2, "b")
    assert pages.job("b6") is None
    assert pages.file("b2") is None


def test_entries_of_an_account_come_newest_first(pages: Queries) -> None:
    first = pages.entries("market", limit=3)
    assert ([entry.amount for entry in first.items], first.has_more) == ([400, 300, 200], True)
    rest = pages.entries("market", limit=3, after=first.items[-1].id)
    assert ([entry.amount for entry in rest.items], rest.has_more) == ([100], False)


def test_balances_are_sums_by_account(pages: Queries) -> None:
    assert pages.balances() == {"market": 1000, "user:ada": -1000}
    assert pages.balances(["market", "user:eve"]) == {"market": 1000}
    assert pages.balances(since=3.0) == {"market": 700, "user:ada": -700}
    assert pages.balances([]) == {}


def test_a_page_ends_early_where_its_rows_are_large(pages: Queries, committer: Committer) -> None:
    half, seqs = b"x" * (MAX_PAGE_BYTES // 2), range(11, 16)
    unit = WriteBatch()
    for seq in seqs:
        unit.insert(events, event_row(seq, job=f"c{seq}", body=half, at=1e9))
        unit.insert(entries, *entry_rows(10 * seq, seq, amount=1))
        unit.upsert(jobs, {**job_row(f"c{seq}", seq, "c"), "body": half})
    unit.insert(events, event_row(16, job="c11", body=3 * half), event_row(17, job="c11"))
    assert write(committer, unit) == [None]

    def sizes(read: Callable[[Any], Page[Any]], place: Callable[[Any], Any]) -> list[int]:
        found, after, has_more = [], None, True
        while has_more:
            page = read(after)
            found.append(len(page.items))
            after, has_more = place(page.items[-1]), page.has_more
        return found

    assert sizes(lambda after: pages.jobs("c", 100, after), lambda row: row.id) == [2, 2, 1]
    names = [f"c{seq}" for seq in seqs]
    by_id = sizes(lambda after: pages.jobs_by_id(names, after), lambda row: row.id)
    assert by_id == [2, 2, 1]
    charged = sizes(
        lambda after: pages.charges("user:ada", 1e9, 2e9, 100, after), lambda charge: charge.id
    )
    assert charged == [2, 2, 1]
    # Not less than one row, however large.
    of_job = sizes(lambda after: pages.events(100, after, job="c11"), lambda event: event.seq)
    assert of_job == [2, 1]
    of_zone = sizes(
        lambda after: pages.events(100, after or 10, zone="north", oldest_first=True),
        lambda event: event.seq,
    )
    assert of_zone == [2, 2, 2, 1]


def test_jobs_are_found_by_their_metadata_through_an_index(
    pages: Queries, committer: Committer, store: Store
) -> None:
    both = {"team": "a", "run": "1"}
    unit = WriteBatch()
    for seq, owner, of_job in ((1, "a", both), (2, "b", both), (3, "a", {"team": "a"})):
        unit.insert(job_metadata, *metadata_rows(seq, owner, of_job))
    assert write(committer, unit) == [None]
    assert ids(pages.jobs("a", limit=9, metadata={"team": "a"})) == ["a3", "a1"]
    assert ids(pages.jobs("a", limit=9, after="a3", metadata={"team": "a"})) == ["a1"]
    assert ids(pages.jobs("a", limit=9, metadata=both)) == ["a1"]
    assert ids(pages.jobs("a", limit=9, metadata={})) == ["a4"]
    assert ids(pages.jobs("a", limit=9, metadata={"team": "b"})) == []
    # A key of one pair and the value of another are no pair.
    assert ids(pages.jobs("a", limit=9, metadata={"team": "1"})) == []
    if store.reader.dialect.name == "sqlite":
        query = select(jobs.c.seq).where(*metadata_conditions("a", {"team": "a"}))
        text = query.compile(store.reader, compile_kwargs={"literal_binds": True})
        with store.reader.connect() as connection:
            plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all())
        assert "SCAN" not in plan
        assert "ix_job_metadata_pair_seq" in plan
