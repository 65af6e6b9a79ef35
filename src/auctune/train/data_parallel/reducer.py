"""The parameter server's part: gradients added in a fixed order, and steps of the optimizer.

It has neither rows nor a model: only gradients, losses and counts reach it. The learning rate of a
step follows from the rows trained before it, as the number of steps of a job depends on its plan:
with n of N rows trained and batches of B rows, it is the rate of step n // B of ceil(N / B).
"""

import io
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from auctune.domain.errors import CheckpointError
from auctune.train.data_parallel.batches import Contribution, Floats
from auctune.train.job import LoraJob

if TYPE_CHECKING:
    from torch import Tensor


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

    def to_bytes(self) -> bytes:
        """Return the content of a file that holds it."""
        file = io.BytesIO()
        np.savez(file, **{name: getattr(self, name) for name in self.__slots__})
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "AdapterState":
        """Return the state that `to_bytes` wrote.

        Raises:
            CheckpointError: if it is damaged.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as saved:
                values = {name: saved[name] for name in cls.__slots__}
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"a checkpoint is damaged ({error})") from None
        counts = {name: int(values.pop(name)) for name in ("steps", "rows", "tokens")}
        return cls(**values | counts | {"base_digest": str(values["base_digest"])})


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

    def reduce(self, contributions: Sequence[Contribution], num_rows: int) -> float:
        """Take a step, unless it would not be finite or the batch has nothing to learn.

        Args:
            contributions: of the micro-batches of a global batch, in their order.
            num_rows: of the batch.

        Returns:
            The mean loss over its trained tokens, before the step; NaN if the training diverged.
        """
        from auctune.train.reproducible import deterministic

        num_targets = sum(one.num_targets for one in contributions)
        loss = float(np.sum([one.loss for one in contributions])) / max(1, num_targets)
        with deterministic(1):
            for one in contributions:
                self._gradients.add_(_tensor(one.gradient))
            self._gradients.div_(max(1, num_targets))
            norm = float(self._optimizer.clip())
            if not (math.isfinite(loss) and math.isfinite(norm)):
                self._gradients.zero_()
                return math.nan
            self._optimizer.step(self._rows // self._job.batch_size)
        self._steps += 1
        self._rows += num_rows
        self._tokens += num_targets
        return loss


def _tensor(values: Floats) -> "Tensor":
    import torch

    # What comes out of an object store may not be written to, of which torch warns.
    return torch.tensor(values)
