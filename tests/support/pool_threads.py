"""Small threads for runs of a pool: real training, milliseconds of it."""

import torch
from torch import nn
from torch.nn.functional import mse_loss

from auctune.engine.pool.bundle import BundleJob
from auctune.timeshare.thread import LearningThread
from lara_tasks.module_job import ModuleJob, RowSource, supervised

ROWS = 32


class ReadingLine(ModuleJob):
    """One that says what it has read."""

    @property
    def learned(self) -> tuple[int, int]:
        """Four rows of three numbers a batch."""
        return 4 * self.batches, 12 * self.batches


def make_line(seed: int, slope: float = 1.0) -> ReadingLine:
    """A line through noisy points, by stochastic gradient descent with momentum."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(ROWS, 3, generator=generator)
    noise = 0.1 * torch.randn(ROWS, 1, generator=generator)
    targets = slope * inputs.sum(1, keepdim=True) + noise
    module = nn.Linear(3, 1)
    with torch.no_grad():
        module.weight.zero_()
        module.bias.zero_()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.5)
    source = RowSource(inputs, targets, batch_size=4, seed=seed)
    return ReadingLine(module, supervised(mse_loss), source, optimizer, seed=seed)


def pool_thread(
    name: str,
    *,
    deadline: int,
    threshold: float,
    start: int = 0,
    seed: int = 0,
    rate: float | None = 10.0,
) -> BundleJob:
    """A line that is to be fitted by a deadline."""
    return BundleJob(
        LearningThread(name, start, deadline, threshold),
        lambda: make_line(seed),
        {"kind": "line", "seed": seed},
        rate,
    )
