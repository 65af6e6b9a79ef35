"""One pass of a micro-batch: forward, per-adapter losses, backward.

Rows are padded on the right. Attention is causal, so no real token sees padding, and no mask is
needed; labels of padding are ignored. Each token is predicted from the position before it.

The loss over a large vocabulary is computed for the target tokens alone. For token n with hidden
state h_n [D], label y_n and weight w_n, and a frozen head W [V, D]:

    z_n = W h_n,    l_n = log sum exp z_n - z_n[y_n],    L = sum_n w_n l_n
    dL/dh_n = w_n (softmax z_n - e_{y_n}) W

As the head is frozen, the gradient is known as soon as the logits are: both are computed in one
sweep over blocks of tokens, and no logits are kept for the backward pass. A token is a hit where no
logit is larger than its own; their share is the mean token accuracy.
"""

from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from auctune.train.multilora.adapters import AdaptedModel
from auctune.train.multilora.batching import MicroBatch
from auctune.train.multilora.frozen import Linear
from auctune.train.multilora.layer import MultiLoraLinear, Routing, Segment
from auctune.train.rows import IGNORE_INDEX, TokenizedRow

# Logits of one block, in float32. On a CPU 16 MB at most: the C library then keeps the memory for
# the next block, and a GPT-2 head still sees 80 tokens at once. A GPU reads the whole head twice a
# block, a gigabyte for Llama 3, and needs hundreds of tokens to be busy meanwhile: 268 MB.
BLOCK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}


class FusedLinearCrossEntropy(torch.autograd.Function):
    """hidden [M, D], weight [V, D], bias [V] or None, labels [M], weights [M] -> L [], l and hits.

    l, float32 [M], and hits, bool [M], have no gradient.
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
    ) -> tuple[Tensor, Tensor, Tensor]:
        losses = torch.empty(len(hidden), device=hidden.device)
        hits = torch.empty(len(hidden), dtype=torch.bool, device=hidden.device)
        gradient = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        block = max(1, BLOCK_ELEMENTS[hidden.device.type] // len(weight))
        for first in range(0, len(hidden), block):
            part = slice(first, first + block)
            logits = linear(hidden[part], weight, bias).float()
            true = labels[part].unsqueeze(1)
            logits -= logits.amax(1, keepdim=True)
            target_logit = logits.gather(1, true)
            hits[part] = target_logit.squeeze(1) == 0
            total = logits.exp_().sum(1, keepdim=True)
            losses[part] = (total.log() - target_logit).squeeze(1)
            if gradient is not None:
                scale = weights[part].unsqueeze(1)
                logits *= scale / total
                logits.scatter_add_(1, true, -scale)
                gradient[part] = linear(logits.to(weight.dtype), weight.t(), None)
        ctx.save_for_backward(*([] if gradient is None else [gradient]))
        ctx.mark_non_differentiable(losses, hits)
        return (losses * weights).sum(), losses, hits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (of_hidden,) = ctx.saved_tensors
        return of_hidden * gradients[0].to(of_hidden.dtype), None, None, None, None, None


class ForwardBackward:
    """Forward and backward passes of micro-batches through an adapted model.

    Args:
        adapted: the model.
        checkpointing: recompute activations in the backward pass, to save memory.
    """

    def __init__(self, adapted: AdaptedModel, *, checkpointing: bool = False) -> None:
        self.adapted = adapted
        self.model = adapted.model
        self.device = next(self.model.parameters()).device
        if checkpointing:
            self.model.activation_checkpointing_enable({"use_reentrant": False})
            # Adapters require gradients wherever any are needed; embeddings need none.
            self.model.disable_input_require_grads()
        self._head_alone = has_plain_head(self.model)

    def train(self, batch: MicroBatch) -> dict[str, Tensor]:
        """Add the batch's gradients to those of its adapters.

        Returns:
            For each adapter [2]: the sum of the losses of its target tokens, unweighted, and the
            number of its hits.
        """
        self.model.train()
        with self.adapted.routing_context.active(self._routing(batch)):
            loss, sums = self._losses(batch)
            torch.autograd.backward(loss)
        return sums

    @torch.no_grad()
    def evaluate(self, batch: MicroBatch) -> dict[str, Tensor]:
        """Return the same sums, without gradients and dropout."""
        self.model.train(False)
        with self.adapted.routing_context.active(self._routing(batch)):
            return self._losses(batch)[1]

    @torch.no_grad()
    def logits(self, adapter: str, row: TokenizedRow) -> Tensor:
        """Return the logits [tokens, vocabulary] of a row with an adapter, without dropout."""
        self.model.train(False)
        ids = torch.from_numpy(row.input_ids).unsqueeze(0).to(self.device)
        routing = Routing((Segment(adapter, 0, 1),), torch.zeros_like(ids[:, 0]), ids.shape[1])
        with self.adapted.routing_context.active(routing):
            logits = self.model(input_ids=ids, use_cache=False).logits
        assert isinstance(logits, Tensor)
        return logits[0]

    def _routing(self, batch: MicroBatch) -> Routing:
        segments, first = [], 0
        for adapter, rows in groupby(batch.rows, key=lambda row: row.adapter):
            last = first + len(list(rows))
            segments.append(Segment(adapter, first, last))
            first = last
        keys = torch.tensor([row.key for row in batch.rows], device=self.device)
        return Routing(tuple(segments), keys, batch.width)

    def _losses(self, batch: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
        ids, positions, labels, weights, adapter_indices = self._tensors(batch)
        names = list(dict.fromkeys(row.adapter for row in batch.rows))
        loss, losses, hits = self._token_losses(ids, positions, labels, weights)
        sums = [
            losses.new_zeros(len(names)).index_add_(0, adapter_indices, values)
            for values in (losses.detach(), hits.to(losses.dtype))
        ]
        return loss, dict(zip(names, torch.stack(sums, dim=1), strict=True))

    def _token_losses(
        self, ids: Tensor, positions: Tensor, labels: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        head = self.model.get_output_embeddings()
        if self._head_alone and not isinstance(head, MultiLoraLinear):
            hidden = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
            chosen = hidden.flatten(0, 1).index_select(0, positions)
            loss, losses, hits = FusedLinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
                chosen, head.weight, head.bias, labels, weights, self.adapted.linear
            )
            return loss, losses, hits
        logits = self.model(input_ids=ids, use_cache=False).logits
        chosen = logits.flatten(0, 1).index_select(0, positions).float()
        losses = functional.cross_entropy(chosen, labels, reduction="none")
        with torch.no_grad():
            hits = chosen.gather(1, labels.unsqueeze(1)).squeeze(1) == chosen.amax(1)
        return (losses * weights).sum(), losses, hits

    def _tensors(self, batch: MicroBatch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return ids [rows, width]; of M target tokens positions, labels, weights, adapter indices.

        A position is that before the token, in the flattened [rows * width].
        """
        ids = np.zeros((len(batch.rows), batch.width), np.int64)
        labels = np.full_like(ids, IGNORE_INDEX)
        weights = np.array([row.weight for row in batch.rows], np.float32)
        names = {name: n for n, name in enumerate(dict.fromkeys(r.adapter for r in batch.rows))}
        adapter_indices = np.array([names[row.adapter] for row in batch.rows])
        for index, row in enumerate(batch.rows):
            ids[index, : len(row)] = row.input_ids
            labels[index, : len(row) - 1] = row.labels[1:]
        positions = np.flatnonzero(labels != IGNORE_INDEX)
        rows = positions // batch.width
        parts = (ids, positions, labels.ravel()[positions], weights[rows], adapter_indices[rows])
        moved = tuple(torch.from_numpy(part).to(self.device, non_blocking=True) for part in parts)
        return moved[0], moved[1], moved[2], moved[3], moved[4]


@torch.no_grad()
def has_plain_head(model: nn.Module) -> bool:
    """Return whether logits are the output layer on the last hidden states, with nothing between.

    Some architectures scale or cap their logits; for those the model computes them. What the layers
    give each other is compared within one pass: two passes on a GPU may differ in their last bits.
    """
    head = model.get_output_embeddings()  # type: ignore[operator]
    if not isinstance(head, nn.Linear):
        return False
    seen: dict[str, Tensor] = {}

    def note_hidden(_module: nn.Module, _inputs: Any, output: Any) -> None:
        seen["hidden"] = output[0]

    def note_head(_module: nn.Module, inputs: Any, output: Tensor) -> None:
        seen["input"], seen["output"] = inputs[0], output

    body: nn.Module = model.base_model  # type: ignore[assignment]
    hooks = body.register_forward_hook(note_hidden), head.register_forward_hook(note_head)
    device = next(model.parameters()).device
    probe = torch.arange(4, device=device).unsqueeze(0)
    was_training = model.training
    try:
        logits = model.eval()(input_ids=probe, use_cache=False).logits
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return (
        seen.keys() == {"hidden", "input", "output"}
        and torch.equal(seen["hidden"], seen["input"])
        and torch.equal(seen["output"], logits)
    )
