"""Snapshots: three are kept, and one that cannot be read is passed over."""

import pytest
from sqlalchemy import update

from auctune.service.storage import Committer, Snapshot, Snapshots, Store
from auctune.service.storage.tables import snapshots
from support.store_rows import rows_of, write

pytest_plugins = ["support.store_fixtures"]

TAKEN = (("north", 10), ("south", 12), ("north", 20), ("north", 30), ("north", 40), ("north", 50))


@pytest.fixture
def stored(store: Store, committer: Committer) -> Snapshots:
    found = Snapshots(store.reader)
    for zone, seq in TAKEN:
        body = b"state %d" % seq * 1000
        assert write(committer, found.write_batch(zone, seq, seq / 4, body)) == [None]
    return found


def read(body: bytes) -> int:
    assert len(body) % 1000 == 0
    return int(body[: len(body) // 1000].removeprefix(b"state "))


def damage(store: Store, seq: int, body: bytes) -> None:
    with store.writer.begin():
        store.writer.execute(update(snapshots).where(snapshots.c.seq == seq).values(body=body))


def test_the_newest_three_of_a_zone_are_kept(store: Store, stored: Snapshots) -> None:
    kept = [(row["zone"], row["seq"]) for row in rows_of(store, snapshots)]
    assert kept == [("north", 30), ("north", 40), ("north", 50), ("south", 12)]


def test_the_newest_of_a_zone_is_read_as_it_was_written(stored: Snapshots) -> None:
    assert stored.load_latest("north", read) == Snapshot("north", 50, 12.5, 50)
    assert stored.load_latest("south", read) == Snapshot("south", 12, 3.0, 12)
    assert stored.load_latest("east", read) is None


def test_a_snapshot_taken_again_takes_the_place_of_the_first(
    store: Store, stored: Snapshots, committer: Committer
) -> None:
    write(committer, stored.write_batch("north", 50, 13.0, b"state 51" * 1000))
    assert stored.load_latest("north", read) == Snapshot("north", 50, 13.0, 51)
    assert len(rows_of(store, snapshots)) == 4


def test_a_damaged_snapshot_is_passed_over(store: Store, stored: Snapshots) -> None:
    whole = {row["seq"]: row["body"] for row in rows_of(store, snapshots)}
    damage(store, 50, whole[50][:-5])
    assert stored.load_latest("north", read) == Snapshot("north", 40, 10.0, 40)
    # The checksum of one with the content of another.
    damage(store, 40, whole[40][:4] + whole[30][4:])
    assert stored.load_latest("north", read) == Snapshot("north", 30, 7.5, 30)
    damage(store, 30, b"")
    assert stored.load_latest("north", read) is None


def test_a_snapshot_of_a_form_that_is_no_longer_read_is_passed_over(stored: Snapshots) -> None:
    def read_old(body: bytes) -> int:
        if read(body) > 40:
            raise ValueError("a later form")
        return read(body)

    assert stored.load_latest("north", read_old) == Snapshot("north", 40, 10.0, 40)
