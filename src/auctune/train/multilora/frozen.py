"""Products with the base's frozen weights, and their gradients, in the quickest way there is.

    y = x W^T + b        dL/dx = dL/dy W

W [out, in] has no gradient, so nothing but W itself is kept for the backward pass. On CPUs torch
leaves float32 products to MKL, which does not use 512-bit instructions on every processor that
has them; oneDNN, which torch carries too, does (2.2 times as many operations a second on an AMD
EPYC of family 26). The results differ in rounding alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.activations import NewGELUActivation
from transformers.pytorch_utils import Conv1D

Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""x [N, in], weight [out, in], bias [out] or none -> [N, out]; without a gradient."""


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """oneDNN's product, float32 on a CPU."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y


def choose_linear(device: torch.device, dtype: torch.dtype) -> Linear:
    """Whose product to take; the same on one machine at any time, as bits depend on it."""
    if (
        device.type == "cpu"
        and dtype is torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
    ):
        return onednn_linear
    return functional.linear


class FrozenProduct(torch.autograd.Function):
    """x [N, in], weight [out, in], bias [out] or none -> [N, out]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, linear: Linear) -> Tensor:
        ctx.linear = linear
        ctx.save_for_backward(weight)
        return linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (weight,) = ctx.saved_tensors
        return ctx.linear(gradients[0].contiguous(), weight.t(), None), None, None, None


class _FrozenForward:
    """Mixed into a linear module of a base: the same product, with the given function."""

    linear: Linear

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        tokens = x.reshape(-1, x.shape[-1])
        y: Tensor = FrozenProduct.apply(  # type: ignore[no-untyped-call]
            tokens, frozen_weight(self), frozen_bias(self), self.linear
        )
        return y.view(*x.shape[:-1], -1)


class FrozenLinear(_FrozenForward, nn.Linear):
    """nn.Linear whose weights never train."""


class FrozenConv1D(_FrozenForward, Conv1D):  # type: ignore[misc]  # of an untyped class
    """transformers' Conv1D, a linear layer with its weight transposed, never trained."""


def frozen_weight(layer: Any) -> Tensor:
    """[out, in] of a linear module, or uint8, as bitsandbytes packs it."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight.t() if isinstance(layer, Conv1D) else weight


def unpacking(layer: Any) -> Callable[[Tensor], Tensor]:
    """Return what makes [out, in] of a linear module's `frozen_weight` for one product.

    A weight of 4 bits a number is unpacked for each product, and only its packed form is kept for
    the backward pass.
    """
    state = getattr(layer.weight, "quant_state", None)
    if state is None:
        return lambda weight: weight
    from bitsandbytes.functional import dequantize_4bit

    return partial(dequantize_4bit, quant_state=state)


def frozen_bias(layer: Any) -> Tensor | None:
    """[out] of a linear module, if it has one."""
    bias = layer.bias
    assert bias is None or isinstance(bias, Tensor)
    return bias


def patch_frozen_linears(model: PreTrainedModel) -> Linear:
    """Let a frozen model compute the same quicker, its modules changed in place.

    Linear modules take the chosen product; GPT-2's activation, written out in six operations by
    transformers, becomes torch's single one.

    Returns:
        The product chosen for the model's device and type.
    """
    weights = next(model.parameters())
    linear = choose_linear(weights.device, weights.dtype)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is NewGELUActivation:
                setattr(parent, name, nn.GELU(approximate="tanh"))
            elif linear is not functional.linear:
                _change_product(child, linear)
    return linear


def _change_product(module: nn.Module, linear: Linear) -> None:
    # The class changes and not the object, so that ties and names of weights stay.
    if type(module) is nn.Linear:
        module.__class__ = FrozenLinear
    elif type(module) is Conv1D:
        module.__class__ = FrozenConv1D
    else:
        return
    module.linear = linear  # type: ignore[assignment]
