"""The parameter server's part: gradients added in a fixed order, and steps of the optimizer.

It has neither rows nor a model: only gradients, losses and counts reach it. The learning rate of a
step follows from the rows trained before it, as the number of steps of a job depends on its plan:
with n of N rows trained and batches of B rows, it is the rate of step n // B of ceil(N / B).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from auctune.domain.errors import CheckpointError
from auctune.train.data_parallel.batches import Contribution, Floats
from auctune.train.job import LoraJob

if TYPE_CHECKING:
    from torch import Tensor

    from auctune.train.checkpoint import Checkpoint

_ARRAYS = ("weights", "exp_avg", "exp_avg_sq")
COUNTS = ("base_digest", "steps", "rows", "tokens")
"""Names of what an `AdapterState` holds beside its arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class AdapterState:
    """All that training goes on from.

    Attributes:
        weights, exp_avg, exp_avg_sq: float32 [num_parameters]: the adapter, and AdamW's moments.
        steps, rows, tokens: taken and trained so far, over all epochs.
        base_digest: of the base that is adapted.
    """

    weights: Floats
    exp_avg: Floats
    exp_avg_sq: Floats
    base_digest: str
    steps: int = 0
    rows: int = 0
    tokens: int = 0

    @classmethod
    def first(cls, weights: Floats, base_digest: str) -> "AdapterState":
        """Return the state before the first step."""
        return cls(weights, np.zeros_like(weights), np.zeros_like(weights), base_digest)

    def to_checkpoint(self) -> "Checkpoint":
        """Return the checkpoint that holds it."""
        from auctune.train.checkpoint import Checkpoint

        tensors = {name: _tensor(getattr(self, name)) for name in _ARRAYS}
        return Checkpoint(tensors, {name: getattr(self, name) for name in COUNTS})

    @classmethod
    def from_checkpoint(cls, checkpoint: "Checkpoint") -> "AdapterState":
        """Return the state that `to_checkpoint` gave.

        Raises:
            CheckpointError: if the checkpoint is of something else.
        """
        try:
            values: dict[str, Any] = {name: checkpoint.tensors[name].numpy() for name in _ARRAYS}
            return cls(**values, **{name: checkpoint.state[name] for name in COUNTS})
        except KeyError as error:
            raise CheckpointError(f"the checkpoint has no {error}") from None


class AdapterReducer:
    """Adds the gradients of an adapter in a fixed order, and takes its optimizer's steps.

    Args:
        job: settings of the optimizer.
        state: from which it goes on; it is not changed.
        total_rows: of the whole job, over all epochs.
    """

    def __init__(self, job: LoraJob, state: AdapterState, total_rows: int) -> None:
        # Who only reads states needs no torch.
        import torch

        from auctune.train.multilora.optimizer import AdapterOptimizer

        self._job, self._base_digest = job, state.base_digest
        self._values = torch.tensor(state.weights)
        self._gradients = torch.zeros_like(self._values)
        num_steps = max(1, math.ceil(total_rows / job.batch_size))
        self._optimizer = AdapterOptimizer(job, self._values, self._gradients, num_steps)
        moments = self._optimizer.moments
        moments["step"].fill_(state.steps)
        moments["exp_avg"].copy_(torch.tensor(state.exp_avg))
        moments["exp_avg_sq"].copy_(torch.tensor(state.exp_avg_sq))
        self._steps, self._rows, self._tokens = state.steps, state.rows, state.tokens

    @property
    def counts(self) -> tuple[int, int, int]:
        """Steps, rows and tokens so far."""
        return self._steps, self._rows, self._tokens

    @property
    def weights(self) -> Floats:
        """The weights as they are now, copied."""
        copied: Floats = self._values.numpy().copy()
        return copied

    def state(self) -> AdapterState:
        """Return the state as it is now."""
        moments = self._optimizer.moments
        return AdapterState(
            self.weights,
            moments["exp_avg"].numpy().copy(),
            moments["exp_avg_sq"].numpy().copy(),
            self._base_digest,
            *self.counts,
        )

    def reduce(self, contributions: Sequence[Contribution], num_rows: int) -> tuple[float, float]:
        """Take a step, unless it would not be finite or the batch has nothing to learn.

        Args:
            contributions: of the micro-batches of a global batch, in their order.
            num_rows: of the batch.

        Returns:
            The mean loss and accuracy over its trained tokens, before the step; the loss is NaN if
            the training diverged.
        """
        from auctune.train.reproducible import deterministic

        num_targets = sum(one.num_targets for one in contributions)
        loss = float(np.sum([one.loss for one in contributions])) / max(1, num_targets)
        accuracy = sum(one.hits for one in contributions) / max(1, num_targets)
        with deterministic(1):
            for one in contributions:
                self._gradients.add_(_tensor(one.gradient))
            self._gradients.div_(max(1, num_targets))
            norm = float(self._optimizer.clip())
            if not (math.isfinite(loss) and math.isfinite(norm)):
                self._gradients.zero_()
                return math.nan, accuracy
            self._optimizer.step(self._rows // self._job.batch_size)
        self._steps += 1
        self._rows += num_rows
        self._tokens += num_targets
        return loss, accuracy


def _tensor(values: Floats) -> "Tensor":
    import torch

    # What comes out of an object store may not be written to, of which torch warns.
    return torch.tensor(values)
