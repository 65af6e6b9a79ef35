"""One worker's share: the gradient of one micro-batch at given weights.

A worker keeps nothing from one micro-batch to the next but the weights that it was last given, so
nothing is lost with it but what it is at.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from auctune.domain.errors import InputError
from auctune.train.base import Base
from auctune.train.deterministic import deterministic, prepare_deterministic
from auctune.train.elastic.part import Contribution, Part
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import AdaptedModel, lora_config
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.batches import MicroBatch
from auctune.train.multilora.rounds import attempt
from auctune.train.multilora.step import ModelStep
from auctune.train.multilora.task import TrainingTask
from auctune.train.tokenized_file import read_rows

NAME = "job0"


class GradientMaker:
    """Computes micro-batches of one job.

    Args:
        base: the model that is adapted; its weights are shared, not copied.
        job: whose rows and adapter; `batch_size` is the global batch.
        threads: of torch on a CPU; the same for all workers, as sums depend on them.

    Raises:
        InputError: if the job or its data cannot be used.
    """

    def __init__(self, base: Base, job: LoraJob, *, threads: int = 1) -> None:
        prepare_deterministic()
        adapted = AdaptedModel(base.fresh_model(), choose_backend("auto", base.device, base.dtype))
        self._step = ModelStep(adapted)
        max_length = min(job.max_length, base.context_tokens or job.max_length)
        data = read_rows(job.data, base.tokenizer, max_length, base.context_tokens)
        weights = adapted.add(NAME, lora_config(job, adapted.model), job.seed)
        self._task = TrainingTask(job, weights, data)
        self._threads = threads

    @property
    def data_digest(self) -> str:
        """Of the tokens that it trains on."""
        return self._task.data.digest

    @property
    def num_parameters(self) -> int:
        """Of the adapter."""
        return self._task.weights.values.numel()

    @torch.no_grad()
    def set_weights(self, values: NDArray[np.float32]) -> None:
        """Take over weights, float32 [num_parameters]; they are copied."""
        self._task.weights.values.copy_(torch.from_numpy(values))

    def compute(self, part: Part) -> Contribution:
        """The gradient of a micro-batch at the weights last taken over.

        Rows are padded to the longest of the micro-batch, so its shape does not depend on who
        computes it.

        Raises:
            InputError: if it does not fit into memory.
        """
        task = self._task
        task.cursor.done = part.first
        rows = tuple(task.next_rows(part.num_rows))
        task.weights.gradients.zero_()
        with deterministic(self._threads):
            sums = attempt(self._step.train, MicroBatch(rows, max(map(len, rows))))
        if sums is None:
            raise InputError(
                "micro_batch", f"{part.num_rows} rows do not fit into memory", "fewer rows"
            )
        gradient = task.weights.gradients.to("cpu", copy=True).numpy()
        return Contribution(gradient, float(sums[NAME]))
