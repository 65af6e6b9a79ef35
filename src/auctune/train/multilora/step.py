"""One pass of a micro-batch: forward, per-adapter losses, backward.

Rows lie one after the other in one stream of tokens, where the model can take them so
(`auctune.train.multilora.attention`). Else they are padded on the right: attention is causal, so no
real token sees padding, and no mask is needed. Each token is predicted from the position before it.

The loss over a large vocabulary is computed for the target tokens alone. For token n with hidden
state h_n [D], label y_n and weight w_n, and a frozen head W [V, D]:

    z_n = W h_n,    l_n = log sum exp z_n - z_n[y_n],    L = sum_n w_n l_n
    dL/dh_n = w_n (softmax z_n - e_{y_n}) W

As the head is frozen, the gradient is known as soon as the logits are: both are computed in one
sweep over blocks of tokens, and no logits are kept for the backward pass. A token is a hit where no
logit is larger than its own; their share is the mean token accuracy.

Direct preference optimization (Rafailov et al., 2023, eq. 7): for a pair with log-probabilities p+
and p- of the better and the worse answer, and r+ and r- of the base alone,

    d = beta ((p+ - r+) - (p- - r-)),    L = w log(1 + exp(-d)),    dL/dp+ = -w beta / (1 + exp(d))

and dL/dp- = -dL/dp+. So it is the loss above with other weights of the tokens: +-w beta / (1 +
exp(d)), once d is known. That takes one more sweep over the blocks, and none through the model.

Kahneman-Tversky optimization (Ethayarajh et al., 2024, eq. 8): for a row with a rating s, 1 or -1,
and z, the estimate of the divergence from the base,

    m = s beta (p - r - z),    L = w / (1 + exp(m)) = w q,    dL/dp = -w s beta q (1 - q)

z is the mean of p' - r' over the batch, 0 if that is negative, where p' and r' are those of another
row's answer to the row's prompt. It is a constant of the batch, computed before its first row is
trained, as the weights change at its end alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from auctune.train.multilora.adapters import AdaptedModel
from auctune.train.multilora.attention import enable_packing
from auctune.train.multilora.batching import MicroBatch
from auctune.train.multilora.body import Body, BodyPass, TokenStream
from auctune.train.multilora.frozen import Linear
from auctune.train.multilora.layer import MultiLoraLayer
from auctune.train.multilora.plan import Routing, TokenKeys
from auctune.train.multilora.transfer import to_device
from auctune.train.rows import IGNORE_INDEX, TokenizedRow

# Logits of one block, in float32. On a CPU 16 MB at most: the C library then keeps the memory for
# the next block, and a GPT-2 head still sees 80 tokens at once. A GPU reads the whole head twice a
# block, a gigabyte for Llama 3, and needs hundreds of tokens to be busy meanwhile: 268 MB.
BLOCK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}
# Rows of a tile of matrix products on a GPU: a few rows more than whole tiles cost another tile.
_TILE = 128


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
        block = _block_rows(BLOCK_ELEMENTS[hidden.device.type], len(weight))
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


def _block_rows(num_elements: int, vocabulary: int) -> int:
    """Return the tokens of a block of logits: whole tiles, where it has any."""
    rows = max(1, num_elements // vocabulary)
    return rows if rows < _TILE else rows - rows % _TILE


@dataclass(frozen=True, slots=True)
class Targets:
    """M target tokens of a micro-batch.

    Attributes:
        targets: [M], the token before each target, of the flattened ids.
        labels, weights, rows: [M], each target's id, weight, and row.
        adapters: [rows], number of each row's adapter.
    """

    targets: Tensor
    labels: Tensor
    weights: Tensor
    rows: Tensor
    adapters: Tensor


class Preferences:
    """Pairs of answers of a micro-batch, and its answers with ratings.

    Args:
        num_rows: of the micro-batch.
        first: [pairs], the rows with the better answers; the one with the worse follows each.
        beta, reference: float32 [pairs].
        rated: [ratings], the rows with ratings.
        slope, level: float32 [ratings]: s beta and r + z.
    """

    def __init__(
        self,
        num_rows: int,
        first: Tensor,
        beta: Tensor,
        reference: Tensor,
        rated: Tensor,
        slope: Tensor,
        level: Tensor,
    ) -> None:
        self._num_rows = num_rows
        self._first, self._beta, self._reference = first, beta, reference
        self._rated, self._slope, self._level = rated, slope, level
        self._d = self._m = torch.empty(0)

    def weigh(self, losses: Tensor, rows: Tensor) -> Tensor:
        """Find d of each pair and m of each rating; return factors [rows] of the tokens' weights.

        Args:
            losses: [M], minus the log-probability of each target.
            rows: [M], its row.
        """
        by_row = self.sums_by_row(losses, rows)
        self._d = self._beta * (by_row[self._first + 1] - by_row[self._first] - self._reference)
        slope = self._beta * torch.sigmoid(-self._d)
        factors = torch.ones_like(by_row)
        factors[self._first], factors[self._first + 1] = slope, -slope
        self._m = self._slope * (-by_row[self._rated] - self._level)
        factors[self._rated] = self._slope * torch.sigmoid(self._m) * torch.sigmoid(-self._m)
        return factors

    def sums_by_row(self, values: Tensor, rows: Tensor) -> Tensor:
        """Return the sums [rows] of the values [M] of targets, of rows [M]."""
        return values.new_zeros(self._num_rows).index_add_(0, rows, values)

    def replaced(self, by_row: Sequence[Tensor]) -> list[Tensor]:
        """Put those of pairs and ratings in the place of losses and hits [rows].

        Those of a pair stand at the better answer. A hit is a pair with d > 0, or a rating with
        m > 0.
        """
        losses, hits = by_row
        losses[self._first] = functional.softplus(-self._d)
        losses[self._rated] = torch.sigmoid(-self._m)
        hits[self._first], hits[self._rated] = (self._d > 0).float(), (self._m > 0).float()
        losses[self._first + 1] = hits[self._first + 1] = 0.0
        return [losses, hits]


@dataclass(frozen=True, slots=True)
class _Pass:
    """What a pass over a micro-batch needs, on the device of the model."""

    body: BodyPass
    targets: Targets
    preferences: Preferences | None


class ForwardBackward:
    """Forward and backward passes of micro-batches through an adapted model.

    Args:
        adapted: the model.
        checkpointing: n: recompute the activations of every n-th layer in the backward pass, from
            the first one on, to save memory; 0: keep all of them.
        uses_graphs: whether passes may be captured on CUDA: as of `Body`.

    Attributes:
        is_packed: whether the model takes packed micro-batches; else padded ones.
    """

    def __init__(
        self, adapted: AdaptedModel, *, checkpointing: int = 0, uses_graphs: bool = False
    ) -> None:
        self.adapted = adapted
        self.model = adapted.model
        self.device = adapted.device
        if checkpointing:
            self.model.activation_checkpointing_enable(
                {"use_reentrant": False}, every_n_layers=checkpointing
            )
            # Adapters require gradients wherever any are needed; embeddings need none.
            self.model.disable_input_require_grads()
        head = self.model.get_output_embeddings()
        self._head_alone = isinstance(head, MultiLoraLayer) and has_plain_head(self.model)
        self.is_packed = enable_packing(self.model)
        can_capture = self.device.type == "cuda" and self._head_alone and not checkpointing
        self.body = Body(adapted, uses_graphs=uses_graphs and can_capture)

    def train(self, batch: MicroBatch) -> dict[str, Tensor]:
        """Add the batch's gradients to those of its adapters.

        Returns:
            For each adapter [2]: the sum of the losses of its target tokens, or of its pairs or
            ratings, unweighted, and the number of its hits.
        """
        self._set_training(True)
        one = self._prepare(batch, drops=True)
        with self.adapted.context.active(one.body.products):
            loss, sums = self._losses(batch, one)
            torch.autograd.backward(loss)
        return sums

    @torch.no_grad()
    def evaluate(self, batch: MicroBatch) -> dict[str, Tensor]:
        """Return the same sums, without gradients and dropout."""
        self._set_training(False)
        one = self._prepare(batch)
        with self.adapted.context.active(one.body.products):
            return self._losses(batch, one)[1]

    @torch.no_grad()
    def log_probabilities(self, batch: MicroBatch, adapters: Collection[str]) -> Tensor:
        """Return the log-probability [rows] of each row's targets.

        Args:
            adapters: those that count; rows of others are computed by the base alone.
        """
        self._set_training(False)
        one = self._prepare(batch, adapters=adapters)
        with self.adapted.context.active(one.body.products):
            losses = self._token_losses(one, None)[1]
        return -losses.new_zeros(len(batch.rows)).index_add_(0, one.targets.rows, losses)

    @torch.no_grad()
    def logits(self, adapter: str, row: TokenizedRow) -> Tensor:
        """Return the logits [tokens, vocabulary] of a row with an adapter, without dropout."""
        self._set_training(False)
        adapters, size = self.adapted.adapters, len(row)
        slot = adapters.slot(adapter)
        adapters.cast_values([slot])
        routing = Routing.of_rows(adapters, [slot], np.array([0, size]))
        lengths = (size,) if self.is_packed else None
        stream = TokenStream(row.input_ids[None], np.arange(size)[None], lengths, routing, size)
        one = self.body.prepare(stream)
        with self.adapted.context.active(one.products):
            logits = self.model(**one.inputs).logits
        assert isinstance(logits, Tensor)
        return logits[0]

    def _set_training(self, is_training: bool) -> None:
        # A walk over all modules of the model.
        if self.model.training is not is_training:
            self.model.train(is_training)

    def _prepare(
        self, batch: MicroBatch, adapters: Collection[str] | None = None, *, drops: bool = False
    ) -> _Pass:
        """Make what a pass needs on the host, and bring it to the device at once.

        Args:
            adapters: those that count; `None`: all.
            drops: whether adapters drop features.
        """
        slots = [
            self.adapted.adapters.slot(row.adapter)
            if adapters is None or row.adapter in adapters
            else -1
            for row in batch.rows
        ]
        keys = _token_keys(batch)
        routing = Routing.of_rows(
            self.adapted.adapters, slots, batch.starts, keys if drops else None
        )
        self.adapted.adapters.cast_values(routing.slots)
        numbers = {name: n for n, name in enumerate(_adapters(batch))}
        of_rows = np.array([numbers[row.adapter] for row in batch.rows])
        ids, of_targets = _token_arrays(batch)
        preferences = _preference_arrays(batch)
        tensors = iter(to_device([*of_targets, of_rows, *preferences], self.device))
        targets = Targets(*(next(tensors) for _ in range(len(of_targets) + 1)))
        of_preferences = list(tensors)
        shape = (1, batch.num_tokens) if batch.is_packed else (len(batch.rows), batch.width)
        stream = TokenStream(
            ids.reshape(shape),
            keys.position.reshape(shape),
            tuple(batch.lengths.tolist()) if batch.is_packed else None,
            routing,
            batch.width,
        )
        return _Pass(
            self.body.prepare(stream),
            targets,
            Preferences(len(batch.rows), *of_preferences) if of_preferences else None,
        )

    def _losses(self, batch: MicroBatch, one: _Pass) -> tuple[Tensor, dict[str, Tensor]]:
        targets, preferences = one.targets, one.preferences
        loss, *found = self._token_losses(one, preferences)
        values = [value.detach().to(torch.float32) for value in found]
        of_values = targets.adapters[targets.rows]
        if preferences is not None:
            by_row = [preferences.sums_by_row(value, targets.rows) for value in values]
            values, of_values = preferences.replaced(by_row), targets.adapters
        names = _adapters(batch)
        sums = [loss.new_zeros(len(names)).index_add_(0, of_values, value) for value in values]
        return loss, dict(zip(names, torch.stack(sums, dim=1), strict=True))

    def _token_losses(
        self, one: _Pass, preferences: Preferences | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss [], and of each target token its own loss [M] and whether it is a hit."""
        targets = one.targets
        head = self.model.get_output_embeddings()
        if self._head_alone and not one.body.products.adapts(head.layer):
            hidden = one.body.hidden()
            chosen = hidden.flatten(0, 1).index_select(0, targets.targets)

            def cross_entropy(chosen: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
                loss, losses, hits = FusedLinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
                    chosen, head.weight, head.bias, targets.labels, weights, self.adapted.linear
                )
                return loss, losses, hits
        else:
            logits = self.model(**one.body.inputs).logits
            chosen = logits.flatten(0, 1).index_select(0, targets.targets).float()

            def cross_entropy(chosen: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
                losses = functional.cross_entropy(chosen, targets.labels, reduction="none")
                with torch.no_grad():
                    own = chosen.gather(1, targets.labels.unsqueeze(1)).squeeze(1)
                    hits = own == chosen.amax(1)
                return (losses * weights).sum(), losses, hits

        weights = targets.weights
        if preferences is not None:
            with torch.no_grad():
                losses = cross_entropy(chosen.detach(), weights)[1]
            weights = weights * preferences.weigh(losses, targets.rows)[targets.rows]
        return cross_entropy(chosen, weights)


def _adapters(batch: MicroBatch) -> list[str]:
    """Return the names of a micro-batch's adapters, in its order."""
    return list(dict.fromkeys([row.adapter for row in batch.rows]))


def _token_keys(batch: MicroBatch) -> TokenKeys:
    """Return by what features of a micro-batch's tokens are dropped."""
    row_of = np.repeat(np.arange(len(batch.rows)), np.diff(batch.starts))
    keys = np.array([row.key for row in batch.rows], np.int64)[row_of]
    return TokenKeys(keys, np.arange(batch.num_tokens) - batch.starts[row_of])


def _token_arrays(batch: MicroBatch) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
    """Return the ids of all tokens, and the fields of `Targets` but the last."""
    starts = batch.starts
    ids = np.zeros(batch.num_tokens, np.int64)
    labels = np.full(batch.num_tokens, IGNORE_INDEX, np.int64)
    for row, first in zip(batch.rows, starts, strict=False):
        ids[first : first + len(row)] = row.input_ids
        labels[first : first + len(row) - 1] = row.labels[1:]
    targets = np.flatnonzero(labels != IGNORE_INDEX)
    rows = np.searchsorted(starts, targets, side="right") - 1
    weights = np.array([row.weight for row in batch.rows], np.float32)
    return ids, [targets, labels[targets], weights[rows], rows]


def _preference_arrays(batch: MicroBatch) -> list[NDArray[Any]]:
    """Return the arguments of `Preferences` after the first; none if the batch has none."""
    first = [number for number, row in enumerate(batch.rows) if row.is_paired][::2]
    rated = [number for number, row in enumerate(batch.rows) if row.rating]
    if not first and not rated:
        return []
    better, worse = ([batch.rows[n + offset] for n in first] for offset in (0, 1))
    references = [a.reference - b.reference for a, b in zip(better, worse, strict=True)]
    return [
        np.array(first, np.int64),
        np.array([row.beta for row in better], np.float32),
        np.array(references, np.float32),
        np.array(rated, np.int64),
        np.array([batch.rows[n].rating * batch.rows[n].beta for n in rated], np.float32),
        np.array([batch.rows[n].reference for n in rated], np.float32),
    ]


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
