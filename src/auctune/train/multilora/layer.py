"""A linear layer with many LoRA adapters, each applied to its own rows (Hu et al., 2021, sec. 4.1).

For a token of adapter i, with scale s_i = alpha_i / r_i, dropout mask m and its keep scale k_i:

    y = x W + b + s_i k_i (x * m) A_i^T B_i^T

and, with g the gradient of y and h = s_i k_i g B_i,

    x:      g W^T + (h A_i) * m
    A_i:    sum h^T (x * m)
    B_i^T:  sum (s_i k_i (x * m) A_i^T)^T g

where sums are over the tokens of adapter i alone. Base product and all adapters are one node of the
autograd graph. The layer enters a model through PEFT's custom-module hook, so PEFT owns the
parameters, the configuration and the saving; without a routing it is PEFT's own layer.

Rows of one adapter are adjacent in a batch. The layers find the routing of the running pass in a
`RoutingContext` that they share, since a model's forward method has no argument for it. It is set
until the backward pass has ended: gradient checkpointing runs forward passes within it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from peft.tuners.lora.layer import Linear as PeftLinear
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from auctune.domain.errors import InputError
from auctune.train.multilora.backends import Backend, Bounds, Matrices, transposed
from auctune.train.multilora.dropout import keep_mask, keep_scale, layer_key, num_dropped_levels
from auctune.train.multilora.frozen import Linear, frozen_bias, frozen_weight, unpacking


@dataclass(frozen=True)
class Segment:
    """Rows first, first + 1, ..., last - 1 of a batch, which belong to one adapter."""

    adapter: str
    first: int
    last: int


@dataclass(frozen=True)
class Routing:
    """Assignment of a batch's rows to adapters.

    Attributes:
        segments: in the order of their rows, without a gap, from row 0 on.
        row_keys: int64 [rows], a key for the dropout mask of each row.
        width: tokens of a row, for modules that see all tokens as one row of tokens.
    """

    segments: tuple[Segment, ...]
    row_keys: Tensor
    width: int
    _cache: dict[tuple[object, ...], Tensor] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        starts = [segment.first for segment in self.segments]
        ends = [segment.last for segment in self.segments]
        if [0, *ends] != [*starts, len(self.row_keys)] or any(
            segment.first >= segment.last for segment in self.segments
        ):
            raise ValueError(f"segments do not cover {len(self.row_keys)} rows: {self.segments}")

    @property
    def num_rows(self) -> int:
        """Rows of the whole batch."""
        return len(self.row_keys)

    def by_row(
        self, segments: tuple[Segment, ...], values: tuple[float, ...], dtype: torch.dtype
    ) -> Tensor:
        """Return [rows]: the value of each row's segment; 0 outside of `segments`.

        Cached, since the layers of a model need few different ones, and on a GPU each would be
        a transfer of its own.
        """
        key = (segments, values, dtype)
        if key not in self._cache:
            rows = torch.zeros(self.num_rows, dtype=dtype)
            for segment, value in zip(segments, values, strict=True):
                rows[segment.first : segment.last] = value
            self._cache[key] = rows.to(self.row_keys.device)
        return self._cache[key]

    def by_token(
        self, segments: tuple[Segment, ...], values: tuple[float, ...], width: int
    ) -> Tensor:
        """Return float32 [rows * width, 1]: the same for each token."""
        key = (segments, values, width)
        if key not in self._cache:
            rows = self.by_row(segments, values, torch.float32)
            self._cache[key] = rows.repeat_interleave(width).unsqueeze(1)
        return self._cache[key]


class RoutingContext:
    """Holder of the routing of the running pass, which all fused layers of a model share."""

    def __init__(self) -> None:
        self.routing: Routing | None = None

    @contextmanager
    def active(self, routing: Routing) -> Iterator[None]:
        """Set the routing for a block; forward and backward pass both belong inside."""
        if self.routing is not None:
            raise ValueError("a pass is running already; passes do not nest")
        self.routing = routing
        try:
            yield
        finally:
            self.routing = None


@dataclass(frozen=True)
class LayerPass:
    """Arguments of one pass through one layer, beside tensors that have gradients.

    Attributes:
        linear: the product with the frozen weight.
        unpack: what makes that weight [out, in] of the tensor that holds it.
        backend: of the products with the adapters' matrices.
        bounds: tokens of each segment that has an adapter in this layer.
        ranks: of these adapters.
        scale: float32 [N, 1], s_i k_i of each token: bfloat16 would round it by up to 0.4%, where
            those who use the adapter have it exactly.
    """

    linear: Linear
    unpack: Callable[[Tensor], Tensor]
    backend: Backend
    bounds: Bounds
    ranks: tuple[int, ...]
    scale: Tensor


class _MultiLoraProduct(torch.autograd.Function):
    """x [N, in], frozen weight [out, in], bias [out], mask bool [N, in], then A_1, B_1, A_2, ...

    The weight is as it is stored. Bias may be missing, and so may the mask, where nothing is
    dropped. All large tensors are saved through autograd, which lets gradient checkpointing drop
    and recompute them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        call: LayerPass,
        *factors: Tensor,
    ) -> Tensor:
        y = call.linear(x, call.unpack(weight), bias)
        rank = max(call.ranks)
        lora_a = call.backend.gather(factors[::2], rank, x.shape[1], x.dtype)
        lora_b = call.backend.gather(factors[1::2], y.shape[1], rank, x.dtype)
        ctx.is_stacked = isinstance(lora_a, Tensor)
        matrices = (lora_a, lora_b) if ctx.is_stacked else (*lora_a, *lora_b)
        dropped_x = x if mask is None else x * mask
        lora_hidden = x.new_zeros(len(x), lora_a.shape[1] if isinstance(lora_a, Tensor) else rank)
        call.backend.add(lora_hidden, dropped_x, transposed(lora_a), call.bounds)
        lora_hidden *= call.scale
        call.backend.add(y, lora_hidden, transposed(lora_b), call.bounds)
        ctx.call = call
        ctx.save_for_backward(x, weight, mask, lora_hidden, *matrices)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        call: LayerPass = ctx.call
        x, weight, mask, lora_hidden, *matrices = ctx.saved_tensors
        half = len(matrices) // 2
        lora_a: Matrices = matrices[0] if ctx.is_stacked else matrices[:half]
        lora_b: Matrices = matrices[1] if ctx.is_stacked else matrices[half:]
        gradient = gradient.contiguous()
        hidden_gradient = torch.zeros_like(lora_hidden)
        call.backend.add(hidden_gradient, gradient, lora_b, call.bounds)
        hidden_gradient *= call.scale
        dropped_x = x if mask is None else x * mask
        of_a = call.backend.outer(hidden_gradient, dropped_x, call.ranks, call.bounds)
        of_b = call.backend.outer(lora_hidden, gradient, call.ranks, call.bounds)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = _gradient_of_input(call, gradient, weight, mask, hidden_gradient, lora_a)
        pairs = [part for a, b in zip(of_a, of_b, strict=True) for part in (a, b.t())]
        return of_x, None, None, None, None, *pairs


def _gradient_of_input(
    call: LayerPass,
    gradient: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    hidden_gradient: Tensor,
    lora_a: Matrices,
) -> Tensor:
    of_x = call.linear(gradient, call.unpack(weight).t(), None)
    if mask is None:
        call.backend.add(of_x, hidden_gradient, lora_a, call.bounds)
        return of_x
    through_adapters = torch.zeros_like(of_x)
    call.backend.add(through_adapters, hidden_gradient, lora_a, call.bounds)
    return of_x.addcmul_(through_adapters, mask.to(of_x.dtype))


class MultiLoraLinear(PeftLinear):  # type: ignore[misc]  # of an untyped class
    """PEFT's LoRA layer, that routes each row of a batch to its own adapter."""

    def __init__(
        self,
        routing_context: RoutingContext,
        backend: Backend,
        linear: Linear,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.routing_context = routing_context
        self.linear = linear
        self.backend = backend
        self.layer_key = layer_key(kwargs["target_name"])
        super().__init__(*args, **kwargs)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """[rows, width, in] -> [rows, width, out], or [rows * width, in] -> [rows * width, out].

        Raises:
            InputError: if the batch has other rows than the routing of the pass.
        """
        routing = self.routing_context.routing
        if routing is None:
            return _tensor(super().forward(x, *args, **kwargs))
        segments = tuple(part for part in routing.segments if part.adapter in self.lora_A)
        if not segments:
            return _tensor(self.base_layer(x))
        shape = x.shape
        if x.dim() == 2 and len(x) == routing.num_rows * routing.width:
            x = x.reshape(routing.num_rows, routing.width, -1)
        if x.dim() != 3 or x.shape[0] != routing.num_rows:
            # `unrouted_modules` did not find it; the tokens cannot be assigned to adapters.
            raise InputError(
                "target_modules",
                f"a module is given {tuple(shape)} in a pass over {routing.num_rows} rows",
                "modules that see whole rows",
            )
        rates = [self._rate(segment.adapter) for segment in segments]
        call = self._call(routing, segments, rates, x)
        mask = self._mask(routing, segments, rates, x)
        factors = [
            factor[segment.adapter].weight
            for segment in segments
            for factor in (self.lora_A, self.lora_B)
        ]
        weight, bias = self._base()
        tokens = x.reshape(-1, x.shape[-1])
        y = _MultiLoraProduct.apply(tokens, weight, bias, mask, call, *factors)  # type: ignore[no-untyped-call]
        return _tensor(y).view(*shape[:-1], -1)

    def _base(self) -> tuple[Tensor, Tensor | None]:
        layer = self.get_base_layer()
        return frozen_weight(layer), frozen_bias(layer)

    def _call(
        self, routing: Routing, segments: tuple[Segment, ...], rates: list[float], x: Tensor
    ) -> LayerPass:
        width = x.shape[1]
        scales = tuple(
            self.scaling[segment.adapter] * keep_scale(rate)
            for segment, rate in zip(segments, rates, strict=True)
        )
        return LayerPass(
            linear=self.linear,
            unpack=unpacking(self.get_base_layer()),
            backend=self.backend,
            bounds=tuple((segment.first * width, segment.last * width) for segment in segments),
            ranks=tuple(self.r[segment.adapter] for segment in segments),
            scale=routing.by_token(segments, scales, width),
        )

    def _rate(self, adapter: str) -> float:
        layer = self.lora_dropout[adapter]
        return float(layer.p) if self.training and isinstance(layer, nn.Dropout) else 0.0

    def _mask(
        self, routing: Routing, segments: tuple[Segment, ...], rates: list[float], x: Tensor
    ) -> Tensor | None:
        if not any(rates):
            return None
        levels = tuple(map(num_dropped_levels, rates))
        dropped = routing.by_row(segments, levels, torch.int64)
        mask = keep_mask(routing.row_keys, self.layer_key, dropped, x.shape[1], x.shape[2])
        return mask.view(-1, x.shape[2])


def _tensor(value: Any) -> Tensor:
    assert isinstance(value, Tensor)
    return value


def custom_modules(
    routing_context: RoutingContext, backend: Backend, linear: Linear
) -> dict[type[nn.Module], Callable[..., MultiLoraLinear]]:
    """Return the argument of `LoraConfig._register_custom_module`."""
    layer = partial(MultiLoraLinear, routing_context, backend, linear)
    return {nn.Linear: layer, Conv1D: layer}
