"""The chunks of a job's rows."""

from collections import Counter
from pathlib import Path

import pytest

from auctune.datasets import read_dataset
from auctune.domain import InputError
from auctune.edge import Move, SlotPlan
from auctune.engine.edge.site_store import cut_chunks
from auctune.engine.edge.storage import assign_chunks, chunks_at
from support.edge_runs import make_job, write_site_rows

JOB = make_job(3)


def test_each_row_of_a_site_is_in_one_chunk_of_it(tmp_path: Path) -> None:
    file = write_site_rows(tmp_path / "a.jsonl", 30, 1)
    chunks = cut_chunks(file, "a", 7, seed=3)
    assert {len(chunk) for chunk in chunks} == {4, 5}
    rows = Counter(str(row) for chunk in chunks for row in chunk.rows)
    assert rows == Counter(str(row) for row in read_dataset(file).rows)
    assert cut_chunks(file, "a", 7, seed=3) == chunks
    assert cut_chunks(file, "b", 7, seed=3) != chunks


def test_a_file_that_is_gone_or_too_small_is_named_by_its_site(tmp_path: Path) -> None:
    file = write_site_rows(tmp_path / "b.jsonl", 3, 1)
    with pytest.raises(InputError, match=r"^rows\.b: has 3 rows"):
        cut_chunks(file, "b", 4, 0, "rows.b")
    file.unlink()
    with pytest.raises(InputError, match=r"^rows\.b") as refused:
        cut_chunks(file, "b", 1, 0, "rows.b")
    assert str(tmp_path) not in str(refused.value)


def test_the_chunks_of_a_slot_follow_those_that_were_trained() -> None:
    assert (list(chunks_at(JOB, "b")), list(chunks_at(JOB, "c"))) == ([*range(9, 18)], [])
    part = SlotPlan(2, {"a": 2}, "a", (Move("a", "a", 2), Move("b", "a", 1), Move("b", "b", 2)))
    assert assign_chunks(JOB, part, {"a": 3, "b": 1}) == {"a": [3, 4, 10], "b": [11, 12]}
