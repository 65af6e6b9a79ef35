"""A linear layer with many LoRA adapters, each for its own tokens (Hu et al., 2021, sec. 4.1).

For a token of adapter i, with scale s_i = alpha_i / r_i, dropout mask m and its keep scale k_i:

    y = x W + b + s_i k_i (x * m) A_i^T B_i^T

Base product and all adapters are one node of the autograd graph, whose backward pass adds the
gradients of A_i and B_i to the adapters' flat tensors and returns that of x. Every linear module of
a frozen base becomes such a layer: its class changes and not the object, so that ties and names of
weights stay. Outside of a pass, and where no adapter of a pass is on it, it is the base's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from auctune.domain.errors import InputError
from auctune.train.multilora.frozen import Linear, frozen_bias, frozen_weight, unpacking
from auctune.train.multilora.plan import PassContext, PassProducts


@dataclass(frozen=True, slots=True)
class LayerPass:
    """Arguments of one pass through one layer, beside tensors that have gradients.

    Attributes:
        linear: the product with the frozen weight.
        unpack: what makes that weight [out, in] of the tensor that holds it.
        products: with the adapters' matrices; `None`: no adapter of the pass is on the layer.
        layer: its number.
    """

    linear: Linear
    unpack: Callable[[Tensor], Tensor]
    products: PassProducts | None
    layer: int


class _MultiLoraProduct(torch.autograd.Function):
    """x [N, in], frozen weight [out, in], bias [out], anchor -> y [N, out].

    The weight is as it is stored. Bias may be missing. All large tensors are saved through
    autograd, which lets gradient checkpointing drop and recompute them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        _anchor: Tensor | None,
        call: LayerPass,
    ) -> Tensor:
        y = call.linear(x, call.unpack(weight), bias)
        ctx.call = call
        if call.products is None:
            # Nothing but the weight is kept.
            ctx.save_for_backward(None, weight)
        else:
            ctx.save_for_backward(x, weight, *call.products.forward(y, x, call.layer))
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        call: LayerPass = ctx.call
        x, weight, *saved = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = call.linear(gradient, call.unpack(weight).t(), None)
        if call.products is not None:
            call.products.backward(gradient, x, saved, call.layer, grad_x)
        return grad_x, None, None, None, None


class MultiLoraLayer:
    """Mixed into a linear module of a base, which then routes each token to its own adapter.

    Attributes:
        layer: its number in the model.
        context: of the running pass.
        linear: the product with the frozen weight.
    """

    layer: int
    context: PassContext
    linear: Linear

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out].

        Raises:
            InputError: if it is given other tokens than those of the pass.
        """
        products = self.context.products
        if products is not None and not products.adapts(self.layer):
            products = None
        if products is None and self.linear is functional.linear:
            y: Tensor = super().forward(x)  # type: ignore[misc]
            return y
        tokens = x.reshape(-1, x.shape[-1]).contiguous()
        anchor = None
        if products is not None:
            if len(tokens) != products.num_tokens:
                # `unrouted_modules` did not find it; the tokens cannot be assigned to adapters.
                found = f"a module is given {tuple(x.shape)} in a pass over "
                found += f"{products.num_tokens} tokens"
                raise InputError("target_modules", found, "modules that see whole rows")
            anchor = self.context.anchor
        call = LayerPass(self.linear, unpacking(self), products, self.layer)
        y = _MultiLoraProduct.apply(  # type: ignore[no-untyped-call]
            tokens, frozen_weight(self), frozen_bias(self), anchor, call
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


def patch_linears(model: PreTrainedModel, context: PassContext, linear: Linear) -> list[str]:
    """Make every linear module of a frozen model a `MultiLoraLayer`; return their names."""
    classes: dict[type[nn.Module], type[nn.Module]] = {}
    names: list[str] = []
    for name, module in model.named_modules():
        if is_plain_linear(module):
            if not isinstance(module, MultiLoraLayer):
                kind = type(module)
                if kind not in classes:
                    classes[kind] = _fused_class(kind)
                module.__class__ = classes[kind]
            module.layer, module.context, module.linear = len(names), context, linear
            names.append(name)
    return names


def _fused_class(plain: type[nn.Module]) -> type[nn.Module]:
    return type(f"MultiLora{plain.__name__}", (MultiLoraLayer, plain), {"__module__": __name__})
