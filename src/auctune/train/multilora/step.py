"""One pass of a micro-batch: forward, per-adapter losses, backward.

Rows are padded on the right. Attention is causal, so no real token sees padding, and no mask is
needed; labels of padding are not learnt. Tokens are predicted from the place before them.
"""

from itertools import groupby
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from auctune.train.multilora.adapters import AdaptedModel
from auctune.train.multilora.batches import MicroBatch
from auctune.train.multilora.layer import FusedLora
from auctune.train.multilora.loss import HeadLoss
from auctune.train.multilora.routing import Routing, Segment
from auctune.train.rows import TokenizedRow

NOT_LEARNT = -100


class Step(Protocol):
    """Runs micro-batches."""

    def train(self, batch: MicroBatch) -> dict[str, Tensor]:
        """Add the batch's gradients to those of its adapters.

        Returns:
            For each adapter the sum [] of the losses of its trained tokens, unweighted.
        """

    def evaluate(self, batch: MicroBatch) -> dict[str, Tensor]:
        """The same sums, without gradients and dropout."""

    def logits(self, adapter: str, row: TokenizedRow) -> Tensor:
        """[tokens, vocabulary] of a row with an adapter, without dropout."""


class ModelStep:
    """Runs micro-batches through an adapted model.

    Args:
        adapted: the model.
        checkpointing: whether to recompute activations in the backward pass, to save memory.
    """

    def __init__(self, adapted: AdaptedModel, *, checkpointing: bool = False) -> None:
        self.adapted = adapted
        self.model = adapted.model
        self.device = next(self.model.parameters()).device
        if checkpointing:
            self.model.activation_checkpointing_enable({"use_reentrant": False})
            # Adapters require gradients wherever any are needed; embeddings need none.
            self.model.disable_input_require_grads()  # type: ignore[no-untyped-call]
        self._head_alone = has_plain_head(self.model)

    def train(self, batch: MicroBatch) -> dict[str, Tensor]:
        """See `Step`."""
        self.model.train()
        with self.adapted.switchboard.connected(self._routing(batch)):
            loss, sums = self._losses(batch)
            torch.autograd.backward(loss)
        return sums

    @torch.no_grad()
    def evaluate(self, batch: MicroBatch) -> dict[str, Tensor]:
        """See `Step`."""
        self.model.train(False)
        with self.adapted.switchboard.connected(self._routing(batch)):
            return self._losses(batch)[1]

    @torch.no_grad()
    def logits(self, adapter: str, row: TokenizedRow) -> Tensor:
        """[tokens, vocabulary] of a row with an adapter, without dropout."""
        self.model.train(False)
        ids = torch.from_numpy(row.input_ids).unsqueeze(0).to(self.device)
        routing = Routing((Segment(adapter, 0, 1),), torch.zeros_like(ids[:, 0]), ids.shape[1])
        with self.adapted.switchboard.connected(routing):
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
        ids, places, labels, weights, owners = self._tensors(batch)
        names = list(dict.fromkeys(row.adapter for row in batch.rows))
        loss, losses = self._token_losses(ids, places, labels, weights)
        sums = losses.new_zeros(len(names)).index_add_(0, owners, losses.detach())
        return loss, dict(zip(names, sums.unbind(), strict=True))

    def _token_losses(
        self, ids: Tensor, places: Tensor, labels: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        head = self.model.get_output_embeddings()  # type: ignore[no-untyped-call]
        if self._head_alone and not isinstance(head, FusedLora):
            hidden = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
            chosen = hidden.flatten(0, 1).index_select(0, places)
            loss, losses = HeadLoss.apply(  # type: ignore[no-untyped-call]
                chosen, head.weight, head.bias, labels, weights, self.adapted.linear
            )
            return loss, losses
        logits = self.model(input_ids=ids, use_cache=False).logits
        chosen = logits.flatten(0, 1).index_select(0, places).float()
        losses = functional.cross_entropy(chosen, labels, reduction="none")
        return (losses * weights).sum(), losses

    def _tensors(self, batch: MicroBatch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """ids [rows, width], and of M trained tokens: places before them, labels, weights, owners.

        Places are in the flattened [rows * width]; owners count the adapters in their order.
        """
        ids = torch.zeros(len(batch.rows), batch.width, dtype=torch.int64)
        labels = torch.full_like(ids, NOT_LEARNT)
        weights = torch.tensor([row.weight for row in batch.rows])
        names = {name: n for n, name in enumerate(dict.fromkeys(r.adapter for r in batch.rows))}
        owners = torch.tensor([names[row.adapter] for row in batch.rows])
        for index, row in enumerate(batch.rows):
            ids[index, : len(row)] = torch.from_numpy(row.input_ids)
            labels[index, : len(row) - 1] = torch.from_numpy(row.labels[1:])
        learnt = (labels != NOT_LEARNT).flatten()
        places = learnt.nonzero().squeeze(1)
        rows = places // batch.width
        parts = (ids, places, labels.flatten()[places], weights[rows], owners[rows])
        moved = tuple(part.to(self.device, non_blocking=True) for part in parts)
        return moved[0], moved[1], moved[2], moved[3], moved[4]


@torch.no_grad()
def has_plain_head(model: nn.Module) -> bool:
    """Whether logits are the output layer on the last hidden states, with nothing in between.

    Some architectures scale or cap their logits; they are asked for their own.
    """
    head = model.get_output_embeddings()  # type: ignore[operator]
    if not isinstance(head, nn.Linear):
        return False
    device = next(model.parameters()).device
    probe = torch.arange(4, device=device).unsqueeze(0)
    was_training = model.training
    model.eval()
    hidden = model.base_model(input_ids=probe, use_cache=False).last_hidden_state  # type: ignore[operator]
    logits = model(input_ids=probe, use_cache=False).logits
    model.train(was_training)
    return bool(torch.equal(head(hidden), logits))
