"""Lists by page: whose, from where, and what is refused. Order and completeness: tests/property."""

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, func, select

from auctune.domain import InputError
from auctune.service.storage import Committer, Queries, Store, WriteBatch
from auctune.service.storage.queries import MAX_PAGE_BYTES, Page, iter_pages, metadata_rows
from auctune.service.storage.tables import entries, events, files, job_metadata, jobs, metadata
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


def test_pages_of_a_list_follow_each_other_until_its_end(pages: Queries) -> None:
    every = iter_pages(lambda after: pages.jobs("a", 2, after))
    assert [ids(page) for page in every] == [["a4", "a3"], ["a1"]]
    assert [ids(page) for page in iter_pages(lambda after: pages.jobs("none", 2, after))] == [[]]


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
    assert stored._asdict() == {"detail": None, "expires_at": None, **deleted}
    assert "a7" not in pages.file_ids()
    assert {"a5", "a8"} <= pages.file_ids()


def test_files_that_have_expired_are_left_out_by_a_time_and_found_to_be_deleted(
    pages: Queries, committer: Committer
) -> None:
    expiring = [file_row(f"a{seq}", seq, "a", expires_at=float(seq)) for seq in (5, 7)]
    gone = file_row("a8", 8, "a", deleted_at=4.0, expires_at=5.0)
    write(committer, WriteBatch().upsert(files, *expiring, gone))
    assert ids(pages.files("a", limit=9)) == ["a7", "a5"]
    assert ids(pages.files("a", limit=9, now=6.9)) == ["a7"]
    assert ids(pages.files("a", limit=9, now=7.0)) == []
    assert ids(pages.files(None, limit=9, now=7.0)) == ["b6"]
    assert ids(pages.expired_files(4.9, limit=9)) == []
    first = pages.expired_files(7.0, limit=1)
    assert (ids(first), first.has_more) == (["a5"], True)
    last = first.items[-1].expires_at, first.items[-1].seq
    assert ids(pages.expired_files(7.0, 1, last)) == ["a7"]


def test_storage_is_the_sum_of_bytes_and_seconds_of_each_file(
    pages: Queries, committer: Committer
) -> None:
    rng = random.Random(7)
    size = 10**15
    rows: list[dict[str, Any]] = []
    for seq in range(100, 160):
        created = rng.uniform(0.0, 90.0)
        # The clock was set back for some, which were then deleted before they were stored.
        deleted, expires = (rng.choice([None, rng.uniform(created - 9, 99.0)]) for _ in "ab")
        row = file_row(f"c{seq}", seq, rng.choice("cd"), created_at=created)
        rows.append({**row, "bytes": size + seq, "deleted_at": deleted, "expires_at": expires})
    write(committer, WriteBatch().upsert(files, *rows))
    for since, until in ((0, 100), (20, 21), (30, 70), (95, 1000)):
        expected: Counter[str] = Counter()
        for row in rows:
            ends = [until, row["deleted_at"], row["expires_at"]]
            end = min(int(one) for one in ends if one is not None)
            seconds = max(0, end - max(since, int(row["created_at"])))
            expected[row["owner"]] += seconds * row["bytes"]
        found = pages.storage(since, until)
        assert {owner: found.get(owner, 0) for owner in "cd"} == dict(expected)


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
        lambda after: pages.charges("user:ada", 1e9, 2e9, 100, after), lambda charge: charge
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
    pages: Queries, committer: Committer
) -> None:
    both = {"team": "a", "run": "1"}
    unit = WriteBatch()
    of_jobs = ((1, "a", both), (2, "b", both), (3, "a", {"team": "a"}), (4, "a", None))
    for seq, owner, of_job in of_jobs:
        unit.insert(job_metadata, *metadata_rows(seq, owner, of_job))
    assert write(committer, unit) == [None]
    assert ids(pages.jobs("a", limit=9, metadata={"team": "a"})) == ["a3", "a1"]
    assert ids(pages.jobs("a", limit=9, after="a3", metadata={"team": "a"})) == ["a1"]
    assert ids(pages.jobs("a", limit=9, metadata=both)) == ["a1"]
    assert ids(pages.jobs("a", limit=9, metadata={})) == ["a4"]
    assert ids(pages.jobs("a", limit=9, metadata={"team": "b"})) == []
    # A key of one pair and the value of another are no pair.
    assert ids(pages.jobs("a", limit=9, metadata={"team": "1"})) == []


BY_OWNER = "ix_files_owner"
PLANS: dict[str, tuple[Callable[[Queries], object], str]] = {
    "files": (lambda queries: queries.files("a", 9), f"{BY_OWNER}_seq_bytes (owner=?)"),
    "files after one": (
        lambda queries: queries.files("a", 9, "a7", oldest_first=True),
        f"{BY_OWNER}_seq_bytes (owner=? AND seq>?)",
    ),
    "purpose": (
        lambda queries: queries.files("a", 9, purpose="fine-tune"),
        f"{BY_OWNER}_purpose_seq (owner=? AND purpose=?)",
    ),
    "sha256": (
        lambda queries: queries.files("a", 9, sha256="00"),
        f"{BY_OWNER}_sha256_seq (owner=? AND sha256=?)",
    ),
    "filename": (
        lambda queries: queries.files("a", 9, filename="a7.jsonl"),
        f"{BY_OWNER}_filename_seq (owner=? AND filename=?)",
    ),
    "an earlier upload": (
        lambda queries: queries.files("a", 1, None, "fine-tune", False, "00", "a7.jsonl"),
        f"{BY_OWNER}_sha256_seq (owner=? AND sha256=?)",
    ),
    "totals": (lambda queries: queries.file_totals("a"), f"{BY_OWNER}_seq_bytes (owner=?)"),
    "uploads": (
        lambda queries: queries.uploads_since("a", "fine-tune", 1e9),
        f"COVERING INDEX {BY_OWNER}_purpose_created_at_bytes "
        "(owner=? AND purpose=? AND created_at>?)",
    ),
    "balance": (
        lambda queries: queries.balances(["user:ada"]),
        "sqlite_autoindex_balances_1 (account=?)",
    ),
    "charges": (
        lambda queries: queries.charges("user:ada", 1.0, 5.0, 9),
        "ix_entries_account_at_id (account=? AND at>? AND at<?)",
    ),
    "jobs": (lambda queries: queries.jobs("a", 9), "ix_jobs_owner_seq (owner=?)"),
    "metadata": (
        lambda queries: queries.jobs("a", 9, "a4", metadata={"team": "a"}),
        "ix_job_metadata_pair_seq (pair=? AND seq<?)",
    ),
    "metadata of few": (
        lambda queries: queries.jobs("a", 9, "a4", metadata={"no": "such"}),
        "ix_jobs_owner_seq (owner=? AND seq=?)",
    ),
    "no metadata": (
        lambda queries: queries.jobs("a", 9, metadata={}),
        "ix_job_metadata_pair_seq (pair=?)",
    ),
    "two pairs": (
        lambda queries: queries.jobs("a", 9, metadata={"team": "a", "run": "1"}),
        "ix_job_metadata_pair_seq (pair=?)",
    ),
    "zone": (lambda queries: queries.jobs_of_zone("north", 9), "ix_jobs_zone_seq (zone=?)"),
    "open jobs of a zone": (
        lambda queries: queries.jobs_of_zone("north", 9, statuses=("queued", "running")),
        "COVERING INDEX ix_jobs_zone_status_seq (zone=? AND status=?)",
    ),
    "jobs by id": (
        lambda queries: queries.jobs_by_id(["a1", "a3"], "a1"),
        "sqlite_autoindex_jobs_1 (id=?)",
    ),
}
TABLES = re.compile(rf"SCAN ({'|'.join(metadata.tables)})\b")


@pytest.mark.parametrize("name", PLANS)
def test_what_requests_read_is_found_through_an_index(
    pages: Queries, store: Store, name: str
) -> None:
    if store.reader.dialect.name != "sqlite":
        pytest.skip("PostgreSQL reads small tables whole")
    read, index = PLANS[name]
    statements: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        statements.append((statement, parameters))

    event.listen(store.reader, "before_cursor_execute", note)
    read(pages)
    event.remove(store.reader, "before_cursor_execute", note)
    with store.reader.connect() as connection:
        plan = [
            row.detail
            for statement, parameters in statements
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    assert any(detail.endswith(index) for detail in plan), plan
    assert not any("B-TREE" in detail for detail in plan), plan
    assert not any(TABLES.match(detail) for detail in plan), plan


def test_balances_are_kept_as_entries_are_written(
    pages: Queries, committer: Committer, store: Store
) -> None:
    unit = WriteBatch().insert(events, event_row(21, at=1e9), event_row(22, at=1e9))
    for number in range(100):
        unit.insert(entries, *entry_rows(300 + 2 * number, 21 + number % 2, amount=7))
    failing = WriteBatch().insert(entries, *entry_rows(300, 21, amount=1000))
    found = write(committer, unit, failing)
    assert [error is None for error in found] == [True, False]
    summed = select(entries.c.account, func.sum(entries.c.amount)).group_by(entries.c.account)
    with store.reader.connect() as connection:
        sums = {account: int(amount) for account, amount in connection.execute(summed)}
    assert pages.balances() == sums == {"market": 1700, "user:ada": -1700}
    assert pages.accounts("user:") == ["user:ada"]
