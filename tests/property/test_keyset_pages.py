"""Paging through a list: whatever the pages, it is the list."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auctune.service.storage import Committer, Queries, Store, WriteBatch
from auctune.service.storage.tables import files
from support.store_rows import file_row, write

pytest_plugins = ["support.store_fixtures"]

EXAMPLES = count()
# Of each file: whose, for which purpose, whether it is deleted.
FILES = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["batch", "tune"]), st.booleans()), max_size=12
)
CHANGES = st.sampled_from(["nothing", "added", "deleted"])


@pytest.fixture
def pages(store: Store) -> Queries:
    return Queries(store.reader)


@settings(max_examples=50)
@given(
    made=FILES,
    limit=st.integers(1, 5),
    purpose=st.none() | st.sampled_from(["batch", "tune"]),
    oldest_first=st.booleans(),
    change=CHANGES,
)
def test_pages_put_together_are_the_list_also_when_it_changes_meanwhile(
    pages: Queries,
    committer: Committer,
    made: list[tuple[str, str, bool]],
    limit: int,
    purpose: str | None,
    oldest_first: bool,
    change: str,
) -> None:
    example = next(EXAMPLES)
    seqs = [committer.next_seq() for _ in made]
    rows = [
        file_row(
            f"{example}-{number}",
            seq,
            owner=f"{example}{owner}",
            purpose=use,
            deleted_at=1.0 if deleted else None,
        )
        for number, (seq, (owner, use, deleted)) in enumerate(zip(seqs, made, strict=True))
    ]
    assert write(committer, WriteBatch().upsert(files, *rows)) == [None]
    owner = f"{example}a"
    expected = [
        row["id"]
        for row in (rows if oldest_first else reversed(rows))
        if row["owner"] == owner
        and row["deleted_at"] is None
        and (purpose is None or row["purpose"] == purpose)
    ]

    found: list[str] = []
    after = None
    while True:
        page = pages.files(owner, limit, after, purpose, oldest_first)
        found += [file.id for file in page.items]
        assert page.has_more == (len(found) < len(expected))
        if not page.has_more:
            break
        assert len(page.items) == limit
        after = found[-1]
        if change == "deleted":
            # The last one of a page: the next page must not lose its place.
            (row,) = [row for row in rows if row["id"] == after]
            write(committer, WriteBatch().upsert(files, {**row, "deleted_at": 2.0}))
        if change == "added" and not oldest_first:
            new = file_row(f"{example}+{after}", committer.next_seq(), owner=owner)
            write(committer, WriteBatch().upsert(files, new))
    assert found == expected
