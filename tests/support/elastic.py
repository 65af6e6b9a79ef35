"""Elastic training within one process: workers that take turns as a generator says."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from auctune.train.data_parallel.batches import RowRange
from auctune.train.data_parallel.gradients import GradientWorker
from auctune.train.data_parallel.trainer import ElasticTrainer


def train_with(
    trainer: ElasticTrainer,
    workers: Sequence[GradientWorker],
    draw: np.random.Generator,
    *,
    deaths: float = 0.0,
    rows: int | None = None,
) -> int:
    """Train up to `rows`, or to the end; returns how many micro-batches were lost.

    Args:
        trainer: holds the job.
        workers: each computes one micro-batch at a time, at the weights it was given last.
        draw: whose turn it is to bring in its micro-batch.
        deaths: share of the micro-batches whose worker dies before it brings them in.
        rows: at which to stop.
    """
    busy: dict[int, RowRange] = {}
    lost = 0
    while not trainer.is_done and (rows is None or trainer.rows < rows):
        for number in range(len(workers)):
            if number not in busy and (part := trainer.next_micro_batch()):
                workers[number].set_weights(trainer.values)
                busy[number] = part
        number = int(draw.choice(list(busy)))
        part = busy.pop(number)
        if draw.random() < deaths:
            trainer.requeue(part)
            lost += 1
        else:
            trainer.add_gradient(part, workers[number].compute(part))
            while trainer.advance():
                pass
    return lost


def weights_of(trainer: ElasticTrainer) -> dict[str, Tensor]:
    """Copies of the adapter's weights, by their names in the base."""
    return {name: tensor.clone() for name, tensor in trainer.weights.items()}


def is_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether weights agree bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
