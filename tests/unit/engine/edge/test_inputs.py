"""TRAINING.toml, and what is wrong in a run's files."""

from dataclasses import replace
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.edge.inputs import read_inputs, read_training
from auctune.train.adapter_files import read_start
from auctune.train.job import LoraJob
from support.edge_runs import make_inputs, make_job, write_inputs
from support.peft_adapters import save_adapter
from support.small_bases import write_pairs

JOB = make_job(3)
ROWS = '[default]\nrows = { a = "a.jsonl", b = "there/b.jsonl" }\n'


def test_a_job_has_the_defaults_and_its_own_keys(tmp_path: Path) -> None:
    file = tmp_path / "training.toml"
    own = '[jobs."x 1"]\nlearning_rate = 1\ntarget_modules = ["q_proj"]\nmicro_batch = 2\n'
    own += "gradient_checkpointing = true\n"
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
    assert [found[name].gradient_checkpointing for name in ("y", "x 1")] == [0, 1]


def test_a_job_that_starts_from_an_adapter_has_its_settings(tmp_path: Path) -> None:
    start, _ = read_start(save_adapter(tmp_path / "start"), "start_from")
    file = tmp_path / "training.toml"
    file.write_text(f'{ROWS}start_from = "start"\n')
    config = read_training(file, [JOB])["job"].config
    assert (config.start_from, config.start_digest) == (tmp_path / "start", start.digest)
    assert (config.rank, config.alpha) == (start.rank, start.alpha)
    file.write_text(f'{ROWS}start_from = "start"\nrank = 8\n')
    with pytest.raises(InputError, match=r"job job: rank: 8, where the adapter"):
        read_training(file, [JOB])


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


def test_rows_to_measure_by_are_checked_before_a_run_starts(tmp_path: Path) -> None:
    instance, training = write_inputs(make_inputs(tmp_path, make_job(1)), tmp_path)
    read_inputs(instance, training)
    text = training.read_text()
    training.write_text(f'{text}method = "dpo"\nbeta = 0.3\n')
    with pytest.raises(InputError, match="job job: validation: has chats, completions or texts"):
        read_inputs(instance, training)
    write_pairs(tmp_path / "validation.jsonl", 3)
    config = read_inputs(instance, training).trainings["job"].config
    assert (config.method, config.beta) == ("dpo", 0.3)
    training.write_text(text)
    (tmp_path / "validation.jsonl").write_text("no rows\n")
    with pytest.raises(InputError, match="job job: validation"):
        read_inputs(instance, training)
    (tmp_path / "validation.jsonl").unlink()
    with pytest.raises(InputError, match=r"job job: validation: there is no file '/.*validation"):
        read_inputs(instance, training)


def test_rows_of_sites_of_this_machine_are_there_before_a_run_starts(tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path, make_job(1))
    instance, training = write_inputs(inputs, tmp_path)
    rows = Path(inputs.trainings["job"].rows["b"])
    rows.unlink()
    with pytest.raises(InputError) as refused:
        read_inputs(instance, training)
    assert refused.value.place == f"{training}: job job: rows.b"
    assert refused.value.found == f"there is no file '{rows}'"
    # Those on other machines are read there alone.
    read_inputs(instance, training, ray="10.0.0.1:6379")


@pytest.mark.parametrize("name", ["tiresias", "foo"])
def test_only_the_mechanism_that_runs_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as refused:
        read_inputs(tmp_path / "instance.json", tmp_path / "training.toml", name)
    assert refused.value.expected == "eris, with its settings, as in eris:pricing=paper"
