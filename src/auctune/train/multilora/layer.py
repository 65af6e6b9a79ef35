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
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from peft.tuners.lora.layer import Linear as PeftLinear
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from auctune.domain.errors import InputError
from auctune.train.multilora.backends import Backend
from auctune.train.multilora.dropout import (
    keep_mask,
    keep_scale,
    layer_key,
    num_dropped_levels,
)
from auctune.train.multilora.frozen import Linear, frozen_bias, frozen_weight
from auctune.train.multilora.routing import Bounds, Routing, Segment, Switchboard


@dataclass(frozen=True)
class LayerCall:
    """What one pass through one layer needs beside tensors that have gradients.

    Attributes:
        linear: the product with the frozen weight.
        backend: who multiplies with the adapters' matrices.
        bounds: tokens of each segment that has an adapter in this layer.
        ranks: of these adapters.
        scale: [N, 1], s_i k_i of each token.
    """

    linear: Linear
    backend: Backend
    bounds: Bounds
    ranks: tuple[int, ...]
    scale: Tensor


class _FusedProduct(torch.autograd.Function):
    """x [N, in], frozen weight [out, in], bias [out], mask bool [N, in], then A_1, B_1, A_2, ...

    Bias may be missing, and so may the mask, where nothing is dropped. All large tensors are saved
    through autograd, which lets gradient checkpointing drop and recompute them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        call: LayerCall,
        *factors: Tensor,
    ) -> Tensor:
        y = call.linear(x, weight, bias)
        factors = tuple(factor.to(x.dtype) for factor in factors)
        kept = x if mask is None else x * mask
        low = x.new_zeros(len(x), max(call.ranks))
        call.backend.add(low, kept, [a.t() for a in factors[::2]], call.bounds)
        low *= call.scale
        call.backend.add(y, low, [b.t() for b in factors[1::2]], call.bounds)
        ctx.call = call
        ctx.save_for_backward(x, weight, mask, low, *factors)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        call: LayerCall = ctx.call
        x, weight, mask, low, *factors = ctx.saved_tensors
        gradient = gradient.contiguous()
        low_gradient = torch.zeros_like(low)
        call.backend.add(low_gradient, gradient, factors[1::2], call.bounds)
        low_gradient *= call.scale
        kept = x if mask is None else x * mask
        of_a = call.backend.outer(low_gradient, kept, call.ranks, call.bounds)
        of_b = call.backend.outer(low, gradient, call.ranks, call.bounds)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = _gradient_of_input(call, gradient, weight, mask, low_gradient, factors[::2])
        pairs = [part for a, b in zip(of_a, of_b, strict=True) for part in (a, b.t())]
        return of_x, None, None, None, None, *pairs


def _gradient_of_input(
    call: LayerCall,
    gradient: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    low_gradient: Tensor,
    down: list[Tensor],
) -> Tensor:
    of_x = call.linear(gradient, weight.t(), None)
    if mask is None:
        call.backend.add(of_x, low_gradient, down, call.bounds)
        return of_x
    through_adapters = torch.zeros_like(of_x)
    call.backend.add(through_adapters, low_gradient, down, call.bounds)
    return of_x.addcmul_(through_adapters, mask.to(of_x.dtype))


class FusedLora(PeftLinear):
    """PEFT's LoRA layer, with the rows of a routed batch each sent to their own adapter."""

    def __init__(
        self,
        switchboard: Switchboard,
        backend: Backend,
        linear: Linear,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.switchboard = switchboard
        self.linear = linear
        self.backend = backend
        self.layer_key = layer_key(kwargs["target_name"])
        super().__init__(*args, **kwargs)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """[rows, width, in] -> [rows, width, out], or [rows * width, in] -> [rows * width, out].

        Raises:
            InputError: if the batch has other rows than the routing of the pass.
        """
        routing = self.switchboard.routing
        if routing is None:
            return _tensor(super().forward(x, *args, **kwargs))
        segments = tuple(part for part in routing.segments if part.adapter in self.lora_A)
        if not segments:
            return _tensor(self.base_layer(x))
        shape = x.shape
        if x.dim() == 2 and len(x) == routing.num_rows * routing.width:
            x = x.reshape(routing.num_rows, routing.width, -1)
        if x.dim() != 3 or x.shape[0] != routing.num_rows:
            # `unrouted_modules` has not seen it coming; whose tokens these are nobody knows.
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
        y = _FusedProduct.apply(tokens, weight, bias, mask, call, *factors)  # type: ignore[no-untyped-call]
        return _tensor(y).view(*shape[:-1], -1)

    def _base(self) -> tuple[Tensor, Tensor | None]:
        layer = self.get_base_layer()
        return frozen_weight(layer), frozen_bias(layer)

    def _call(
        self, routing: Routing, segments: tuple[Segment, ...], rates: list[float], x: Tensor
    ) -> LayerCall:
        width = x.shape[1]
        scales = tuple(
            self.scaling[segment.adapter] * keep_scale(rate)
            for segment, rate in zip(segments, rates, strict=True)
        )
        return LayerCall(
            linear=self.linear,
            backend=self.backend,
            bounds=tuple((segment.first * width, segment.last * width) for segment in segments),
            ranks=tuple(self.r[segment.adapter] for segment in segments),
            scale=routing.by_token(segments, scales, width, x.dtype),
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
    switchboard: Switchboard, backend: Backend, linear: Linear
) -> dict[type[nn.Module], Callable[..., FusedLora]]:
    """What to hand to `LoraConfig._register_custom_module`."""
    layer = partial(FusedLora, switchboard, backend, linear)
    return {nn.Linear: layer, Conv1D: layer}
