"""A job that goes on from an adapter trains as plain PEFT does from the same folder."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from torch import Tensor

from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.errors import CheckpointError, InputError
from auctune.train.adapter_files import pack_adapter, read_epochs, read_start
from auctune.train.base import Base
from auctune.train.job import LoraJob, Progress
from auctune.train.trainer import MultiLoraTrainer
from support.peft_adapters import save_adapter
from support.peft_alone import assert_close, train_alone, trained_parameters, weights_of
from support.small_bases import FAMILIES, build_base, write_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

ROWS, EPOCHS = 10, 5


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    return {family: build_base(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, bases: dict[str, Base]) -> dict[str, Path]:
    """An adapter of plain PEFT by base."""
    return {
        family: save_adapter(
            tmp_path_factory.mktemp(f"adapter-{family}"), family, base.fresh_model()
        )
        for family, base in bases.items()
    }


def make_job(folder: Path, start: Path, **changes: object) -> LoraJob:
    adapter, _ = read_start(start, "start_from")
    job = LoraJob(
        id="job",
        data=write_rows(folder / "data.jsonl", ROWS, seed=3),
        start_from=start,
        start_digest=adapter.digest,
        **adapter.settings({}),
        epochs=EPOCHS,
        dropout=0.1,
        learning_rate=3e-3,
        batch_size=4,
        max_length=20,
        seed=7,
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def ignore(progress: Progress) -> None:
    """A report that nobody reads."""


def weights_in(base: Base, folder: Path) -> dict[str, Tensor]:
    """The weights that plain PEFT loads from a folder, to be trained."""
    loaded = PeftModel.from_pretrained(base.fresh_model(), str(folder), is_trainable=True)
    return {name: one.detach().clone() for name, one in trained_parameters(loaded).items()}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fused", "exact"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_job_goes_on_from_an_adapter_as_plain_peft_does(
    bases: dict[str, Base], folders: dict[str, Path], family: str, mode: str, tmp_path: Path
) -> None:
    base, job = bases[family], make_job(tmp_path, folders[family])
    trainer = MultiLoraTrainer(base, mode=mode)  # type: ignore[arg-type]
    beside = replace(job, id="new", start_from=None, start_digest=None, rank=4)
    for one in (job, beside):
        trainer.load(one, tmp_path / one.id)
    start = weights_in(base, folders[family])
    assert_close(weights_of(trainer, job), start)
    trainer.train({"job": 10**6, "new": 10**6}, ignore)
    expected = train_alone(base, job, start)
    assert_close(weights_of(trainer, job), expected)
    # What comes out is far from what a new adapter comes out as.
    alone = MultiLoraTrainer(base)
    alone.load(replace(job, start_from=None, start_digest=None), tmp_path / "alone")
    alone.train({"job": 10**6}, ignore)
    other = weights_of(alone, job)
    assert all(not torch.allclose(other[name], expected[name], atol=1e-2) for name in expected)


@pytest.mark.slow
def test_a_job_killed_before_its_first_checkpoint_begins_with_the_adapter_again(
    bases: dict[str, Base], folders: dict[str, Path], tmp_path: Path
) -> None:
    base, job = bases["llama"], make_job(tmp_path, folders["llama"])
    whole = MultiLoraTrainer(base, mode="exact")
    whole.load(job, tmp_path / "whole")
    whole.train({"job": 10**6}, ignore)
    # The first process dies with its work; the second is suspended; the third goes on.
    for rows, is_saved in ((7, False), (13, True), (10**6, True)):
        trainer = MultiLoraTrainer(base, mode="exact")
        trainer.load(job, tmp_path / "cut")
        trainer.train({"job": rows}, ignore)
        if is_saved:
            trainer.save("job", rows)
    assert all(
        torch.equal(one, weights_of(trainer, job)[name])
        for name, one in weights_of(whole, job).items()
    )


def test_a_resume_must_match_the_adapter_that_the_job_started_from(
    bases: dict[str, Base], folders: dict[str, Path], tmp_path: Path
) -> None:
    base, job = bases["llama"], make_job(tmp_path, folders["llama"])
    trainer = MultiLoraTrainer(base)
    trainer.load(job, tmp_path / "job")
    trainer.train({"job": 5}, ignore)
    trainer.save("job", 1)
    trainer.unload("job")
    # Its files are not needed any more, wherever they are.
    trainer.load(replace(job, start_from=tmp_path / "moved"), tmp_path / "job")
    trainer.unload("job")
    for other in (
        replace(job, start_digest="0" * 64),
        replace(job, start_from=None, start_digest=None),
    ):
        with pytest.raises(CheckpointError, match=r"job\.start_digest"):
            trainer.load(other, tmp_path / "job")


def test_an_adapter_that_was_changed_or_is_of_another_base_is_refused(
    bases: dict[str, Base], folders: dict[str, Path], tmp_path: Path
) -> None:
    trainer = MultiLoraTrainer(bases["llama"])
    job = make_job(tmp_path, folders["llama"])
    other = make_job(tmp_path, folders["gpt2"], target_modules=("q_proj",))
    for wrong, found in (
        (replace(job, start_digest="0" * 64), "have changed"),
        (replace(job, rank=4), "has shape"),
        (other, "is missing|is not a weight of"),
    ):
        with pytest.raises(InputError, match=found) as caught:
            trainer.load(wrong, tmp_path / "x")
        assert caught.value.place.startswith("start_from")
    assert not trainer.adapted.adapters


def test_a_jobs_result_is_the_start_of_another_job(
    bases: dict[str, Base], folders: dict[str, Path], tmp_path: Path
) -> None:
    base = bases["llama"]
    job = make_job(tmp_path, folders["llama"], epochs=1)
    trainer = MultiLoraTrainer(base, mode="exact")
    trainer.load(job, tmp_path / "job")
    trainer.train({"job": 10**6}, ignore)
    trainer.export("job", tmp_path / "result" / "adapter")
    pack_adapter(tmp_path / "result" / "adapter", tmp_path / "first.zip")
    start, weights = read_start(tmp_path / "first.zip", "start_from")
    assert start.base_digest == base.digest
    second = make_job(tmp_path, tmp_path / "first.zip", id="second", epochs=1)
    trainer.load(second, tmp_path / "second")
    trainer.train({"second": 10**6}, ignore)
    first = {name: torch.from_numpy(one) for name, one in weights.items()}
    assert_close(weights_of(trainer, second), train_alone(base, second, first))
    with pytest.raises(InputError, match="start_from: was trained on another base"):
        start.check_base(bases["gpt2"].digest, "start_from")


@pytest.mark.slow
@pytest.mark.parametrize("has_validation", [True, False])
def test_the_adapters_of_the_last_three_epochs_are_kept_with_their_losses(
    bases: dict[str, Base], folders: dict[str, Path], has_validation: bool, tmp_path: Path
) -> None:
    base = bases["gpt2"]
    validation = write_rows(tmp_path / "validation.jsonl", 3, seed=1) if has_validation else None
    job = make_job(tmp_path, folders["gpt2"], validation=validation)
    trainer = MultiLoraTrainer(base, mode="exact", kept_epochs=3)
    trainer.load(job, tmp_path / "job")
    for number, rows in enumerate((4, 25, 33, 50)):
        trainer.train({"job": rows}, ignore)
        trainer.save("job", number)
        kept = sorted(int(path.name) for path in (tmp_path / "job" / "epochs").glob("*"))
        # The rows of the validation data follow those of each epoch.
        epochs = rows // (ROWS + 3 * has_validation)
        assert kept == list(range(max(1, epochs - 2), epochs + 1))
    progress = trainer.progress("job")
    curve = {step: values for step, _, _, *values in trainer.curve("job")}
    measured = {epoch: values for epoch, _, *values in progress.validation}
    for metrics, folder in read_epochs(tmp_path / "job"):
        steps = 3 * metrics.epoch
        valid = measured.get(metrics.epoch, [None, None])
        assert metrics == EpochMetrics(metrics.epoch, steps, *curve[steps], *valid)
        assert (valid[0] is None) is not has_validation
        assert read_start(folder, "start_from")[0].base_digest == base.digest
        alone = train_alone(base, job, weights_in(base, folders["gpt2"]), steps)
        assert_close(weights_in(base, folder), alone)


def test_an_epochs_adapter_that_a_killed_process_left_is_written_again(
    bases: dict[str, Base], folders: dict[str, Path], tmp_path: Path
) -> None:
    base, job = bases["llama"], make_job(tmp_path, folders["llama"])
    trainer = MultiLoraTrainer(base, mode="exact", kept_epochs=3)
    trainer.load(job, tmp_path / "job")
    trainer.train({"job": 15}, ignore)
    trainer.save("job", 1)
    epochs = tmp_path / "job" / "epochs"
    good = (epochs / "1" / "adapter_model.safetensors").read_bytes()
    # Killed between the adapters of its epochs and its checkpoint, and while it wrote.
    for left in ("3", ".tmp-2-beef"):
        (epochs / left).mkdir()
    again = MultiLoraTrainer(base, mode="exact", kept_epochs=3)
    again.load(job, tmp_path / "job")
    again.train({"job": 25}, ignore)
    again.save("job", 2)
    assert sorted(path.name for path in epochs.iterdir()) == ["1", "2"]
    assert (epochs / "1" / "adapter_model.safetensors").read_bytes() == good
