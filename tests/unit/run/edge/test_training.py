"""TRAINING.toml, and the chunks of a job's rows."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.domain.dataset import read_dataset
from auctune.edge import Move, SlotPlan
from auctune.run.edge.training import assign_chunks, chunks_at, cut_chunks, read_training
from auctune.train.job import LoraJob
from support.edge_runs import make_job, write_site_rows

JOB = make_job(3)
ROWS = '[default]\nrows = { a = "a.jsonl", b = "there/b.jsonl" }\n'


def test_a_job_has_the_defaults_and_its_own_keys(tmp_path: Path) -> None:
    file = tmp_path / "training.toml"
    own = '[jobs."x 1"]\nlearning_rate = 1\ntarget_modules = ["q_proj"]\nmicro_batch = 2\n'
    file.write_text(f'{ROWS}rank = 2\nvalidation = "v.jsonl"\n{own}')
    found = read_training(file, [replace(JOB, id="x 1"), replace(JOB, id="y")])
    plain = LoraJob(id="y", data=Path(), epochs=3, rank=2)
    assert found["y"].config == plain
    assert found["x 1"].config == replace(
        plain, id="x 1", learning_rate=1.0, target_modules=("q_proj",)
    )
    assert (found["y"].micro_batch, found["x 1"].micro_batch) == (4, 2)
    assert found["y"].rows["b"] == str(tmp_path / "there/b.jsonl")
    assert found["y"].validation == str(tmp_path / "v.jsonl")
    assert not found["y"].are_uploads


@pytest.mark.parametrize(
    ("batch_size", "limit", "rows"),
    [(8, 4, 4), (2, 4, 2), (12, 8, 6), (8, 3, 2), (10, 4, 2), (7, 4, 1), (1, 1, 1)],
)
def test_a_micro_batch_is_the_largest_divisor_of_the_batch_up_to_its_limit(
    tmp_path: Path, batch_size: int, limit: int, rows: int
) -> None:
    file = tmp_path / "training.toml"
    file.write_text(f"{ROWS}batch_size = {batch_size}\nmicro_batch = {limit}\n")
    assert read_training(file, [JOB])["job"].micro_batch == rows


def test_rows_of_a_lost_site_move_only_where_the_file_allows_it(tmp_path: Path) -> None:
    file = tmp_path / "training.toml"
    file.write_text(ROWS)
    assert not read_training(file, [JOB])["job"].may_move
    file.write_text(f"{ROWS}rows_move = true\n")
    assert read_training(file, [JOB])["job"].may_move


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[defaults]\n", "defaults"),
        (f"{ROWS}speed = 1\n", "job job: speed"),
        (f'{ROWS}rank = "much"\n', "job job: rank"),
        (f"{ROWS}batch_size = true\n", "job job: batch_size"),
        (f"{ROWS}micro_batch = 0\n", "job job: micro_batch"),
        (f"{ROWS}dropout = 2\n", "job job: dropout"),
        (f'{ROWS}base = "./nowhere"\n', "job job: base './nowhere'"),
        ("[jobs.z]\n", "jobs.z"),
        ("[jobs]\njob = 1\n", "jobs: job"),
        ('[default]\nrows = { a = "a.jsonl" }\n', r"job job: rows\.b: is missing"),
        ("[default", "TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "training.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=place):
        read_training(file, [JOB])


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
    with pytest.raises(InputError, match=r"^market\.sites\.b: has 3 rows"):
        cut_chunks(file, "b", 4, seed=0)
    file.unlink()
    with pytest.raises(InputError, match=r"^market\.sites\.b") as refused:
        cut_chunks(file, "b", 1, seed=0)
    assert str(tmp_path) not in str(refused.value)


def test_the_chunks_of_a_slot_follow_those_that_were_trained() -> None:
    assert (list(chunks_at(JOB, "b")), list(chunks_at(JOB, "c"))) == ([*range(9, 18)], [])
    part = SlotPlan(2, {"a": 2}, "a", (Move("a", "a", 2), Move("b", "a", 1), Move("b", "b", 2)))
    assert assign_chunks(JOB, part, {"a": 3, "b": 1}) == {"a": [3, 4, 10], "b": [11, 12]}
