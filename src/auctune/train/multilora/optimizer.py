"""Optimizer of one adapter's flat parameters: AdamW (Loshchilov and Hutter, 2019), its rate, its
clipping.

With s the number of steps done, S all steps of the job and w those of the warm-up (a ratio is
rounded up to whole steps), the rate of the next step is the job's learning rate times

    s / w                                  while s < w
    1                                      constant
    (S - s) / (S - w)                      linear
    (1 + cos(pi (s - w) / (S - w))) / 2    cosine

A gradient longer than max_grad_norm is scaled down to it; the norm is the adapter's own.
"""

import math

import torch
from torch import Tensor, nn

from auctune.train.job import LoraJob


def rate_factor(job: LoraJob, step: int, num_steps: int) -> float:
    """The factor on the learning rate for step `step` (from 0) of `num_steps`."""
    warmup = job.warmup_steps or math.ceil(job.warmup_ratio * num_steps)
    if step < warmup:
        return step / warmup
    if job.schedule == "constant":
        return 1.0
    progress = (step - warmup) / max(1, num_steps - warmup)
    if job.schedule == "linear":
        return max(0.0, 1.0 - progress)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))


class AdapterOptimizer:
    """AdamW on the flat parameters of one adapter.

    Args:
        job: its settings.
        values, gradients: float32 [num_parameters], changed in place.
        num_steps: of the whole job.
    """

    def __init__(self, job: LoraJob, values: Tensor, gradients: Tensor, num_steps: int) -> None:
        self.job = job
        self.num_steps = num_steps
        self._flat = nn.Parameter(values)
        self._flat.grad = self._gradients = gradients
        self._adamw = torch.optim.AdamW(
            [self._flat], lr=job.learning_rate, weight_decay=job.weight_decay, fused=True
        )
        # As AdamW would at its first step; there from the start, so that a checkpoint has them.
        self._adamw.state[self._flat] = {
            "step": torch.zeros((), device=values.device),
            "exp_avg": torch.zeros_like(values),
            "exp_avg_sq": torch.zeros_like(values),
        }

    @property
    def moments(self) -> dict[str, Tensor]:
        """`step` [] and both moments [num_parameters], as AdamW holds them."""
        state: dict[str, Tensor] = self._adamw.state[self._flat]
        return state

    @property
    def num_bytes(self) -> int:
        """Memory of parameters, gradients and both moments."""
        tensors = (self._flat, self._gradients, *self.moments.values())
        return sum(tensor.nbytes for tensor in tensors)

    def clip(self) -> Tensor:
        """Scale the gradient down to the job's norm; returns the norm [] it had."""
        limit = self.job.max_grad_norm or math.inf
        return nn.utils.clip_grad_norm_([self._flat], limit)

    def step(self, step: int) -> None:
        """Take step `step` (from 0) with the gradient there is, and clear it."""
        factor = rate_factor(self.job, step, self.num_steps)
        self._adamw.param_groups[0]["lr"] = self.job.learning_rate * factor
        self._adamw.step()
        self._gradients.zero_()
