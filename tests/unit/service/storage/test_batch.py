"""Units: rows that are whole, and many units written as if one by one."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auctune.service.storage import Committer, Store, WriteBatch
from auctune.service.storage.tables import files, idempotency_keys, jobs, meta
from support.store_rows import file_row, job_row, rows_of, write, write_together

pytest_plugins = ["support.store_fixtures"]

# (what to do, to which name); a unit does one to three of them.
ACTS = st.tuples(st.sampled_from(["insert", "upsert", "remove"]), st.sampled_from("abc"))
UNITS = st.lists(st.lists(ACTS, min_size=1, max_size=3), min_size=1, max_size=8)
EXAMPLES = count()


def test_a_row_with_an_unknown_a_missing_or_a_wrong_column_is_refused_at_once() -> None:
    row = job_row("a", 1)
    with pytest.raises(ValueError, match="jobs: unknown columns \\['colour'\\]"):
        WriteBatch().insert(jobs, {**row, "colour": "red"})
    for column, value in (("seq", "1"), ("seq", 1.5), ("body", "text"), ("owner", b"ada")):
        with pytest.raises(ValueError, match=f"jobs: {column} is a {type(value).__name__}; exp"):
            WriteBatch().insert(jobs, {**row, column: value})
    del row["owner"]
    with pytest.raises(ValueError, match="jobs: owner is missing"):
        WriteBatch().upsert(jobs, row)
    with pytest.raises(ValueError, match="idempotency_keys: key \\['token'\\]; expected"):
        WriteBatch().remove(idempotency_keys, {"token": "a"})


def test_columns_that_may_be_empty_may_be_left_out(store: Store, committer: Committer) -> None:
    assert write(committer, WriteBatch().upsert(files, file_row("a", 1, detail="kept"))) == [None]
    assert write(committer, WriteBatch().upsert(files, file_row("a", 1, deleted_at=2.5))) == [None]
    (row,) = rows_of(store, files)
    assert (row["detail"], row["deleted_at"]) == (None, 2.5)


def test_an_empty_unit_is_told_that_it_is_written(committer: Committer) -> None:
    assert write_together(committer, WriteBatch(), WriteBatch()) == [None, None]


@pytest.mark.slow
@settings(max_examples=60)
@given(acts=UNITS)
def test_units_of_one_transaction_end_as_if_written_one_by_one(
    store: Store, committer: Committer, acts: list[list[tuple[str, str]]]
) -> None:
    prefix = f"{next(EXAMPLES)}-"
    units = [make_unit(prefix, number, some) for number, some in enumerate(acts)]
    expected, fails = one_by_one(prefix, acts)
    errors = write_together(committer, *units)
    assert [error is not None for error in errors] == fails
    found = {row["name"]: row["value"] for row in rows_of(store, meta)}
    assert {name: found[name] for name in found if name.startswith(prefix)} == expected


def make_unit(prefix: str, number: int, acts: list[tuple[str, str]]) -> WriteBatch:
    unit = WriteBatch()
    for act, name in acts:
        row = {"name": prefix + name, "value": str(number)}
        if act == "insert":
            unit.insert(meta, row)
        elif act == "upsert":
            unit.upsert(meta, row)
        else:
            unit.remove(meta, {"name": prefix + name})
    return unit


def one_by_one(
    prefix: str, units: list[list[tuple[str, str]]]
) -> tuple[dict[str, str], list[bool]]:
    """What a dictionary holds after the units, and which of them failed."""
    stored: dict[str, str] = {}
    fails = []
    for number, acts in enumerate(units):
        draft, failed = dict(stored), False
        # Within a unit: insertions, then upserts, then removals.
        for act, name in sorted(acts, key=lambda act: ["insert", "upsert", "remove"].index(act[0])):
            if act == "remove":
                draft.pop(prefix + name, None)
                continue
            failed |= act == "insert" and prefix + name in draft
            draft[prefix + name] = str(number)
        fails.append(failed)
        stored = stored if failed else draft
    return stored, fails


def test_of_a_row_that_is_put_again_and_again_the_last_stays(
    store: Store, committer: Committer
) -> None:
    puts = [{"name": f"{number % 3}", "value": f"{number}"} for number in range(100)]
    assert write(committer, WriteBatch().upsert(meta, *puts)) == [None]
    assert [row["value"] for row in rows_of(store, meta)] == ["99", "97", "98"]


def test_many_rows_are_written_as_they_are_whatever_their_number(
    store: Store, committer: Committer
) -> None:
    for num_rows in (1, 3, 4, 63, 64, 65, 200):
        rows = [{"name": f"{num_rows}/{number:03}", "value": "x"} for number in range(num_rows)]
        assert write(committer, WriteBatch().insert(meta, *rows)) == [None]
        stored = [row for row in rows_of(store, meta) if row["name"].startswith(f"{num_rows}/")]
        assert stored == rows
