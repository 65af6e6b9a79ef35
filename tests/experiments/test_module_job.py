"""A job that was paused, offloaded or saved continues as if nothing had happened."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, Dataset

from auctune.domain.errors import CheckpointError, InputError
from auctune.train.checkpoint import Checkpoint
from lara_tasks.module_job import (
    Batch,
    BatchSource,
    LoaderSource,
    ModuleJob,
    RowSource,
    supervised,
)

ROWS, SIZE = 10, 4


class Jumpy(nn.Module):
    """Draws from every global generator, and has a buffer that moves and weights that are tied."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(3, 3)
        self.last.weight = self.first.weight

    def forward(self, inputs: Tensor) -> Tensor:
        jump = 0.1 * (float(np.random.standard_normal()) + random.gauss(0.0, 1.0))
        outputs: Tensor = self.last(self.drop(self.norm(self.first(inputs)))) + jump
        return outputs


class NoisyRows(Dataset[tuple[Tensor, Tensor]]):
    """A data set that augments its rows by global draws, as many do."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = _rows()
        return inputs[index] + 0.1 * torch.rand(3) + 0.1 * random.random(), targets[index]


def _rows() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(ROWS, 3, generator=generator), torch.randn(ROWS, 3, generator=generator)


def _add_noise(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + torch.randn(inputs.shape, generator=generator)


def row_source() -> BatchSource:
    return RowSource(*_rows(), batch_size=SIZE, seed=3, augment=_add_noise)


def loader_source() -> BatchSource:
    return LoaderSource(DataLoader(NoisyRows(), SIZE, shuffle=True), seed=3)


SOURCES = (row_source, loader_source)


def make_job(make_source: Callable[[], BatchSource] = row_source) -> ModuleJob:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        module = Jumpy()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.05, amsgrad=True)
    return ModuleJob(
        module,
        supervised(mse_loss),
        make_source(),
        optimizer,
        seed=9,
        schedule=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50),
        max_grad_norm=0.5,
    )


def assert_same(first: ModuleJob, second: ModuleJob) -> None:
    one, two = first.state(), second.state()
    assert one.state == two.state
    assert one.tensors.keys() == two.tensors.keys()
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, two.tensors[name]), name


def disturb() -> None:
    """What another job would do between two turns."""
    torch.rand(3)
    np.random.standard_normal()
    random.gauss(0.0, 1.0)


@pytest.mark.parametrize("make_source", SOURCES)
def test_a_suspended_job_is_undisturbed_to_the_bit(
    make_source: Callable[[], BatchSource],
) -> None:
    through, paused = make_job(make_source), make_job(make_source)
    losses = through.losses(12)
    parts = []
    for count in (1, 4, 2, 5):
        parts.append(paused.losses(count))
        paused.suspend()
        paused.suspend()
        disturb()
        paused.resume()
    assert np.array_equal(np.concatenate(parts), losses)
    assert_same(paused, through)


@pytest.mark.parametrize("make_source", SOURCES)
@pytest.mark.parametrize("at", [0, 1, 3, 7])
def test_a_job_from_a_checkpoint_goes_on_to_the_same_bits(
    make_source: Callable[[], BatchSource], at: int
) -> None:
    through = make_job(make_source)
    if at:
        through.step(at)
    written = through.state()
    through.step(6)
    again = make_job(make_source)
    # It has moved on, so that everything must be put back.
    again.step(2)
    disturb()
    again.restore(written)
    again.step(6)
    assert again.batches == at + 6
    assert_same(again, through)


def test_a_checkpoint_is_of_its_moment_and_not_of_what_came_after() -> None:
    job = make_job()
    job.step(2)
    written = job.state()
    kept = {name: tensor.clone() for name, tensor in written.tensors.items()}
    job.step(2)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in written.tensors.items())


def test_a_checkpoint_without_any_one_of_its_parts_is_refused() -> None:
    job, again = make_job(loader_source), make_job(loader_source)
    job.step(2)
    whole = job.state()
    for name in whole.tensors:
        rest = {key: tensor for key, tensor in whole.tensors.items() if key != name}
        with pytest.raises(CheckpointError, match=f"has no '{name}'"):
            again.restore(Checkpoint(rest, whole.state))
    for name in whole.state.keys() - {"torch"}:
        left = {key: value for key, value in whole.state.items() if key != name}
        with pytest.raises(CheckpointError, match=f"has no '{name}'"):
            again.restore(Checkpoint(whole.tensors, left))


def test_a_checkpoint_of_other_rows_or_another_module_is_refused() -> None:
    job = make_job()
    job.step(1)
    inputs, targets = _rows()
    fewer = make_job(lambda: RowSource(inputs[:8], targets[:8], batch_size=4, seed=3))
    with pytest.raises(CheckpointError, match="data of 10 rows in the checkpoint, 8 here"):
        fewer.restore(job.state())
    other = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(other.parameters())
    with pytest.raises(CheckpointError, match="is of another module"):
        ModuleJob(other, supervised(mse_loss), row_source(), optimizer, seed=9).restore(job.state())


def test_a_jobs_draws_leave_the_generators_of_the_process_as_they_were() -> None:
    torch.manual_seed(4)
    np.random.seed(4)
    random.seed(4)
    job = make_job(loader_source)
    before = torch.rand(1), np.random.random(), random.random()
    torch.manual_seed(4)
    np.random.seed(4)
    random.seed(4)
    job.step(3)
    assert before == (torch.rand(1), np.random.random(), random.random())


def test_a_suspended_job_holds_no_bytes_and_the_same_tensors_afterwards() -> None:
    job = make_job()
    job.step(1)
    needed = job.memory_bytes
    tensors = list(job._tensors())
    job.suspend()
    assert all(tensor.untyped_storage().nbytes() == 0 for tensor in tensors)
    job.resume()
    assert job.memory_bytes == needed
    assert all(one is two for one, two in zip(job._tensors(), tensors, strict=True))


def test_memory_is_parameters_gradients_moments_buffers_and_what_backward_keeps() -> None:
    module = nn.Linear(5, 7)
    optimizer = torch.optim.Adam(module.parameters())
    source = RowSource(torch.randn(6, 5), torch.randn(6, 7), batch_size=6, seed=0)
    job = ModuleJob(module, supervised(mse_loss), source, optimizer, seed=0)
    weights = 4 * (5 * 7 + 7)
    assert job.memory_bytes == 2 * weights
    job.step(1)
    # Adam: two moments and a count for each of two parameters. Backward needs the inputs, which
    # are the batch, and the outputs and targets of the loss.
    assert job.memory_bytes == 4 * weights + 2 * 4 + 4 * 6 * 5 + 2 * 4 * 6 * 7


@pytest.mark.parametrize("batch_size", [0, ROWS + 1])
def test_batches_that_cannot_be_had_are_refused(batch_size: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to 10 rows"):
        RowSource(*_rows(), batch_size=batch_size, seed=0)


def test_an_epoch_has_each_row_once_and_epochs_differ() -> None:
    inputs = torch.arange(ROWS)
    source = RowSource(inputs, inputs, batch_size=5, seed=0)
    batches: list[Batch] = [source.next_batch(nn.Identity())[0] for _ in range(4)]
    first, second = torch.cat(batches[:2]), torch.cat(batches[2:])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(ROWS))
    assert first.tolist() != second.tolist()


def test_a_loader_that_gives_nothing_is_an_error() -> None:
    empty: list[Tensor] = []
    with pytest.raises(InputError, match="gives no batch"):
        LoaderSource(empty, seed=0).next_batch(nn.Identity())


def test_a_loss_that_is_no_number_is_given_as_it_is() -> None:
    inputs, targets = _rows()
    job = make_job(lambda: RowSource(inputs, targets / 0.0, batch_size=4, seed=0))
    assert not np.isfinite(job.step(3))
    assert job.batches == 3
