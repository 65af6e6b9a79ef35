"""The loss over a large vocabulary, of the trained tokens alone.

For token n with hidden state h_n [D], label y_n and weight w_n, and a frozen head W [V, D]:

    z_n = W h_n,    l_n = log sum exp z_n - z_n[y_n],    L = sum_n w_n l_n
    dL/dh_n = w_n (softmax z_n - e_{y_n}) W

As the head is frozen, the gradient is known as soon as the logits are: both are computed in one
sweep over blocks of tokens, and no logits are kept for the backward pass.
"""

from typing import Any

import torch
from torch import Tensor

from auctune.train.multilora.frozen import Linear

# Logits of one block take at most 16 MB in float32: the C library then keeps the memory for the
# next block, and a GPT-2 head still sees 80 tokens at once.
BLOCK_NUMBERS = 1 << 22


class HeadLoss(torch.autograd.Function):
    """hidden [M, D], weight [V, D], bias [V] or none, labels [M], weights [M] -> L [], l [M].

    l has no gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        weights: Tensor,
        linear: Linear,
    ) -> tuple[Tensor, Tensor]:
        losses = torch.empty(len(hidden), device=hidden.device)
        gradient = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        block = max(1, BLOCK_NUMBERS // len(weight))
        for first in range(0, len(hidden), block):
            part = slice(first, first + block)
            logits = linear(hidden[part], weight, bias).float()
            true = labels[part].unsqueeze(1)
            logits -= logits.amax(1, keepdim=True)
            of_true = logits.gather(1, true)
            total = logits.exp_().sum(1, keepdim=True)
            losses[part] = (total.log() - of_true).squeeze(1)
            if gradient is not None:
                scale = weights[part].unsqueeze(1)
                logits *= scale / total
                logits.scatter_add_(1, true, -scale)
                gradient[part] = linear(logits.to(weight.dtype), weight.t(), None)
        ctx.save_for_backward(*([] if gradient is None else [gradient]))
        ctx.mark_non_differentiable(losses)
        return (losses * weights).sum(), losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (of_hidden,) = ctx.saved_tensors
        return of_hidden * gradients[0].to(of_hidden.dtype), None, None, None, None, None
