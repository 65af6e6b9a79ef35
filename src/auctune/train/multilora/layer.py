"""A linear layer with many LoRA adapters, each for its own tokens (Hu et al., 2021, sec. 4.1).

For a token of adapter i, with scale s_i = alpha_i / r_i, dropout mask m and its keep scale k_i:

    y = x W + b + s_i k_i (x * m) A_i^T B_i^T

Base product and all adapters are one node of the autograd graph, whose backward pass adds the
gradients of A_i and B_i to the adapters' flat tensors and returns that of x. Every linear module of
a frozen base becomes such a layer: its class changes and not the object, so that ties and names of
weights stay. Without a plan, or with one whose adapters do not adapt it, it is the base's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from auctune.domain.errors import InputError
from auctune.train.multilora.backends import Backend
from auctune.train.multilora.dropout import layer_key
from auctune.train.multilora.frozen import Linear, frozen_bias, frozen_weight, unpacking
from auctune.train.multilora.plan import LayerSegment, PassContext


@dataclass(frozen=True, slots=True)
class LayerPass:
    """Arguments of one pass through one layer, beside tensors that have gradients.

    Attributes:
        linear: the product with the frozen weight.
        unpack: what makes that weight [out, in] of the tensor that holds it.
        backend: of the products with the adapters' matrices.
        segments: those whose adapters adapt this layer.
        scale: float32 [N, 1], as of `PassPlan`.
    """

    linear: Linear
    unpack: Callable[[Tensor], Tensor]
    backend: Backend
    segments: Sequence[LayerSegment]
    scale: Tensor | None


class _MultiLoraProduct(torch.autograd.Function):
    """x [N, in], frozen weight [out, in], bias [out], mask bool [N, in], anchor -> y [N, out].

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
        _anchor: Tensor | None,
        call: LayerPass,
    ) -> Tensor:
        y = call.linear(x, call.unpack(weight), bias)
        ctx.call = call
        saved: tuple[Tensor, ...] = ()
        if call.segments:
            assert call.scale is not None
            dropped_x = x if mask is None else x * mask
            saved = call.backend.forward(y, dropped_x, call.segments, call.scale)
        # Without adapters nothing but the weight is kept.
        ctx.save_for_backward(x if call.segments else None, weight, mask, *saved)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        call: LayerPass = ctx.call
        x, weight, mask, *saved = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = call.linear(gradient, call.unpack(weight).t(), None)
        if call.segments:
            assert call.scale is not None
            # What goes through the adapters alone is dropped.
            through, dropped_x = grad_x, x
            if mask is not None:
                through = None if grad_x is None else torch.zeros_like(grad_x)
                dropped_x = x * mask
            call.backend.backward(gradient, dropped_x, saved, call.segments, call.scale, through)
            if mask is not None and grad_x is not None and through is not None:
                grad_x.addcmul_(through, mask.to(grad_x.dtype))
        return grad_x, None, None, None, None, None


class MultiLoraLayer:
    """Mixed into a linear module of a base, which then routes each token to its own adapter.

    Attributes:
        key: name of the module in the model.
        layer_key: of its dropout masks.
        context: of the running pass.
        linear: the product with the frozen weight.
        backend: of the products with the adapters' matrices.
    """

    key: str
    layer_key: int
    context: PassContext
    linear: Linear
    backend: Backend

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out].

        Raises:
            InputError: if it is given other tokens than those of the pass.
        """
        plan = self.context.plan
        segments = [] if plan is None else plan.on_layer(self.key)
        if not segments and self.linear is functional.linear:
            y: Tensor = super().forward(x)  # type: ignore[misc]
            return y
        tokens = x.reshape(-1, x.shape[-1])
        scale = mask = anchor = None
        if segments:
            assert plan is not None
            if len(tokens) != plan.num_tokens:
                # `unrouted_modules` did not find it; the tokens cannot be assigned to adapters.
                raise InputError(
                    "target_modules",
                    f"a module is given {tuple(x.shape)} in a pass over {plan.num_tokens} tokens",
                    "modules that see whole rows",
                )
            scale, anchor = plan.scale, self.context.anchor
            mask = plan.keep_mask(self.layer_key, x.shape[-1])
        call = LayerPass(self.linear, unpacking(self), self.backend, segments, scale)
        y = _MultiLoraProduct.apply(  # type: ignore[no-untyped-call]
            tokens, frozen_weight(self), frozen_bias(self), mask, anchor, call
        )
        return y.view(*x.shape[:-1], -1)


def is_plain_linear(module: nn.Module) -> bool:
    """Return whether a module computes x W + b and nothing else, also with W in 4 bits a number.

    Subclasses of `nn.Linear` may compute something else.
    """
    kind = type(module)
    if isinstance(module, MultiLoraLayer):
        return True
    is_packed = isinstance(module, nn.Linear) and kind.__module__.startswith("bitsandbytes.")
    return is_packed or getattr(kind, "forward", None) in (nn.Linear.forward, Conv1D.forward)


def patch_linears(
    model: PreTrainedModel, context: PassContext, linear: Linear, backend: Backend
) -> None:
    """Make every linear module of a frozen model a `MultiLoraLayer`."""
    classes: dict[type[nn.Module], type[nn.Module]] = {}
    for key, module in model.named_modules():
        if is_plain_linear(module):
            if not isinstance(module, MultiLoraLayer):
                kind = type(module)
                if kind not in classes:
                    classes[kind] = _fused_class(kind)
                module.__class__ = classes[kind]
            module.key, module.layer_key, module.context = key, layer_key(key), context
            module.linear, module.backend = linear, backend


def _fused_class(plain: type[nn.Module]) -> type[nn.Module]:
    return type(f"MultiLora{plain.__name__}", (MultiLoraLayer, plain), {"__module__": __name__})
